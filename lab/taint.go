package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tare/kernel/accounting"
	"tare/platform"
)

// Thresholds of taint, fixed beforehand and the same for every condition. They
// concern causes outside the experiment alone, and are blind to its results.
const (
	// StealLimit is the share of the host's CPU time that the hypervisor may
	// give to others while a trial runs.
	StealLimit = 0.05
	// ForeignLimit is the share of the host's CPU time that processes which are
	// neither ours nor caused by us may use.
	ForeignLimit = 0.05
	// MemoryStallLimit is the share of time in which some task of the host may
	// wait for memory, in trials that set no memory limit of their own.
	MemoryStallLimit = 0.10
)

// observer brackets a trial with the host's accounts.
type observer struct {
	proc   string // "/proc"
	self   int
	engine map[int]bool // processes of the engines that take part in the run
	before accounting.Snapshot
}

// assisted are platforms whose programs are kept by processes of an engine.
type assisted interface {
	EnginePIDs(ctx context.Context) []int
}

// meet adds the processes of the moment of every engine in the run: they come
// and go with the programs that they keep, and what an engine still has to do
// after one trial is done during the next.
func (o *observer) meet(ctx context.Context, platforms map[string]platform.Platform) {
	for _, p := range platforms {
		engine, ok := p.(assisted)
		if !ok {
			continue
		}
		for _, pid := range engine.EnginePIDs(ctx) {
			o.engine[pid] = true
		}
	}
}

func (o *observer) begin() error {
	var err error
	o.before, err = accounting.Take(o.proc)
	return err
}

func (o *observer) end() (accounting.Interval, error) {
	after, err := accounting.Take(o.proc)
	if err != nil {
		return accounting.Interval{}, err
	}
	return accounting.Between(o.before, after, o.self, o.ours), nil
}

// ours says whether a process that does not descend from tare works for it all
// the same: it is of an engine in the run, or in one of our cgroups.
func (o *observer) ours(p accounting.Process) bool {
	if o.engine[p.PID] {
		return true
	}
	text, err := os.ReadFile(filepath.Join(o.proc, strconv.Itoa(p.PID), "cgroup"))
	if err != nil {
		return false
	}
	return inOurCgroup(string(text))
}

// inOurCgroup reads a /proc/PID/cgroup.
func inOurCgroup(text string) bool {
	for row := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(row), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top, _, _ := strings.Cut(strings.TrimPrefix(parts[2], "/"), "/")
		if own := strings.TrimPrefix(platform.CgroupParent, "/"); top == own || strings.HasPrefix(top, own+"-") || top == own+".slice" {
			return true
		}
	}
	return false
}

// causes judges what happened beside a trial.
func causes(iv accounting.Interval, memoryLimited bool) []string {
	var taint []string
	if iv.Steal > StealLimit {
		taint = append(taint, fmt.Sprintf("steal %.1f %% of the host's CPU time", 100*iv.Steal))
	}
	if iv.Foreign > ForeignLimit {
		taint = append(taint, fmt.Sprintf("foreign processes used %.1f %% of the host's CPU time (%s most)", 100*iv.Foreign, iv.Loudest))
	}
	if !memoryLimited && iv.MemoryStall > MemoryStallLimit {
		taint = append(taint, fmt.Sprintf("tasks waited for memory %.1f %% of the time", 100*iv.MemoryStall))
	}
	return taint
}
