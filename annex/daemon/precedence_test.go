package daemon

import (
	"testing"
	"time"

	"tare/annex"
)

// stretch is some time in which a daemon runs and waits evenly, and so much is free.
type stretch struct {
	lasts       time.Duration
	runs, waits float64 // share of the time; threads' together, so that it may be above 1
	free        int64
}

// weighed plays stretches after what it has seen before, and tells when, from their beginning,
// what it weighs changed.
func weighed(p *precedence, all ...stretch) (changes []time.Duration) {
	const step = precedenceEvery
	now := used{at: max(p.since, annex.Moment(time.Hour))}
	if len(p.looks) > 0 {
		now = p.looks[len(p.looks)-1]
	}
	began := now.at
	for _, s := range all {
		for range int(s.lasts / step) {
			now.at = now.at.After(step)
			now.cpu += time.Duration(s.runs * float64(step))
			now.waited += time.Duration(s.waits * float64(step))
			before := p.yields
			if !p.short(now.at, s.free, 32*mebibyte) && p.due(now.at) {
				p.read(now, s.free, 32*mebibyte)
			}
			if p.yields != before {
				changes = append(changes, now.at.Since(began))
			}
		}
	}
	return changes
}

// With processors to spare it gives way after a second, and keeps that up.
func TestPrecedenceIsGivenUp(t *testing.T) {
	for name, s := range map[string]stretch{
		"at rest":                  {0, 0, 0, 100 * mebibyte},
		"while it works":           {0, 0.4, 0.8, 32 * mebibyte},
		"while it works, and less": {0, 0.4, 0.8, 29 * mebibyte},
	} {
		var p precedence
		s.lasts = time.Minute
		changes := weighed(&p, s)
		if len(changes) != 1 || changes[0] < firstHold || changes[0] > firstHold+4*precedenceEvery || !p.yields {
			t.Errorf("%s: it changed at %v", name, changes)
		}
	}
}

// Where processors are all taken, or memory is short, it is not.
func TestPrecedenceIsKept(t *testing.T) {
	for name, s := range map[string]stretch{
		"processors are taken": {0, 0.4, 2, 32 * mebibyte},
		"memory is short":      {0, 0.4, 0.4, 20 * mebibyte},
		"both":                 {0, 0.4, 2, 0},
	} {
		var p precedence
		s.lasts = time.Minute
		if changes := weighed(&p, s); len(changes) > 0 || p.yields {
			t.Errorf("%s: it changed at %v", name, changes)
		}
	}
}

// It is taken back at once where nothing is left that is free, and as soon as it can be told
// where the daemon is kept waiting.
func TestPrecedenceIsTakenBack(t *testing.T) {
	calm := stretch{5 * time.Second, 0.4, 0.8, 32 * mebibyte}
	for name, c := range map[string]struct {
		then   stretch
		within time.Duration
	}{
		"memory is short":         {stretch{firstHold / 2, 0.4, 0.8, 23 * mebibyte}, precedenceEvery},
		"it is kept waiting":      {stretch{firstHold, 0.1, 2.5, 32 * mebibyte}, time.Second},
		"it does not run at all":  {stretch{firstHold, 0, 2.5, 32 * mebibyte}, time.Second},
		"so much, if seldom seen": {stretch{firstHold, 0.01, 0.4, 32 * mebibyte}, time.Second},
	} {
		var p precedence
		changes := weighed(&p, calm, c.then)
		if len(changes) != 2 || changes[1] > calm.lasts+c.within || p.yields {
			t.Errorf("%s: it changed at %v", name, changes)
		}
	}
	var p precedence
	if changes := weighed(&p, calm, stretch{time.Minute, 0.01, 0.25, 32 * mebibyte}); len(changes) != 1 {
		t.Errorf("for a quarter of the time that it waits: it changed at %v", changes)
	}
}

// Where giving it up never lasts, that is tried more and more seldom.
func TestPrecedenceDoesNotSwing(t *testing.T) {
	var p precedence
	changes := 0
	for range int(10 * time.Minute / precedenceEvery) {
		s := stretch{precedenceEvery, 0.4, 0.8, 32 * mebibyte}
		if p.yields { // what it sees depends on what it weighs
			s.runs, s.waits = 0.05, 2.5
		}
		changes += len(weighed(&p, s))
	}
	if most := 2 * (5 + 600/30 + 1); changes > most || changes < 4 {
		t.Errorf("it changed %d times, want some, and no more than %d", changes, most)
	}
	// When it lasts again, it is given up for good.
	if weighed(&p, stretch{2 * longestHold, 0.4, 0.8, 32 * mebibyte}); !p.yields {
		t.Error("it is not given up again")
	}
}
