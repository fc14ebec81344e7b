package density

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"

	"tare/image"
	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/study/latency/service"
	"tare/workload"
)

// noise is a kind of idle neighbours, before any of it runs.
type noise struct {
	workload  workload.Idling
	subject   workload.Subject
	params    workload.Params // sized
	bytes     int64           // that each holds
	need      int64           // and takes for that
	firstPort int
}

// of are the parameters of the neighbour of a number, from 0: each has a port of its own.
func (n noise) of(number int) workload.Params {
	p := maps.Clone(n.params)
	p[paramPort] = strconv.Itoa(n.firstPort + number)
	return p
}

func (n noise) program(number int) (workload.Program, error) { return n.workload.Program(n.of(number)) }

// herd are the neighbours that run.
type herd struct {
	noise
	bench lab.Bench
	image image.Image
	group string
	width int // how many are launched, or stopped, at a time

	mu      sync.Mutex
	running []platform.Instance // that are to be stopped, those that are not filled too
	targets []load.Target       // of those that are filled, by their number
	kept    []*load.Kept
}

// grow launches neighbours until there are so many, and fills them.
func (h *herd) grow(ctx context.Context, to int) error {
	from := len(h.targets)
	if to <= from {
		return nil
	}
	more := make([]*load.Kept, to-from)
	err := inParallel(h.width, to-from, func(i int) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		kept, err := h.launch(ctx, from+i)
		if err != nil {
			return fmt.Errorf("neighbour %d: %w", from+i+1, err)
		}
		more[i] = kept
		return nil
	})
	for _, kept := range more {
		if kept != nil {
			h.kept = append(h.kept, kept)
			h.targets = append(h.targets, kept)
		}
	}
	return err
}

// launch starts one neighbour and has it hold its objects.
func (h *herd) launch(ctx context.Context, number int) (*load.Kept, error) {
	at := workload.Place{Listen: lab.ListensAt(h.bench.Platform(), h.bench.Condition().Setting)}
	program, params, err := lab.ProgramAt(h.workload, h.of(number), at)
	if err != nil {
		return nil, err
	}
	trial := &idler{Running: service.NewRunning(h.bench, params, service.Client{})}
	stdout, stderr := trial.Outputs()
	spec := platform.Spec{
		Name:    h.bench.Name(),
		Image:   h.image,
		Args:    program.Args,
		Env:     program.Env,
		Dir:     program.Dir,
		Setting: h.bench.Condition().Setting,
		Group:   h.group,
		Ports:   program.Ports,
		Data:    program.Data,
		Stdout:  stdout,
		Stderr:  stderr,
	}
	if err := prepare(h.bench, &spec); err != nil {
		return nil, fmt.Errorf("%w (--first-port)", err)
	}
	inst, err := h.bench.Platform().Launch(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("launch on %s: %w", h.bench.Condition().Platform, err)
	}
	h.mu.Lock()
	h.running = append(h.running, inst)
	h.mu.Unlock()
	trial.Launched(inst)
	if err := trial.AwaitReady(ctx, h.workload); err != nil {
		return nil, trial.Err.WithLastLine(fmt.Errorf("readiness: %w", err))
	}
	// What they hold differs, so that nothing can keep it but once.
	seed := h.bench.Seed() + uint64(number) + 1
	if err := h.workload.Fill(ctx, trial, seed); err != nil {
		return nil, trial.Err.WithLastLine(fmt.Errorf("fill it: %w", err))
	}
	target, err := h.workload.Asks(trial, seed, seed)
	if err != nil {
		return nil, err
	}
	return load.Keep(target), nil
}

// stop ends them all.
func (h *herd) stop(ctx context.Context) error {
	var errs []error
	for _, kept := range h.kept {
		errs = append(errs, kept.Close())
	}
	return errors.Join(
		append(errs, inParallel(h.width, len(h.running), func(i int) error { return h.running[i].Stop(ctx) }))...)
}

// idler is a neighbour as its workload sees it. Its image is not the condition's, whose load
// programs it therefore has not.
type idler struct{ *service.Running }

// Generate has nothing to run: neighbours are asked by tare's own client.
func (*idler) Generate(context.Context, []string) ([]byte, error) {
	return nil, errors.New("a neighbour has no load program: tare asks it itself")
}

// inParallel does so many things, a few at a time, and gives the error of the first that
// fails; the others that were begun are waited for.
func inParallel(width, count int, do func(i int) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(width, 1))
	errs := make([]error, count)
	for i := range count {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	wg.Wait()
	return firstError(errs...)
}
