package platforms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tare/lab"
	"tare/platform"
	"tare/probe"
	"tare/probe/causes"
	"tare/record"
)

// AttachmentCauses is what was seen of a watched trial, whole, as JSON.
const AttachmentCauses = "causes.json"

// Covariates of a watched trial.
const (
	covSpan       = "causes_span_s"
	covCPU        = "causes_cpu_s"
	covUsed       = "causes_used_cpus"
	covBurst      = "causes_burst_s"   // mean
	covBursts     = "causes_bursts"    // count
	covWait       = "causes_wait_s"    // sum
	covBlocked    = "causes_blocked_s" // sum
	covWakeups    = "causes_wakeups"
	covVoluntary  = "causes_voluntary"
	covForced     = "causes_involuntary"
	covMigrations = "causes_migrations"
	covThrottled  = "causes_throttled_s"
	covPeriods    = "causes_periods"
	covCut        = "causes_throttled_periods"
	covSamples    = "causes_samples"
	covAccounting = "causes_accounting_samples"
	covHard       = "causes_interrupts"
	covSoft       = "causes_soft_interrupts"
	covWoken      = "causes_interrupt_wakeups"
	covElsewhere  = "causes_interrupt_elsewhere"
	covLost       = "causes_lost"
	covWeight     = "causes_weight_s"
)

// watchOptions are those of a watched trial. Stacks weigh about as much as a program that
// switches often itself, and the times of watched trials are compared: they are taken in
// the warm-up, of which nothing counts, for the flame graph. What the rest weighs is in
// every trial's figures, and recorded (covWeight).
func watchOptions(b lab.Bench) causes.Options {
	return causes.Options{Accounting: true, Stacks: b.WarmUp(), Weigh: true}
}

// apart keeps tare, which makes a service's load, to the load's CPUs while the program
// is driven. It begins once the program runs, which would else inherit it.
func apart(confine func([]int) (func() error, error), to []int) lab.Watch {
	return func(context.Context, lab.Bench, platform.Instance) (func(context.Context) error, error) {
		restore, err := confine(to)
		if err != nil {
			return nil, fmt.Errorf("keep the load to CPUs %s: %w", platform.FormatCPUList(to), err)
		}
		return func(context.Context) error { return restore() }, nil
	}
}

// both begins one watch and then another, and ends them the other way round.
func both(a, b lab.Watch) lab.Watch {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(ctx context.Context, bench lab.Bench, inst platform.Instance) (func(context.Context) error, error) {
		endA, err := a(ctx, bench, inst)
		if err != nil {
			return nil, err
		}
		endB, err := b(ctx, bench, inst)
		if err != nil {
			return nil, errors.Join(err, endA(context.WithoutCancel(ctx)))
		}
		return func(ctx context.Context) error { return errors.Join(endB(ctx), endA(ctx)) }, nil
	}
}

// watching has a trial's program watched for what its time went into: by its agent
// where it runs under another kernel, else from here.
func watching(start func(causes.Target, causes.Options) (Watcher, error)) lab.Watch {
	return func(ctx context.Context, b lab.Bench, inst platform.Instance) (func(context.Context) error, error) {
		stop, err := begin(ctx, inst, watchOptions(b), start)
		if lacks := (*probe.Missing)(nil); errors.As(err, &lacks) || errors.Is(err, platform.ErrGone) {
			// Its figures are absent; that the program runs is a finding all the same.
			return func(context.Context) error { return nil }, nil
		}
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			seen, err := stop(ctx)
			if err != nil {
				return err
			}
			return keep(b, seen)
		}, nil
	}
}

func begin(
	ctx context.Context,
	inst platform.Instance,
	o causes.Options,
	start func(causes.Target, causes.Options) (Watcher, error),
) (stop func(context.Context) (causes.Reading, error), err error) {
	if far, ok := inst.(platform.Watching); ok {
		w, err := far.Watch(ctx, o)
		if err != nil {
			return nil, err
		}
		return w.Stop, nil
	}
	target, err := platform.WatchTarget(inst)
	if err != nil {
		return nil, err
	}
	w, err := start(target, o)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (causes.Reading, error) { return w.Stop() }, nil
}

// keep enters what was seen.
func keep(b lab.Bench, seen causes.Reading) error {
	text, err := json.Marshal(seen)
	if err != nil {
		return fmt.Errorf("keep what was watched: %w", err)
	}
	b.Attach(record.Attachment{Name: AttachmentCauses, MediaType: "application/json", Data: text})
	absent := map[string]bool{}
	for _, a := range seen.Absent {
		absent[a.Part] = true
	}
	put := func(name string, v float64, of string) {
		if !absent[of] {
			b.Covariate(name, v)
		}
	}
	put(covSpan, seen.Span.Seconds(), "")
	put(covCPU, seen.CPUTime.Seconds(), "switches")
	put(covUsed, float64(seen.Used), "switches")
	put(covBursts, float64(seen.Burst.Count), "switches")
	if seen.Burst.Count > 0 {
		put(covBurst, seen.Burst.Sum.Seconds()/float64(seen.Burst.Count), "switches")
	}
	put(covWait, seen.Wait.Sum.Seconds(), "switches")
	put(covBlocked, seen.Blocked.Sum.Seconds(), "switches")
	put(covWakeups, float64(seen.Wakeups), "switches")
	put(covVoluntary, float64(seen.Voluntary), "switches")
	put(covForced, float64(seen.Involuntary), "switches")
	put(covMigrations, float64(seen.Migrations), "switches")
	put(covThrottled, seen.Throttling.Time.Seconds(), "throttling")
	put(covPeriods, float64(seen.Throttling.Periods), "throttling")
	put(covCut, float64(seen.Throttling.Throttled), "throttling")
	put(covSamples, float64(seen.Accounting.Samples), "accounting")
	put(covAccounting, float64(seen.Accounting.Within), "accounting")
	put(covHard, float64(seen.Interrupts.Hard), "interrupts")
	put(covSoft, float64(seen.Interrupts.Soft), "interrupts")
	put(covWoken, float64(seen.Interrupts.Wakeups), "interrupts")
	put(covElsewhere, float64(seen.Interrupts.Elsewhere), "interrupts")
	put(covLost, float64(seen.Lost), "")
	put(covWeight, seen.Weight.Seconds(), "")
	return nil
}
