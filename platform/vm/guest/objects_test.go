package guest_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"tare/annex/monitor"
	"tare/probe"
	"tare/probe/bursts"
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
	own := os.Getpid()
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
}

// stopped stops what has started, and gives what either says.
func stopped[R any](r interface{ Stop() (R, error) }, err error) error {
	if err != nil {
		return err
	}
	_, err = r.Stop()
	return err
}
