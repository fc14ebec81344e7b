package bound

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tare/kernel/small"
)

// meminfo gives the host's /proc/meminfo.
func meminfo() (io.ReadCloser, error) {
	b, err := small.Read("/proc/meminfo")
	return io.NopCloser(bytes.NewReader(b)), err
}

// parseMeminfo reads the two figures of /proc/meminfo that count, in bytes.
func parseMeminfo(r io.Reader) (total, available int64, err error) {
	wanted := map[string]*int64{"MemTotal": &total, "MemAvailable": &available}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		to, ok := wanted[name]
		if !ok {
			continue
		}
		digits, ok := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		n, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || n < 0 || n > 1<<52 {
			return 0, 0, fmt.Errorf("/proc/meminfo: %s is %q, want a number of kB", name, strings.TrimSpace(rest))
		}
		*to = n << 10
		delete(wanted, name)
	}
	if len(wanted) > 0 {
		return 0, 0, errors.New("/proc/meminfo has no MemTotal and MemAvailable: boot Linux 3.14 or newer")
	}
	return total, available, nil
}
