package daemon

import (
	"errors"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/control"
)

// precedence tells how much of its control group's weight on the processors the daemon is to
// have. While it gets what it needs of them it weighs little, so that whoever answers requests
// does not wait for it; where memory is short for all that, or it is kept waiting, it has all of
// its weight, since others then wait for what it frees.
//
// Measured beside thirty neighbours on two processors (docs/results/annex.md): with a twentieth
// of the weight the critical tail is shorter while processors have time to spare, and once they
// have none it has nothing free within a second.
type precedence struct {
	yielded bool
	since   annex.Moment  // of the last change
	hold    time.Duration // it has all of its weight for at least so long
	looks   []used        // since the last change, the oldest first, of precedenceOver at most
}

const (
	// precedenceEvery is the pause between two looks at most, and precedenceOver the time over
	// which it is told how long the daemon waits.
	precedenceEvery = 50 * time.Millisecond
	precedenceOver  = time.Second
	// shortestLook is the time over which that is told at least.
	shortestLook = 200 * time.Millisecond
	// shortHeadroom is the share of the headroom below which memory is short, and enoughHeadroom
	// that from which it is not.
	shortHeadroom, enoughHeadroom = 0.75, 0.875
	// A daemon that weighs little is kept waiting where its threads wait for so much of the
	// time, and so many times as long as they run: starvedTimes. One that has all of its weight
	// has processors to spare where they wait no more than easyTimes as long. Measured: 1 to 2
	// times with all of the weight and 2 to 3 with a twentieth where there is room, 4 to 8 with
	// all of it where processors are all taken, and above 10 with a twentieth.
	easyTimes = 3
	// firstHold is how long it has all of its weight at least, each time that it is found to
	// need it; twice as long where giving it up did not last as long as that, to longestHold.
	firstHold, longestHold = time.Second, 30 * time.Second
)

// due tells whether to look again.
func (p *precedence) due(now annex.Moment) bool {
	return len(p.looks) == 0 || now.Since(p.looks[len(p.looks)-1].at) >= precedenceEvery
}

// read takes a look at what is free and at what the daemon's threads ran and waited since they
// began, and tells whether what it weighs is to change.
func (p *precedence) read(look used, free, headroom int64) (changes bool) {
	p.looks = append(p.looks, look)
	for len(p.looks) > 2 && look.at.Since(p.looks[1].at) >= precedenceOver {
		p.looks = p.looks[1:]
	}
	first := p.looks[0]
	took, ran, waited := look.at.Since(first.at), look.cpu-first.cpu, look.waited-first.waited
	if p.yielded {
		short := float64(free) < shortHeadroom*float64(headroom)
		late := took >= shortestLook && float64(waited) >= starvedShare*float64(took) && waited >= starvedTimes*ran
		if short || late {
			p.change(look)
		}
		return short || late
	}
	if p.since == 0 {
		p.since, p.hold = look.at, firstHold // when it begins
	}
	easy := waited <= easyTimes*ran || float64(waited) < starvedShare*float64(took)
	if look.at.Since(p.since) < p.hold || took < shortestLook || !easy || float64(free) < enoughHeadroom*float64(headroom) {
		return false
	}
	p.change(look)
	return true
}

// change notes that it weighs something else from now on.
func (p *precedence) change(look used) {
	if p.yielded {
		if look.at.Since(p.since) < p.hold {
			p.hold = min(2*p.hold, longestHold)
		} else {
			p.hold = firstHold
		}
	}
	p.yielded, p.since, p.looks = !p.yielded, look.at, append(p.looks[:0], look)
}

// Own is the control group that the daemon itself runs in: [bound.Own].
type Own interface {
	// Yield has it weigh that share of what it does otherwise; a [*bound.Shared] says that it is
	// not the daemon's own.
	Yield(share float64) error
	Resume() error
	// Time is how long the daemon's threads have run, and waited for a processor.
	Time() (ran, waited time.Duration, err error)
}

// aloneEvery is how often it is tried again where the group was shared with others.
const aloneEvery = time.Minute

// weigh has the daemon weigh what it is to.
func (d *Daemon) weigh(now annex.Moment) {
	if d.parts.Own == nil || now < d.sharedUntil {
		return
	}
	if d.state != control.Managing || d.settings.Yield >= 1 {
		if d.precedence.yielded {
			d.change(d.running, "", "having annexd weigh what it did", d.parts.Own.Resume)
		}
		d.precedence, d.shared = precedence{}, ""
		return
	}
	if !d.precedence.due(now) {
		return
	}
	ran, waited, err := d.parts.Own.Time()
	if err != nil {
		d.keepWeight(err)
		return
	}
	if !d.precedence.read(used{now, ran, waited}, d.memory.Free, d.settings.Policy.Low) {
		return
	}
	own, share := d.parts.Own, d.settings.Yield
	if !d.precedence.yielded {
		d.change(d.running, "", "having annexd weigh what it did", own.Resume)
		return
	}
	d.change(d.running, ownGroup, "having annexd weigh less", func() error { return own.Yield(share) })
}

// ownGroup stands for the daemon's own group among containers that settings are changed of.
const ownGroup annex.ID = "annexd's own control group"

// keepWeight notes that the daemon's group weighs what it does, and why.
func (d *Daemon) keepWeight(err error) {
	d.precedence = precedence{}
	d.sharedUntil = d.now().After(aloneEvery)
	d.shared = err.Error()
	if shared := new(bound.Shared); !errors.As(err, &shared) {
		d.fail("having annexd weigh less", err)
	}
}
