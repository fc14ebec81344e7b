package density

import (
	"context"
	"errors"
	"sync"
	"time"

	"tare/lab"
	"tare/load"
	"tare/platform"
)

// trial is how one condition's trials go: a box, the critical service in it, and then for
// each number of neighbours a step ([ascent]). Everything is ended in reverse order.
type trial struct {
	Options
	critical   critical
	noise      noise
	pattern    load.Pattern
	box        platform.BoxSpec
	neighbours []int
}

// removalLimit bounds the removal of a trial's programs, which goes on when the run is
// interrupted: of programs that lie in swap, too.
const removalLimit = 2 * time.Minute

// run is one trial.
func (t trial) run(ctx context.Context, b lab.Bench) (err error) {
	if b.WarmUp() {
		t.shorten()
	}
	var ends endings
	defer func() {
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalLimit)
		defer cancel()
		err = errors.Join(err, ends.all(removing))
	}()
	img, err := b.ImageOf(t.noise.subject.Image())
	if err != nil {
		return err
	}
	spec := t.box
	spec.Name = b.Name()
	box, err := b.Box(ctx, spec)
	if err != nil {
		return err
	}
	ends.add(box.Remove)
	service, err := t.critical.launch(ctx, b, box.Group(platform.Critical), &ends)
	if err != nil {
		return err
	}
	h := &herd{noise: t.noise, bench: b, image: img, group: box.Group(platform.Idle), width: len(t.Host.CPUs)}
	ends.add(h.stop)
	s := &ascent{trial: t, bench: b, in: box, memory: spec.Memory, service: service, herd: h}
	warmed, err := s.warm(ctx)
	if err != nil {
		return err
	}
	warmed.keep(b)
	steps, err := s.all(ctx)
	if err != nil {
		return err
	}
	t.record(b, steps)
	return keep(b, steps)
}

// shorten makes a trial of the warm-up, of which nothing counts: it shows that all that
// the condition takes can be had.
func (t *trial) shorten() {
	t.neighbours = []int{min(t.neighbours[0], warmUpNeighbours)}
	t.Warm, t.WarmRounds, t.Settle, t.Open, t.Closed = 2*warmUpLoad, 1, 0, warmUpLoad, warmUpLoad
}

const (
	warmUpNeighbours = 2
	warmUpLoad       = 500 * time.Millisecond
)

// record keeps what the lab compares; the rest is in the steps themselves.
func (t trial) record(b lab.Bench, steps []Step) {
	for i := range steps {
		suffix := AtNeighbours(steps[i].Neighbours)
		if t.Order == Interleaved {
			suffix = ""
			if h := steps[i].Open.Latency; h != nil && h.TotalCount() > 0 {
				b.RecordHistogram(histogramOpen, h)
			}
		}
		if steps[i].Closed.Requests > 0 && !b.WarmUp() {
			b.Record(MetricThroughput+suffix, steps[i].Closed.Rate)
		}
	}
}

// endings are what a trial has to end, the last first.
type endings struct {
	mu  sync.Mutex
	end []func(context.Context) error
}

func (e *endings) add(end func(context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end = append(e.end, end)
}

// all ends everything, whatever fails, with the first error first.
func (e *endings) all(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for i := len(e.end) - 1; i >= 0; i-- {
		errs = append(errs, e.end[i](ctx))
	}
	e.end = nil
	return errors.Join(errs...)
}
