package daemon

import (
	"strings"
	"testing"
	"time"

	"tare/annex"
)

// A daemon that waits for a processor longer than it runs says so, where that is much of the
// time: not one that hardly runs, and not before it is known.
func TestStarved(t *testing.T) {
	for name, c := range map[string]struct {
		ran, waited time.Duration
		is          bool
	}{
		"as long as it runs":      {12 * time.Second, 15 * time.Second, false},
		"four times as long":      {12 * time.Second, 50 * time.Second, false},
		"eight times as long":     {6 * time.Second, 49 * time.Second, true},
		"with many threads":       {6 * time.Second, 2 * time.Minute, true},
		"not at all":              {6 * time.Second, 0, false},
		"long for the little":     {100 * time.Millisecond, 5 * time.Second, false},
		"threads that have ended": {6 * time.Second, -time.Second, false},
	} {
		w := weight{samples: []used{{0, time.Second, time.Minute, true}}}
		if got := w.starved(); got != "" {
			t.Errorf("%s: by one sample: %s", name, got)
		}
		w.samples = append(w.samples, used{annex.Moment(time.Minute), time.Second + c.ran, time.Minute + c.waited, true})
		if got := w.starved(); (got != "") != c.is || c.is && !strings.Contains(got, "CPUWeight=") {
			t.Errorf("%s: %q", name, got)
		}
		w.samples[0].isKnown = false
		if got := w.starved(); got != "" {
			t.Errorf("%s: beside a sample that failed: %q", name, got)
		}
	}
}

// What the kernel tells of waiting is in the samples.
func TestWaitingIsSampled(t *testing.T) {
	var w weight
	w.sample(0)
	if len(w.samples) != 1 || w.samples[0].cpu <= 0 || w.samples[0].waited < 0 || !w.samples[0].isKnown {
		t.Errorf("%+v", w.samples)
	}
}
