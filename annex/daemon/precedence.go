package daemon

import (
	"time"

	"tare/annex"
)

// precedence decides how much of its control group's weight on the processors the daemon is to
// have. While it gets what it needs of them it weighs little, so that whoever answers requests
// does not wait for it; where memory is short for all that, or it is kept waiting, it has all of
// its weight, since others then wait for what it frees.
//
// Measured beside thirty neighbours on two processors (docs/results/annex.md): with a twentieth
// of the weight the critical tail is shorter while processors have time to spare, and once they
// have none nothing is free within a second.
type precedence struct {
	yields bool
	since  annex.Moment  // of the last change
	hold   time.Duration // it has all of its weight for at least so long
	looks  []used        // since the last change, the oldest first, of precedenceOver at most
}

const (
	// precedenceEvery is the least time between two looks at how long the daemon waits, and
	// precedenceOver that over which it is told.
	precedenceEvery = 100 * time.Millisecond
	precedenceOver  = time.Second
	// shortestLook is the time over which that is told at least.
	shortestLook = 200 * time.Millisecond
	// shortHeadroom is the share of the headroom below which memory is short, and enoughHeadroom
	// that from which it is not.
	shortHeadroom, enoughHeadroom = 0.75, 0.875
	// A daemon that weighs little is kept waiting where its threads wait for so much of the
	// time, and so many times as long as they run, as starved says. One that has all of its
	// weight has processors to spare where they wait no more than easyTimes as long. Measured: 1
	// to 2 times with all of the weight and 2 to 3 with a twentieth where there is room, 4 to 8
	// with all of it where processors are all taken, and above 10 with a twentieth.
	easyTimes = 3
	// firstHold is how long it has all of its weight at least, each time that it is found to
	// need it; twice as long, to longestHold, where giving it up has not lasted for lastingTimes
	// that.
	firstHold, longestHold = time.Second, 30 * time.Second
	lastingTimes           = 4
)

// short takes a reading of free memory, and tells whether that has it take its weight back.
func (p *precedence) short(now annex.Moment, free, headroom int64) bool {
	is := float64(free) < shortHeadroom*float64(headroom)
	if is && p.yields {
		p.change(now)
		return true
	}
	if is && p.since != 0 {
		p.since = now // it is held from when memory is short no more
	}
	return false
}

// due tells whether to look at how long the daemon waits.
func (p *precedence) due(now annex.Moment) bool {
	return len(p.looks) == 0 || now.Since(p.looks[len(p.looks)-1].at) >= precedenceEvery
}

// read takes a look at what the daemon's threads ran and waited since they began.
func (p *precedence) read(look used, free, headroom int64) {
	p.looks = append(p.looks, look)
	for len(p.looks) > 2 && look.at.Since(p.looks[1].at) >= precedenceOver {
		p.looks = p.looks[1:]
	}
	if p.since == 0 {
		p.since, p.hold = look.at, firstHold // when it begins
	}
	first := p.looks[0]
	took, ran, waited := look.at.Since(first.at), look.cpu-first.cpu, look.waited-first.waited
	if took < shortestLook {
		return
	}
	waits := float64(waited) >= starvedShare*float64(took)
	if p.yields {
		if waits && waited >= starvedTimes*ran {
			p.change(look.at)
		}
		return
	}
	easy := !waits || waited <= easyTimes*ran
	if easy && look.at.Since(p.since) >= p.hold && float64(free) >= enoughHeadroom*float64(headroom) {
		p.change(look.at)
	}
}

// change has it weigh the other of the two from now on.
func (p *precedence) change(now annex.Moment) {
	if p.yields {
		if now.Since(p.since) < lastingTimes*p.hold {
			p.hold = min(2*p.hold, longestHold)
		} else {
			p.hold = firstHold
		}
	}
	p.yields, p.since, p.looks = !p.yields, now, p.looks[:0]
}
