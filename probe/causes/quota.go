package causes

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/kernel/cgroup"
)

// readEvery is how often a group's counters are read while a watch goes on: an engine
// removes a batch program's group at its end, and with it what it had counted. Reading
// them takes some 25 us.
const readEvery = 100 * time.Millisecond

// errGone says that a group is no more.
var errGone = errors.New("the control group is gone")

// quota keeps what a control group counts, for the time when it is gone.
type quota struct {
	use   func() (cgroup.Use, error) // errGone where there is no group
	now   func() time.Duration
	end   chan struct{}
	ended sync.WaitGroup

	mu     sync.Mutex // guards all below
	before cgroup.Use
	last   cgroup.Use
	read   time.Duration // when last was
	stale  time.Duration // by how much at most it was read before the group went; 0 while it is there
	gone   bool
	err    error // of the latest reading
}

// counted reads a group's counters. A group's files vanish one after the other: what
// was read counts where the group is there afterwards.
func counted(g cgroup.Group) func() (cgroup.Use, error) {
	return func() (cgroup.Use, error) {
		u, err := g.Use()
		if !g.Exists() {
			return cgroup.Use{}, fmt.Errorf("%w: %s", errGone, g)
		}
		return u, err
	}
}

func startQuota(use func() (cgroup.Use, error), now func() time.Duration) (*quota, error) {
	q := &quota{use: use, now: now, end: make(chan struct{})}
	q.read = now()
	var err error
	if q.before, err = use(); err != nil {
		return nil, err
	}
	q.last = q.before
	q.ended.Go(func() {
		tick := time.NewTicker(readEvery)
		defer tick.Stop()
		for {
			select {
			case <-q.end:
				return
			case <-tick.C:
				if q.look() {
					return
				}
			}
		}
	})
	return q, nil
}

// look reads the counters, and reports whether the group is gone: another of its name is
// another group.
func (q *quota) look() (gone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return true
	}
	at := q.now()
	use, err := q.use()
	switch {
	case errors.Is(err, errGone):
		q.gone, q.stale, q.err = true, q.now()-q.read, nil
	case err != nil:
		q.err = err
	default:
		q.last, q.read, q.err = use, at, nil
	}
	return q.gone
}

// stop reads the counters for a last time. The error is that of the last reading,
// where the group is still there.
func (q *quota) stop() (before, after cgroup.Use, stale time.Duration, err error) {
	close(q.end)
	q.ended.Wait()
	q.look()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.before, q.last, q.stale, q.err
}
