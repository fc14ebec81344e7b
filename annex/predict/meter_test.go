package predict

import (
	"testing"
	"time"
)

func TestGatesDoNotFlutter(t *testing.T) {
	m := meter{enough: 8}
	g := gate{threshold: 0.5, margin: 0.1}
	tell := func(hits, misses float64) bool {
		m.age(0)
		m.prediction(hits, true)
		m.prediction(misses, false)
		m.judge(g)
		return !m.shut
	}
	for i, c := range []struct {
		hits, misses float64
		on           bool
	}{
		{0, 7, true}, // too little to judge by
		{5, 5, true},
		{4, 5, false},
		{55, 45, false}, // not above the margin
		{6, 4, true},
		{51, 49, true},
		{49, 51, false},
	} {
		if on := tell(c.hits, c.misses); on != c.on {
			t.Errorf("%d: after %g of %g it is on: %t", i, c.hits, c.hits+c.misses, on)
		}
	}
}

func TestLeadsKnowTheirMedian(t *testing.T) {
	var l leads
	if got := l.median(); got != 0 {
		t.Errorf("the median of none is %v", got)
	}
	for _, want := range []time.Duration{3 * time.Microsecond, 700 * time.Microsecond, 10 * time.Second, 3 * time.Hour} {
		var l leads
		l.add(0)
		l.add(-time.Second)
		l.add(1 << 62)
		for range 9 {
			l.add(want)
		}
		l.add(1 << 62)
		if got := l.median(); got < want*4/5 || got > want*5/4 {
			t.Errorf("the median is %v, want %v", got, want)
		}
	}
}
