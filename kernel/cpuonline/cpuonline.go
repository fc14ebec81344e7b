// Package cpuonline takes CPUs of the host off line and brings them back. That reaches
// every program on the host: whoever calls it has been told to be disruptive.
//
// The kernel moves what ran on such a CPU elsewhere
// (Documentation/core-api/cpu_hotplug.rst) and takes it out of every cpuset. In cgroup
// version 2 a cpuset has it back once it is on line; in version 1 it has not
// (Documentation/admin-guide/cgroup-v1/cpusets.rst, 1.5), so that what the cpusets held
// is part of what is saved here, and is written again. A thread that was bound to that
// CPU alone loses its binding for good: no one can tell afterwards which it was.
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

// State is what was found, and is put back.
type State struct {
	Offline []int             `json:"offline"`           // CPUs that were taken off line
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

// Online tells whether a CPU is on line; one without a switch always is.
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
			if list := strings.TrimSpace(string(text)); path != root && list != "" {
				s.Cpusets[path] = list
			}
			return nil
		})
		if err != nil {
			return s, fmt.Errorf("read the cpusets: %w", err)
		}
	}
	return s, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Take takes the state's CPUs off line. What it could not do is undone.
func (h Host) Take(s State) error {
	for _, cpu := range s.Offline {
		if err := h.set(cpu, "0"); err != nil {
			return errors.Join(err, h.Restore(s))
		}
	}
	return nil
}

// Restore brings the state's CPUs back and writes what the cpusets held. It may be
// called again, and does nothing where all is as it was.
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
		failed = append(failed, ignoreGone(h.putBack(filepath.Join(path, "cpuset.cpus"), s.Cpusets[path])))
	}
	return errors.Join(failed...)
}

func (h Host) putBack(file, list string) error {
	text, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(text)) == list {
		return err
	}
	return os.WriteFile(file, []byte(list), 0)
}

func (h Host) set(cpu int, to string) error {
	if err := os.WriteFile(h.file(cpu), []byte(to), 0); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	return nil
}
