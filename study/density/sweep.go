package density

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/report"
)

// ascent is what a trial does once its critical service is warm: step by step there are
// more neighbours, and none is removed.
type ascent struct {
	trial
	bench   lab.Bench
	in      platform.Box
	memory  int64 // of the box
	service *served
	herd    *herd
	turns   int64 // of the neighbours, that lie behind in the step
}

// all makes the steps, in rising order, until the last, or until there is no going on.
// The error is for a trial that is not valid: a first step that failed, and failures that
// are not memory's.
func (s *ascent) all(ctx context.Context) ([]Step, error) {
	var steps []Step
	for i, n := range s.neighbours {
		step, err := s.step(ctx, n, s.isFirst(n))
		if err != nil {
			return nil, fmt.Errorf("with %d neighbours: %w", n, err)
		}
		if step.Stop == "" && i > 0 {
			step.Stop = thrashes(steps[0], step)
		}
		steps = append(steps, step)
		text := line(step)
		if s.bench.WarmUp() {
			text = "warm-up: " + text
		}
		s.bench.Tell(text)
		if step.Stop != "" {
			break
		}
	}
	return steps, nil
}

// isFirst reports whether all other steps are compared with the one of this number: the least number,
// in whichever trial. A trial of the lab's warm-up has no other.
func (s *ascent) isFirst(n int) bool { return n == s.Options.Neighbours[0] || s.bench.WarmUp() }

// line is a step in a few words.
func line(s Step) string {
	text := report.Counted(s.Neighbours, "neighbour")
	if s.Overcommit > 0 { // it was read before the step ended
		text += fmt.Sprintf(", %.2f times the box", s.Overcommit)
	}
	if s.Open.Latency != nil && s.Open.Latency.TotalCount() > 0 {
		text += fmt.Sprintf(": %.0f requests/s, p99 %s ms", s.Closed.Rate, report.Rounded(float64(s.Open.Latency.ValueAtQuantile(99))/1000, 3))
	}
	if s.Stop != "" {
		text += "; the sweep stops here: " + s.Stop
	}
	return text
}

// step makes one. A step that is ended by what it looks for, too little memory, says so
// in Stop and has what was found until then.
func (s *ascent) step(ctx context.Context, n int, first bool) (Step, error) {
	step := Step{Neighbours: n}
	s.turns = 0
	before, err := s.in.Read(ctx)
	if danger := (*platform.Endangered)(nil); errors.As(err, &danger) && !first {
		err = &ended{danger.Error()}
	}
	killed := kills(before)
	if err == nil {
		err = s.within(ctx, first, killed, func(ctx context.Context) error { return s.grow(ctx, n, first) })
	}
	if err == nil {
		err = s.bench.Undisturbed(func() error {
			step = Step{Neighbours: n} // of one that is done again nothing is kept
			return s.within(ctx, first, killed, func(ctx context.Context) error { return s.measure(ctx, &step, first) })
		})
	}
	if end := (*ended)(nil); errors.As(err, &end) {
		step.Stop = end.why
		return step, nil
	}
	return step, err
}

// ended says that a sweep goes no further, which its trial has found and not failed by.
type ended struct{ why string }

func (e *ended) Error() string { return e.why }

// within does a part of a step, guarded. The error is an [*ended] where that part was
// ended by too little memory, but in the first step, which all others are compared with: by a
// program, too, that was killed since there were killed of them, whether anything failed
// by that or not. One that lies idle is missed by nobody.
func (s *ascent) within(ctx context.Context, first bool, killed int64, do func(ctx context.Context) error) error {
	limited, release := guarded(ctx, s.in, s.StepLimit, watchEvery)
	defer release()
	err := do(limited)
	if ctx.Err() != nil || errors.As(err, new(*lab.Unrestored)) {
		return err
	}
	reading, unread := s.in.Read(ctx) // a box in danger is read as well
	if err == nil {
		err = unread
	}
	more := kills(reading) - killed
	if err == nil && more <= 0 {
		return nil
	}
	if !first {
		if why := stopped(limited, err, more); why != "" {
			return &ended{why}
		}
	}
	if cause := context.Cause(limited); cause != nil {
		return cause // what ended it, and not what that made fail
	}
	if more > 0 {
		return errors.Join(errKilled, err)
	}
	return err
}

// grow brings the neighbours to their number, and lets the box come to rest.
func (s *ascent) grow(ctx context.Context, to int, first bool) error {
	if err := s.herd.grow(ctx, to); err != nil {
		return err
	}
	if s.DropCaches {
		if err := s.Host.DropCaches(); err != nil {
			return err
		}
	}
	if s.Settle == 0 {
		return nil
	}
	// They are asked meanwhile as they will be: what they use comes back before it counts,
	// and who predicts that has seen some of it, but not the turns that count.
	return s.ahead(func() error {
		stop := s.ask(ctx)
		_, err := s.service.load(ctx, true, s.Settle)
		noise, asking := stop()
		return errors.Join(err, troubled(noise, asking, first))
	})
}

// troubled is what went wrong with the neighbours' requests; that some fail is an error in
// the first step alone.
func troubled(noise load.ActivationResult, asking error, first bool) error {
	if asking != nil {
		return fmt.Errorf("load the neighbours: %w", asking)
	}
	if first && noise.Failed() > 0 {
		return fmt.Errorf("%d of the neighbours' requests failed, the first by: %w", noise.Failed(), noise.FirstError)
	}
	return nil
}

// measure loads the critical service beside the neighbours that there are, with the box's
// accounts before and after.
func (s *ascent) measure(ctx context.Context, step *Step, first bool) error {
	before, err := s.in.Read(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	loading := s.ahead(func() error { return s.loads(ctx, step, first) })
	step.Elapsed = time.Since(began)
	after, err := s.in.Read(context.WithoutCancel(ctx))
	if !after.At.IsZero() { // a box in danger is read as well
		step.account(before, after, s.memory)
	}
	return firstError(loading, err)
}

// ahead loads with the client ahead of the neighbours, which it would else wait for as
// the critical service does.
func (s *ascent) ahead(load func() error) error {
	if s.Host.Ahead == nil {
		return load()
	}
	restore, err := s.Host.Ahead(s.bench)
	if err != nil {
		return err
	}
	return errors.Join(load(), restore())
}

// asked is how the neighbours are: whatever their number at the same moments, so that
// chance gives none of the numbers more than another. Within a step each load goes on with
// the turn after the last one's: what was learnt of the turns before is no answer to those
// that count, and nobody who is asked by turns is left out, or asked again too soon.
func (s *ascent) asked(end <-chan struct{}) load.ActivationOptions {
	return load.ActivationOptions{
		Pattern: s.pattern,
		Think:   s.Think,
		Open:    !s.IdleClosed,
		Burst:   s.Burst,
		Seed:    s.bench.Seed(),
		After:   s.turns,
		End:     end,
	}
}

// ask begins to send requests to the neighbours; stop ends that and returns the result.
func (s *ascent) ask(ctx context.Context) (stop func() (load.ActivationResult, error)) {
	if len(s.herd.targets) == 0 {
		return func() (load.ActivationResult, error) { return load.ActivationResult{}, nil }
	}
	var result load.ActivationResult
	var err error
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		result, err = load.Activate(ctx, s.herd.targets, s.asked(end))
	}()
	return func() (load.ActivationResult, error) {
		close(end)
		<-ended
		s.turns += result.Turns
		return result, err
	}
}

// loads asks the neighbours all the while, and loads the critical service first by a
// schedule and then by clients that wait.
func (s *ascent) loads(ctx context.Context, step *Step, first bool) error {
	stop := s.ask(ctx)
	err := s.serve(ctx, step, first)
	noise, asking := stop()
	step.Idle = answers(noise.Result)
	if s.Burst > 1 && noise.Bursts != nil {
		step.Bursts = answers(noise.Result)
		step.Bursts.Latency = noise.Bursts
		step.Bursts.Requests = noise.Bursts.TotalCount()
		step.Bursts.Rate = 0
		if noise.Elapsed > 0 {
			step.Bursts.Rate = float64(step.Bursts.Requests) / noise.Elapsed.Seconds()
		}
		step.Bursts.Failed = 0
		for _, turned := range noise.Turned {
			step.Bursts.Failed += turned
		}
		step.Bursts.Failed -= step.Bursts.Requests
	}
	return errors.Join(err, troubled(noise, asking, first))
}

// serve is both loads of the critical service.
func (s *ascent) serve(ctx context.Context, step *Step, first bool) error {
	for _, l := range []struct {
		open bool
		last time.Duration
		to   *Served
	}{{true, s.Open, &step.Open}, {false, s.Closed, &step.Closed}} {
		began := time.Now()
		result, err := s.service.load(ctx, l.open, l.last)
		*l.to = answers(result)
		if l.to.Elapsed == 0 {
			l.to.Elapsed = time.Since(began) // it ran, and was ended before it recorded how long
		}
		if err != nil {
			return s.service.running.Err.WithLastLine(err)
		}
		if first && result.Failed() > 0 {
			return fmt.Errorf("%d of %d requests to %s failed, the first by: %w", result.Failed(), result.Failed()+result.Requests, s.service.name(), result.FirstError)
		}
	}
	return nil
}

// answers is a load as a step has it.
func answers(r load.Result) Served {
	return Served{
		Rate:     r.Rate,
		Requests: r.Requests,
		Failed:   r.Failed(),
		Elapsed:  r.Elapsed,
		Latency:  r.Corrected,
		Batches:  batchesOf(r),
	}
}

// account takes what a box's accounts came to over the step.
func (s *Step) account(before, after platform.BoxReading, memory int64) {
	s.SwapIn, s.SwapOut = after.SwapIn-before.SwapIn, after.SwapOut-before.SwapOut
	s.DeviceWritten, s.DeviceRead = after.DeviceWritten-before.DeviceWritten, after.DeviceRead-before.DeviceRead
	s.Pool, s.Limit = after.Pool, after.Limit
	s.SwapUsed, s.SwapSize = after.SwapUsed, after.SwapSize
	s.Keeper, s.Reclaimed = after.Keeper-before.Keeper, after.Reclaiming-before.Reclaiming
	s.Extension = extended(before.Extension, after.Extension)
	s.Notes = slices.Clone(before.Notes)
	for _, note := range after.Notes {
		if !slices.Contains(s.Notes, note) {
			s.Notes = append(s.Notes, note)
		}
	}
	s.Classes = map[platform.Class]ClassAccounts{}
	for class, now := range after.Classes {
		was := before.Classes[class]
		s.Classes[class] = ClassAccounts{
			Resident:    now.Resident,
			Swapped:     now.Swapped,
			MajorFaults: now.MajorFaults - was.MajorFaults,
			Some:        now.Some - was.Some,
			Full:        now.Full - was.Full,
			CPU:         now.CPU - was.CPU,
			OOMKills:    now.OOMKills - was.OOMKills,
		}
		s.Asked += now.Anonymous + now.Swapped
	}
	if memory > 0 {
		s.Overcommit = float64(s.Asked) / float64(memory)
	}
	if len(after.Absent) > 0 {
		s.Absent = maps.Clone(after.Absent)
	}
}
