package load

import (
	"math/rand/v2"
	"time"
)

// sequence is the moments of an open loop, in order, measured from its start.
type sequence struct {
	draw func() time.Duration // without end
	end  time.Duration        // moments from here on are not of the sequence; 0 is never
	keep time.Duration        // moments from here on count against left
	left int64                // of the kept, how many are to come; below 0 is any number
}

func newSequence(o Options) *sequence {
	s := &sequence{keep: o.Warmup, left: -1}
	if o.Duration > 0 {
		s.end = o.Warmup + o.Duration
	}
	if o.Count > 0 {
		s.left = o.Count
	}
	if len(o.Moments) > 0 {
		s.left = int64(len(o.Moments))
		s.draw = func() time.Duration { return o.Moments[int64(len(o.Moments))-s.left] }
		return s
	}
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	switch o.Arrival {
	case Poisson:
		// The second word only separates this use of a seed from others.
		random := rand.New(rand.NewPCG(o.Seed, 0x706f6973736f6e))
		var sum float64
		s.draw = func() time.Duration {
			sum += random.ExpFloat64() / o.Rate
			return at(sum)
		}
	case AtOnce:
		s.draw = func() time.Duration { return 0 }
	default:
		var i float64
		s.draw = func() time.Duration {
			// A quotient, not a running sum, so that rounding does not drift.
			moment := at(i / o.Rate)
			i++
			return moment
		}
	}
	return s
}

func (s *sequence) next() (moment time.Duration, ok bool) {
	if s.left == 0 {
		return 0, false
	}
	moment = s.draw()
	if s.end > 0 && moment >= s.end {
		s.left = 0
		return 0, false
	}
	if s.left > 0 && moment >= s.keep {
		s.left--
	}
	return moment, true
}

// schedule gives out a sequence's moments and counts those that are overdue.
// It is not safe for concurrent use.
type schedule struct {
	head  *sequence
	taken int64

	// scout is the same sequence over again, run ahead to the first moment
	// that is not overdue. To store the overdue moments instead would take
	// memory without bound where a service is far slower than the schedule.
	scout    *sequence
	scouted  int64         // moments that scout gave which are overdue
	ahead    time.Duration // the first that is not, if drawn
	drawn    bool
	last     time.Duration // the last overdue one
	finished bool          // scout came to the end: last is the schedule's last

	backlogMax int64
}

func newSchedule(o Options) *schedule {
	return &schedule{head: newSequence(o), scout: newSequence(o)}
}

// take gives the oldest moment not yet taken; now is the time since the start.
func (s *schedule) take(now time.Duration) (moment time.Duration, ok bool) {
	moment, ok = s.head.next()
	if !ok {
		return 0, false
	}
	s.taken++
	if moment < now {
		s.lookTo(now)
		s.backlogMax = max(s.backlogMax, s.scouted-s.taken)
	}
	return moment, true
}

// lookTo runs the scout ahead over every moment before now.
func (s *schedule) lookTo(now time.Duration) {
	for !s.finished {
		if !s.drawn {
			s.ahead, s.drawn = s.scout.next()
			s.finished = !s.drawn
			continue
		}
		if s.ahead >= now {
			return
		}
		s.last, s.drawn = s.ahead, false
		s.scouted++
	}
}

// drained tells whether every moment lies longer ago than grace.
func (s *schedule) drained(now, grace time.Duration) bool {
	s.lookTo(now)
	return s.finished && now > s.last+grace
}

// stop has the schedule end at a moment, where it did not end before.
func (s *schedule) stop(at time.Duration) {
	at = max(at, 1) // 0 is never
	for _, moments := range []*sequence{s.head, s.scout} {
		if moments.end == 0 || at < moments.end {
			moments.end = at
		}
	}
	if s.drawn && s.ahead >= at {
		s.drawn, s.finished = false, true
	}
}
