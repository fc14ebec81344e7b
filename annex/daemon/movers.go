package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/container"
)

const (
	// mostFetching is how many fetches run side by side: enough for one that waits for a
	// device, or for a process that is stuck, not to hold up the rest.
	mostFetching = 4
	// mostTogether is how many pages of one container leave before what they left is
	// reclaimed: each time costs the kernel a walk, and until then nothing is free.
	mostTogether = 4096
)

// movers hand requests to media: evictions one at a time, so that what leaves lies in its
// order in swap, and fetches side by side. Each request gets exactly one result. But for the
// goroutines that move, all is the goroutine's of Run.
type movers struct {
	d       *Daemon
	ctx     context.Context
	cancel  context.CancelFunc
	results chan annex.Result

	evictions []annex.Request
	evicting  int // requests that are being moved
	stopped   context.CancelFunc
	batch     annex.ID                   // whose pages leave
	did       struct{ moved, freed int } // by its requests so far
	halted    bool                       // it was stopped before its end
	dropped   context.CancelFunc         // ends the eviction under way with its reclaim
	left      time.Duration              // that its reclaim has once it is stopped
	fetches   []annex.Request
	fetching  int
	under     map[uint64]annex.Request // all of them, waiting or not
	futile    futile
	// owed are pages that left and were not reclaimed, being too few at the time: the next
	// reclaim asks for them too. More than is there does no harm.
	owed  map[annex.ID]int
	still int  // those of the eviction that just ended
	cut   bool // whether that was to stop before its end
}

func newMovers(d *Daemon) *movers {
	m := &movers{d: d, results: make(chan annex.Result), under: map[uint64]annex.Request{}, owed: map[annex.ID]int{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// take takes a request, to be begun by start.
func (m *movers) take(r annex.Request) {
	m.under[r.Number] = r
	if r.Op == annex.Evict {
		m.evictions = append(m.evictions, r)
		return
	}
	m.fetches = append(m.fetches, r)
}

// urgency is in which order pages are brought in: first those that somebody waits for.
func urgency(why annex.Reason) int {
	switch why {
	case annex.Awake:
		return 0
	case annex.Following:
		return 1
	case annex.Drained:
		return 3
	}
	return 2
}

// start begins what can be begun.
func (m *movers) start() {
	slices.SortStableFunc(m.fetches, func(a, b annex.Request) int { return cmp.Compare(urgency(a.Why), urgency(b.Why)) })
	for len(m.fetches) > 0 && m.fetching < mostFetching {
		r := m.fetches[0]
		if r.Why == annex.Drained && !m.d.drain.may(r, m.d.now()) {
			break // all after it are drained too
		}
		m.fetches = m.fetches[1:]
		if !m.may(r) {
			m.answer(r)
			continue
		}
		m.fetching++
		go func() { m.results <- m.d.parts.Mover.Do(m.ctx, r) }()
	}
	for len(m.evictions) > 0 && m.evicting == 0 {
		m.next()
	}
}

// next begins the eviction that is the next of one container, or answers it where it may not be
// begun.
func (m *movers) next() {
	if m.d.stop.Load() {
		m.refuse()
		return
	}
	batch, pages := []annex.Request{}, 0
	for len(m.evictions) > 0 && m.evictions[0].ID == cmp.Or(first(batch), m.evictions[0].ID) && pages < mostTogether {
		batch = append(batch, m.evictions[0])
		pages += asked(m.evictions[0])
		m.evictions = m.evictions[1:]
	}
	if !m.may(batch[0]) || m.futile.holds(batch[0].ID, m.d.now()) {
		for _, r := range batch {
			m.answer(r)
		}
		return
	}
	m.evicting, m.batch = len(batch), batch[0].ID
	whole, dropped := context.WithCancel(m.ctx)
	ctx, stopped := context.WithCancel(whole)
	m.stopped, m.dropped = stopped, dropped
	m.left = m.d.settings.StopWithin / 4
	go m.heed(ctx, stopped, m.d.settings.StopWithin/20)
	go m.evict(ctx, whole, m.d.held[m.batch].container, batch, m.owed[m.batch])
}

// may tells whether a request may still be done: what its container is may have changed since
// it was asked for.
func (m *movers) may(r annex.Request) bool {
	h := m.d.held[r.ID]
	return h != nil && h.class == annex.Elastic && m.d.settings.Mode == config.Manage && (r.Op != annex.Evict || h.fixed == "")
}

// leaves tells that pages of a container are on their way out.
func (m *movers) leaves(id annex.ID) bool { return m.evicting > 0 && m.batch == id }

// rated tells that a drained request waits for nothing but its rate.
func (m *movers) rated() bool {
	return m.d.drain.waiting && m.fetching < mostFetching &&
		slices.ContainsFunc(m.fetches, func(r annex.Request) bool { return r.Why == annex.Drained })
}

func first(batch []annex.Request) annex.ID {
	if len(batch) == 0 {
		return ""
	}
	return batch[0].ID
}

// heed ends an eviction, with what is left for its reclaim, as soon as all eviction is to stop. The
// goroutine of Run does so too, and may be at something else.
func (m *movers) heed(ctx context.Context, stop context.CancelFunc, every time.Duration) {
	tick := time.NewTicker(max(every, time.Millisecond))
	defer tick.Stop()
	for {
		if m.d.Stopping() {
			stop()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// evict has some requests of one container moved, and what they left reclaimed. Only then
// is anything free, and only then the results say so. whole ends with the reclaim's right to
// go on, too.
func (m *movers) evict(ctx, whole context.Context, c container.Container, batch []annex.Request, owed int) {
	if m.d.parts.Alarm != nil {
		defer m.d.parts.Alarm.Evicting()()
	}
	var results []annex.Result
	moved, cached, unmapped, reclaim := 0, 0, 0, time.Duration(0)
	for _, r := range batch {
		result := annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: m.d.now(), Asked: asked(r), Stopped: true}
		switch {
		case ctx.Err() != nil:
		case r.Unmapped > 0:
			result.Stopped, result.Ended = false, result.Began
			unmapped += r.Unmapped
		default:
			result = m.d.parts.Mover.Do(ctx, r)
		}
		moved += result.Moved
		cached += result.Cached
		results = append(results, result)
	}
	// What has left, and what nobody maps of that which was to, is reclaimed even where the rest was stopped: a stalled critical
	// container wants memory, and this is what frees some. But it keeps within what eviction
	// is to have stopped in.
	if moved+cached+unmapped > 0 {
		reclaiming, cancel := within(whole, ctx, m.left)
		began := m.d.now()
		bytes, err := m.d.parts.Bound.Reclaim(reclaiming, c, int64(moved+cached+unmapped+owed)*annex.PageSize)
		if reclaiming.Err() != nil {
			err = bound.Besides(err, context.Canceled) // that it was cut short is no failure
		}
		cancel()
		if err != nil {
			last := &results[len(results)-1]
			last.Err = cmp.Or(last.Err, fmt.Errorf("reclaim what left %s: %w", c.Name, err))
		}
		freed := int(bytes / annex.PageSize)
		book(batch, results, freed)
		owed = min(moved+owed, max(0, moved+cached+unmapped+owed-freed))
		reclaim = m.d.now().Since(began) / time.Duration(len(results))
	}
	m.still, m.cut = owed, ctx.Err() != nil
	// Each has ended when the pages of all are free, and took its own time with its part of the
	// reclaim.
	now := m.d.now()
	for _, r := range results {
		r.Began, r.Ended = now.After(-max(0, r.Ended.Since(r.Began))-reclaim), now
		m.results <- r
	}
}

// within is a context that ends with one, or so long after another has.
func within(one, stopped context.Context, left time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(one)
	unwatch := context.AfterFunc(stopped, func() {
		timer := time.AfterFunc(left, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() { unwatch(); cancel() }
}

// book divides the pages that were freed among the requests whose pages left, or were to be freed
// as they were.
func book(requests []annex.Request, results []annex.Result, freed int) {
	for i := range results {
		most := results[i].Moved + results[i].Cached
		if !results[i].Stopped {
			most += requests[i].Unmapped
		}
		results[i].Freed = min(most, freed)
		freed -= results[i].Freed
	}
}

// asked is how many pages a request is of.
func asked(r annex.Request) int { return annex.Count(r.Runs) + r.Unmapped }

// over takes note of a result.
func (m *movers) over(r annex.Result) {
	delete(m.under, r.Number)
	if r.Op == annex.Evict {
		m.evicting--
		m.did.moved += r.Moved
		m.did.freed += r.Freed
		if m.evicting == 0 {
			if !m.halted && !m.cut { // or its reclaim was cut short
				m.futile.saw(m.batch, m.did.moved, m.did.freed, m.d.now())
			}
			m.did.moved, m.did.freed, m.halted = 0, 0, false
			if m.d.held[m.batch] != nil {
				m.owed[m.batch] = m.still
			}
			m.dropped()
		}
	} else {
		m.fetching--
	}
}

// halt ends the eviction under way at its next chunk, and those that wait at once.
func (m *movers) halt() {
	if m.evicting > 0 {
		m.halted = true
		m.stopped()
	}
	m.refuse()
}

// drop ends the eviction under way, and its reclaim with it.
func (m *movers) drop() {
	if m.evicting > 0 {
		m.halted = true
		m.dropped()
	}
}

// refuse answers all evictions that wait.
func (m *movers) refuse() {
	for _, r := range m.evictions {
		m.answer(r)
	}
	m.evictions = nil
}

// leave answers what waits of a container that is gone, or not to be moved any more, and ends
// what leaves of it.
func (m *movers) leave(id annex.ID) {
	if m.leaves(id) {
		m.drop()
	}
	m.futile.forget(id)
	delete(m.owed, id)
	gone := func(r annex.Request) bool {
		if r.ID == id {
			m.answer(r)
		}
		return r.ID == id
	}
	m.evictions = slices.DeleteFunc(m.evictions, gone)
	m.fetches = slices.DeleteFunc(m.fetches, gone)
}

// answer gives a request that was not begun its result.
func (m *movers) answer(r annex.Request) {
	now := m.d.now()
	delete(m.under, r.Number)
	delete(m.d.asked, r.Number)
	m.d.parts.Data.Done(annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: now, Ended: now, Asked: asked(r), Stopped: true})
}

// leaving tells that pages are on their way out.
func (m *movers) leaving() bool { return m.evicting+len(m.evictions) > 0 }

// idle tells that nothing is under way or waits.
func (m *movers) idle() bool { return len(m.under) == 0 }

// quit has everything end.
func (m *movers) quit() {
	m.cancel()
	m.halt()
}

// end stops everything, and waits for it.
func (m *movers) end() {
	m.quit()
	for _, r := range m.fetches {
		m.answer(r)
	}
	m.fetches = nil
	for m.evicting+m.fetching > 0 {
		m.d.done(<-m.results)
	}
}
