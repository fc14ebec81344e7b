package data

import (
	"time"
	"unsafe"

	"tare/annex"
	"tare/annex/predict"
)

// context is the memory context of one container.
type context struct {
	info      ContextInfo
	predictor Predictor
	gone      bool // removed, while requests were under way

	spaces   []*space
	named    map[annex.Space]*space // the same
	shift    uint8
	tally    [256]int32 // pages by their flags
	counted  bool       // counts is the tally's
	counts   counts
	scans    int
	lastScan annex.Moment
	moved    annex.Moment // when a request for it ended last
	short    bool         // an eviction since the last look moved less than was asked
	swept    tick
	working  int                // pages used within the policy's Recent, at the last scan
	cold     [oldest + 1]uint32 // ages of pages in memory that are in no record, at the last scan
	ages     ages

	awake    bool
	woke     annex.Moment
	worked   bool         // since it woke: it is no health probe
	lastRan  annex.Moment // doing work
	pending  []annex.Fault
	inside   int // of the faults since it woke, those in the record
	faults   int
	strided  int           // pages fetched since, that follow its faults
	wrong    bool          // the record has proved wrong since it woke
	blind    bool          // pages were mapped since it slept: their use is not seen
	mapped   bool          // its record was mapped, and not only fetched, since it slept
	started  int           // activations
	began    annex.Moment  // the last one
	usual    time.Duration // between the last two
	blips    int           // wakes that did no work
	typical  time.Duration // CPU time of an activation, those of late counting most
	stirred  annex.Moment  // when it did a little work last, since its last activation; 0 is not since
	between  time.Duration // how far apart that is
	murmurs  annex.Moment  // until then what probes need of it stays: it came back at once the last time
	murmured time.Duration // for how long that is
	learned  bool          // it has a record
	surveyed bool          // it had one at the last scan, so that what was not there then is new
	from     [walks]cursor
	tight    bool         // nothing is left that no record has and nobody writes, until it is looked at again, or sleeps
	writes   bool         // pages of it were written after they had come back
	forgot   annex.Moment // when it was forgotten last what probes and writes touched
	byThen   int          // how many activations there had been
	dry      [2]bool      // nothing of its record, or of one without a record at all, may leave, of what is not written and of what is, until a page of it may

	forecast  predict.Forecast
	expects   bool
	look      annex.Moment // when the forecast is to be looked at again; never is not before it slept
	offered   bool         // its record was fetched since it slept
	vain      int          // how often in a row it was fetched and did not wake
	waitUntil annex.Moment // until then what was fetched for it is kept
	spent     [keeps]spent
	bring     *bringing
	requests  int          // of bring, under way
	leaving   int          // pages of evictions under way
	coming    int          // pages of fetches under way
	brought   annex.Moment // when pages of its record came last
	grown     int          // pages that it took since its room was told
	unmapped  int          // pages in memory that nobody maps, as told last
	releasing bool         // these are being freed
	stays     annex.Moment // until then they are left: the kernel did not give them
	told      annex.Moment // when the forecast was looked at last
	lead      *lead        // the container after which this one wakes has woken
	verify    int          // fetches since its pages were last fetched and not mapped
	following []annex.Run

	paused annex.Moment // until then nothing is asked: the last request came to nothing

	pressure gauge
	share    int
	use      Use
	asked    map[annex.Reason]Tally
	history  history
}

// never is later than any moment.
const never = annex.Moment(1<<63 - 1)

// Use is how what was brought in was used, in pages.
type Use struct {
	// Hits were touched after they had been brought in, Misses while they were away, and Wasted
	// left without having been touched. Mapped ones are in none of these: their use is not seen.
	Hits, Misses, Wasted int
	Fetched, Mapped      int
	Evicted, Errors      int // errors are those missed at once
}

// Tally is how much was asked.
type Tally struct{ Requests, Pages int }

func newContext(info ContextInfo, p Policy) *context {
	return &context{
		info: info, named: map[annex.Space]*space{}, predictor: p.Predictor(), shift: leastShift, lastRan: info.At, forgot: info.At, look: never,
		ages: ages{from: info.At, threshold: none}, swept: tickOf(info.At, p), asked: map[annex.Reason]Tally{},
	}
}

// managed tells whether anything of it may be moved.
func (c *context) managed() bool {
	return !c.gone && c.info.Class == annex.Elastic && c.info.Fixed == ""
}

// stale drops what is known of the pages and of what the context is doing: as long as it is
// not managed nothing is told of it.
func (c *context) stale() {
	c.spaces, c.named, c.tally, c.counted = nil, map[annex.Space]*space{}, [256]int32{}, false
	c.awake, c.pending, c.bring, c.following, c.lead = false, nil, nil, nil, nil
	c.look, c.offered, c.unmapped = never, false, 0
}

// find is its space of a name; nil where it has none.
func (c *context) find(name annex.Space) *space { return c.named[name] }

// size is what is kept of it, in bytes.
func (c *context) size() int64 {
	n := int64(unsafe.Sizeof(*c)) + c.predictor.Size() + int64(cap(c.pending))*int64(unsafe.Sizeof(annex.Fault{})) + c.history.size()
	n += int64(cap(c.following)) * int64(unsafe.Sizeof(annex.Run{}))
	if c.bring != nil {
		n += int64(cap(c.bring.rest)) * int64(unsafe.Sizeof(predict.Ranked{}))
	}
	for _, s := range c.spaces {
		n += int64(unsafe.Sizeof(*s)) + int64(cap(s.areas))*int64(unsafe.Sizeof(area{}))
		for i := range s.areas {
			n += int64(cap(s.areas[i].cells))*int64(unsafe.Sizeof(cell{})) + int64(cap(s.areas[i].extents))*int64(unsafe.Sizeof(extent{})) + s.areas[i].markBytes()
		}
	}
	return n
}

// Activity tells that a container woke or slept.
func (m *Manager) Activity(a annex.Activity) {
	m.see(a.At)
	c := m.byID[a.ID]
	if c == nil || !c.managed() {
		return
	}
	switch a.What {
	case annex.Woke:
		m.wake(c, a.At)
	case annex.Slept:
		m.sleep(c, a)
	}
}

// wake begins an activation, or a health probe: which of them is seen later.
func (m *Manager) wake(c *context, at annex.Moment) {
	if c.awake {
		return
	}
	c.awake, c.woke, c.worked, c.wrong = true, at, false, false
	// Faults may be told before the waking that they belong to; what is older than that was a
	// wake of which nothing was told.
	early := c.pending
	for len(early) > 0 && early[0].At.After(m.policy.ProbeTime) < at {
		early = early[1:]
	}
	c.pending = nil
	m.take(c, early)
}

// sleep ends it.
func (m *Manager) sleep(c *context, a annex.Activity) {
	defer func() { c.inside, c.faults, c.strided = 0, 0, 0 }()
	if !c.awake {
		c.pending = nil
		return
	}
	if !c.worked && a.CPU >= m.policy.ProbeCPU {
		m.work(c)
	}
	c.awake, c.following = false, nil
	if !c.worked {
		if c.typical > 0 && a.CPU >= c.typical/stirPart {
			c.stir(a.At)
		} else {
			c.blip()
		}
		return
	}
	c.typical += (a.CPU - c.typical) / typicalWeight
	if c.started == 1 {
		c.typical = a.CPU
	}
	c.stirred, c.between = 0, 0
	c.predictor.Ended(a.At)
	c.lastRan = a.At
	c.bring, c.offered, c.waitUntil, c.look, c.told, c.lead = nil, false, 0, a.At, 0, nil
	c.blind, c.mapped, c.vain, c.tight, c.dry = false, false, 0, false, [2]bool{}
	c.from = [walks]cursor{}
	c.mark(a.At)
}

// blip ends a wake that did no work: it teaches nothing but which pages it needs, and
// these are better left where they are.
func (c *context) blip() {
	c.blips++
	for _, f := range c.pending {
		if cell, _ := c.cell(f); cell != nil {
			c.put(cell, cell.flags|probed)
		}
	}
	c.pending = nil
	if c.bring != nil && c.bring.why == annex.Awake {
		c.bring = nil
	}
}

// stir ends a wake that was too short for an activation and too long for a probe: the container
// does its work on pages that are in memory, which takes a part of what it takes to have them
// brought in. It teaches when the next comes, and nothing of the record.
func (c *context) stir(at annex.Moment) {
	gap := at.Since(max(c.lastRan, c.stirred))
	if c.between == 0 || gap < c.between/4 {
		c.between = gap
	} else {
		c.between = (c.between + gap) / 2
	}
	c.stirred = at
	c.blips++
	c.pending = nil
	if c.bring != nil && c.bring.why == annex.Awake {
		c.bring = nil
	}
}

// murmur notes that what probes need, and a timer each second, was missed at once. While it stays
// nothing tells whether it is still needed, so it is taken again to see: each time that it was
// missed after twice as long.
func (c *context) murmur(at annex.Moment, p Policy) {
	if at < c.murmurs {
		return // of the same time
	}
	if at > c.murmurs.After(mostMurmured*p.Recent) {
		c.murmured = 0 // long ago
	}
	c.murmured = min(max(2*c.murmured, p.Recent), mostMurmured*p.Recent)
	c.murmurs = at.After(c.murmured)
}

// mostMurmured bounds that, in the policy's Recent.
const mostMurmured = 32

// stirPart is by how much less processor time a wake has to take than an activation does for it
// to be a little work; typicalWeight is how many activations what they take is a mean of.
const (
	stirPart      = 10
	typicalWeight = 4
)

// stirs is when a container that does a little work every while is likely to do so next; not ok
// is that it does not any more.
func (c *context) stirs(now annex.Moment) (at annex.Moment, ok bool) {
	if c.stirred == 0 || now >= c.stirred.After(2*c.between) {
		return 0, false
	}
	return max(c.stirred.After(c.between), now), true
}

// work is the moment at which a wake is known to be an activation.
func (m *Manager) work(c *context) {
	c.worked = true
	c.started++
	// What it woke for may have been a timer, and work have come while it was awake.
	began := c.woke
	if n := len(c.pending) - m.policy.ProbePages; n >= 0 {
		began = max(began, c.pending[n].At)
	}
	if c.began != 0 {
		c.usual = began.Since(c.began)
	}
	c.began = began
	c.predictor.Began(began)
	if len(c.pending) > 0 {
		c.predictor.Touched(c.pending)
		c.pending = nil
	}
	m.chain.Began(c.info.ID, began)
	for _, f := range m.chain.Followers(c.info.ID) {
		o := m.byID[f.ID]
		if f.Probability < m.policy.FollowProbability || o == nil || o == c || o.awake || !o.managed() {
			continue
		}
		o.lead = &lead{after: c.info.ID, by: began.After(f.Within)}
	}
}

// forgetProbes is after how many activations, and forgetAfter after what time at least, pages that
// health probes touched count as others do, until probes touch them again.
//
// So do those that were written: of a container that wakes several times a second it would else
// be forgotten before a few looks at its page tables could tell of them.
const (
	forgetProbes = 64
	forgetAfter  = 5 * time.Minute
)

// mark notes which pages the record has.
func (c *context) mark(at annex.Moment) {
	drop := recorded
	forget := c.started >= c.byThen+forgetProbes && at >= c.forgot.After(forgetAfter)
	if forget {
		c.byThen, c.forgot = c.started, at
		drop |= probed
		c.writes = false
	}
	for _, s := range c.spaces {
		for i := range s.areas {
			cells := s.areas[i].cells
			if forget {
				s.areas[i].written = nil
			}
			if c.started%bornFor == 0 {
				s.areas[i].born = [2]marks{nil, s.areas[i].born[0]}
			}
			c.writes = c.writes || s.areas[i].marked()
			for j := range cells {
				f := cells[j].flags
				if f&drop != 0 {
					c.put(&cells[j], f&^drop)
				}
			}
		}
	}
	ranked := c.predictor.Pages()
	c.learned = len(ranked) > 0
	for _, r := range ranked {
		c.each([]annex.Run{r.Run}, func(_ *space, _ *area, _ annex.Page, cell *cell) { c.put(cell, cell.flags|recorded) })
	}
}

// cell is what is kept of the page of a fault, and its extent.
func (c *context) cell(f annex.Fault) (*cell, *extent) {
	s := c.find(f.Space)
	if s == nil {
		return nil, nil
	}
	a := s.area(f.Page)
	if a == nil {
		return nil, nil
	}
	return &a.cells[f.Page-a.first], a.extent(f.Page)
}

// wrote notes that a page was written as soon as it came back. Of one that was read first only a
// scan tells.
func (c *context) wrote(f annex.Fault) {
	if a := c.find(f.Space).area(f.Page); a != nil {
		a.written.set(int(f.Page-a.first), len(a.cells))
		c.writes = true
	}
}

// Faults tells the faults of containers, in their order.
func (m *Manager) Faults(faults []annex.Fault) {
	for i := 0; i < len(faults); {
		j := i + 1
		for j < len(faults) && faults[j].ID == faults[i].ID {
			j++
		}
		if c := m.byID[faults[i].ID]; c != nil && c.managed() {
			m.see(faults[j-1].At)
			m.faulted(c, faults[i:j])
		}
		i = j
	}
}

// faulted takes faults of one container.
func (m *Manager) faulted(c *context, faults []annex.Fault) {
	inside, all := c.inside, c.faults
	m.note(c, faults)
	switch {
	case c.awake:
		m.take(c, faults)
	case faults[len(faults)-1].At <= c.lastRan: // of the activation that is over
		c.inside, c.faults = inside, all
	default:
		c.pending = append(c.pending, faults...)
		// That it woke was not told, or will be later than all this.
		if len(c.pending) >= m.policy.ProbePages {
			m.wake(c, c.pending[0].At)
		}
	}
}

// take takes faults as those of an activation.
func (m *Manager) take(c *context, faults []annex.Fault) {
	if len(faults) == 0 {
		return
	}
	if c.worked {
		c.predictor.Touched(faults)
	} else if c.pending = append(c.pending, faults...); len(c.pending) >= m.policy.ProbePages {
		m.work(c)
	}
	p := m.policy
	switch {
	case c.wrong:
	case c.faults >= p.Judged && c.learned && !c.blind && float64(c.inside) < p.Proof*float64(c.faults):
		c.wrong = true
		if c.bring != nil {
			c.note(m.now, annex.Fetch, annex.Awake, 0, "the record proved wrong: fetching ended")
			c.bring = nil
		}
	case c.used(p) && (c.bring == nil || c.bring.why != annex.Awake) && c.count().recordAway > 0:
		c.bring = &bringing{why: annex.Awake, rest: c.predictor.Pages(), sure: c.precise(sure, p.Judged), says: "woke and used its record: the rest is wanted at once"}
	}
	if c.worked && !m.errors.over {
		m.follow(c, faults)
	}
}

// used tells that a container that woke uses its record, by faults in it: a few where it misses
// next to nothing else, and otherwise several. A probe that finds its own pages gone misses many,
// and some page of the record by chance.
func (c *context) used(p Policy) bool {
	return c.inside >= p.First && 2*c.inside >= c.faults || c.inside >= severalFirst*p.First
}

const severalFirst = 8

// note takes what faults tell of pages.
func (m *Manager) note(c *context, faults []annex.Fault) {
	grown, mem := 0, faults[len(faults)-1].At
	c.sweep(tickOf(mem, m.policy))
	for _, f := range faults {
		cell, e := c.cell(f)
		if !f.Swapped {
			grown++
		}
		if cell == nil {
			continue
		}
		now := stampOf(f.At)
		was := *cell
		if f.Swapped {
			if f.Write {
				c.wrote(f)
			}
			c.faults++
			if was.flags&recorded != 0 && was.flags&probed == 0 {
				c.inside++
			}
			c.ages.promote(was.age(tickOf(f.At, m.policy)))
			switch {
			case was.flags&incore != 0:
				c.use.Hits++
			case was.flags&(present|moving) == present|moving:
				// It left, and was missed before that was told.
				c.use.Misses++
				grown++
				c.use.Errors++
				m.errors.missed(f.At)
				m.returned(c, f)
				if was.flags&probed != 0 {
					c.murmur(f.At, m.policy)
				}
			case was.flags&present == 0:
				c.use.Misses++
				grown++
				if e.returns(now, m.policy) {
					c.use.Errors++
					m.errors.missed(f.At)
					if was.flags&probed != 0 {
						c.murmur(f.At, m.policy)
					}
				}
			}
		}
		c.put(cell, was.flags&^(incore|swapped|pinned)|present|young)
		cell.used = uint8(tickOf(f.At, m.policy))
		e.use(now, m.policy)
	}
	m.changed(mem, -grown)
	c.grown += grown
}

// follow asks what comes after faults whose pages were away.
func (m *Manager) follow(c *context, faults []annex.Fault) {
	for _, f := range faults {
		if cell, _ := c.cell(f); cell != nil && cell.flags&recorded != 0 && c.bring != nil {
			continue // its record is on its way, and what follows in it too
		}
		if f.Swapped && len(c.following) < m.policy.Piece {
			c.following = append(c.following, c.predictor.Following(f)...)
		}
	}
}

// done takes what became of a request, and gives how many pages moved.
func (c *context) done(u *underWay, r annex.Result, p Policy) int {
	c.moved = max(c.moved, r.Ended)
	if u.op != annex.Evict && u.why != annex.Striding {
		c.requests--
	}
	// Media go through pages in order: where they stopped, the first are done.
	did, head := u.pages, u.runs
	if r.Parts != nil {
		head = reached(u.runs, r.Parts)
		did = annex.Count(head)
	} else if r.Stopped || r.Err != nil {
		did = min(r.Moved+r.Skipped, u.pages)
		head = first(u.runs, did)
	}
	moved := min(max(r.Moved, 0), did)
	now := stampOf(r.Ended)
	// What was brought in and not touched has no page table entry to be moved by: it is gone as
	// far as it was reclaimed, and stays, till the next looks, where most was not.
	cached := min(max(r.Cached, 0), did-moved)
	reclaimed := cached > 0 && 2*(r.Freed-moved) >= cached
	var left collect
	c.each(head, func(s *space, a *area, page annex.Page, cell *cell) {
		f, some := cell.flags&^moving, moved > 0 && movedOf(r.Parts, s.name)
		switch {
		case u.back[pageOf{s.name, page}]: // it has come back since
		case u.op == annex.Evict && f&present == 0 && f&incore != 0:
			if !reclaimed {
				f |= pinned
				break
			}
			c.use.Wasted++
			f &^= incore
			left.add(s.name, page)
		case u.op == annex.Evict && !some && f&present != 0:
			f |= pinned // all of it was passed by
		case u.op == annex.Evict && f&present != 0:
			f = f&^(present|young) | swapped
			a.extent(page).leave(now)
			a.leave(int(page - a.first))
			left.add(s.name, page)
		case u.op == annex.Fetch && f&present == 0 && some:
			f |= incore | swapped
		case u.op == annex.Map && f&present == 0 && some:
			f = f&^(swapped|incore) | present | young
		}
		c.put(cell, f)
	})
	c.each(u.runs, func(_ *space, _ *area, _ annex.Page, cell *cell) { c.put(cell, cell.flags&^moving) })
	gone := moved
	if reclaimed {
		gone += cached
	}
	c.history.came(u.decided, gone, r.Err)
	if left.pages > 0 {
		c.predictor.Left(left.runs)
	}
	if moved > 0 {
		switch u.op {
		case annex.Evict:
			c.use.Evicted += moved
		case annex.Map:
			c.use.Mapped += moved
			c.blind, c.mapped = true, true
			c.predictor.Mapped(head)
		default:
			c.use.Fetched += moved
			c.predictor.Brought(head, r.Ended)
		}
	}
	switch {
	case r.Err != nil && !ended(u.runs, r.Parts):
		c.paused = r.Ended.After(pauseFailed)
	case moved == 0 && (r.Stopped || u.op != annex.Evict):
		c.paused = r.Ended.After(retry)
	}
	if u.op != annex.Evict {
		c.coming -= u.pages
		c.grown += moved
		if moved > 0 && u.why != annex.Striding {
			c.brought = max(c.brought, r.Ended)
		}
	}
	if u.op == annex.Evict {
		c.leaving -= u.pages
		c.grown -= min(r.Freed, moved+cached)
		c.short = c.short || moved+cached < did
		if !c.awake && !c.offered {
			c.look = min(c.look, r.Ended) // now there is something to fetch
		}
	}
	return moved
}

// pauseFailed is for how long nothing is asked for a context of which a request failed: it may
// have ended, which is told soon, or swap may be broken.
const pauseFailed = time.Second

// ended tells whether all that was not gone through is of spaces that are no more, as where workers
// come and go: that is no reason to ask for nothing of the others.
func ended(runs []annex.Run, parts []annex.Part) bool {
	asked := map[annex.Space]int{}
	for _, r := range runs {
		asked[r.Space] += r.Pages
	}
	gone := false
	for _, p := range parts {
		if p.Gone {
			gone = true
		} else if p.Done < asked[p.Space] {
			return false
		}
	}
	return gone
}

// reached are the pages of runs that were gone through, as told of each space.
func reached(runs []annex.Run, parts []annex.Part) (head []annex.Run) {
	left := map[annex.Space]int{}
	for _, p := range parts {
		left[p.Space] = p.Done
	}
	for _, r := range runs {
		if r.Pages = min(r.Pages, left[r.Space]); r.Pages > 0 {
			left[r.Space] -= r.Pages
			head = append(head, r)
		}
	}
	return head
}

// movedOf tells whether any page of a space moved, as far as that is told of it alone.
func movedOf(parts []annex.Part, s annex.Space) bool {
	for _, p := range parts {
		if p.Space == s {
			return p.Moved > 0
		}
	}
	return true
}

// first is the first pages of runs.
func first(runs []annex.Run, pages int) []annex.Run {
	for i, r := range runs {
		if r.Pages >= pages {
			if pages == 0 {
				return runs[:i:i]
			}
			head := append(runs[:i:i], r)
			head[i].Pages = pages
			return head
		}
		pages -= r.Pages
	}
	return runs
}

// atWork tells that it is awake, and not only asked whether it is well, as far as is known.
func (c *context) atWork() bool { return c.awake && c.worked }

// idle is for how long it has slept.
func (c *context) idle(now annex.Moment) time.Duration { return max(0, now.Since(c.lastRan)) }
