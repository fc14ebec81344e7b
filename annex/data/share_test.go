package data

import (
	"testing"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// TestShares divides memory among one container that is awake and three that sleep, each with
// 160 pages in memory and a record of 80, as there is less and less of it.
func TestShares(t *testing.T) {
	predictors := map[annex.ID]*fakePredictor{}
	var next *fakePredictor
	m := New(Policy{Headroom: Headroom{Low: 64 * annex.PageSize, High: 64 * annex.PageSize}, Predictor: func() Predictor { return next }, Chain: chained{}})
	for i, id := range []annex.ID{"awake", "last", "soon", "unknown"} {
		next = &fakePredictor{record: []predict.Ranked{{Run: annex.Run{Space: annex.Space{PID: int32(i)}, Pages: 80}, Certain: true}}}
		predictors[id] = next
		m.Add(ContextInfo{ID: id, Class: annex.Elastic})
		m.Scan(annex.Scan{ID: id, Space: annex.Space{PID: int32(i)}, Began: second, Ended: second, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(160, annex.Present)}}})
		m.Activity(annex.Activity{ID: id, What: annex.Woke, At: 2 * second})
		m.Activity(annex.Activity{ID: id, What: annex.Slept, At: 2 * second, CPU: time.Second})
	}
	m.Activity(annex.Activity{ID: "awake", What: annex.Woke, At: 100 * second})
	for id, at := range map[annex.ID]annex.Moment{"soon": 110 * second, "last": 900 * second} {
		predictors[id].expects, predictors[id].forecast = true, predict.Forecast{Earliest: at, Likely: at, Latest: at}
	}
	// One of which nothing is known sleeps on for as long as it has slept: till 198.
	for _, step := range []struct {
		free                       int // beside the headroom
		awake, soon, unknown, last int
	}{
		{0, 160, 160, 160, 160},
		{-200, 160, 120, 80, 80},
		{-360, 80, 80, 80, 40},
		{-420, 80, 80, 60, 0},
		{-600, 40, 0, 0, 0},
		{-900, 0, 0, 0, 0},
	} {
		m.memory.read = annex.Memory{At: 100 * second, Limit: 1 << 30, Free: int64(64+step.free) * annex.PageSize}
		got := map[annex.ID]int64{}
		for _, c := range m.Status().Contexts {
			got[c.ID] = c.ShareBytes / annex.PageSize
		}
		for id, want := range map[annex.ID]int{"awake": step.awake, "soon": step.soon, "unknown": step.unknown, "last": step.last} {
			if got[id] != int64(want) {
				t.Errorf("with %d pages free: %v, want %+v", step.free, got, step)
				break
			}
		}
	}
}

// TestSharesAreTakenBack has an awake container grow far beyond what it makes use of, with
// nobody asleep: what it has above its share leaves, but what was used just now.
func TestSharesAreTakenBack(t *testing.T) {
	m, _ := edge(ContextInfo{})
	big := states(2000, annex.Present|annex.Accessed)
	m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 2 * second})
	for at := 5 * second; at < 60*second; at += 5 * second {
		m.Scan(annex.Scan{ID: "a", Began: at, Ended: at, KnowsAccess: true, Stretches: []annex.Stretch{{States: big}}})
	}
	var used []annex.Fault
	for p := range 32 {
		used = append(used, annex.Fault{ID: "a", Page: annex.Page(512 + p), At: 60 * second, Swapped: true})
	}
	m.Faults(used)
	m.Memory(annex.Memory{At: 61 * second, Limit: 1 << 30, Free: 100 * annex.PageSize, SwapSize: 1 << 30, SwapFree: 1 << 30})
	requests, _ := m.Plan(61 * second)
	if pages(requests) != 150 {
		t.Errorf("%d pages are to leave: want the 150 that are short", pages(requests))
	}
	for _, r := range requests {
		if r.Why != annex.Share {
			t.Errorf("%+v: want them for its share", r)
		}
		for _, run := range r.Runs {
			if run.First < 544 && run.End() > 512 {
				t.Errorf("%+v was used just now", run)
			}
		}
	}
	// It waits for memory itself: half as much is taken, and nothing at its limit.
	for _, step := range []struct {
		some time.Duration
		want bool
	}{{500 * time.Millisecond, true}, {10 * time.Second, false}} {
		m, _ := edge(ContextInfo{})
		m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 2 * second})
		m.Pressure("a", annex.Pressure{At: 50 * second})
		m.Pressure("a", annex.Pressure{At: 60 * second, Some: step.some})
		m.Scan(annex.Scan{ID: "a", Began: 60 * second, Ended: 60 * second, KnowsAccess: true, Stretches: []annex.Stretch{{States: big}}})
		m.Memory(annex.Memory{At: 75 * second, Limit: 1 << 30, Free: 100 * annex.PageSize, SwapSize: 1 << 30, SwapFree: 1 << 30})
		requests, _ := m.Plan(75 * second)
		if n := pages(requests); n >= 150 || step.want != (n > 0) {
			t.Errorf("with %v of waiting %d pages are to leave: want fewer than 150, and any at all is %v", step.some, n, step.want)
		}
	}
}
