package guest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/annex/monitor"
	"tare/probe"
	"tare/probe/bursts"
	"tare/probe/calls"
	"tare/probe/faults"
	"tare/probe/pagetable"
	"tare/probe/sched"
)

// Each committed BPF object is taken by the kernel. One that is too old for it says so.
func TestEachObjectLoads(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("the kernel does not describe its types: ", err)
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(release), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	own, loaded := os.Getpid(), map[string]bool{}
	for _, c := range []struct {
		name         string
		major, minor int // the first kernel that has to take it
		load         func() error
	}{
		{"sched: recording", 5, 11, func() error { return stopped(sched.StartRecording()) }},
		{"sched: off CPU", 5, 11, func() error { return stopped(sched.StartOffCPU()) }},
		{"sched: tracer", 5, 11, func() error {
			tracer, err := sched.Start()
			if err != nil {
				return err
			}
			return tracer.Stop()
		}},
		{"bursts", 5, 12, func() error {
			return stopped(bursts.Start([]bursts.Target{{Name: "own", PIDs: []int{own}}}, bursts.Options{}))
		}},
		{"calls", 5, 5, func() error {
			counter, err := calls.Open(1)
			if err != nil {
				return err
			}
			defer counter.Close()
			return counter.Watch(t.Context(), func() [][]int { return nil }, time.Millisecond)
		}},
		{"faults: recorder", 6, 1, func() error {
			return stopped(faults.Start([]faults.Target{{Name: "own", PIDs: []int{own}}}, faults.Options{Ring: 1 << 20, Keep: 1000}))
		}},
		{"faults: counter", 5, 11, func() error { return stopped(faults.StartEvents([]faults.Target{{Name: "own", PIDs: []int{own}}})) }},
		{"pagetable", 6, 2, func() error {
			walk, err := pagetable.NewWalk()
			if err != nil {
				return err
			}
			return walk.Close()
		}},
		{"monitor", 6, 1, func() error {
			m, err := monitor.Open(monitor.Options{})
			if err != nil {
				return err
			}
			var lacks error
			if !m.Streams() {
				for _, l := range m.Lacks() {
					lacks = errors.Join(lacks, l)
				}
			}
			return errors.Join(lacks, m.Close())
		}},
	} {
		pkg, _, _ := strings.Cut(c.name, ":")
		loaded[pkg] = true
		t.Run(c.name, func(t *testing.T) {
			err := c.load()
			missing := new(probe.Missing)
			switch old := major < c.major || major == c.major && minor < c.minor; {
			case err == nil:
			case old && errors.As(err, &missing):
				t.Logf("refused on %s: %v", release, err)
			default:
				t.Errorf("on %s: %v", release, err)
			}
		})
	}
	// In a guest there are no sources to look among.
	objects, err := filepath.Glob("../../../*/*/object_bpfel.o")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if pkg := filepath.Base(filepath.Dir(object)); !loaded[pkg] {
			t.Errorf("%s is not among those that are loaded", object)
		}
	}
}

// stopped stops what has started, and gives what either says.
func stopped[R any](r interface{ Stop() (R, error) }, err error) error {
	if err != nil {
		return err
	}
	_, err = r.Stop()
	return err
}
