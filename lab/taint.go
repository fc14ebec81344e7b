package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/kernel/accounting"
	"tare/platform"
)

// Thresholds of taint, fixed beforehand and the same for every condition. They
// concern causes outside the experiment alone, and are blind to its results.
const (
	// StealLimit is the share of the host's CPU time that the hypervisor may
	// give to others while a trial runs, beyond what the trial's condition takes so
	// itself: see [ownSteal].
	StealLimit = 0.05
	// OwnStealLimit bounds that.
	OwnStealLimit = 0.20
	// ForeignLimit is the share of the host's CPU time that processes which are
	// neither ours nor caused by us may use.
	ForeignLimit = 0.05
	// MemoryStallLimit is the share of time in which some task of the host may
	// wait for memory, in trials that set no memory limit of their own. In those with a
	// box it is some task outside the box, while none in it waits.
	MemoryStallLimit = 0.10
)

// observer brackets a trial with the host's accounts.
type observer struct {
	proc   string // "/proc"
	self   int
	engine map[int]bool // processes of the engines that take part in the run
	before accounting.Snapshot
	boxes  []enclosed
}

// enclosed is a box on this kernel, whose programs are to wait for memory.
type enclosed struct {
	box    platform.Box
	before time.Duration // for which some task in it had waited; negative where that is unknown
}

// waited reads for how long some task in a box has waited, or tare itself for it, since
// the box was made; negative where that is unknown. A box in danger tells as any other.
func waited(ctx context.Context, box platform.Box) (time.Duration, error) {
	r, err := box.Read(ctx)
	if endangered := (*platform.Endangered)(nil); err != nil && !errors.As(err, &endangered) {
		return -1, err
	}
	if _, absent := r.Absent["pressure_some_ns"]; absent {
		return -1, nil
	}
	return r.Some + r.Reclaiming, nil
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

// around has what is in a box taken for the experiment's own, from the next begin on.
func (o *observer) around(box platform.Box) { o.boxes = append(o.boxes, enclosed{box, -1}) }

func (o *observer) begin(ctx context.Context) error {
	var there []enclosed
	for _, e := range o.boxes {
		if before, err := waited(ctx, e.box); err == nil { // else it has been removed
			there = append(there, enclosed{e.box, before})
		}
	}
	o.boxes = there
	var err error
	o.before, err = accounting.Take(o.proc)
	return err
}

func (o *observer) end(ctx context.Context) (accounting.Interval, error) {
	after, err := accounting.Take(o.proc)
	if err != nil {
		return accounting.Interval{}, err
	}
	iv := accounting.Between(o.before, after, o.self, o.ours)
	for _, e := range o.boxes {
		now, _ := waited(ctx, e.box) // of one that is gone nothing is known
		iv.MemoryStall = outside(iv.MemoryStall, iv.Elapsed, e.before, now)
	}
	return iv, nil
}

// outside is the share of time in which somebody waited for memory and nobody in a box
// did, nor tare for it: the least that can be foreign. It is unknown, negative, where the box does not tell
// or is gone: what it causes must not be taken for another's.
func outside(stall float64, elapsed, before, after time.Duration) float64 {
	if stall < 0 || elapsed <= 0 || before < 0 || after < before {
		return -1
	}
	return max(0, stall-float64(after-before)/float64(elapsed))
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
		parts := strings.SplitN(strings.TrimSuffix(row, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top, _, _ := strings.Cut(strings.TrimPrefix(parts[2], "/"), "/")
		own := strings.TrimPrefix(platform.CgroupParent, "/")
		if top == own || strings.HasPrefix(top, own+"-") || top == own+".slice" {
			return true
		}
	}
	return false
}

// ownSteal has the least steal that a part of a condition's trials was seen with. A
// hypervisor that carries out a guest's disk and network requests on the guest's own CPUs,
// or within one quota with them, tells that as steal: what a condition is never without is
// its own effect, as much as what else its requests cost, and doing it again changes nothing.
// It is known from the first trial on, so that this costs one repetition; and of what others
// take the least is noted, which is nothing as soon as they rest once.
type ownSteal map[string]float64

// before gives what was known before, and notes one more.
func (o ownSteal) before(part string, steal float64) float64 {
	own, seen := o[part]
	if !seen || steal < own {
		o[part] = steal
	}
	return min(own, OwnStealLimit)
}

// causes judges what happened beside a trial of a condition that takes so much by steal itself.
func causes(iv accounting.Interval, own float64, memoryLimited bool) []string {
	var taint []string
	if iv.Steal > own+StealLimit {
		text := fmt.Sprintf("steal %.1f %% of the host's CPU time", 100*iv.Steal)
		if own > 0.005 {
			text += fmt.Sprintf(" where it had been %.1f", 100*own)
		}
		taint = append(taint, text)
	}
	if iv.Foreign > ForeignLimit {
		taint = append(taint, fmt.Sprintf("foreign processes used %.1f %% of the host's CPU time (%s most)", 100*iv.Foreign, iv.Loudest))
	}
	if !memoryLimited && iv.MemoryStall > MemoryStallLimit {
		taint = append(taint, fmt.Sprintf("tasks waited for memory %.1f %% of the time", 100*iv.MemoryStall))
	}
	return taint
}
