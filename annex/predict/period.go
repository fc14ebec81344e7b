package predict

import (
	"math"
	"slices"
)

// period finds that activations come at multiples of one time, some beats missed, and where
// in it they are. It looks at the last of them.
type period struct {
	length float64 // seconds; 0 is none
	// Two clocks run along: one that starts anew with each activation, as a program does that
	// sleeps for a while after its work, and one that moves by a fifth of what it is off, as a
	// timer is kept. The one that is off less is believed.
	clocks [2]clock
	beats  float64 // that were due, fading
	came   float64 // at which it woke
}

// clock predicts beats.
type clock struct {
	gain float64
	at   float64   // the last beat, seconds
	off  []float64 // by how much the last activations were off it
	mean float64   // of how far, fading
}

const (
	intervalsKept = 32
	// manyIntervals are looked at for a period; or fewIntervals, where all are as near to it
	// as exact: of times drawn at random about one in a hundred is.
	manyIntervals = 5
	fewIntervals  = 3
	exact         = 0.03
	// mostMissed beats in a row are taken for missed.
	mostMissed = 8
	// jitter is by how much of a period an activation may be off; and onBeat how many of the
	// last have to be that near. Of times drawn at random a fifth is so near to a multiple.
	jitter = 0.1
	onBeat = 0.85
)

func newPeriod() period {
	return period{clocks: [2]clock{{gain: 1}, {gain: 0.2}}}
}

// beatsIn is how many periods a time is, at least one.
func beatsIn(t, length float64) float64 { return max(1, math.Round(t/length)) }

// windows are how many of the last times are looked at where there is no period in all of them:
// what begins amid disorder, or has another period than before, is not to be held up by that for
// as long as it is remembered.
var windows = []int{intervalsKept, 16, 8, manyIntervals, fewIntervals}

// findPeriod is the period of the last times, and of how many; 0 is none.
func findPeriod(times []float64) (length float64, of int) {
	for _, n := range windows {
		if n = min(n, len(times)); n < fewIntervals {
			break
		}
		if length := periodOf(times[len(times)-n:]); length > 0 {
			return length, n
		}
	}
	return 0, 0
}

// periodOf is the longest period of which nearly all times are multiples.
func periodOf(times []float64) float64 {
	jitter, onBeat := jitter, onBeat
	if len(times) < manyIntervals {
		jitter, onBeat = exact, 1
	}
	sorted := slices.Sorted(slices.Values(times))
	median := sorted[len(sorted)/2]
	for _, candidate := range []float64{median, sorted[len(sorted)/4], median / 2, median / 3} {
		// Twice: the multiples that a rough period gives make a better one.
		for range 2 {
			var product, square float64
			for _, t := range times {
				if m := beatsIn(t, candidate); m <= mostMissed && math.Abs(t-m*candidate) <= 2*jitter*candidate {
					product += t * m
					square += m * m
				}
			}
			if square == 0 {
				break
			}
			candidate = product / square
		}
		near, single := 0, 0
		for _, t := range times {
			m := beatsIn(t, candidate)
			if m <= mostMissed && math.Abs(t-m*candidate) <= jitter*candidate {
				near++
				if m == 1 {
					single++
				}
			}
		}
		if float64(near) >= onBeat*float64(len(times)) && single > 0 {
			return candidate
		}
	}
	return 0
}

// observe takes an activation, after the last intervals.
func (p *period) observe(at float64, times []float64) {
	found, of := findPeriod(times)
	times = times[len(times)-of:]
	switch {
	case found == 0:
		*p = newPeriod()
		return
	case p.length == 0 || math.Abs(found-p.length) > 2*jitter*p.length:
		// Anew, and from what is remembered.
		*p = newPeriod()
		p.length = found
		past := at
		for _, t := range times {
			past -= t
		}
		for i := range p.clocks {
			p.clocks[i].at = past
		}
		for _, t := range times {
			past += t
			p.beat(past)
		}
		return
	}
	p.length = found
	p.beat(at)
}

const (
	beatsKeep = 0.95
	clockKeep = 0.9
	outOfStep = 0.25 // of a period off: the clock starts anew
)

func (p *period) beat(at float64) {
	m := beatsIn(at-p.clocks[0].at, p.length)
	if m > mostMissed {
		// It had stopped.
		for i := range p.clocks {
			p.clocks[i].at = at
		}
		return
	}
	for ; m > 1; m-- {
		p.beats = p.beats*beatsKeep + 1
		p.came *= beatsKeep
		for i := range p.clocks {
			p.clocks[i].at += p.length
		}
	}
	p.beats = p.beats*beatsKeep + 1
	p.came = p.came*beatsKeep + 1
	for i := range p.clocks {
		p.clocks[i].beat(at, p.length)
	}
}

func (c *clock) beat(at, length float64) {
	c.at += length
	off := at - c.at
	if len(c.off) == intervalsKept {
		c.off = slices.Delete(c.off, 0, 1)
	}
	c.off = append(c.off, off)
	c.mean = c.mean*clockKeep + (1-clockKeep)*math.Abs(off)
	if math.Abs(off) > outOfStep*length {
		c.at = at
		return
	}
	c.at += c.gain * off
}

// clock is the better one.
func (p *period) clock() *clock {
	if p.clocks[1].mean < p.clocks[0].mean {
		return &p.clocks[1]
	}
	return &p.clocks[0]
}

// quantiles are of the moment of the next activation after now. Each beat is as likely to be
// kept as they were: the latest is at a later beat where beats are missed.
func (p *period) quantiles(now float64, shares [3]float64) (q [3]float64, ok bool) {
	if p.length == 0 {
		return q, false
	}
	c := p.clock()
	off := slices.Sorted(slices.Values(c.off))
	kept := min(share(p.came, p.beats), 0.999)
	beat := c.at + p.length
	if latest := beat + rankQuantile(off, 0.95, p.length); latest < now {
		beat += p.length * math.Ceil((now-latest)/p.length)
	}
	if (beat-c.at)/p.length > mostMissed+1 {
		return q, false // it has stopped
	}
	for k, s := range shares {
		// The beat by which it has come with that likelihood, and how far into it.
		n := math.Floor(math.Log1p(-s) / math.Log1p(-kept))
		before := 1 - math.Pow(1-kept, n)
		within := (s - before) / (kept * (1 - before))
		q[k] = max(now, beat+n*p.length+rankQuantile(off, within, p.length))
	}
	return q, true
}

// rankQuantile is the quantile of which the next of sorted values is below with that
// likelihood: of n values the i-th is at i/(n+1). Beyond the outermost it goes on by as much
// as the outermost half is wide, or by the widest jitter where that is less.
func rankQuantile(sorted []float64, q, length float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	at := q*float64(n+1) - 1
	middle := sorted[n/2]
	switch {
	case at < 0:
		return sorted[0] + at*min(middle-sorted[0], jitter*length)
	case at >= float64(n-1):
		return sorted[n-1] + (at-float64(n-1))*min(sorted[n-1]-middle, jitter*length)
	}
	i := int(at)
	return sorted[i] + (sorted[i+1]-sorted[i])*(at-float64(i))
}
