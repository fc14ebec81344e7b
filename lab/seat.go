package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"tare/kernel/socket"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// seat is one condition's place in a round, with the instance that takes it.
type seat struct {
	condition Condition
	replicate int // 1 for the baseline's second instance
	port      int
	padding   int // bytes that the program's environment is longer by
	seed      uint64

	inst    platform.Instance
	slicer  workload.Slicer
	trial   *trial
	id      int64 // of the trial in the record
	result  record.Trial
	began   time.Time
	frozen  bool
	stopped bool
	entered bool
	dropped error // why it takes no part any more
}

// mostPadding bounds the bytes by which an environment is made longer. What a program
// finds there moves its stack, and by that alone a program may run faster or slower by
// several percent (Mytkowicz et al., ASPLOS 2009): it is drawn, so that it is noise.
const mostPadding = 4096

// paddingVariable is that variable's name.
const paddingVariable = "TARE_PADDING"

// seats draws the places of a round: who takes part, in which order they are launched,
// and what each finds. Ports are those that are free now: they are drawn apart, so that
// all else depends on the seed alone.
func (r *runner) seats(g Group, present map[string]bool, draw *rand.Rand) []*seat {
	served := !r.groups[g.Workload].executions
	var all []*seat
	taken := map[int]bool{}
	for _, c := range g.Conditions {
		if !c.Baseline && present != nil && !present[c.ID] {
			continue
		}
		copies := 1
		if c.Baseline && !g.Once {
			copies = 2
		}
		for replicate := range copies {
			all = append(all, &seat{condition: c, replicate: replicate})
		}
	}
	draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	portDraw := rand.New(rand.NewPCG(draw.Uint64(), draw.Uint64()))
	for _, s := range all {
		if served {
			// 0 is the workload's own: its launch will say that it is taken.
			s.port = socket.DrawPorts(workload.PlacePorts, portDraw.IntN, func(port int) bool {
				return !taken[port] && r.lab.portFree(port)
			})
			taken[s.port] = true
		}
		s.padding = draw.IntN(mostPadding)
		s.seed = draw.Uint64()
	}
	return all
}

// spec is what the seat launches.
func (r *runner) spec(s *seat) (platform.Spec, error) {
	c := s.condition
	at := workload.Place{}
	if s.port > 0 {
		at = workload.Place{Port: s.port, Listen: ListensAt(r.platforms[c.Platform], c.Setting)}
	}
	program, params, err := ProgramAt(c.Program, c.Params, at)
	if err != nil {
		return platform.Spec{}, err
	}
	program.Env = append(
		program.Env[:len(program.Env):len(program.Env)],
		paddingVariable+"="+strings.Repeat("x", s.padding),
	)
	r.trials++
	spec, err := SpecOf(fmt.Sprintf("%s-%d", r.name, r.trials), r.images[c.ID], program, c.Condition)
	if err != nil {
		return spec, err
	}
	s.trial = r.newTrial(c, params)
	spec.Stdout, spec.Stderr = &s.trial.out, &s.trial.err
	return spec, nil
}

// launch launches the seat's program, has it made ready for slices, and enters its trial
// in the record.
func (r *runner) launch(ctx context.Context, s *seat, round, position int) error {
	c := s.condition
	s.began = r.lab.now()
	s.result = record.Trial{
		Condition:  c.ID,
		Workload:   c.Workload,
		Block:      round,
		Attempt:    1,
		Position:   position,
		Replicate:  s.replicate,
		Started:    s.began,
		Covariates: map[string]float64{"port": float64(s.port), "padding_bytes": float64(s.padding)},
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit(c), fmt.Errorf("not ready after %v (--trial-limit)", r.limit(c)))
	defer cancel()
	spec, err := r.spec(s)
	if err != nil {
		return err
	}
	p := r.platforms[c.Platform]
	launched := r.lab.now()
	if s.inst, err = p.Launch(ctx, spec); err != nil {
		s.inst = nil
		return fmt.Errorf("launch on %s: %w", c.Platform, err)
	}
	s.result.Covariates["launch_s"] = r.lab.now().Sub(launched).Seconds()
	r.booted(p, c, &s.result)
	s.trial.inst = s.inst
	if err := r.checkInForce(c, s.inst); err != nil {
		return err
	}
	sliced := c.Program.(workload.Sliced)
	if err := sliced.Ready(ctx, s.trial); err != nil {
		return s.trial.err.WithLastLine(causeOf(ctx, err))
	}
	if s.slicer, err = sliced.Slices(ctx, s.trial, s.seed); err != nil {
		return s.trial.err.WithLastLine(causeOf(ctx, err))
	}
	s.id, err = r.lab.Store.BeginTrial(r.run.ID, s.result)
	return err
}

// causeOf is why a context ended, where that is what an error is about.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// used is the CPU time so far of the program and of what works for it.
func (s *seat) used() (time.Duration, error) {
	usage, err := s.inst.Usage()
	if err != nil {
		return 0, err
	}
	cpu := usage.CPU
	if attended, ok := s.inst.(platform.Attending); ok {
		more, err := attended.Attendants()
		if err != nil {
			return 0, err
		}
		cpu += more
	}
	return cpu, nil
}

// freezeLimit bounds a freeze: a process that waits for a device which does not answer
// cannot be frozen.
const freezeLimit = 10 * time.Second

func (s *seat) freeze(ctx context.Context) error {
	if s.frozen {
		return nil
	}
	freezing, ok := s.inst.(platform.Freezing)
	if !ok {
		return &cannotSlice{fmt.Sprintf("%s cannot be frozen on %s", s.condition.Workload, s.condition.Platform)}
	}
	ctx, cancel := context.WithTimeout(ctx, freezeLimit)
	defer cancel()
	if err := freezing.Freeze(ctx); err != nil {
		return &cannotSlice{fmt.Sprintf("%s cannot be frozen on %s: %v", s.condition.Workload, s.condition.Platform, err)}
	}
	s.frozen = true
	return nil
}

func (s *seat) thaw(ctx context.Context) error {
	if !s.frozen {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, freezeLimit)
	defer cancel()
	if err := s.inst.(platform.Freezing).Thaw(ctx); err != nil {
		return &cannotSlice{fmt.Sprintf("%s cannot be thawed on %s: %v", s.condition.Workload, s.condition.Platform, err)}
	}
	s.frozen = false
	return nil
}

// stop ends the seat's program, frozen or not, and keeps how its trial ended.
func (r *runner) stop(ctx context.Context, s *seat) error {
	return errors.Join(r.halt(ctx, s), r.enter(s))
}

// halt ends the seat's program.
func (r *runner) halt(ctx context.Context, s *seat) error {
	if s.stopped {
		return nil
	}
	s.stopped = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if s.slicer != nil {
		_ = s.slicer.Close() // its program is ended next
	}
	var err error
	if s.inst != nil {
		if usage, err := s.inst.Usage(); err == nil {
			s.result.Covariates["throttled_s"] = usage.ThrottledTime.Seconds()
			s.result.Covariates["throttled_periods"] = float64(usage.Throttled)
			if usage.MemoryPeak > 0 {
				s.result.Covariates["memory_peak_bytes"] = float64(usage.MemoryPeak)
			}
		}
		err = s.inst.Stop(ctx)
	}
	s.result.Elapsed = r.lab.now().Sub(s.began)
	if s.dropped != nil {
		s.result.Error = firstLine(s.dropped.Error())
	}
	return err
}

// enter keeps how the trial of a seat that was stopped ended.
func (r *runner) enter(s *seat) error {
	if s.entered {
		return nil
	}
	s.entered = true
	switch {
	case s.id != 0:
		return r.lab.Store.EndTrial(s.id, s.result)
	case s.result.Error != "":
		_, err := r.lab.Store.AddTrial(r.run.ID, s.result)
		return err
	}
	return nil
}

// cannotSlice says that a group's load cannot be cut into slices: it is measured in
// blocks instead.
type cannotSlice struct{ Why string }

func (c *cannotSlice) Error() string { return c.Why }
