package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"tare/kernel/accounting"
	"tare/record"
	"tare/workload"
)

// slack is what a slice may take beyond its duration: for what is under way to be
// answered.
const slack = 30 * time.Second

// stretch is how a slice is made.
type stretch struct {
	drive   workload.Drive
	settle  time.Duration
	length  time.Duration
	rate    float64 // of an open loop
	control string
}

// rampShare is how much of a slice is left out of its inner window at its beginning,
// in which the connections fall into step.
const rampShare = 0.05

// measure makes one slice: the program thaws, settles under load, rests for its CPU time
// to be read, is loaded, rests again, and freezes.
//
// The counters of a running task lag by up to a tick of the scheduler (4 ms): they are
// read while everything that was asked has been answered. So CPU time is that of all
// requests of the slice, and the rate that of its inner window.
func (s *seat) measure(ctx context.Context, w stretch, seed uint64) ([]record.Slice, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.length+w.settle+slack, fmt.Errorf("a slice of %s did not end within %v", w.drive.Name, slack))
	defer cancel()
	if w.drive.Whole {
		ctx = context.WithoutCancel(ctx)
	}
	if err := s.thaw(ctx); err != nil {
		return nil, err
	}
	if w.settle > 0 && !w.drive.Whole {
		if _, err := s.slicer.Load(ctx, workload.Stretch{Drive: w.drive.Name, Duration: w.settle, Rate: w.rate, Seed: seed ^ 1}); err != nil {
			return nil, causeOf(ctx, err)
		}
	}
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	all, err := s.slicer.Load(ctx, workload.Stretch{Drive: w.drive.Name, Duration: w.length, Ramp: time.Duration(rampShare * float64(w.length)), Rate: w.rate, Seed: seed})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	after, err := s.used()
	if err != nil {
		return nil, err
	}
	if err := s.freeze(ctx); err != nil {
		return nil, err
	}
	slices := make([]record.Slice, len(all))
	for i, m := range all {
		slices[i] = record.Slice{Part: m.Part, Control: w.control, Started: began, Window: m.Window, Amount: m.Amount,
			CPU: after - before, Worked: m.Worked, Load: m.Load}
		if len(all) > 1 && m.Part != w.drive.Name {
			slices[i].CPU = -1 // of all parts together: it is nobody's alone
		}
		if m.Latencies != nil {
			if slices[i].Histogram, err = record.EncodeHistogram(m.Latencies); err != nil {
				return nil, err
			}
		}
	}
	return slices, nil
}

// strip measures one slice of every seat, in an order that is drawn, and keeps them.
func (r *runner) strip(ctx context.Context, seats []*seat, number int, w stretch, draw *rand.Rand) ([]record.TrialSlice, error) {
	order := draw.Perm(len(seats))
	seed := draw.Uint64() // the same moments for all of a strip
	if err := r.strips.watch.begin(ctx); err != nil {
		return nil, err
	}
	began := r.lab.now()
	var kept []record.TrialSlice
	for position, i := range order {
		s := seats[i]
		if s.dropped != nil {
			continue
		}
		slices, err := s.measure(ctx, w, seed)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			s.dropped = fmt.Errorf("strip %d: %w", number, withOutput(err, s.trial))
			continue
		}
		for _, one := range slices {
			one.Strip, one.Position, one.Previous = number, position, r.strips.previous
			kept = append(kept, record.TrialSlice{Trial: s.id, Slice: one})
		}
		r.strips.previous = s.condition.ID
	}
	beside, err := r.strips.watch.end(ctx)
	if err != nil {
		return nil, err
	}
	var limited bool
	for _, s := range seats {
		limited = limited || s.condition.Setting.Memory != 0
	}
	taint := r.lab.judge(overTicks(beside, r.lab.now().Sub(began), r.run.Host.CPUs), 0, limited)
	for i := range kept {
		kept[i].Slice.Steal, kept[i].Slice.Foreign, kept[i].Slice.Taint = beside.Steal, beside.Foreign, taint
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return kept, r.lab.Store.AddStrip(kept)
}

// leastTicks is the CPU time below which steal and foreign load cannot be told within a
// strip: the kernel counts them in ticks of 10 ms, and a tick goes to whoever happens to
// run as it ends.
const leastTicks = 30 * time.Millisecond

// overTicks leaves out of a strip's account what is within the kernel's resolution.
func overTicks(iv accounting.Interval, elapsed time.Duration, cpus int) accounting.Interval {
	least := leastTicks.Seconds() / (elapsed.Seconds() * float64(max(1, cpus)))
	if iv.Steal < least {
		iv.Steal = 0
	}
	if iv.Foreign < least {
		iv.Foreign = 0
	}
	return iv
}
