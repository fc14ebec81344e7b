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
		timings = append(timings, timing{Intended: at(due), Sent: at(due), Answered: at(free), First: at(free), Ready: never})
	}
	return timings
}

func TestGrowthTellsAQueueThatIsNotKeptUpWith(t *testing.T) {
	const capacity = 6.0
	for _, c := range []struct {
		rate float64
		want float64 // rate/capacity - 1, or 0
	}{{1, 0}, {4, 0}, {5.4, 0}, {7.2, 0.2}, {12, 1}, {60, 9}} {
		for seed := range uint64(5) {
			g := growthOf(queue(40, c.rate, 1/capacity, 0.3, seed), 0.95)
			if math.Abs(g.Value-c.want) > 0.08+0.1*c.want { // three standard errors
				t.Errorf("rate %v on capacity %v: growth %v, want %v", c.rate, capacity, g.Value, c.want)
			}
			if grows := g.Value > kneeGrowth; grows != (c.want > 0) {
				t.Errorf("rate %v on capacity %v counts as growing: %v", c.rate, capacity, grows)
			}
		}
	}
}

func TestGrowthOfTooFewIsNotTold(t *testing.T) {
	timings := queue(12, 4, 1, 0, 1)
	for i := range timings {
		if i%2 == 0 {
			timings[i].Failed = "start: refused"
		}
	}
	if g := growthOf(timings, 0.95); !math.IsNaN(g.Value) || len(g.Warnings) == 0 {
		t.Errorf("growth of %d answers is %+v", g.N, g)
	}
}

func TestFailedStartsAreInNoLatency(t *testing.T) {
	timings := []timing{
		{Intended: 0, Answered: time.Second, First: 2 * time.Second, Ready: 3 * time.Second},
		{Intended: time.Second, Answered: 5 * time.Second, First: never, Ready: never, Failed: "readiness: not ready"},
		{Intended: 2 * time.Second, Answered: never, First: never, Ready: never, Failed: "start: refused"},
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
		{Intended: 2 * second, Answered: never, Failed: "start: no answer"},
	}
	want := []step{{0, 1}, {second, 2}, {2 * second, 2}, {3 * second, 1}}
	if diff := cmp.Diff(want, backlogOf(timings), cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("backlog (-want +got):\n%s", diff)
	}
	if most := mostWaiting(backlogOf(timings)); most != 2 {
		t.Errorf("most waiting %d, want 2", most)
	}
}

func TestTimingsAreStoredWhole(t *testing.T) {
	timings := append(queue(5, 4, 0.1, 0.5, 3), timing{Intended: time.Second, Sent: time.Second, Answered: never, First: never, Ready: never, Failed: "start: refused"})
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
