package gpu

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	programs "tare/programs/gpu"
	"tare/study/kit"
	"tare/workload"
)

// sharing is several containers at once, each with the same program and the same device,
// which takes them in turns (time-slicing) where nobody has set it up otherwise. Each has
// its own seed. What is compared is each one's timed repetitions; for how much of those
// all ran at once is recorded, since starts differ.
type sharing struct {
	trial
	count int
}

// ended is one of several that ended.
type ended struct {
	running *running
	result  programs.Result
	exit    workload.Exit
	err     error
}

func (s sharing) run(ctx context.Context, b lab.Bench) (err error) {
	params := s.params(b)
	first, err := strconv.ParseUint(params["seed"], 10, 64)
	if err != nil {
		return fmt.Errorf("seed %q: %w", params["seed"], err)
	}
	dir, remove, err := s.host.Scratch(ctx, b.Name())
	if err != nil {
		return fmt.Errorf("make a directory for the trial: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	// The cache is of no account: what runs holds machine code.
	edits, env, err := s.surroundings(dir)
	if err != nil {
		return err
	}
	if err := b.Measuring(); err != nil {
		return err
	}
	all := make([]ended, s.count)
	var together sync.WaitGroup
	for i := range all {
		own := workload.Params{}
		for k, v := range params {
			own[k] = v
		}
		own["seed"] = strconv.FormatUint((first+uint64(i))%(1<<53), 10)
		together.Go(func() { all[i] = s.one(ctx, b, own, edits, env) })
	}
	together.Wait()
	for i, e := range all {
		if e.err != nil {
			return fmt.Errorf("number %d of %d: %w", i+1, s.count, e.err)
		}
	}
	if err := b.Measured(); err != nil {
		return err
	}
	s.record(b, all)
	return nil
}

// one launches one container and waits for its end.
func (s sharing) one(
	ctx context.Context, b lab.Bench, params workload.Params, edits platform.Edits, env []string,
) (e ended) {
	program, err := s.program.Program(params)
	if err != nil {
		return ended{err: err}
	}
	r := &running{Running: kit.Running{Bench: b, Parameters: params, Out: process.Tail{Most: outputKept}}}
	if r.Instance, err = s.launch(ctx, b, program, edits, env, r); err != nil {
		return ended{err: err}
	}
	defer func() { e.err = errors.Join(e.err, r.stop(ctx, b)) }()
	result, exit, err := workload.RunCUDA(ctx, r)
	return ended{running: r, result: result, exit: exit, err: err}
}

func (s sharing) record(b lab.Bench, all []ended) {
	slowest := 0.0
	from, to, lengths := 0.0, 0.0, 0.0
	for i, e := range all {
		b.Record("wall", e.exit.Elapsed.Seconds())
		b.Record("iterate", e.result.Seconds.Iterate)
		b.Record("kernels", e.result.Kernels.Seconds)
		slowest = max(slowest, e.exit.Elapsed.Seconds())
		begins, ends := iterating(e.result.Seconds)
		if i == 0 || begins > from {
			from = begins
		}
		if i == 0 || ends < to {
			to = ends
		}
		lengths += ends - begins
	}
	b.Record(metricSlowest, slowest)
	overlap := 0.0
	if lengths > 0 {
		overlap = 100 * max(0, to-from) / (lengths / float64(len(all)))
	}
	b.Record(metricOverlap, min(100, overlap))
}

// iterating is when a program's timed repetitions began and ended, by the host's clock.
func iterating(s programs.Seconds) (from, to float64) {
	from = s.MainAt + s.Start + s.Module + s.Host + s.Prepare + s.Allocate + s.ToDevice + s.Warmup
	return from, from + s.Iterate
}
