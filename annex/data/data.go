// Package data decides which pages of the managed containers leave memory, when and in
// which order, and which come back before they are missed.
//
// It takes what was seen (scans of page tables, faults, activity, pressure, free memory)
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
// is awake and has begun to use it, from the moment of its second fault inside; and that of one
// that is expected, shortly before, for which those make room that wake later. With nothing
// free that of an awake container comes all the same, where the record has proved precise: the
// pages are touched next in any case, and the kernel would have to make room for each of them
// alone. A wake that did no work, as a health probe's, has nothing fetched but what it shares
// with the record at its first time, teaches nothing, and the pages that it touched stay.
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
//
// # Where to read
//
// What is reported comes in by activity.go, faults.go, scan.go, brake.go, leftover.go and requests.go
// (Done). Plan decides, in plan.go: first fetch.go, then evict.go in the order of leavers.go.
// pages.go, extents.go, written.go and runs.go hold the pages, record.go, forecast.go and coldness.go
// what is learned of them. policy.go has every threshold with its default.
package data

import (
	"cmp"
	"slices"
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
	memory freeMemory

	lastNumber uint64
	underWay   map[uint64]*request
	leaving    int // pages of evictions under way
	coming     int // pages of fetches under way
	evictCost  cost
	fetchCost  cost

	isEvicting bool // between the low mark and the high
	isDraining bool
	errors     errorRate
	classes    map[annex.Class]*gauge
	asked      tallies
	chain      Chain

	nextFill  annex.Moment // before which room to spare is not looked for again
	nextSpare annex.Moment // before which awake containers are not looked at for what they could spare
	spareFrom int          // the context with which such a look begins
	ranked    ranked       // the record of which pages leave
}

// New makes a manager of no containers.
func New(p Policy) *Manager {
	p = p.withDefaults()
	return &Manager{
		policy: p, byID: map[annex.ID]*context{}, underWay: map[uint64]*request{},
		evictCost: cost{each: p.EvictCost}, fetchCost: cost{each: p.FetchCost},
		errors:  errorRate{halfLife: p.ErrorHalfLife},
		classes: map[annex.Class]*gauge{}, asked: tallies{}, chain: p.chain(),
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
// that are given now, and keeps what is known of it. Until it is reported to have woken it
// counts as sleeping since At.
func (m *Manager) Add(info ContextInfo) {
	m.see(info.At)
	if c := m.byID[info.ID]; c != nil {
		info.At = c.info.At
		c.info, c.fetch.taken = info, 0
		if !c.managed() {
			c.stale()
		}
		return
	}
	c := newContext(info, m.policy)
	m.byID[info.ID] = c
	at, _ := slices.BinarySearchFunc(
		m.contexts,
		info.ID,
		func(c *context, id annex.ID) int { return cmp.Compare(c.info.ID, id) },
	)
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
	c.isRemoved = true
	if m.ranked.of == c {
		m.ranked = ranked{}
	}
	m.chain.Forget(id)
}

// Forget reports that a process of a container has ended.
func (m *Manager) Forget(id annex.ID, s annex.Space) {
	if c := m.byID[id]; c != nil {
		c.forget(s)
	}
}

// Scan reports what one look at the page tables of a container of one process found.
func (m *Manager) Scan(s annex.Scan) { m.Look(s.ID, []annex.Scan{s}) }

// Look reports what one look at the page tables of all of a container's processes found. Those
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
	for _, r := range m.underWay {
		if r.context.info.ID == id {
			c.pages.each(
				r.runs,
				func(_ *space, _ *area, _ annex.Page, cell *cell) { c.pages.put(cell, cell.flags|moving) },
			)
		}
	}
}

// Memory reports the state of what is defended.
func (m *Manager) Memory(mem annex.Memory) {
	m.see(mem.At)
	m.memory.reads(mem)
}

// see moves the present on; what is reported late does not move it back.
func (m *Manager) see(at annex.Moment) { m.now = max(m.now, at) }

// Size is how many bytes it keeps of all containers, predictors included.
func (m *Manager) Size() int64 {
	n := int64(cap(m.ranked.pages)) * int64(unsafe.Sizeof(predict.Ranked{}))
	for _, c := range m.contexts {
		n += c.size()
	}
	return n
}
