package workload

import (
	"context"

	"tare/load"
)

// planned is a plan: a workload's parameters, parsed into a type of its own. The types below
// are the methods of a workload that depend on parameters. Each parses them into a plan, and
// leaves the rest to a method of the plan, which has nothing more to convert or to refuse.
type planned[P any] interface {
	parse(from *parameters) P
}

func planOf[P planned[P]](given Params) (P, error) {
	var plan P
	return parsed(given, plan.parse)
}

type workloadPlan interface {
	program() Program
	metrics() []Metric
	drive(ctx context.Context, t Trial) error
}

// workloadOf has the methods of a [Workload].
type workloadOf[P interface {
	planned[P]
	workloadPlan
}] struct{}

func (workloadOf[P]) Params() []Param {
	var plan P
	return declared(plan.parse)
}

func (workloadOf[P]) Program(p Params) (Program, error) {
	plan, err := planOf[P](p)
	if err != nil {
		return Program{}, err
	}
	return plan.program(), nil
}

// Metrics has none for parameters that Program refuses.
func (workloadOf[P]) Metrics(p Params) []Metric {
	plan, err := planOf[P](p)
	if err != nil {
		return nil
	}
	return plan.metrics()
}

func (workloadOf[P]) Drive(ctx context.Context, t Trial) error {
	plan, err := planOf[P](t.Params())
	if err != nil {
		return err
	}
	return plan.drive(ctx, t)
}

type readierPlan interface {
	ready(ctx context.Context, t Trial) error
}

// readierOf has that of a [Readier].
type readierOf[P interface {
	planned[P]
	readierPlan
}] struct{}

func (readierOf[P]) Ready(ctx context.Context, t Trial) error {
	plan, err := planOf[P](t.Params())
	if err != nil {
		return err
	}
	return plan.ready(ctx, t)
}

type loaderPlan interface {
	offered() Offered
	load(ctx context.Context, t Trial, seed uint64) (load.Result, error)
}

// loaderOf has those of a [Loader].
type loaderOf[P interface {
	planned[P]
	loaderPlan
}] struct{}

func (loaderOf[P]) Offered(p Params) (Offered, error) {
	plan, err := planOf[P](p)
	if err != nil {
		return Offered{}, err
	}
	return plan.offered(), nil
}

func (loaderOf[P]) Load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	plan, err := planOf[P](t.Params())
	if err != nil {
		return load.Result{}, err
	}
	return plan.load(ctx, t, seed)
}

type sustainerPlan interface {
	sustain(ctx context.Context, t Trial, seed uint64) error
}

// sustainerOf has that of a [Sustainer].
type sustainerOf[P interface {
	planned[P]
	sustainerPlan
}] struct{}

func (sustainerOf[P]) Sustain(ctx context.Context, t Trial, seed uint64) error {
	plan, err := planOf[P](t.Params())
	if err != nil {
		return err
	}
	return plan.sustain(ctx, t, seed)
}

type slicedPlan interface {
	drives() ([]Drive, error)
	sliceMetrics() []Metric
	slices(ctx context.Context, t Trial, seed uint64) (Slicer, error)
}

// slicedOf has those of a [Sliced].
type slicedOf[P interface {
	planned[P]
	slicedPlan
}] struct{}

func (slicedOf[P]) Drives(p Params) ([]Drive, error) {
	plan, err := planOf[P](p)
	if err != nil {
		return nil, err
	}
	return plan.drives()
}

// SliceMetrics has none for parameters that Program refuses.
func (slicedOf[P]) SliceMetrics(p Params) []Metric {
	plan, err := planOf[P](p)
	if err != nil {
		return nil
	}
	return plan.sliceMetrics()
}

func (slicedOf[P]) Slices(ctx context.Context, t Trial, seed uint64) (Slicer, error) {
	plan, err := planOf[P](t.Params())
	if err != nil {
		return nil, err
	}
	return plan.slices(ctx, t, seed)
}
