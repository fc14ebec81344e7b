package accounting

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Bound names what runs on a CPU and can be put on no other: the kernel's threads
// that are bound to it alone, and the interrupts that it alone may take. Several
// workers of one pool are one name with their number. The CPU's own interrupts
// (its timer, other CPUs' calls), which cannot be moved either, are not among
// them: what they come to, [CPU.Since] shows.
//
// Within a container's process namespace the kernel's threads cannot be seen.
func Bound(cpu int) ([]string, error) { return bound("/proc", cpu) }

func bound(root string, cpu int) ([]string, error) {
	threads, err := boundThreads(root, cpu)
	if err != nil {
		return nil, fmt.Errorf("kernel threads bound to CPU %d: %w", cpu, err)
	}
	interrupts, err := boundInterrupts(root, cpu)
	if err != nil {
		return nil, fmt.Errorf("interrupts bound to CPU %d: %w", cpu, err)
	}
	return append(threads, interrupts...), nil
}

func boundThreads(root string, cpu int) ([]string, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	for _, entry := range entries {
		if entry[0] < '0' || entry[0] > '9' {
			continue
		}
		f, err := os.Open(filepath.Join(root, entry, "status"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		s, err := ParseStatus(f)
		f.Close()
		if errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if s.Kernel && slices.Equal(s.Allowed, []int{cpu}) {
			count[poolOf(s.Name)]++
		}
	}
	names := make([]string, 0, len(count))
	for name, n := range count {
		if n > 1 {
			name += fmt.Sprintf(" (%d threads)", n)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// poolOf names a worker by its pool: of "kworker/1:2H-kblockd", what it has just
// worked at and its own number are gone in a moment.
func poolOf(thread string) string {
	if pool, _, ok := strings.Cut(thread, ":"); ok && strings.HasPrefix(thread, "kworker/") {
		return pool
	}
	return thread
}

// Status is what /proc/PID/status says of where a process may run.
type Status struct {
	Name    string
	Kernel  bool  // a thread of the kernel's own
	Allowed []int // CPUs, in order
}

// mostCPUs bounds the lists of CPUs that are believed; the kernel's own bound
// (NR_CPUS) is 8192.
const mostCPUs = 1 << 16

// ParseStatus reads one /proc/PID/status.
func ParseStatus(r io.Reader) (Status, error) {
	var s Status
	var seen, known bool
	var pid, parent string
	lines := longLines(r)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			s.Name = value
		case "Pid":
			pid = value
		case "PPid":
			parent = value
		case "Kthread":
			s.Kernel, known = value == "1", true
		case "Cpus_allowed_list":
			var err error
			if s.Allowed, err = parseList(value); err != nil {
				return s, err
			}
			seen = true
		}
	}
	if err := lines.Err(); err != nil {
		return s, err
	}
	if !seen {
		return s, errors.New("no list of allowed CPUs")
	}
	if !known {
		// Before Linux 6.8: kthreadd, and its children.
		s.Kernel = pid == "2" || parent == "2"
	}
	return s, nil
}

// parseList reads CPUs as the kernel lists them: "0-2,5".
func parseList(text string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || first < 0 || last < first || last >= mostCPUs {
			return nil, fmt.Errorf("%.80q is no list of CPUs", text)
		}
		for c := first; c <= last; c++ {
			cpus = append(cpus, c)
		}
		if len(cpus) > mostCPUs {
			return nil, fmt.Errorf("%.80q names CPUs more than once", text)
		}
	}
	return cpus, nil
}

// boundInterrupts names the devices' interrupts whose affinity is this CPU alone.
// The rest may go to it now, and can be moved.
func boundInterrupts(root string, cpu int) ([]string, error) {
	f, err := os.Open(filepath.Join(root, "interrupts"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	interrupts, err := ParseInterrupts(f, cpu)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	var names []string
	for _, i := range interrupts {
		path := filepath.Join(root, "irq", i.Line, "smp_affinity_list")
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the architecture's own, or a CPU's
		}
		if err != nil {
			return nil, err
		}
		allowed, err := parseList(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if slices.Equal(allowed, []int{cpu}) {
			names = append(names, fmt.Sprintf("interrupt %s (%s)", i.Line, i.Name))
		}
	}
	return names, nil
}
