package startup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tare/image"
	"tare/lab"
	"tare/load"
	"tare/record"
	"tare/workload"
)

// ramp is a trial at one rate.
type ramp struct {
	workload workload.Workload
	rate     float64
	count    int
	arrival  load.Arrival
	watch    watcher
	observe  observer // what looks on while starts run; nil for nothing
	answerIn time.Duration
	readyIn  time.Duration
}

// warmUpCount is how many containers a trial of the warm-up starts: page caches
// and the engine's own are warm after one.
const warmUpCount = 3

// observer looks on while containers start, such as a profiler.
type observer interface {
	// begin starts to look; the returned function ends it and records what was
	// seen from origin on. Without timings it records nothing.
	begin(ctx context.Context, b lab.Bench, f *fleet) (end func(origin time.Time, timings []timing) error, err error)
}

// run is the trial's procedure.
func (r ramp) run(ctx context.Context, b lab.Bench) (err error) {
	timings, torn, err := r.measure(ctx, b)
	if err != nil {
		return err
	}
	b.Record(tearDown, meanMicros(torn))
	if layers, err := image.Layers(b.Image()); err == nil {
		b.Covariate("image_layers", float64(layers))
	}
	b.Covariate("image_bytes", float64(b.Image().Size))
	return recordRamp(b, timings)
}

// measure lays out a fleet, releases it on schedule, and removes it; torn is how long each
// container took to be removed.
func (r ramp) measure(ctx context.Context, b lab.Bench) (timings []timing, torn []time.Duration, err error) {
	if b.WarmUp() {
		r.count = min(r.count, warmUpCount)
	}
	f, err := lay(ctx, b, r.workload, r.count)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		err = errors.Join(err, f.stop(ctx))
		torn = f.torn.took
	}()
	if err := b.Measuring(); err != nil {
		return nil, nil, err
	}
	end := func(time.Time, []timing) error { return nil }
	if r.observe != nil {
		if end, err = r.observe.begin(ctx, b, f); err != nil {
			return nil, nil, err
		}
	}
	s := starter{bench: b, watch: r.watch, answerIn: r.answerIn, readyIn: r.readyIn}
	timings, origin, err := s.release(ctx, f, load.Moments(r.arrival, r.rate, r.count, b.Seed()))
	if err != nil {
		return nil, nil, errors.Join(err, end(time.Time{}, nil))
	}
	if err := errors.Join(end(origin, timings), b.Measured()); err != nil {
		return nil, nil, err
	}
	if r.watch != nil {
		b.Tally(unseenFirsts, float64(unseen(timings)))
		b.Tally(lostExecs, float64(r.watch.settle()))
	}
	if instance := f.living(); instance != nil {
		if err := b.InForce(instance); err != nil {
			return nil, nil, err
		}
	}
	return timings, nil, nothingStarted(timings)
}

// Covariates of the watch for first instructions.
const (
	unseenFirsts = "first_instructions_unseen"
	lostExecs    = "exec_events_lost"
)

// unseen counts the starts that were answered and whose first instruction was
// not seen.
func unseen(timings []timing) int {
	n := 0
	for _, t := range timings {
		if t.Answered >= 0 && t.First < 0 {
			n++
		}
	}
	return n
}

func failuresOf(timings []timing) int {
	n := 0
	for _, t := range timings {
		if t.Failed != "" {
			n++
		}
	}
	return n
}

// nothingStarted is an error where every start failed: there is nothing to
// report then but why.
func nothingStarted(timings []timing) error {
	for _, t := range timings {
		if t.Failed == "" {
			return nil
		}
	}
	n := &NothingStarted{Starts: len(timings)}
	if len(timings) > 0 {
		n.First = timings[0].Failed
	}
	return n
}

// NothingStarted says that every start of a trial failed.
type NothingStarted struct {
	Starts int
	First  string // why the first did
}

func (n *NothingStarted) Error() string {
	if n.Starts == 0 {
		return "nothing was started"
	}
	return fmt.Sprintf("all %d starts failed, the first: %s", n.Starts, n.First)
}

// recordRamp records a trial at one rate.
func recordRamp(b lab.Bench, timings []timing) error {
	for _, l := range latencies {
		values := latencyOf(timings, l.name)
		if len(values) == 0 {
			continue
		}
		b.Record(l.name+"-mean", meanMicros(values))
		b.Record(l.name+"-max", meanMicros([]time.Duration{slices.Max(values)}))
		b.RecordHistogram(l.name, latencyHistogram(values))
	}
	var lateness []time.Duration
	for _, t := range timings {
		lateness = append(lateness, t.Sent-t.Intended)
	}
	b.RecordHistogram(late, latencyHistogram(lateness))
	b.Record(failed, float64(failuresOf(timings)))
	b.Record(throughput, throughputOf(timings))
	b.Record(inFlight, float64(mostWaiting(backlogOf(timings))))
	if g := growthOf(timings, 0.95); g.Value == g.Value {
		b.Record(growth, 100*g.Value)
	}
	data, err := encodeTimings(timings)
	if err != nil {
		return err
	}
	b.Attach(record.Attachment{Name: startsAttachment, MediaType: jsonType, Data: data})
	return nil
}
