package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"tare/annex"
	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/probe/pagetable"
)

// Cost is what a scan took.
type Cost struct {
	At        annex.Moment
	CPU       time.Duration // of ours; the process scanned is not held up
	Elapsed   time.Duration
	Processes int
	// Pages are those of private anonymous memory that have an entry.
	Pages int
	// Gone are processes that ended or executed another program meanwhile.
	Gone int
}

// Scan looks once at the page tables of a container's processes, those that share one
// address space counted once. A process that ends or executes a program meanwhile is left
// out. The error is [ErrGone] where the control group is no more, [ErrUnknown] where the
// container is not watched.
//
// Shared is told of pages that several processes of this container map, as after a fork:
// their entries name the same frame. That costs a look at a bit for each page that may not
// be written, and nothing where there is one process; the kernel's own count of mappings
// would be a call for each. A page shared with a process elsewhere only is not known to be,
// unless page tables are read without BPF, which tells it for itself. Private hugetlb
// memory is told like other memory that is mapped huge; it does not leave.
func (m *Monitor) Scan(ctx context.Context, id annex.ID) ([]annex.Scan, error) {
	m.mu.RLock()
	c, closed := m.watched[id], m.closed
	m.mu.RUnlock()
	switch {
	case closed:
		return nil, fmt.Errorf("scan %s: %w", id, ErrClosed)
	case c == nil:
		return nil, fmt.Errorf("scan %s: %w", id, ErrUnknown)
	}
	scans, cost, err := m.scan(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", id, err)
	}
	m.mu.Lock()
	c.cost = cost
	m.mu.Unlock()
	return scans, nil
}

// Cost is what the last scan of a container took; the zero value where there was none.
func (m *Monitor) Cost(id annex.ID) Cost {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if c := m.watched[id]; c != nil {
		return c.cost
	}
	return Cost{}
}

func (m *Monitor) scan(ctx context.Context, c *container) ([]annex.Scan, Cost, error) {
	m.scanning.Lock()
	defer m.scanning.Unlock()
	// Close may have come between.
	select {
	case <-m.closing:
		return nil, Cost{}, ErrClosed
	default:
	}
	// For the thread's own clock.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used, began := clock.Thread(), clock.Monotonic()
	if _, err := os.Stat(c.place.Dir()); errors.Is(err, fs.ErrNotExist) {
		return nil, Cost{}, fmt.Errorf("%s: %w", c.place.Dir(), ErrGone)
	}
	pids, err := cgroup.Group{Places: []cgroup.Place{c.place}}.Processes()
	if err != nil {
		return nil, Cost{}, err
	}
	var asked []pagetable.Process
	identities := map[int]process.Identity{}
	for _, pid := range pids {
		one, err := process.Identify(pid)
		if procfs.Gone(err) {
			continue
		}
		if err != nil {
			return nil, Cost{}, err
		}
		identities[pid] = one
		asked = append(asked, pagetable.Process{PID: pid})
	}
	census, err := m.taker.Take(ctx, asked, false)
	if err != nil {
		return nil, Cost{}, err
	}
	ended := clock.Monotonic()
	cost := Cost{At: annex.Moment(ended), Processes: len(asked), Gone: len(pids) - len(asked) + len(census.Gone)}
	_, access := m.taker.(*pagetable.Walk)
	m.frames.find(census.Spaces)
	var scans []annex.Scan
	for i := range census.Spaces {
		space := &census.Spaces[i]
		// The census holds on to whom it finds; that this was whom we asked for is seen here.
		if now, err := process.Identify(space.PID); err != nil || now != identities[space.PID] {
			cost.Gone++
			continue
		}
		s := annex.Scan{
			ID: c.id, Space: annex.Space{PID: int32(space.PID), Started: identities[space.PID].StartTicks},
			Began: annex.Moment(began), Ended: annex.Moment(ended), KnowsAccess: access, Changed: space.Changed,
		}
		var pages int
		s.Stretches, pages = stretches(space, &m.frames)
		cost.Pages += pages
		scans = append(scans, s)
	}
	m.frames.forget()
	cost.CPU, cost.Elapsed = clock.Thread()-used, clock.Monotonic()-began
	return scans, cost, nil
}
