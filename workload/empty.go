package workload

import (
	"context"
	"fmt"
)

// empty is the floor: a static program of a few instructions and no C library
// (programs/empty). What starting it takes, the platform takes.
type empty struct{ workloadOf[emptyPlan] }

func (empty) Name() string    { return "empty" }
func (empty) Summary() string { return "a program that does nothing: the floor of start-up" }
func (empty) Source() Source  { return Source{Recipe: "empty"} }

type emptyPlan struct{ held bool }

func (plan emptyPlan) parse(from *parameters) emptyPlan {
	plan.held = from.until(untilSignal,
		"signal: it waits until it is stopped; exit: it ends at once, to be weighed from launch to end")
	return plan
}

func (plan emptyPlan) program() Program {
	program := Program{Args: []string{"/empty"}, MemoryNeed: 1 << 20, Service: plan.held}
	if !plan.held {
		program.Args = append(program.Args, "exit")
	}
	return program
}

func (emptyPlan) metrics() []Metric { return []Metric{wallMetric(true), cpuMetric(false)} }

func (plan emptyPlan) drive(ctx context.Context, t Trial) error {
	if plan.held {
		return fmt.Errorf("empty waits for a signal and serves nothing, so that there is nothing to weigh: use --param until=exit, or `tare startup`")
	}
	return FromCommand(Program{}, Source{}).Drive(ctx, t)
}

var _ Sustainer = empty{}

// Sustained has it wait, which is all that it does: what is found in it is the
// floor of every container.
func (empty) Sustained() (p Params, steady bool) { return Params{"until": untilSignal}, true }

// Ready asks nothing: it is ready once it runs.
func (empty) Ready(context.Context, Trial) error { return nil }

// Sustain waits.
func (empty) Sustain(ctx context.Context, t Trial, _ uint64) error { return untilDone(ctx, t) }
