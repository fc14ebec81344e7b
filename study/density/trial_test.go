package density

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/load"
	"tare/platform"
	"tare/workload"
)

// steps are those that the bench was given, with their texts.
func (f *fixture) steps(t *testing.T) []Step {
	t.Helper()
	var steps []Step
	if err := json.Unmarshal(f.bench.Attached[AttachmentSteps].Data, &steps); err != nil {
		t.Fatal(err)
	}
	return steps
}

// A sweep launches the parts one after the other into the critical group, then neighbours
// as they are wanted, each with a port of its own, into the idle one; and ends all of it in
// reverse.
func TestASweep(t *testing.T) {
	f := newFixture(1, 3)
	f.awaited, f.o.Settle = "20003", 0 // chance has it when one is turned to
	if err := f.run(t); err != nil {
		t.Fatal(err)
	}
	inOrder := []string{"box file 128", "launch database", "database is ready", "launch site", "ready at 192.0.2.1:80", "load 50", "load closed",
		"launch napper-20001", "fill 20001 with 8", "ask 20001", "launch napper-20003", "stop napper-20001", "stop site", "stop database", "remove box"}
	last := -1
	for _, line := range inOrder {
		at := f.at(line)
		if at <= last {
			t.Errorf("%q stands at %d, after %d:\n%s", line, at, last, strings.Join(f.lines, "\n"))
		}
		last = at
	}
	if f.lines[len(f.lines)-1] != "remove box" || f.count("stop ") != 5 || f.count("launch ") != 5 {
		t.Errorf("what was made was not all removed:\n%s", strings.Join(f.lines, "\n"))
	}
	ports := map[string]bool{}
	for _, s := range f.launched {
		want := "box/critical"
		if strings.HasPrefix(s.Args[0], "napper") {
			want = "box/idle"
			ports[s.Args[0]] = true
		}
		if s.Group != want {
			t.Errorf("%s is in group %q, want %s", s.Args[0], s.Group, want)
		}
		if s.Args[0] == "site" && s.Args[1] != "192.0.2.1:27017" {
			t.Errorf("the site finds its database at %s", s.Args[1])
		}
		if s.Image.Name == "napper" != (want == "box/idle") {
			t.Errorf("%s is launched from image %q", s.Args[0], s.Image.Name)
		}
	}
	if len(ports) != 3 {
		t.Errorf("three neighbours have %d ports", len(ports))
	}
	if f.count("ask 20001") == 0 || f.count("ask 20003") == 0 {
		t.Error("a neighbour was never asked")
	}
	steps := f.steps(t)
	if len(steps) != 2 || steps[0].Neighbours != 1 || steps[1].Neighbours != 3 {
		t.Fatalf("steps %+v", steps)
	}
	s := steps[1]
	if s.Stop != "" || s.Closed.Rate != 100 || s.Open.Requests != 5 || s.Idle.Requests == 0 || s.Elapsed <= 0 {
		t.Errorf("step %+v", s)
	}
	// What is asked for is what was written, and not files: 1 + 1 + 2 MiB of 128.
	if s.Asked != 4<<20 || s.Overcommit != 4./128 || s.SwapOut != 10 || s.Classes[platform.Idle].MajorFaults != 1 {
		t.Errorf("accounts %+v", s)
	}
	if s.Limit != 100<<20 || s.Keeper != time.Millisecond || s.Reclaimed != 2*time.Millisecond ||
		!slices.Equal(s.Notes, []string{"the host has swap of its own", "reading 8", "reading 9"}) {
		t.Errorf("kept of the box: limit %d, keeper %v, reclaimed %v, notes %q", s.Limit, s.Keeper, s.Reclaimed, s.Notes)
	}
	if s.Open.Elapsed <= 0 || s.Closed.Elapsed <= 0 || s.Idle.Elapsed <= 0 {
		t.Errorf("loads took %v, %v and %v", s.Open.Elapsed, s.Closed.Elapsed, s.Idle.Elapsed)
	}
	if f.bench.Begun != 2 || f.bench.Done != 2 || f.bench.Checked != 1 {
		t.Errorf("begun %d, done %d, checked %d", f.bench.Begun, f.bench.Done, f.bench.Checked)
	}
	if f.bench.Histograms["3/open"] == nil || f.bench.Histograms["3/idle"] == nil || len(f.bench.Samples[MetricThroughput+AtNeighbours(3)]) != 1 {
		t.Errorf("kept: %v, %v", f.bench.Histograms, f.bench.Samples)
	}
	if len(f.bench.Lines) != 2 || !strings.Contains(f.bench.Lines[0], "1 neighbour,") {
		t.Errorf("lines %q", f.bench.Lines)
	}
}

// Of a step that was disturbed and done again, one is kept.
func TestADisturbedStepIsKeptOnce(t *testing.T) {
	f := newFixture(1, 2)
	f.bench.Disturbed = 2
	if err := f.run(t); err != nil {
		t.Fatal(err)
	}
	if steps := f.steps(t); len(steps) != 2 || steps[0].SwapOut != 10 || f.bench.Begun != 4 || f.count("launch napper") != 2 {
		t.Errorf("begun %d, steps %+v", f.bench.Begun, steps)
	}
}

// Where memory ends, the sweep stops and says why, and its trial stands.
func TestWhatStopsASweep(t *testing.T) {
	for name, c := range map[string]struct {
		of    func(*fixture)
		says  string
		steps int
	}{
		"the box is in danger":            {func(f *fixture) { f.danger = 9 }, "for the host's sake: a test's", 2},
		"throughput is next to nothing":   {func(f *fixture) { f.shop.closed = []float64{100, 100, 9.9} }, "it thrashes: 9.9 requests/s", 2},
		"nothing is answered":             {func(f *fixture) { f.shop.err = errUnanswered }, "it thrashes: not one request", 2},
		"a neighbour is killed":           {func(f *fixture) { f.nap.bad, f.killed = 20002, 1 }, "the kernel killed a program", 2},
		"a neighbour that does not start": {func(f *fixture) { f.refuses, f.after, f.killed = "box/idle", 3, 1 }, "it does not start", 2},
		"danger as neighbours come":       {func(f *fixture) { f.danger = 7 }, "for the host's sake: a test's", 2},
		"one that lies idle is killed":    {func(f *fixture) { f.killAt = "fill 20002 with 9" }, "the kernel killed a program", 2},
		"one is killed under the load":    {func(f *fixture) { f.killLoad = 3 }, "the kernel killed a program", 2},
	} {
		f := newFixture(1, 2, 3)
		c.of(f)
		if err := f.run(t); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		steps := f.steps(t)
		if len(steps) != c.steps || !strings.Contains(steps[len(steps)-1].Stop, c.says) || steps[0].Stop != "" {
			t.Errorf("%s: steps %+v, want %d, the last stopped by %q", name, steps, c.steps, c.says)
		}
		if f.lines[len(f.lines)-1] != "remove box" || f.count("stop ") != f.count("launch ") {
			t.Errorf("%s: left:\n%s", name, strings.Join(f.lines, "\n"))
		}
	}
}

// How long a load ran says whether it did: of a step that ended before it, not at all.
func TestALoadThatNeverRan(t *testing.T) {
	for name, c := range map[string]struct {
		of           func(*fixture)
		open, closed bool
	}{
		"ended as neighbours came": {func(f *fixture) { f.danger = 7 }, false, false},
		"ended in the open load":   {func(f *fixture) { f.shop.openErr = errUnanswered }, true, false},
		"ended in the closed load": {func(f *fixture) { f.shop.err = errUnanswered }, true, true},
		"thrashing under both":     {func(f *fixture) { f.shop.closed = []float64{100, 100, 1} }, true, true},
	} {
		f := newFixture(1, 2, 3)
		f.o.Settle = 0
		c.of(f)
		if err := f.run(t); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := f.steps(t)[1]
		if s.Stop == "" || s.Open.Elapsed > 0 != c.open || s.Closed.Elapsed > 0 != c.closed {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Whatever the number of neighbours, they are asked at the same moments.
func TestTheNeighboursAreAskedAlike(t *testing.T) {
	f := newFixture(1, 2)
	few := &ascent{trial: trial{Options: f.o, pattern: load.RandomTarget}, bench: f.bench, herd: &herd{targets: make([]load.Target, 1)}}
	many := &ascent{trial: trial{Options: f.o, pattern: load.RandomTarget}, bench: f.bench, herd: &herd{targets: make([]load.Target, 9)}}
	if one, other := few.asked(nil), many.asked(nil); one.Seed != other.Seed || one.Seed != f.bench.Seed() {
		t.Errorf("%+v and %+v", one, other)
	}
}

// Each load of a step goes on with the neighbours' turns where the last one ended.
func TestTheNeighboursTurnsGoOn(t *testing.T) {
	f := newFixture(1, 7)
	f.o.IdleClosed, f.o.Think = true, time.Millisecond // one after the other, so that the journal has their order
	h := &herd{}
	for i := range 7 {
		h.targets = append(h.targets, asked{f.world, fmt.Sprint(20001 + i)})
	}
	s := &ascent{trial: trial{Options: f.o, pattern: load.PeriodicTarget}, bench: f.bench, herd: h}
	var turns int
	for _, least := range []int{4, 6, 9} { // no whole rounds
		all, enough := turns+least, make(chan struct{})
		f.wait("ask ", all, enough)
		stop := s.ask(t.Context())
		<-enough
		if _, err := stop(); err != nil {
			t.Fatal(err)
		}
		turns = f.count("ask ")
	}
	for i := 7; i < turns; i++ {
		if f.lines[i] != f.lines[i-7] {
			t.Fatalf("turn %d is not that of the round before:\n%s", i, strings.Join(f.lines, "\n"))
		}
	}
}

// Neighbours whose requests fail, be it while the box comes to rest, are reported beside the
// service's own failure, and end the first step alone.
func TestTroubleWithTheNeighbours(t *testing.T) {
	failed := load.ActivationResult{Result: load.Result{Errors: map[string]int64{load.KindConnect: 2}, FirstError: errUnanswered}}
	gone := errors.New("gone")
	for _, c := range []struct {
		asking error
		first  bool
		want   error
	}{{nil, true, errUnanswered}, {nil, false, nil}, {gone, false, gone}} {
		if got := troubled(failed, c.asking, c.first); !errors.Is(got, c.want) {
			t.Errorf("first %v: %v, want %v", c.first, got, c.want)
		}
	}
	if err := troubled(load.ActivationResult{}, nil, true); err != nil {
		t.Error(err)
	}
}

// What is not memory's fault makes the trial not valid, and everything is removed.
func TestWhatFailsATrial(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(*fixture)
		says string
	}{
		"wrong answers at the first step": {func(f *fixture) { f.shop.failed = 2 }, "what was booked is not there"},
		"danger at the first step":        {func(f *fixture) { f.danger = 1 }, "a test's"},
		"a neighbour fails by itself":     {func(f *fixture) { f.nap.bad = 20002 }, "with 2 neighbours: neighbour 2: fill it: its memory ended"},
		"a kill at the first step":        {func(f *fixture) { f.killAt = "fill 20001 with 8" }, "with 1 neighbours: the kernel killed a program"},
		"failing after an old kill":       {func(f *fixture) { f.killAt, f.nap.bad = "launch site", 20002 }, "neighbour 2: fill it: its memory ended"},
		"a box that is no longer kept":    {func(f *fixture) { f.unread = 8 }, "with 2 neighbours: the box is not kept"},
		"no neighbour starts":             {func(f *fixture) { f.refuses = "box/idle" }, "with 1 neighbours: neighbour 1: launch on fake: it does not start"},
		"the service does not start":      {func(f *fixture) { f.refuses = "box/critical" }, "launch database on fake"},
		"half of it does not start":       {func(f *fixture) { f.refuses, f.after = "box/critical", 1 }, "launch site on fake"},
		"a load cannot be made":           {func(f *fixture) { f.shop.err = errors.New("the client broke") }, "the client broke"},
		"what does not end":               {func(f *fixture) { f.unstable = "site" }, "it does not end"},
	} {
		f := newFixture(1, 2)
		c.of(f)
		err := f.run(t)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if f.lines[len(f.lines)-1] != "remove box" || f.count("stop ") != f.count("launch ") {
			t.Errorf("%s: left:\n%s", name, strings.Join(f.lines, "\n"))
		}
	}
}

// The lab's warm-up shows that all can be had, with a neighbour or two.
func TestTheWarmUpIsShort(t *testing.T) {
	f := newFixture(5, 9)
	f.bench.Warm = true
	if err := f.run(t); err != nil {
		t.Fatal(err)
	}
	if f.count("launch napper") != warmUpNeighbours || len(f.bench.Samples) != 0 {
		t.Errorf("%d neighbours, samples %v", f.count("launch napper"), f.bench.Samples)
	}
}

// Interleaved, the step that all others are compared with is another trial's: where memory
// ends, this one has found that, and stands.
func TestWhatStopsAnInterleavedTrial(t *testing.T) {
	for name, of := range map[string]func(*fixture){
		"a failed request":     func(f *fixture) { f.shop.failed = 2 },
		"the box is in danger": func(f *fixture) { f.danger = 3 },
		"a program is killed":  func(f *fixture) { f.killAt = "fill 20004 with 11" },
	} {
		for i, warm := range []bool{false, false, true} { // of the first number, of the other, and of that in the warm-up
			f := newFixture(2, 4)
			f.o.Order = Interleaved
			f.bench.Warm = warm
			of(f)
			if warm && f.killAt != "" {
				continue // a warm-up has no fourth neighbour
			}
			err := f.runCondition(t, min(i, 1))
			switch {
			case i != 1 && f.killAt == "" && err == nil:
				t.Errorf("%s: condition %d, warm-up %v: nothing failed", name, i, warm)
			case i == 1 && err != nil:
				t.Errorf("%s: %v", name, err)
			case i == 1 && f.shop.failed == 0 && f.steps(t)[0].Stop == "":
				t.Errorf("%s: %+v", name, f.steps(t))
			}
		}
	}
}

// A trial of an interleaved condition is one number of neighbours, under names that all
// have.
func TestInterleaved(t *testing.T) {
	f := newFixture(2, 4)
	f.o.Order = Interleaved
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	if err := f.run(t); err != nil {
		t.Fatal(err)
	}
	if steps := f.steps(t); len(steps) != 1 || steps[0].Neighbours != 2 {
		t.Errorf("steps %+v", steps)
	}
	if f.bench.Histograms[histogramOpen] == nil || !slices.Equal(f.bench.Samples[MetricThroughput], []float64{100}) {
		t.Errorf("kept: %v, %v", f.bench.Histograms, f.bench.Samples)
	}
}
