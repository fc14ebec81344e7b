package monitor

import (
	"testing"
	"time"

	"tare/annex"
)

// scanOf is one that found so many pages in memory, and swapped out.
func scanOf(present, swapped int) []annex.Scan {
	states := make([]annex.State, present+swapped)
	for i := range states {
		states[i] = annex.Present | annex.Accessed
		if i >= present {
			states[i] = annex.Swapped
		}
	}
	return []annex.Scan{{Stretches: []annex.Stretch{{States: states}}}}
}

const second = annex.Moment(time.Second)

func next(t *testing.T, s *Schedule) annex.Moment {
	t.Helper()
	at, ok := s.Next()
	if !ok {
		t.Fatal("nothing is scheduled")
	}
	return at
}

func TestScheduleSlowsWhileNothingChanges(t *testing.T) {
	s := NewSchedule(Pace{})
	s.Add("one", second)
	if id, ok := s.Due(second); !ok || id != "one" {
		t.Fatalf("due: %q, %t", id, ok)
	}
	s.Note(annex.Activity{ID: "one", What: annex.Woke})
	now := second
	for i, c := range []struct {
		present, swapped int
		wait             annex.Moment
	}{
		{1000, 0, 5}, {1000, 0, 10}, {1005, 0, 20}, {1000, 0, 30}, {1000, 0, 30},
		{900, 100, 5}, {900, 100, 10}, {800, 200, 5},
	} {
		s.Scanned("one", now, scanOf(c.present, c.swapped), Cost{})
		if wait := next(t, s) - now; wait != c.wait*second {
			t.Fatalf("scan %d: %v until the next, want %v", i, time.Duration(wait), time.Duration(c.wait*second))
		}
		if _, ok := s.Due(now); ok {
			t.Fatalf("scan %d: due at once", i)
		}
		now = next(t, s)
	}
}

// All are scanned at once, and those that are awake by the new pace afterwards, though nothing
// of them is noted again.
func TestScheduleRestarts(t *testing.T) {
	s := NewSchedule(Pace{Idle: time.Hour})
	for _, id := range []annex.ID{"awake", "asleep"} {
		s.Add(id, second)
		s.Scanned(id, second, scanOf(10, 0), Cost{})
	}
	s.Note(annex.Activity{ID: "awake", What: annex.Woke})
	now := 2 * second
	s.Restart(Pace{Least: time.Second, Most: 2 * time.Second, Idle: time.Minute}, now)
	scanned := map[annex.ID]int{}
	for range 2 * len(s.all) {
		id, due := s.Due(now)
		if !due {
			break
		}
		scanned[id]++
		s.Scanned(id, now, scanOf(10, 0), Cost{})
	}
	if len(scanned) != 2 || scanned["awake"] != 1 || scanned["asleep"] != 1 {
		t.Errorf("at once %v were scanned, want both", scanned)
	}
	if wait := next(t, s) - now; wait != second {
		t.Errorf("%v until the next, want that of the new pace", time.Duration(wait))
	}
	if id, _ := s.Due(now + second); id != "awake" {
		t.Errorf("%s is next", id)
	}
}

func TestScheduleLeavesSleepersAlone(t *testing.T) {
	s := NewSchedule(Pace{Least: 5 * time.Second, Idle: time.Minute})
	s.Add("one", 0)
	s.Scanned("one", second, scanOf(10, 0), Cost{})
	if at := next(t, s); at != 61*second {
		t.Errorf("one that sleeps is due at %v", time.Duration(at))
	}
	// It wakes: its turn comes as if it had never slept.
	s.Note(annex.Activity{ID: "one", What: annex.Woke})
	if at := next(t, s); at != 6*second {
		t.Errorf("one that woke is due at %v", time.Duration(at))
	}
	// Having run, it is looked at once more after it slept.
	s.Note(annex.Activity{ID: "one", What: annex.Slept})
	if at := next(t, s); at != 6*second {
		t.Errorf("one that ran is due at %v", time.Duration(at))
	}
	s.Scanned("one", 6*second, scanOf(10, 0), Cost{})
	if at := next(t, s); at != 66*second {
		t.Errorf("one that sleeps again is due at %v", time.Duration(at))
	}
}

// What a container wrote is seen when it falls asleep, if it worked.
func TestScheduleLooksAtWhoFellAsleep(t *testing.T) {
	s := NewSchedule(Pace{Least: 4 * time.Second})
	s.Add("one", 0)
	s.Scanned("one", second, scanOf(10, 0), Cost{})
	sleeps := func(at annex.Moment, cpu time.Duration) {
		s.Note(annex.Activity{ID: "one", What: annex.Woke, At: at - second/2})
		s.Note(annex.Activity{ID: "one", What: annex.Slept, At: at, CPU: cpu})
	}
	for _, c := range []struct {
		at   annex.Moment
		cpu  time.Duration
		want annex.Moment
	}{
		{2 * second, 5 * time.Millisecond, 5 * second},   // a timer's work
		{2 * second, 50 * time.Millisecond, 2 * second},  // at once
		{40 * second, 5 * time.Millisecond, 5 * second},  // due anyhow
		{40 * second, 50 * time.Millisecond, 5 * second}, // likewise
	} {
		sleeps(c.at, c.cpu)
		if at := next(t, s); at != c.want {
			t.Errorf("asleep at %v after %v: due at %v, want %v", time.Duration(c.at), c.cpu, time.Duration(at), time.Duration(c.want))
		}
	}
	s.Scanned("one", 41*second, scanOf(10, 0), Cost{CPU: 10 * time.Millisecond})
	sleeps(50*second, time.Second)
	if at := next(t, s); at != 61*second {
		t.Errorf("beyond the budget of 20 s: due at %v", time.Duration(at))
	}
}

func TestScheduleHoldsItsBudget(t *testing.T) {
	s := NewSchedule(Pace{Budget: 0.001})
	s.Add("large", 0)
	s.Note(annex.Activity{ID: "large", What: annex.Woke})
	s.Scanned("large", 0+second, scanOf(10, 0), Cost{CPU: 50 * time.Millisecond})
	if at := next(t, s); at != 51*second {
		t.Errorf("a scan of 50 ms is due again at %v, want after 50 s", time.Duration(at))
	}
}

func TestScheduleTakesTheOneThatWaitedLongest(t *testing.T) {
	s := NewSchedule(Pace{})
	if _, ok := s.Next(); ok {
		t.Error("something is scheduled of nothing")
	}
	for i, id := range []annex.ID{"c", "a", "b"} {
		s.Add(id, annex.Moment(3-i))
	}
	s.Add("a", 0) // it is there
	for _, want := range []annex.ID{"b", "a", "c"} {
		id, ok := s.Due(10)
		if !ok || id != want {
			t.Fatalf("due: %q, %t, want %q", id, ok, want)
		}
		s.Scanned(id, 10, nil, Cost{})
	}
	s.Remove("a")
	s.Remove("a")
	s.Note(annex.Activity{ID: "a"})
	s.Scanned("a", 20, nil, Cost{})
	for range 2 {
		id, ok := s.Due(1000 * second)
		if !ok || id == "a" {
			t.Fatalf("due: %q, %t", id, ok)
		}
		s.Remove(id)
	}
	if _, ok := s.Next(); ok {
		t.Error("something is scheduled after all was removed")
	}
}
