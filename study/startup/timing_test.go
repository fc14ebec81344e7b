package startup

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// queue simulates starts on a server that takes service for each, one after
// another, with some noise.
func queue(n int, rate, service float64, noise float64, seed uint64) []timing {
	random := rand.New(rand.NewPCG(seed, 1))
	var timings []timing
	free := 0.0
	for i := range n {
		due := float64(i) / rate
		took := service * (1 + noise*(2*random.Float64()-1))
		free = max(free, due) + took
		at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
		timings = append(timings, timing{Intended: at(due), Sent: at(due), Answered: at(free), First: at(free), Ready: never, Over: never})
	}
	return timings
}

// share simulates starts that share a server of the same capacity equally, all
// at once.
func share(n int, rate, service float64, noise float64, seed uint64) []timing {
	random := rand.New(rand.NewPCG(seed, 2))
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	timings := make([]timing, n)
	left := map[int]float64{} // work to do, by start
	now, next := 0.0, 0
	for next < n || len(left) > 0 {
		arrival := math.Inf(1)
		if next < n {
			arrival = float64(next) / rate
		}
		first, least := -1, math.Inf(1)
		for i, work := range left {
			if work < least || work == least && i < first {
				first, least = i, work
			}
		}
		end := math.Inf(1)
		if first >= 0 {
			end = now + least*float64(len(left))
		}
		until := min(arrival, end)
		for i := range left {
			left[i] -= (until - now) / float64(len(left))
		}
		now = until
		if arrival <= end {
			timings[next] = due(at(arrival))
			left[next] = service * (1 + noise*(2*random.Float64()-1))
			next++
			continue
		}
		timings[first].Answered = at(now)
		delete(left, first)
	}
	return timings
}

func TestGrowthShowsWhatIsNotKeptUpWith(t *testing.T) {
	const capacity = 6.0
	for name, platform := range map[string]func(n int, rate, service, noise float64, seed uint64) []timing{"in turn": queue, "sharing": share} {
		for _, rate := range []float64{1, 4, 5, 7.5, 9, 12, 20, 36, 60, 600} {
			// In the long run 1 - capacity/rate piles up, and sooner no less.
			want := max(0, 1-capacity/rate)
			for seed := range uint64(5) {
				g := growthOf(platform(64, rate, 1/capacity, 0.3, seed), 0.95)
				if grows := g.Value > kneeGrowth; grows != (rate > capacity) {
					t.Errorf("%s: rate %v on capacity %v counts as growing: %v (%v)", name, rate, capacity, grows, g.Value)
				}
				if g.Value < want-0.15 || g.Value > 1 {
					t.Errorf("%s: rate %v on capacity %v: %v of the arrivals pile up, want %v or more", name, rate, capacity, g.Value, want)
				}
			}
		}
	}
}

// A platform without any limit on which each start takes its time is kept up
// with, however many are under way.
func TestGrowthOfSlowStartsIsNone(t *testing.T) {
	for _, takes := range []time.Duration{100 * time.Millisecond, time.Second, 2650 * time.Millisecond} {
		timings := queue(40, 8, 0.001, 0, 1)
		for i := range timings {
			timings[i].Answered = timings[i].Intended + takes
		}
		if g := growthOf(timings, 0.95); g.Value > kneeGrowth {
			t.Errorf("starts of %v each, all at once: %v of them pile up", takes, g.Value)
		}
	}
}

func TestGrowthOfTooFewIsUnknown(t *testing.T) {
	if g := growthOf(queue(fewestForGrowth-1, 4, 1, 0, 1), 0.95); !math.IsNaN(g.Value) || len(g.Warnings) == 0 {
		t.Errorf("growth of %d starts is %+v", g.N, g)
	}
}

// Starts that were refused at once are nobody's backlog.
func TestRefusedStartsDoNotPileUp(t *testing.T) {
	timings := queue(40, 4, 0.1, 0, 1)
	for i := range timings {
		if i%3 == 0 {
			timings[i].Answered, timings[i].First = never, never
			timings[i].Failed, timings[i].Over = "start: refused", timings[i].Intended+time.Millisecond
		}
	}
	if g := growthOf(timings, 0.95); g.Value != 0 {
		t.Errorf("growth %v", g.Value)
	}
	if steps := backlogOf(timings); steps[len(steps)-1].waiting != 0 {
		t.Errorf("%d starts wait for ever", steps[len(steps)-1].waiting)
	}
}

func TestFailedStartsAreInNoLatency(t *testing.T) {
	timings := []timing{
		{Intended: 0, Answered: time.Second, First: 2 * time.Second, Ready: 3 * time.Second},
		{Intended: time.Second, Answered: 5 * time.Second, First: never, Ready: never, Failed: "readiness: not ready", Over: 6 * time.Second},
		{Intended: 2 * time.Second, Answered: never, First: never, Ready: never, Failed: "start: refused", Over: 3 * time.Second},
	}
	for name, want := range map[string][]time.Duration{answer: {time.Second}, first: {2 * time.Second}, ready: {3 * time.Second}} {
		if got := latencyOf(timings, name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if n := failuresOf(timings); n != 2 {
		t.Errorf("%d failures, want 2", n)
	}
	if got := throughputOf(timings); got != 1 {
		t.Errorf("throughput %v/s, want 1", got)
	}
	if err := nothingStarted(timings); err != nil {
		t.Errorf("one started: %v", err)
	}
	if err := nothingStarted(timings[1:]); err == nil {
		t.Error("nothing started, and that is no error")
	}
}

func TestBacklog(t *testing.T) {
	second := time.Second
	timings := []timing{
		{Intended: 0, Answered: 3 * second},
		{Intended: second, Answered: 2 * second},
		{Intended: 2 * second, Answered: never, Failed: "start: no answer", Over: 4 * second},
	}
	want := []step{{0, 1}, {second, 2}, {2 * second, 2}, {3 * second, 1}, {4 * second, 0}}
	if diff := cmp.Diff(want, backlogOf(timings), cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("backlog (-want +got):\n%s", diff)
	}
	if most := mostWaiting(backlogOf(timings)); most != 2 {
		t.Errorf("most waiting %d, want 2", most)
	}
}

func TestTimingsAreStoredWhole(t *testing.T) {
	timings := append(queue(5, 4, 0.1, 0.5, 3), timing{Intended: time.Second, Sent: time.Second, Answered: never, First: never, Ready: never, Failed: "start: refused", Over: 2 * time.Second})
	data, err := encodeTimings(timings)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeTimings(data)
	if err != nil {
		t.Fatal(err)
	}
	rounded := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() <= time.Nanosecond })
	if diff := cmp.Diff(timings, got, rounded); diff != "" {
		t.Errorf("timings (-want +got):\n%s", diff)
	}
	if _, err := decodeTimings([]byte("{")); err == nil {
		t.Error("half an attachment was read")
	}
}

func FuzzDecodeTimings(f *testing.F) {
	data, err := encodeTimings(queue(3, 1, 1, 0, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		timings, err := decodeTimings(data)
		if err != nil {
			return
		}
		// Whatever was stored, the page is made of it without a panic.
		backlogOf(timings)
		if len(timings) > 0 {
			growthOf(timings, 0.95)
		}
	})
}
