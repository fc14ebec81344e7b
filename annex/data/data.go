// Package data decides which pages of the managed containers leave memory, when and in
// which order, and which come back before they are missed.
//
// It is told what was seen (scans of page tables, faults, activity, pressure, free memory)
// and what became of what it asked for, and gives requests. It does not act, reads no
// clock, starts nothing and draws no random numbers: the same calls give the same
// requests, so that what a host did can be replayed and a policy be simulated. A Manager
// belongs to one goroutine.
//
// Nothing is evicted unless memory is needed: until its free part falls below a low mark,
// and then until it is above a high one. What a sleeping container has in memory and nobody
// maps goes first; then, in this order:
//
//  1. pages that are cold: not used for longer than their container's threshold, which is
//     the shortest age at which few pages enough are used again;
//  2. pages of sleeping containers that are in no record of what they touch when awake;
//  3. the records of sleeping containers, that container first whose next activation is
//     furthest; in chunks from the end of the record, each in the order of access, so that
//     what is touched first stays longest and what lies together in swap is used together;
//     pages that are written when their container is awake count as wanted in a sixteenth of
//     the time, since they alone have to be written again, and so for a few activations do those
//     that came into being in one; in their place so much of records leaves that are wanted
//     later than that, though too soon for their leaving to pay, sixteen pages for one;
//  4. of awake containers that have more than their share, the extents of the lowest level
//     of the multi-queue, but for pages used just now, or brought for what they do;
//  5. with nearly nothing free and nothing else left, the same of awake ones within their
//     share, and what was about to be used.
//
// Nothing of a container that is not [annex.Elastic] is ever asked for.
//
// Critical pressure scales down all of it, and stops it above its limit; a container's own
// scales down 1, 4 and 5, since one that sleeps waits for nothing.
//
// What comes back is asked for before anything is to leave: the record of a container that
// is awake and has begun to use it, from the moment of its second fault inside; that of one
// that is expected, shortly before, for which those make room that wake later; and what
// follows the last faults. With nothing free that of an awake container comes all the same, where
// the record has proved precise: the pages are touched next in any case, and the kernel would have
// to make room for each of them alone. A wake that did no work, as a health probe's, has nothing
// fetched but what it shares with the record at its first time, teaches nothing, and the
// pages that it touched stay.
//
// Where most of what leaves is missed at once the working sets are larger than memory.
// Nothing helps then: nothing is fetched ahead, nobody who is awake has anything taken, and
// [Status] says so.
//
// # What the decisions rest on
//
// Page tables whose accessed bits nobody clears say little of a page that stays resident:
// a bit that is set stays set. So a resident page counts as used whenever its container did
// work since the last scan and its bit is set, and is found out to be cold only by an unset
// bit, by its container's sleep, or by having been evicted and not missed. Faults say
// exactly what is used, of what was evicted once.
//
// # Sources
//
// The memory context with its own share, prediction and tiering, and the division into data
// and media that exchange block requests: Container Density Improvements with Dynamic
// Memory Extension using NAND Flash (APSys 2018). Extents in queues by frequency, that
// expire a level at a time, and remember it when they have left: the Multi-Queue algorithm
// (Zhou, Philbin, Li, USENIX ATC 2001). Ages, the histograms of cold ages and promotions,
// the promotion rate as objective and the percentile over the past: Software-Defined Far
// Memory in Warehouse-Scale Computers (ASPLOS 2019). Pressure as brake, which scales what
// is evicted by one less the pressure over its limit: TMO (ASPLOS 2022).
package data

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"tare/annex"
	"tare/annex/predict"
)

// ContextInfo says what a memory context is.
type ContextInfo struct {
	ID    annex.ID
	Name  string // by which people know it
	Class annex.Class
	// At is when it was found, from which its warm-up counts.
	At annex.Moment
	// SwapMost is how much of it may be in swap, in bytes; 0 is any amount.
	SwapMost int64
	// Limited tells that it, or what it lies in, has a limit of its own, and Room how much of
	// that is left, in bytes. What is fetched beyond would throw out what it uses.
	Limited bool
	Room    int64
	// Fixed is why it cannot be extended (it may have no swap, for one); empty where it can.
	Fixed string
}

// Manager decides for all containers of a host. The zero value is not ready: see [New].
type Manager struct {
	policy   Policy
	contexts []*context // by ID, so that the order is always the same
	byID     map[annex.ID]*context

	now    annex.Moment
	memory annex.Memory
	// unseen are pages that were freed (positive) or taken since memory was looked at.
	unseen []unseen

	number    uint64
	underWay  map[uint64]*underWay
	leaving   int // pages of evictions under way
	coming    int // pages of fetches under way
	evictCost cost
	fetchCost cost

	evicting bool // between the low mark and the high
	draining bool
	errors   errorRate
	classes  map[annex.Class]*gauge
	roomAt   annex.Moment // before which spare room is not looked at again
	lookFrom int          // the context with which such a look begins
	scarceAt annex.Moment // before which awake containers are not looked at for what they could spare
	asked    map[annex.Reason]Tally
	chain    Chain
	ranked   struct { // the record of which pages leave
		of              *context
		started, spaces int
		pages           []predict.Ranked
	}
}

// unseen is what has changed of free memory that a reading of it has not shown yet.
type unseen struct {
	at    annex.Moment
	pages int
}

// underWay is a request that media have not answered yet.
type underWay struct {
	context *context
	op      annex.Op
	why     annex.Reason
	runs    []annex.Run
	pages   int
	asked   annex.Moment
	// unmapped is how many it is to free that it does not name.
	unmapped int
	decided  uint64 // the number of the decision that it is part of
	// back are pages of an eviction that left and were missed before its result was told:
	// that it moved them is no longer so.
	back map[pageOf]bool
}

// pageOf names a page of a context.
type pageOf struct {
	space annex.Space
	page  annex.Page
}

// returned notes that a page of an eviction under way was missed already.
func (m *Manager) returned(c *context, f annex.Fault) {
	for _, u := range m.underWay {
		if u.context != c || u.op != annex.Evict || !u.has(f) {
			continue
		}
		if u.back == nil {
			u.back = map[pageOf]bool{}
		}
		u.back[pageOf{f.Space, f.Page}] = true
		return // a page is in one request at a time
	}
}

func (u *underWay) has(f annex.Fault) bool {
	for _, r := range u.runs {
		if r.Space == f.Space && r.First <= f.Page && f.Page < r.End() {
			return true
		}
	}
	return false
}

// New makes a manager of no containers.
func New(p Policy) *Manager {
	p = p.withDefaults()
	return &Manager{
		policy: p, byID: map[annex.ID]*context{}, underWay: map[uint64]*underWay{},
		evictCost: cost{each: p.EvictCost}, fetchCost: cost{each: p.FetchCost},
		errors:  errorRate{halfLife: p.ErrorHalfLife},
		classes: map[annex.Class]*gauge{}, asked: map[annex.Reason]Tally{}, chain: p.chain(),
	}
}

// SetPolicy has another policy in force from now on. What was learned stays; contexts keep
// the predictors that they have.
func (m *Manager) SetPolicy(p Policy) {
	m.policy = p.withDefaults()
	m.errors.halfLife = m.policy.ErrorHalfLife
	if p.Chain != nil {
		m.chain = p.Chain
	}
}

// Add has a container managed by its class. One that is known gets the class and the rest
// that are told now, and keeps what is known of it. Until it is told to have woken it
// counts as sleeping since At.
func (m *Manager) Add(info ContextInfo) {
	m.see(info.At)
	if c := m.byID[info.ID]; c != nil {
		info.At = c.info.At
		c.info, c.grown = info, 0
		if !c.managed() {
			c.stale()
		}
		return
	}
	c := newContext(info, m.policy)
	m.byID[info.ID] = c
	at, _ := slices.BinarySearchFunc(m.contexts, info.ID, func(c *context, id annex.ID) int { return cmp.Compare(c.info.ID, id) })
	m.contexts = slices.Insert(m.contexts, at, c)
}

// Remove forgets a container. Results of requests for it that are still under way are
// taken all the same.
func (m *Manager) Remove(id annex.ID) {
	c := m.byID[id]
	if c == nil {
		return
	}
	delete(m.byID, id)
	m.contexts = slices.DeleteFunc(m.contexts, func(o *context) bool { return o == c })
	c.gone = true
	if m.ranked.of == c {
		m.ranked.of, m.ranked.pages = nil, nil
	}
	m.chain.Forget(id)
}

// Forget tells that a process of a container has ended.
func (m *Manager) Forget(id annex.ID, s annex.Space) {
	if c := m.byID[id]; c != nil {
		c.forget(s)
	}
}

// Scan tells what one look at the page tables of a container of one process found.
func (m *Manager) Scan(s annex.Scan) { m.Look(s.ID, []annex.Scan{s}) }

// Look tells what one look at the page tables of all of a container's processes found. Those
// that are not among them have ended, or are in another container by now.
func (m *Manager) Look(id annex.ID, spaces []annex.Scan) {
	for _, s := range spaces {
		m.see(s.Ended)
	}
	c := m.byID[id]
	if c == nil || !c.managed() {
		return
	}
	c.scan(spaces, m.policy)
	for _, u := range m.underWay {
		if u.context.info.ID == id {
			c.each(u.runs, func(_ *space, _ *area, _ annex.Page, cell *cell) { c.put(cell, cell.flags|moving) })
		}
	}
}

// Memory tells the state of what is defended.
func (m *Manager) Memory(mem annex.Memory) {
	m.see(mem.At)
	if mem.At < m.memory.At {
		return
	}
	m.memory = mem
	m.unseen = slices.DeleteFunc(m.unseen, func(u unseen) bool { return u.at <= mem.At })
}

// Done tells what became of a request.
func (m *Manager) Done(r annex.Result) {
	m.see(r.Ended)
	u := m.underWay[r.Number]
	if u == nil {
		return
	}
	delete(m.underWay, r.Number)
	if u.unmapped > 0 {
		m.released(u, r)
		return
	}
	if u.op == annex.Evict {
		m.leaving -= u.pages
		m.evictCost.saw(r)
	} else {
		m.coming -= u.pages
		m.fetchCost.saw(r)
	}
	moved := u.context.done(u, r, m.policy)
	if c := m.byID[u.context.info.ID]; c != nil && c != u.context { // removed, and added anew
		c.moved = max(c.moved, r.Ended)
		all := r.Moved == u.pages
		c.each(u.runs, func(s *space, _ *area, page annex.Page, cell *cell) {
			f := cell.flags &^ moving
			switch {
			case !all || u.back[pageOf{s.name, page}]:
			case u.op == annex.Evict:
				f = f&^(present|incore|young) | swapped
			case u.op == annex.Map:
				f = f&^(swapped|incore) | present | young
			}
			c.put(cell, f)
		})
	}
	for _, p := range r.Parts {
		if p.Gone {
			m.Forget(u.context.info.ID, p.Space)
		}
	}
	if u.op == annex.Evict {
		m.changed(r.Ended, min(r.Freed, moved+max(r.Cached, 0)))
		m.errors.evicted(r.Ended, moved)
	} else {
		m.changed(r.Ended, -moved)
	}
}

// changed notes that pages were freed, or with a negative number taken.
func (m *Manager) changed(at annex.Moment, pages int) {
	if pages == 0 || at <= m.memory.At {
		return
	}
	if n := len(m.unseen); n > 0 && m.unseen[n-1].at == at {
		m.unseen[n-1].pages += pages
		return
	}
	// Without readings of memory this would grow without end: what is oldest becomes one.
	if n := len(m.unseen); n >= mostUnseen {
		m.unseen[1].pages += m.unseen[0].pages
		m.unseen = slices.Delete(m.unseen, 0, 1)
	}
	m.unseen = append(m.unseen, unseen{at, pages})
}

// mostUnseen bounds how many changes are kept apart.
const mostUnseen = 256

// free is how many pages are free as far as is known: as last read, with what has been
// done since.
func (m *Manager) free() int {
	n := int(m.memory.Free / annex.PageSize)
	for _, u := range m.unseen {
		n += u.pages
	}
	return n
}

// see moves the present on; what is told late does not move it back.
func (m *Manager) see(at annex.Moment) { m.now = max(m.now, at) }

// Size is how many bytes it keeps of all containers, predictors included.
func (m *Manager) Size() int64 {
	n := int64(cap(m.ranked.pages)) * int64(unsafe.Sizeof(predict.Ranked{}))
	for _, c := range m.contexts {
		n += c.size()
	}
	return n
}

// cost is what moving one page takes, as measured.
type cost struct{ each time.Duration }

// Of what is measured now an eighth counts; and what moved little tells more of the way
// to the medium than of the medium.
const (
	costWeight = 8
	costPages  = 32
)

func (c *cost) saw(r annex.Result) {
	took := r.Ended.Since(r.Began)
	if r.Moved < costPages || took <= 0 {
		return
	}
	c.each += (took/time.Duration(r.Moved) - c.each) / costWeight
	c.each = max(c.each, 1)
}

func (c cost) of(pages int) time.Duration { return c.each * time.Duration(pages) }
