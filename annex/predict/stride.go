package predict

import (
	"time"

	"tare/annex"
)

// stride finds the distance at which the faults of a space follow one another, and what
// they will reach next. Where several threads fault at once, or a scan is disturbed, the
// majority still has it.
type stride struct {
	distances [strideHistory]int64
	count     int // of those known
	next      int // where the next is put
	last      annex.Page

	// What lies ahead: ahead pages from at on, each by further on; 0 is none.
	by     int64
	at     annex.Page
	ahead  int
	hits   int // in a row
	astray int // faults since the last hit
	hit    annex.Moment
	pace   time.Duration // between hits, smoothed
}

const (
	strideHistory = 32 // Leap's
	strideSplit   = 8  // the smallest window is this part of the history
	strideStart   = 2  // pages ahead at first
	strideAstray  = 8  // faults elsewhere until what was ahead is given up
	strideHalve   = 512
)

// majority is the distance that more than half of the last n distances are, by Boyer and
// Moore's vote.
func (s *stride) majority(n int) (int64, bool) {
	var candidate int64
	votes, found := 0, 0
	for i := range n {
		switch d := s.past(i); {
		case votes == 0:
			candidate, votes = d, 1
		case d == candidate:
			votes++
		default:
			votes--
		}
	}
	for i := range n {
		if s.past(i) == candidate {
			found++
		}
	}
	return candidate, found > n/2
}

// past is the distance so many before the last.
func (s *stride) past(i int) int64 {
	return s.distances[uint(s.next-1-i)%strideHistory]
}

// trend is the majority of the fewest of the last distances that have one: of an eighth of
// the history first, and of twice as many each time, as Leap has it.
func (s *stride) trend() (int64, bool) {
	for n := strideHistory / strideSplit; n <= s.count; n *= 2 {
		if d, ok := s.majority(n); ok {
			return d, true
		}
	}
	return 0, false
}

// leads tells whether the last distance is the trend. Of faults at random it is not even the
// majority of any of them, which is seen at one look.
func (s *stride) leads() bool {
	d, found := s.past(0), 0
	for i := range s.count {
		if s.past(i) == d {
			found++
		}
		// The windows that trend looks at end here.
		if n := i + 1; n >= strideHistory/strideSplit && n&(n-1) == 0 && found > n/2 {
			by, ok := s.trend()
			return ok && by == d
		}
	}
	return false
}

// stride takes a fault.
func (c *Context) stride(f *annex.Fault) {
	space := c.in(f.Space)
	s := space.stride
	if s == nil {
		space.stride = &stride{last: f.Page}
		return
	}
	d := int64(f.Page - s.last)
	if d == 0 {
		return // again: another thread, or a write after a read
	}
	s.last = f.Page
	s.distances[s.next] = d
	s.next = (s.next + 1) % strideHistory
	s.count = min(s.count+1, strideHistory)

	hit := s.reached(f.Page)
	if f.Swapped {
		c.striding.event(hit > 0)
	}
	switch {
	case hit > 0:
		c.striding.prediction(1, true)
		c.striding.prediction(float64(c.passed(space, s, hit-1)), false)
		if s.hits > 0 {
			s.pace += (f.At.Since(s.hit) - s.pace) / 4
		}
		c.striding.leads.add(time.Duration(s.ahead) * s.pace)
		s.hit = f.At
		s.hits++
		s.astray = 0
		s.at = f.Page
		s.ahead -= hit
		// Twice as far after twice the hits.
		s.ahead = max(s.ahead, min(strideStart*(s.hits+1), c.options.Depth))
	case s.ahead > 0 && s.astray < strideAstray:
		s.astray++
	default:
		if s.ahead > 0 {
			c.striding.prediction(float64(c.passed(space, s, s.ahead)), false)
		}
		hits := s.hits / 2 // half as far the next time
		s.by, s.ahead, s.hits, s.astray, s.pace = 0, 0, 0, 0, 0
		if s.leads() {
			s.by, s.at, s.ahead, s.hits, s.hit = d, f.Page, min(strideStart*(hits+1), c.options.Depth), hits, f.At
		}
	}
	c.striding.judge(c.gate)
	c.striding.halve(strideHalve)
}

// reached is which of the pages ahead a page is, from 1; 0 is none.
func (s *stride) reached(p annex.Page) int {
	if s.ahead == 0 {
		return 0
	}
	d := int64(p - s.at)
	if d%s.by != 0 || d/s.by < 1 || d/s.by > int64(s.ahead) {
		return 0
	}
	return int(d / s.by)
}

// passed is how many of the next n pages ahead would have made a fault for all that is
// known.
func (c *Context) passed(space *space, s *stride, n int) int {
	told := 0
	for i := 1; i <= n; i++ {
		if !c.silent(space, s.at+annex.Page(int64(i)*s.by)) {
			told++
		}
	}
	return told
}

// silent tells of a page of the record that it is in memory, and mapped.
func (c *Context) silent(space *space, p annex.Page) bool {
	t := space.tables[uint64(p)/tablePages]
	i := int(uint64(p) % tablePages)
	return t != nil && t.member.has(i) && !t.tells.has(i)
}

// follow are the pages ahead of a fault that belongs to the stride.
func (s *stride) follow(id annex.Space, p annex.Page) []annex.Run {
	if s == nil || s.ahead == 0 || p != s.at {
		return nil
	}
	var runs []annex.Run
	for i := 1; i <= s.ahead; i++ {
		next := p + annex.Page(int64(i)*s.by)
		if s.by > 0 && next < p || s.by < 0 && next > p {
			break // beyond the end of the address space
		}
		if n := len(runs); n > 0 && runs[n-1].End() == next {
			runs[n-1].Pages++
			continue
		}
		runs = append(runs, annex.Run{Space: id, First: next, Pages: 1})
	}
	return runs
}

// Following is what follows a fault soon, which was told before: by the stride of its space
// first, and else by what followed its extent before. It is for the time while a container
// runs; in which order a whole activation goes, Pages says.
func (c *Context) Following(f annex.Fault) []annex.Run { return c.FollowingBy(f, true, true) }

// FollowingBy is Following by one of its two predictors alone, by both or by none. Whichever
// is left out goes on learning, and being scored.
func (c *Context) FollowingBy(f annex.Fault, stride, extents bool) []annex.Run {
	s := c.spaces[f.Space]
	if s == nil {
		return nil
	}
	if stride && !c.striding.shut {
		if runs := s.stride.follow(f.Space, f.Page); runs != nil {
			return runs
		}
	}
	if extents && !c.extents.shut {
		return c.successors(s, f.Page)
	}
	return nil
}
