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

// load has an instance loaded, and bounds for how long.
func (r *runner) load(ctx context.Context, s *seat, d workload.Drive, w workload.Stretch) ([]workload.Measured, error) {
	limit := w.Duration + slack
	if d.Whole {
		limit = r.limit(s.condition)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("a load of %s did not end within %v", d.Name, limit))
	defer cancel()
	w.Drive = d.Name
	all, err := s.slicer.Load(ctx, w)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("a load of %s yielded nothing", d.Name)
	}
	if err != nil {
		return nil, s.trial.err.WithLastLine(causeOf(ctx, err))
	}
	return all, nil
}

// slice makes one slice: the program thaws, settles under load, rests for its CPU time
// to be read, is loaded, rests again, and freezes.
//
// The counters of a running task lag by up to a tick of the scheduler (4 ms): they are
// read while everything that was asked has been answered. So CPU time is that of all
// requests of the slice, and the rate that of its inner window.
func (r *runner) slice(ctx context.Context, s *seat, w stretch, seed uint64) ([]record.Slice, error) {
	if err := s.thaw(ctx); err != nil {
		return nil, err
	}
	if w.settle > 0 && !w.drive.Whole {
		settle := workload.Stretch{Duration: w.settle, Rate: w.rate, Seed: seed ^ 1}
		if _, err := r.load(ctx, s, w.drive, settle); err != nil {
			return nil, err
		}
	}
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	began := r.lab.now()
	all, err := r.load(
		ctx,
		s,
		w.drive,
		workload.Stretch{
			Duration: w.length,
			Ramp:     time.Duration(rampShare * float64(w.length)),
			Rate:     w.rate,
			Seed:     seed,
		},
	)
	if err != nil {
		return nil, err
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
			slices[i].CPU = -1 // it is that of all parts together
		}
		if m.Latencies != nil {
			if slices[i].Histogram, err = record.EncodeHistogram(m.Latencies); err != nil {
				return nil, err
			}
		}
	}
	return slices, nil
}

// strip measures one slice of every seat, in an order that is drawn. A seat whose slice
// fails takes no further part; a strip that is cut short is not kept. The slices that it
// gives are in the record once their span is ([runner.keep]).
func (r *runner) strip(
	ctx context.Context,
	seats []*seat,
	number int,
	w stretch,
	draw *rand.Rand,
) ([]record.TrialSlice, error) {
	order := draw.Perm(len(seats))
	seed := draw.Uint64() // the same moments for all of a strip
	if r.strips.span.IsZero() {
		r.strips.span = r.lab.now()
		if err := r.strips.watch.begin(ctx); err != nil {
			return nil, err
		}
	}
	var measured []record.TrialSlice
	position := 0
	for _, i := range order {
		s := seats[i]
		if s.dropped != nil {
			continue
		}
		slices, err := r.slice(ctx, s, w, seed)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			if err := r.drop(ctx, s, fmt.Errorf("strip %d: %w", number, err)); err != nil {
				return nil, err
			}
			continue
		}
		for _, one := range slices {
			one.Strip, one.Position, one.Previous = number, position, r.strips.previous
			measured = append(measured, record.TrialSlice{Trial: s.id, Slice: one})
		}
		r.strips.previous = s.condition.ID
		position++
	}
	r.strips.measured = append(r.strips.measured, measured...)
	if r.lab.now().Sub(r.strips.span) < leastSpan {
		return measured, nil
	}
	return measured, r.keep(ctx, seats)
}

// leastSpan is for how long strips are watched together. Within less, the kernel's ticks
// tell nothing of what disturbed them, and to write each strip down by itself would take
// as long as to measure it. A crash loses what was measured in a span.
const leastSpan = 250 * time.Millisecond

// keep ends a span: what disturbed it taints all of its strips, which go into the record.
func (r *runner) keep(ctx context.Context, seats []*seat) error {
	if err := r.endSpan(ctx, seats); err != nil {
		return err
	}
	return r.write()
}

func (r *runner) endSpan(ctx context.Context, seats []*seat) error {
	if r.strips.span.IsZero() {
		return nil
	}
	beside, err := r.strips.watch.end(ctx)
	if err != nil {
		return err
	}
	taint := r.taintOfStrip(&beside, r.lab.now().Sub(r.strips.span), seats)
	measured := r.strips.measured
	r.strips.span, r.strips.measured = time.Time{}, nil
	for i := range measured {
		slice := &measured[i].Slice
		slice.Steal, slice.Foreign, slice.Taint = beside.Steal, beside.Foreign, taint
	}
	r.strips.unwritten = append(r.strips.unwritten, measured...)
	return nil
}

// write puts the slices of spans that have ended into the record.
func (r *runner) write() error {
	if len(r.strips.unwritten) == 0 {
		return nil
	}
	if err := r.lab.Store.AddStrip(r.strips.unwritten); err != nil {
		return err
	}
	r.strips.unwritten = nil
	return nil
}

// taintOfStrip gives the causes of taint in what happened on the host beside strips, for
// all of them, and leaves out what is below the kernel's resolution.
func (r *runner) taintOfStrip(beside *accounting.Interval, elapsed time.Duration, seats []*seat) []string {
	memoryLimited := false
	for _, s := range seats {
		memoryLimited = memoryLimited || s.condition.Setting.Memory != 0
	}
	*beside = overTicks(*beside, elapsed, r.run.Host.CPUs)
	own := r.ownSteal.before(seats[0].condition.Workload+" strips", beside.Steal)
	return r.judge(*beside, own, memoryLimited)
}

// leastTicks is the CPU time below which steal and foreign load are noise within a span: the
// kernel counts them in ticks of 10 ms, and a tick goes to whoever happens to
// run as it ends.
const leastTicks = 30 * time.Millisecond

// overTicks leaves out of a span's account what is within the kernel's resolution.
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
