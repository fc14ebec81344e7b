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
	// Faults are pages that were used while they would have been away: each a fault that the
	// program does not have now.
	Faults int64
	// Wrong are those of Left that were used within a minute.
	Wrong int64
	// WrongMost adds those of which that is not known, since nobody has cleared the
	// processor's mark of an earlier use, and whose container ran within the minute.
	WrongMost int64
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
	marked  set // accessed, at the last look
	away    set // would have left
	untold  set // were marked when they would have left: a later use does not show
	at      annex.Moment
	doubted bool // what is untold of it was counted since
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
				if p.untold.drop(i); p.marked.has(i) {
					p.untold.put(i)
				}
				p.at, p.doubted = now, false
				s.away++
				s.seen.Left++
				result.Moved++
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

// scan turns what a scan found into what it would have.
func (s *shadow) scan(of annex.Scan) annex.Scan {
	for n, stretch := range of.Stretches {
		states := make([]annex.State, len(stretch.States))
		copy(states, stretch.States)
		of.Stretches[n].States = states
		for k, state := range states {
			p, i := s.at(of.ID, of.Space, stretch.First+annex.Page(k))
			marked := of.KnowsAccess && state.Has(annex.Present|annex.Accessed)
			if p.away.has(i) {
				states[k] = s.passing(p, i, state, marked, of.Ended)
			}
			if p.marked.drop(i); marked {
				p.marked.put(i)
			}
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
	case marked && !p.untold.has(i):
		p.away.drop(i)
		s.away--
		s.seen.Faults++
		if at.Since(p.at) <= mistake {
			s.seen.Wrong++
			s.seen.WrongMost++
		}
		return state
	}
	return state&^(annex.Present|annex.Accessed|annex.Dirty) | annex.Swapped
}

// woke notes that a container runs: of what would have left within the last minute, and was
// marked, nobody knows whether it is used now.
func (s *shadow) woke(id annex.ID, now annex.Moment) {
	for _, pieces := range s.pieces[id] {
		for _, p := range pieces {
			if p.doubted || now.Since(p.at) > mistake {
				continue
			}
			p.doubted = true
			for w := range p.untold {
				s.seen.WrongMost += int64(bits.OnesCount64(p.untold[w] & p.away[w]))
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
