package startup

import (
	"context"
	"errors"
	"time"

	"tare/kernel/pagecache"
	"tare/lab"
	"tare/record"
	"tare/workload"
)

// single is a trial that starts containers one at a time, each when the one
// before is ready: without a queue, so that what is seen is one start.
type single struct {
	workload workload.Workload
	count    int
	cold     bool // the host's page cache is dropped before each
	watch    watcher
	trace    func() tracer // gives one for each trial; nil for none
	answerIn time.Duration
	readyIn  time.Duration
}

// tracer follows the single starts of one trial through the scheduler.
type tracer interface {
	// begin starts to trace; end stops it, and takes the start apart.
	begin(ctx context.Context, b lab.Bench) (end func(c *container, origin time.Time, t timing) error, err error)
	// done records what the trial's starts came to.
	done(b lab.Bench) error
}

// settle is how long the platform is left alone before a single start: an
// engine still works for some milliseconds after it has answered, and so does
// the attaching of a tracer.
const settle = 200 * time.Millisecond

func (s single) run(ctx context.Context, b lab.Bench) (err error) {
	if b.WarmUp() {
		s.count = 1
	}
	f, err := lay(ctx, b, s.workload, s.count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	if err := b.Measuring(); err != nil {
		return err
	}
	var trace tracer
	if s.trace != nil {
		trace = s.trace()
	}
	starter := starter{bench: b, watch: s.watch, answerIn: s.answerIn, readyIn: s.readyIn}
	timings := make([]timing, 0, s.count)
	for _, c := range f.containers {
		if s.cold {
			if err := pagecache.Drop(); err != nil {
				return err
			}
		}
		t, err := s.one(ctx, b, starter, c, trace)
		if err != nil {
			return err
		}
		timings = append(timings, t)
	}
	if err := b.Measured(); err != nil {
		return err
	}
	if s.watch != nil {
		b.Tally(unseenFirsts, float64(unseen(timings)))
		b.Tally(lostExecs, float64(s.watch.settle()))
	}
	if instance := f.living(); instance != nil {
		if err := b.InForce(instance); err != nil {
			return err
		}
	}
	if err := nothingStarted(timings); err != nil {
		return err
	}
	if trace != nil {
		if err := trace.done(b); err != nil {
			return err
		}
	}
	return recordSingles(b, timings)
}

// one is one start; its times count from its sending.
func (s single) one(ctx context.Context, b lab.Bench, starter starter, c *container, trace tracer) (timing, error) {
	end := func(*container, time.Time, timing) error { return nil }
	if trace != nil {
		var err error
		if end, err = trace.begin(ctx, b); err != nil {
			return timing{}, err
		}
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return timing{}, errors.Join(context.Cause(ctx), end(c, time.Now(), timing{Failed: "interrupted"}))
	}
	watch := starter.look(c)
	defer watch.forget()
	origin := time.Now()
	t := starter.start(ctx, c, watch, origin, 0, func() {})
	if err := end(c, origin, t); err != nil {
		return t, err
	}
	return t, ctx.Err()
}

// recordSingles records a trial of single starts.
func recordSingles(b lab.Bench, timings []timing) error {
	for _, l := range latencies {
		values := latencyOf(timings, l.name)
		if len(values) == 0 {
			continue
		}
		b.Record(l.name+"-mean", meanMicros(values))
		b.RecordHistogram(l.name, latencyHistogram(values))
	}
	b.Record(failed, float64(failuresOf(timings)))
	data, err := encodeTimings(timings)
	if err != nil {
		return err
	}
	b.Attach(record.Attachment{Name: startsAttachment, MediaType: jsonType, Data: data})
	return nil
}

// singleMetrics are those of single starts.
func singleMetrics(service bool) []workload.Metric {
	var m []workload.Metric
	for _, l := range latencies {
		if l.name == ready && !service {
			continue
		}
		m = append(m,
			workload.Metric{Name: l.name + "-mean", Unit: "us", Better: workload.Lower,
				Doc: "mean time " + l.doc, Primary: l.name == answer},
			workload.Metric{Name: l.name + "-p50", Unit: "us", Better: workload.Lower, Quantile: 0.50, Histogram: l.name},
		)
	}
	return append(m, workload.Metric{Name: failed, Unit: "starts", Better: workload.Lower, Count: true,
		Doc: "starts that failed"})
}
