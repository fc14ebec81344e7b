package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
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
// memory is reported like other memory that is mapped huge; it does not leave.
//
// A scan of a process that is stuck in the kernel may not come back, whatever ctx says.
// Others may be made meanwhile: each that is under way at the same time opens the page tables
// for itself, which takes some milliseconds.
func (m *Monitor) Scan(ctx context.Context, id annex.ID) ([]annex.Scan, error) {
	c, err := m.scanned(id)
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", id, err)
	}
	defer m.scans.Done()
	r, err := m.reader()
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", id, err)
	}
	scans, cost, err := r.scan(ctx, c)
	if err = errors.Join(err, m.release(r)); err != nil {
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

// scanned finds a container that is to be scanned, and counts the scan as under way, which
// Close waits for.
func (m *Monitor) scanned(id annex.ID) (*container, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := m.watched[id]
	switch {
	case m.closed:
		return nil, ErrClosed
	case c == nil:
		return nil, ErrUnknown
	}
	m.scans.Add(1)
	return c, nil
}

// reader is what reads page tables, for one scan at a time.
type reader struct {
	taker  pagetable.Taker
	frames frames
}

// reader gives one that nobody uses: the one that is kept, or another where that is in use.
func (m *Monitor) reader() (*reader, error) {
	m.reading.Lock()
	r := m.idle
	m.idle = nil
	m.reading.Unlock()
	if r != nil {
		return r, nil
	}
	taker, err := m.another()
	if err != nil {
		return nil, err
	}
	return &reader{taker: taker}, nil
}

// release takes one back: one is kept.
func (m *Monitor) release(r *reader) error {
	m.reading.Lock()
	if m.idle == nil {
		m.idle, r = r, nil
	}
	m.reading.Unlock()
	if r == nil {
		return nil
	}
	return r.taker.Close()
}

// scan looks at a container's processes.
func (r *reader) scan(ctx context.Context, c *container) ([]annex.Scan, Cost, error) {
	// For the thread's own clock.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used, began := clock.Thread(), clock.Monotonic()
	if _, err := os.Stat(c.place.Dir()); errors.Is(err, fs.ErrNotExist) {
		return nil, Cost{}, fmt.Errorf("%s: %w", c.place.Dir(), ErrGone)
	}
	group := cgroup.Group{Places: []cgroup.Place{c.place}}
	pids, err := group.Processes()
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
	census, err := r.taker.Take(ctx, asked, false)
	if err != nil {
		return nil, Cost{}, err
	}
	ended := clock.Monotonic()
	// Another's process may have had the id of one that ended before it could be identified. That one,
	// if it is the same still, is not in the group now.
	members, err := group.Processes()
	if err != nil {
		return nil, Cost{}, err
	}
	cost := Cost{At: annex.Moment(ended), Processes: len(asked), Gone: len(pids) - len(asked) + len(census.Gone)}
	_, access := r.taker.(*pagetable.Walk)
	r.frames.find(census.Spaces)
	var scans []annex.Scan
	for i := range census.Spaces {
		space := &census.Spaces[i]
		// The census holds on to whom it finds; that this was whom we asked for is seen here.
		_, isMember := slices.BinarySearch(members, space.PID)
		if now, err := process.Identify(space.PID); !isMember || err != nil || now != identities[space.PID] {
			cost.Gone++
			continue
		}
		s := annex.Scan{
			ID: c.id, Space: annex.Space{PID: int32(space.PID), Started: identities[space.PID].StartTicks},
			Began: annex.Moment(began), Ended: annex.Moment(ended), KnowsAccess: access, Changed: space.Changed,
		}
		var pages int
		s.Stretches, pages = stretches(space, &r.frames)
		cost.Pages += pages
		scans = append(scans, s)
	}
	r.frames.forget()
	cost.CPU, cost.Elapsed = clock.Thread()-used, clock.Monotonic()-began
	return scans, cost, nil
}
