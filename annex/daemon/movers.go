package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/media"
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
	turn      *eviction // the one under way; nil is none
	fetches   []annex.Request
	fetching  int                      // those under way that are not late
	under     map[uint64]annex.Request // all of them, waiting or not
	futile    futile
	// owed are pages that left and were not reclaimed, being too few at the time: the next
	// reclaim asks for them too. More than is there does no harm.
	owed map[annex.ID]int

	// What the kernel does not come back from is late: it has no turn any more.
	late      chan annex.Request // tells of it
	lateOut   map[annex.ID]*eviction
	lateIn    map[uint64]bool // fetches
	abandoned chan struct{}   // closed when nobody takes results any more
}

// eviction is requests of one container that are being moved, and their reclaim.
type eviction struct {
	id               annex.ID
	requests         int // that have no result yet
	moved, freed     int // by those that have
	halted           bool
	stopped, dropped context.CancelFunc // ends it, and ends it with its reclaim
	still            int                // what its last reclaim left
	cut              bool               // whether it was to stop before its end
}

func newMovers(d *Daemon) *movers {
	m := &movers{
		d: d, results: make(chan annex.Result), under: map[uint64]annex.Request{}, owed: map[annex.ID]int{},
		late: make(chan annex.Request), lateOut: map[annex.ID]*eviction{}, lateIn: map[uint64]bool{},
		abandoned: make(chan struct{}),
	}
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
	slices.SortStableFunc(
		m.fetches,
		func(a, b annex.Request) int { return cmp.Compare(urgency(a.Why), urgency(b.Why)) },
	)
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
		go func() { m.result(m.d.parts.Mover.Do(m.ctx, r)) }()
	}
	for len(m.evictions) > 0 && m.turn == nil {
		m.next()
	}
}

// next begins the eviction that is the next of one container, or answers it where it may not be
// begun.
func (m *movers) next() {
	if m.d.stop.Load() || m.d.swapFails {
		m.refuse()
		return
	}
	batch, pages := []annex.Request{}, 0
	for len(m.evictions) > 0 && m.evictions[0].ID == cmp.Or(first(batch), m.evictions[0].ID) && pages < mostTogether {
		batch = append(batch, m.evictions[0])
		pages += asked(m.evictions[0])
		m.evictions = m.evictions[1:]
	}
	id := batch[0].ID
	if !m.may(batch[0]) || m.leaves(id) || m.futile.holds(id, m.d.now()) {
		for _, r := range batch {
			m.answer(r)
		}
		return
	}
	whole, dropped := context.WithCancel(m.ctx)
	ctx, stopped := context.WithCancel(whole)
	m.turn = &eviction{id: id, requests: len(batch), stopped: stopped, dropped: dropped}
	go m.heed(ctx, stopped, m.d.settings.StopWithin/20)
	go m.evict(ctx, whole, m.turn, m.d.held[id].container, batch, m.owed[id], m.d.settings.StopWithin/4)
}

// result gives what became of a request to the goroutine of Run.
func (m *movers) result(r annex.Result) {
	select {
	case m.results <- r:
	case <-m.abandoned:
	}
}

// isLate tells that the kernel does not come back from a call of a request, whose turn is over.
func (m *movers) isLate(r annex.Request) {
	select {
	case m.late <- r:
	case <-m.abandoned:
	}
}

// lose takes the turn of a request that is late.
func (m *movers) lose(r annex.Request) {
	switch {
	case r.Op != annex.Evict:
		m.lateIn[r.Number] = true
		m.fetching--
	case m.turn != nil && m.turn.id == r.ID:
		m.lateOut[r.ID], m.turn = m.turn, nil
	}
	m.shelve(r.ID)
}

// may tells whether a request may still be done: what its container is may have changed since
// it was asked for.
func (m *movers) may(r annex.Request) bool {
	h := m.d.held[r.ID]
	return h != nil && h.class == annex.Elastic && m.d.settings.Mode == config.Manage &&
		(r.Op != annex.Evict || h.fixed == "")
}

// leaves tells that pages of a container are on their way out.
func (m *movers) leaves(id annex.ID) bool { return m.of(id) != nil }

// of is the eviction of a container that is under way, late or not; nil is none.
func (m *movers) of(id annex.ID) *eviction {
	if m.turn != nil && m.turn.id == id {
		return m.turn
	}
	return m.lateOut[id]
}

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
// go on, too; left is how long the reclaim has once it is to stop.
func (m *movers) evict(
	ctx, whole context.Context,
	e *eviction,
	c container.Container,
	batch []annex.Request,
	owed int,
	left time.Duration,
) {
	if m.d.parts.Alarm != nil {
		defer m.d.parts.Alarm.Evicting()()
	}
	var results []annex.Result
	moved, cached, unmapped, reclaim := 0, 0, 0, time.Duration(0)
	hung := new(media.Hung) // after which nothing more is tried
	for _, r := range batch {
		result := annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: m.d.now(), Asked: asked(r), Stopped: true}
		switch {
		case ctx.Err() != nil, hung.Space != annex.Space{}:
			result.Ended = result.Began
		case r.Unmapped > 0:
			result.Stopped, result.Ended = false, result.Began
			unmapped += r.Unmapped
		default:
			result = m.d.parts.Mover.Do(ctx, r)
			errors.As(result.Err, &hung)
		}
		moved += result.Moved
		cached += result.Cached
		results = append(results, result)
	}
	// What has left, and what nobody maps of that which was to, is reclaimed even where the rest was stopped: a
	// stalled critical
	// container wants memory, and this is what frees some. But it keeps within what eviction
	// is to have stopped in.
	if moved+cached+unmapped > 0 {
		reclaiming, cancel := within(whole, ctx, left)
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
	e.still, e.cut = owed, ctx.Err() != nil
	// Each has ended when the pages of all are free, and took its own time with its part of the
	// reclaim.
	now := m.d.now()
	for _, r := range results {
		r.Began, r.Ended = now.After(-max(0, r.Ended.Since(r.Began))-reclaim), now
		m.result(r)
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
	if r.Op != annex.Evict {
		if !m.lateIn[r.Number] {
			m.fetching--
		}
		delete(m.lateIn, r.Number)
		return
	}
	e := m.of(r.ID)
	e.requests--
	e.moved += r.Moved
	e.freed += r.Freed
	if e.requests > 0 {
		return
	}
	if !e.halted && !e.cut { // or its reclaim was cut short
		m.futile.saw(e.id, e.moved, e.freed, m.d.now())
	}
	if m.d.held[e.id] != nil {
		m.owed[e.id] = e.still
	}
	e.dropped()
	if m.turn == e {
		m.turn = nil
	}
	delete(m.lateOut, e.id)
}

// halt ends the eviction under way at its next chunk, and those that wait at once.
func (m *movers) halt() {
	for e := range m.each() {
		e.halted = true
		e.stopped()
	}
	m.refuse()
}

// drop does the same, and ends the reclaim of what has left.
func (m *movers) drop() {
	for e := range m.each() {
		e.drop()
	}
	m.refuse()
}

// each goes through the evictions under way, the late ones too.
func (m *movers) each() iter.Seq[*eviction] {
	return func(yield func(*eviction) bool) {
		if m.turn != nil && !yield(m.turn) {
			return
		}
		for _, e := range m.lateOut {
			if !yield(e) {
				return
			}
		}
	}
}

// drop ends an eviction under way, and its reclaim with it.
func (e *eviction) drop() {
	e.halted = true
	e.dropped()
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
	if e := m.of(id); e != nil {
		e.drop()
	}
	m.futile.forget(id)
	delete(m.owed, id)
	m.shelve(id)
}

// shelve answers what waits of a container.
func (m *movers) shelve(id annex.ID) {
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
	m.d.parts.Data.Done(
		annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: now, Ended: now, Asked: asked(r), Stopped: true},
	)
}

// leaving tells that pages are on their way out.
func (m *movers) leaving() bool { return m.turn != nil || len(m.evictions) > 0 }

// idle tells that nothing is under way or waits.
func (m *movers) idle() bool { return len(m.under) == 0 }

// quit has everything end.
func (m *movers) quit() {
	m.cancel()
	m.halt()
}

// end stops everything, and waits for all that is not late.
func (m *movers) end() {
	m.quit()
	for _, r := range m.fetches {
		m.answer(r)
	}
	m.fetches = nil
	for m.turn != nil || m.fetching > 0 {
		select {
		case r := <-m.results:
			m.d.done(r)
		case r := <-m.late:
			m.lose(r)
		}
	}
	close(m.abandoned)
	for _, r := range m.under {
		m.answer(r)
	}
}
