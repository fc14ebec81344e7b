package daemon

import (
	"math"
	"time"

	"tare/annex"
)

// How often memory and pressure are looked at.
const (
	// soonestLook is the pause between two looks at free memory while pages leave, shortLook
	// that while it is short and none can, and latestLook that while nothing takes any.
	soonestLook = 20 * time.Millisecond
	shortLook   = 100 * time.Millisecond
	latestLook  = time.Second
	// leastFall is how fast memory is taken to be used where it was not lately: a container
	// that begins to run takes pages at about that rate. Bytes a second.
	leastFall = 64 << 20
	// fallHalfLife is by when half of a rate is forgotten.
	fallHalfLife = 10 * time.Second
	// calmLook is the pause between two looks at pressure while nothing leaves. While pages do
	// it is half of the time within which eviction is to stop.
	calmLook = 2 * time.Second
)

// pace tells when memory is to be looked at again: before all that is free but half of the
// headroom can have been used, at twice the fastest that it was used lately. The headroom is
// there for what comes between two looks. So a host at rest is looked at once a second, and
// never in a loop.
type pace struct {
	last annex.Memory
	fall float64 // bytes a second
}

// read takes a reading, and tells after how long the next is due. leaving tells that pages
// are on their way out.
func (p *pace) read(m annex.Memory, low int64, leaving bool) time.Duration {
	if took := m.At.Since(p.last.At); p.last.At != 0 && took > 0 {
		p.fall *= math.Exp2(-float64(took) / float64(fallHalfLife))
		p.fall = max(p.fall, float64(p.last.Free-m.Free)/took.Seconds())
	}
	p.last = m
	if m.Free < low {
		if leaving {
			return soonestLook
		}
		return shortLook
	}
	seconds := float64(m.Free-low/2) / max(2*p.fall, leastFall)
	return min(max(time.Duration(seconds*float64(time.Second)), soonestLook), latestLook)
}

// stalls tells whether critical containers wait for memory longer than they may.
type stalls struct {
	last map[annex.ID]annex.Pressure
	over map[annex.ID]bool
	is   map[annex.ID]float64 // share
}

// shortestStall is the time over which a share is told at least: the kernel counts in steps.
const shortestStall = 10 * time.Millisecond

// read takes the pressure of one, and tells whether it is above the limit.
func (s *stalls) read(id annex.ID, p annex.Pressure, limit float64) bool {
	if s.last == nil {
		s.last, s.over, s.is = map[annex.ID]annex.Pressure{}, map[annex.ID]bool{}, map[annex.ID]float64{}
	}
	before, known := s.last[id]
	took := p.At.Since(before.At)
	if known && took < shortestStall {
		return s.over[id]
	}
	s.last[id] = p
	if !known {
		return false
	}
	s.is[id] = float64(p.Some-before.Some) / float64(took)
	s.over[id] = s.is[id] > limit
	return s.over[id]
}

// forget drops one that is no more, or critical no more.
func (s *stalls) forget(id annex.ID) {
	delete(s.last, id)
	delete(s.over, id)
	delete(s.is, id)
}

// any tells whether one is above its limit.
func (s *stalls) any() bool {
	for _, over := range s.over {
		if over {
			return true
		}
	}
	return false
}

// worst is the highest share; false where none is known.
func (s *stalls) worst() (share float64, ok bool) {
	for _, is := range s.is {
		share, ok = max(share, is), true
	}
	return share, ok
}
