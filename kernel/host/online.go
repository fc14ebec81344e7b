package host

import (
	"strconv"
	"strings"
)

// CPUs is how many CPUs are on line; 0 where the machine does not say.
func (t Topology) CPUs() int { return countCPUs(t.Online) }

// countCPUs counts a list in the kernel's format: "0-3,8".
func countCPUs(list string) int {
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || last < first {
			return 0
		}
		n += last - first + 1
	}
	return n
}
