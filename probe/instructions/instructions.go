// Package instructions counts the instructions that programs execute, which a rate
// of page faults is given by.
//
// There are two ways. [Watch] has the processor count what a container executes,
// where the host lets us see its counters. [Count] runs a program once more, under
// valgrind, where it does not: that is for programs that are deterministic, short
// and of one process, since valgrind makes them tens of times slower, and what it
// counts is another run than the one that was watched.
//
// Both count user mode alone: valgrind sees nothing of the kernel, and the
// processor is set to leave it out. Their counts of one program differ by what an
// instruction is to each (a repeated string instruction is one to the processor, and
// one a step to valgrind), and by what the program does by the clock.
package instructions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tare/kernel/cgroup"
	"tare/kernel/perfevent"
	"tare/probe"
)

const name = "instructions"

// Counter counts what a control group executes.
type Counter struct{ events *perfevent.Counter }

// Counted is what a counter has come to.
type Counted struct {
	Instructions uint64
	// Share is the part of the time in which they were really counted; below 1 the
	// processor's counters were shared with others, and the count is projected.
	Share float64
}

// Watch begins to count the instructions of a control group, all that is in it and
// below, those to come among them. cgroupDir is its directory in any hierarchy that
// is mounted. The error is a *[probe.Missing] where the host counts none.
func Watch(cgroupDir string) (*Counter, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return nil, &probe.Missing{Probe: name, What: err.Error(), Mend: "mount -t cgroup2 none /sys/fs/cgroup/unified"}
	}
	return watch(layout, cgroupDir, perfevent.Instructions)
}

func watch(layout cgroup.Layout, cgroupDir string, event perfevent.Event) (*Counter, error) {
	dir, err := counted(layout, cgroupDir)
	if err != nil {
		return nil, err
	}
	events, err := perfevent.CountGroup(event, dir)
	var refused *perfevent.Refused
	switch {
	case errors.As(err, &refused):
		return nil, &probe.Missing{Probe: name, What: refused.What, Mend: refused.Mend}
	case err != nil:
		return nil, err
	}
	return &Counter{events}, nil
}

// counted gives the directory of the same group in the hierarchy by which perf
// distinguishes groups: perf_event's of version 1 where it is mounted, else version
// 2's.
func counted(layout cgroup.Layout, cgroupDir string) (string, error) {
	perf, ok := layout.For("perf_event")
	if !ok {
		perf, ok = layout.Unified()
	}
	if !ok {
		return "", &probe.Missing{Probe: name, What: "no hierarchy of control groups carries perf_event", Mend: "mount -t cgroup2 none /sys/fs/cgroup/unified"}
	}
	var within string
	var found cgroup.Hierarchy
	for _, h := range layout.Hierarchies {
		rest, ok := strings.CutPrefix(cgroupDir, h.Mount)
		// Of mounts in each other the inner one holds it.
		if ok && (rest == "" || rest[0] == '/') && len(h.Mount) > len(found.Mount) {
			found, within = h, rest
		}
	}
	if found.Mount == "" {
		return "", fmt.Errorf("%s is in no mounted hierarchy of control groups", cgroupDir)
	}
	dir := filepath.Join(perf.Mount, within)
	if _, err := os.Stat(dir); err != nil || found.Mount != perf.Mount && within == "" {
		return "", &probe.Missing{
			Probe: name, What: fmt.Sprintf("what is in %s is not counted apart by perf: there is no group %s", cgroupDir, dir),
			Mend: "an engine that puts its containers into that hierarchy, as on a host with version 2 alone",
		}
	}
	return dir, nil
}

// Read gives the count since Watch.
func (c *Counter) Read() (Counted, error) {
	n, err := c.events.Read()
	return Counted{n.Value, n.Share}, err
}

// Close ends the counting.
func (c *Counter) Close() error { return c.events.Close() }
