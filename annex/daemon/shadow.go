package daemon

import (
	"math/bits"
	"time"

	"tare/annex"
)

// Observed is what an observing daemon found that managing would have done. Bytes and
// pages are of what it would have moved; nothing was.
type Observed struct {
	// Free is what it would have free now that is not. Bytes.
	Free int64
	// Left and Returned are pages that would have left, and been brought back in time.
	Left, Returned int64
	// Faults are pages that were used while they would have been away, each a fault that the
	// program does not have now; and those that may have been, since the container ran and the
	// page is marked as accessed. Nobody clears that mark, so this is an upper bound.
	Faults int64
	// Wrong are those of Faults that came within a minute of leaving.
	Wrong int64
}

// mistake is how soon a page is used again if it should not have left.
const mistake = time.Minute

// piecePages are the pages of which the shadow keeps an account together.
const piecePages = 512

type set [piecePages / 64]uint64

func (s *set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s *set) put(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *set) drop(i int)     { s[i/64] &^= 1 << (i % 64) }
func (s *set) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// piece is pages that lie together.
type piece struct {
	marked set // accessed, at the last look
	away   set // would have left
	hidden set // were marked when they would have left: a later use does not show
	at     annex.Moment
}

// shadow is what memory would look like, had what was asked for been done. Data management
// is told of that instead of what is: of scans in which pages are in swap that are not, and
// of memory that is free and is not. So it goes on as it would.
type shadow struct {
	pieces map[annex.ID]map[annex.Space]map[annex.Page]*piece
	away   int64
	seen   Observed
}

func newShadow() *shadow {
	return &shadow{pieces: map[annex.ID]map[annex.Space]map[annex.Page]*piece{}}
}

// at is the piece of a page, and where in it that lies.
func (s *shadow) at(id annex.ID, space annex.Space, page annex.Page) (*piece, int) {
	spaces := s.pieces[id]
	if spaces == nil {
		spaces = map[annex.Space]map[annex.Page]*piece{}
		s.pieces[id] = spaces
	}
	of := spaces[space]
	if of == nil {
		of = map[annex.Page]*piece{}
		spaces[space] = of
	}
	p := of[page/piecePages]
	if p == nil {
		p = &piece{}
		of[page/piecePages] = p
	}
	return p, int(page % piecePages)
}

// do does a request in the shadow alone.
func (s *shadow) do(r annex.Request, now annex.Moment) annex.Result {
	result := annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: now, Ended: now, Asked: annex.Count(r.Runs)}
	for _, run := range r.Runs {
		for page := run.First; page < run.End(); page++ {
			p, i := s.at(r.ID, run.Space, page)
			switch {
			case r.Op == annex.Evict && !p.away.has(i):
				p.away.put(i)
				if p.hidden.drop(i); p.marked.has(i) {
					p.hidden.put(i)
				}
				p.at = now
				s.away++
				s.seen.Left++
				result.Moved++
				result.Freed++
			case r.Op != annex.Evict && p.away.has(i):
				p.away.drop(i)
				s.away--
				s.seen.Returned++
				result.Moved++
			default:
				result.Skipped++
			}
		}
	}
	return result
}

// look turns what one look at a container found into what it would have. Spaces that are not
// among it have ended.
func (s *shadow) look(id annex.ID, spaces []annex.Scan) {
	there := map[annex.Space]bool{}
	for i, of := range spaces {
		there[of.Space] = true
		spaces[i] = s.scan(of)
	}
	for space := range s.pieces[id] {
		if !there[space] {
			s.forget(id, space)
		}
	}
}

// scan turns what a scan of a space found into what it would have. Of pages in no stretch of it
// nothing is there any more: they were given back.
func (s *shadow) scan(of annex.Scan) annex.Scan {
	stills := map[*piece]*set{}
	for n, stretch := range of.Stretches {
		states := make([]annex.State, len(stretch.States))
		copy(states, stretch.States)
		of.Stretches[n].States = states
		var p *piece
		var still *set
		var i int
		for k, state := range states {
			page := stretch.First + annex.Page(k)
			if i = int(page % piecePages); k == 0 || i == 0 {
				p, _ = s.at(of.ID, of.Space, page)
				if still = stills[p]; still == nil {
					still = &set{}
					stills[p] = still
				}
			}
			still.put(i)
			// Where nobody knows whether a page was accessed, it may have been.
			marked := state.Has(annex.Present) && (!of.KnowsAccess || state.Has(annex.Accessed))
			if p.away.has(i) {
				states[k] = s.passing(p, i, state, marked, of.Ended)
			}
			if marked {
				p.marked.put(i)
			} else {
				p.marked.drop(i)
				p.hidden.drop(i)
			}
		}
	}
	for first, p := range s.pieces[of.ID][of.Space] {
		still := stills[p]
		if still == nil {
			s.away -= int64(p.away.count())
			delete(s.pieces[of.ID][of.Space], first)
			continue
		}
		for w := range p.away {
			s.away -= int64(bits.OnesCount64(p.away[w] &^ still[w]))
			p.away[w] &= still[w]
			p.marked[w] &= still[w]
			p.hidden[w] &= still[w]
		}
	}
	return of
}

// passing is what would have been found of a page that would be away.
func (s *shadow) passing(p *piece, i int, state annex.State, marked bool, at annex.Moment) annex.State {
	switch {
	case !state.Has(annex.Present):
		// It has left indeed, or was given back.
		p.away.drop(i)
		s.away--
		return state
	case marked && !p.hidden.has(i):
		p.away.drop(i)
		s.away--
		s.seen.Faults++
		if at.Since(p.at) <= mistake {
			s.seen.Wrong++
		}
		return state
	}
	return state&^(annex.Present|annex.Accessed|annex.Dirty) | annex.Swapped
}

// ran notes that a container ran at a moment: what had left by then and is marked it may have
// used, so all of that counts as faults, and is in memory again. It does once an activation:
// what is back is counted anew only after it would have left anew.
func (s *shadow) ran(id annex.ID, at annex.Moment) {
	for _, pieces := range s.pieces[id] {
		for _, p := range pieces {
			if p.at >= at {
				continue
			}
			var n int64
			for w := range p.away {
				back := p.away[w] & p.marked[w]
				p.away[w] &^= back
				n += int64(bits.OnesCount64(back))
			}
			s.away -= n
			s.seen.Faults += n
			if at.Since(p.at) <= mistake {
				s.seen.Wrong += n
			}
		}
	}
}

// memory is what would be free.
func (s *shadow) memory(m annex.Memory) annex.Memory {
	bytes := s.away * annex.PageSize
	m.Free = min(m.Free+bytes, m.Limit)
	m.SwapFree = max(m.SwapFree-bytes, 0)
	return m
}

// awayOf is how many pages of a container would be away.
func (s *shadow) awayOf(id annex.ID) (n int64) {
	for _, pieces := range s.pieces[id] {
		for _, p := range pieces {
			n += int64(p.away.count())
		}
	}
	return n
}

// forget drops a space that is no more.
func (s *shadow) forget(id annex.ID, space annex.Space) {
	for _, p := range s.pieces[id][space] {
		s.away -= int64(p.away.count())
	}
	delete(s.pieces[id], space)
}

// remove drops a container.
func (s *shadow) remove(id annex.ID) {
	for space := range s.pieces[id] {
		s.forget(id, space)
	}
	delete(s.pieces, id)
}

// observed is what was found so far.
func (s *shadow) observed() Observed {
	o := s.seen
	o.Free = s.away * annex.PageSize
	return o
}
