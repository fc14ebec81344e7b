package daemon

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tare/annex"
	"tare/container"
)

// moving is a mover, a bound and an alarm of which a test says what they do.
type moving struct {
	Bound
	do      func(ctx context.Context, r annex.Request) annex.Result
	reclaim func(ctx context.Context, bytes int64) (int64, error)
	over    atomic.Bool
}

func (m *moving) Do(ctx context.Context, r annex.Request) annex.Result { return m.do(ctx, r) }
func (m *moving) Forget(annex.Space)                                   {}
func (m *moving) Reclaim(ctx context.Context, _ container.Container, bytes int64) (int64, error) {
	return m.reclaim(ctx, bytes)
}
func (m *moving) Add(container.Container) error { return nil }
func (m *moving) Remove(container.Container)    {}
func (m *moving) Alarms() <-chan struct{}       { return nil }
func (m *moving) Over() bool                    { return m.over.Load() }
func (m *moving) Since() annex.Moment           { return 0 }
func (m *moving) Evicting() func()              { return func() {} }

// evicted has movers evict ten pages of a container, while nothing of the daemon runs beside.
func evicted(m *moving) annex.Result {
	d := New(Parts{Mover: m, Bound: m, Alarm: m, Now: func() annex.Moment { return 1 }}, Settings{Mode: "manage"})
	d.held["a"] = &held{id: "a", class: annex.Elastic}
	d.movers.take(annex.Request{Number: 1, ID: "a", Op: annex.Evict, Runs: []annex.Run{{Pages: 10}}})
	d.movers.start()
	r := <-d.movers.results
	d.movers.over(r)
	return r
}

// What was passed by, being in swap by its entry, is reclaimed with what has left.
func TestCachedPagesAreReclaimed(t *testing.T) {
	m := &moving{
		do: func(_ context.Context, r annex.Request) annex.Result {
			return annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Asked: 10, Moved: 3, Skipped: 7, Cached: 5}
		},
		reclaim: func(_ context.Context, bytes int64) (int64, error) {
			if bytes != 8*annex.PageSize {
				t.Errorf("%d bytes are reclaimed, want those of 8 pages", bytes)
			}
			return bytes, nil
		},
	}
	if r := evicted(m); r.Freed != 8 {
		t.Errorf("%+v: want 8 pages freed", r)
	}
}

// Critical pressure ends what leaves, and soon its reclaim, though nobody takes the alarm.
func TestAlarmNeedsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moving{reclaim: func(ctx context.Context, _ int64) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		m.do = func(ctx context.Context, r annex.Request) annex.Result {
			time.Sleep(time.Second)
			m.over.Store(true)
			<-ctx.Done()
			return annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Asked: 10, Moved: 5, Stopped: true}
		}
		began := time.Now()
		r := evicted(m)
		if took := time.Since(began) - time.Second; took > StopWithin/2 {
			t.Errorf("the eviction ended %v after the alarm", took)
		}
		if r.Err != nil {
			t.Errorf("%+v", r)
		}
	})
}
