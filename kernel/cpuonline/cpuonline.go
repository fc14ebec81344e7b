// Package cpuonline takes CPUs of the host off line and brings them back. That reaches
// every program on the host: whoever calls it has been permitted to be disruptive.
//
// The kernel moves what ran on such a CPU elsewhere
// (Documentation/core-api/cpu_hotplug.rst) and takes it out of every cpuset. In cgroup
// version 2 a cpuset has it back once it is on line; in version 1 it has not
// (Documentation/admin-guide/cgroup-v1/cpusets.rst, 1.5), so that what the cpusets held
// is part of what is saved here, and is written again. A cpuset that is left with no CPU
// at all loses its processes to the one above, and no one can know afterwards which they
// were: where one would be, nothing is taken. So does a thread that was bound to that
// CPU alone lose its binding for good; those are not looked for.
package cpuonline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Host is the kernel's files; its zero value is this host's.
type Host struct {
	// Devices is the directory of the CPUs; empty is /sys/devices/system/cpu.
	Devices string
	// Cpusets are the roots of hierarchies of version 1 that hold cpusets.
	Cpusets []string
}

// Fixed says that a CPU cannot be taken off line.
type Fixed struct {
	CPU int
	Why string
}

func (f *Fixed) Error() string {
	return fmt.Sprintf("CPU %d cannot be taken off line: %s", f.CPU, f.Why)
}

// Emptied says that a cpuset with processes would be left with no CPU: the kernel then
// moves them to the one above it, for good.
type Emptied struct {
	Cpuset string // its directory
	CPUs   string // all that it has
}

func (e *Emptied) Error() string {
	return fmt.Sprintf("processes in %s are kept to CPUs %s, all of which would go off line: the kernel would move them out of that cpuset for good; end them, or give the cpuset another CPU", e.Cpuset, e.CPUs)
}

// State is what was found, and is put back.
type State struct {
	Offline []int             `json:"offline"`           // CPUs that are taken off line, in that order
	Cpusets map[string]string `json:"cpusets,omitempty"` // directory: its cpus
}

func (h Host) devices() string {
	if h.Devices == "" {
		return "/sys/devices/system/cpu"
	}
	return h.Devices
}

func (h Host) file(cpu int) string {
	return filepath.Join(h.devices(), "cpu"+strconv.Itoa(cpu), "online")
}

// Removable reports whether a CPU could be taken off line, without trying: the error is
// a *[Fixed]. Most kernels keep CPU 0 for good, and have no such file for it.
func (h Host) Removable(cpu int) error {
	f, err := os.OpenFile(h.file(cpu), os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Fixed{cpu, "the kernel has no switch for it (" + h.file(cpu) + ")"}
	case err != nil:
		return &Fixed{cpu, "its switch cannot be written: " + err.Error()}
	}
	return f.Close()
}

// Online reports whether a CPU is on line; one without a switch always is.
func (h Host) Online(cpu int) (bool, error) {
	text, err := os.ReadFile(h.file(cpu))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(h.file(cpu))); err != nil {
			return false, fmt.Errorf("CPU %d: %w", cpu, err)
		}
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("CPU %d: %w", cpu, err)
	}
	switch value := strings.TrimSpace(string(text)); value {
	case "0":
		return false, nil
	case "1":
		return true, nil
	default:
		return false, fmt.Errorf("CPU %d: %s holds %q, want 0 or 1", cpu, h.file(cpu), value)
	}
}

// Look gives what taking CPUs off line would change, and changes nothing: what must be
// kept before [Host.Take] is called. CPUs that are off line already are no part of it.
func (h Host) Look(cpus []int) (State, error) {
	s := State{Cpusets: map[string]string{}}
	for _, cpu := range cpus {
		on, err := h.Online(cpu)
		if err != nil {
			return s, err
		}
		if !on {
			continue
		}
		if err := h.Removable(cpu); err != nil {
			return s, err
		}
		s.Offline = append(s.Offline, cpu)
	}
	for _, root := range h.Cpusets {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return ignoreGone(err)
			}
			text, err := os.ReadFile(filepath.Join(path, "cpuset.cpus"))
			if err != nil {
				return ignoreGone(err)
			}
			list := strings.TrimSpace(string(text))
			if path == root || list == "" {
				return nil
			}
			s.Cpusets[path] = list
			return emptied(path, list, s.Offline)
		})
		if err != nil {
			return s, fmt.Errorf("read the cpusets: %w", err)
		}
	}
	return s, nil
}

// emptied refuses to take the last CPU of a cpuset that has processes.
func emptied(path, list string, offline []int) error {
	cpus, err := parse(list)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(without(cpus, offline)) > 0 {
		return nil
	}
	tasks, err := os.ReadFile(filepath.Join(path, "tasks"))
	if err != nil {
		return ignoreGone(err)
	}
	if len(strings.TrimSpace(string(tasks))) > 0 {
		return &Emptied{path, list}
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Take takes the state's CPUs off line, and stops at the first that does not go. Whether
// it did or not, [Host.Restore] brings back what went.
func (h Host) Take(s State) error {
	for _, cpu := range s.Offline {
		if err := h.set(cpu, "0"); err != nil {
			return err
		}
	}
	return nil
}

// Restore brings the state's CPUs back and writes what the cpusets held, where it is
// their going that has changed it: a list that someone else has written meanwhile is
// left. It may be called again, and does nothing where all is as it was.
func (h Host) Restore(s State) error {
	var failed []error
	for _, cpu := range s.Offline {
		on, err := h.Online(cpu)
		if err == nil && !on {
			err = h.set(cpu, "1")
		}
		failed = append(failed, err)
	}
	// A parent before its children, which may hold no more than it does.
	paths := make([]string, 0, len(s.Cpusets))
	for path := range s.Cpusets {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if err := ignoreGone(putBack(path, s.Cpusets[path], s.Offline)); err != nil {
			failed = append(failed, fmt.Errorf("cpuset %s: %w", path, err))
		}
	}
	return errors.Join(failed...)
}

// putBack writes what a cpuset held before CPUs went, where what it holds now is that
// without them.
func putBack(path, saved string, offline []int) error {
	file := filepath.Join(path, "cpuset.cpus")
	had, err := parse(saved)
	if err != nil {
		return err
	}
	has, err := read(file)
	if err != nil || !lost(had, has, offline) {
		return err
	}
	// Where someone has taken CPUs from the one above it, the kernel would refuse.
	above, err := read(filepath.Join(filepath.Dir(path), "cpuset.cpus"))
	if err != nil || len(without(had, above)) > 0 {
		return err
	}
	return os.WriteFile(file, []byte(saved), 0)
}

// lost means that a cpuset has what it had but for CPUs that went off line: they go one
// after the other, and whoever took them may have been stopped on the way.
func lost(had, has, offline []int) bool {
	for n := range offline {
		gone := offline[:n+1]
		if left := without(had, gone); len(left) < len(had) && slices.Equal(left, has) {
			return true
		}
	}
	return false
}

func without(cpus, gone []int) []int {
	return slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return slices.Contains(gone, cpu) })
}

func read(file string) ([]int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parse(string(text))
}

// parse reads a list as the kernel writes it ("0-2,5"), in order; an empty one holds none.
func parse(text string) ([]int, error) {
	var cpus []int
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		low, err := strconv.Atoi(first)
		high := low
		if err == nil && ranged {
			high, err = strconv.Atoi(last)
		}
		if err != nil || low < 0 || high < low || high > mostCPUs {
			return nil, fmt.Errorf("%q is no list of CPUs", text)
		}
		for cpu := low; cpu <= high; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// mostCPUs bounds a list: kernels are built for 8192 at most (CONFIG_NR_CPUS).
const mostCPUs = 1 << 16

func (h Host) set(cpu int, to string) error {
	if err := os.WriteFile(h.file(cpu), []byte(to), 0); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	return nil
}
