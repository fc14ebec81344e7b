package monitor

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"tare/annex"
	"tare/kernel/clock"
	"tare/probe"
)

// patience is how long what has to come is awaited before the test fails.
const patience = 10 * time.Second

func open(t testing.TB, o Options) *Monitor {
	t.Helper()
	needRoot(t)
	m, err := Open(o)
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// streaming opens one that tells faults.
func streaming(t testing.TB, o Options) *Monitor {
	t.Helper()
	m := open(t, o)
	if !m.Streams() {
		t.Skip(m.Lacks()[len(m.Lacks())-1]) // the last is the stream's
	}
	return m
}

func watch(t testing.TB, m *Monitor, id annex.ID, dir string) {
	t.Helper()
	if err := m.Watch(id, dir); err != nil {
		t.Fatal(err)
	}
}

// await takes batches until one is what is awaited.
func await(t testing.TB, m *Monitor, what string, found func(Batch) bool) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case b, open := <-m.Events():
			if !open {
				t.Fatalf("%s was not told: the monitor ended: %v", what, m.Err())
			}
			if b.Lost > 0 {
				t.Fatalf("%d events were lost", b.Lost)
			}
			if found(b) {
				return
			}
		case <-late:
			t.Fatalf("%s was not told", what)
		}
	}
}

// awaitActivity awaits that a container wakes, or that it sleeps and does not wake again at
// once, as on a busy host it may.
func awaitActivity(t testing.TB, m *Monitor, id annex.ID, what annex.Change) (a annex.Activity) {
	t.Helper()
	await(t, m, "activity", func(b Batch) bool {
		found := false
		for _, one := range b.Activity {
			switch {
			case one.ID != id:
			case one.What == what:
				a, found = one, true
			case what == annex.Slept:
				found = false
			}
		}
		return found
	})
	return a
}

// history gathers which of a process' pages faulted, until that many have.
func history(t testing.TB, m *Monitor, p *toucher, n int) (pages []int, faults []annex.Fault) {
	t.Helper()
	if n == 0 {
		return nil, nil
	}
	await(t, m, "a fault", func(b Batch) bool {
		for _, f := range b.Faults {
			if page, is := p.of(f.Page); is {
				pages = append(pages, page)
				faults = append(faults, f)
			}
		}
		return len(pages) >= n
	})
	return pages, faults
}

func shuffled(n int, seed uint64) []int {
	return rand.New(rand.NewPCG(seed, 1)).Perm(n)
}

func TestFaultsComeInTheOrderOfTheTouches(t *testing.T) {
	needSwap(t)
	g, dir := newGroup(t)
	m := streaming(t, Options{})
	watch(t, m, "one", dir)
	p := begin(t, g, 256)
	for round, how := range []string{"touch", "fill", "touch"} {
		p.do("out")
		// Half of them: what is not touched does not fault.
		want := shuffled(p.pages, uint64(round))[:p.pages/2]
		p.touch(how, want)
		got, faults := history(t, m, p, len(want))
		if !slices.Equal(got, want) {
			t.Fatalf("%s: faults on\n%v, want\n%v", how, got, want)
		}
		for i, f := range faults {
			if f.ID != "one" || f.Space.PID != p.pid || !f.Swapped || !f.Write {
				t.Fatalf("%s: fault %+v", how, f)
			}
			if i > 0 && f.At < faults[i-1].At {
				t.Fatalf("fault %d at %v, after one at %v", i, f.At, faults[i-1].At)
			}
		}
	}
	scans, err := m.Scan(context.Background(), "one")
	if err != nil || len(scans) != 1 {
		t.Fatalf("%d scans, %v", len(scans), err)
	}
	if s := scans[0].Space; s.PID != p.pid {
		t.Errorf("space %v", s)
	}
	// The stream's name of the space is the scan's.
	p.do("out")
	p.do("touch 0")
	if _, faults := history(t, m, p, 1); faults[0].Space != scans[0].Space {
		t.Errorf("a fault of %v, a scan of %v", faults[0].Space, scans[0].Space)
	}
}

func TestAContainerWakesBeforeItFaultsAndSleepsAfter(t *testing.T) {
	needSwap(t)
	g, dir := newGroup(t)
	const dormancy = 50 * time.Millisecond
	m := streaming(t, Options{Dormancy: dormancy})
	p := begin(t, g, 64)
	watch(t, m, "one", dir)
	p.do("out")
	awaitActivity(t, m, "one", annex.Slept)
	p.tell("touch 5 3")
	var woke annex.Moment
	await(t, m, "that it woke", func(b Batch) bool {
		for _, f := range b.Faults {
			if _, is := p.of(f.Page); is {
				t.Fatal("a fault was told before that it woke")
			}
		}
		for _, a := range b.Activity {
			if a.What == annex.Woke {
				woke = a.At
				return true
			}
		}
		return false
	})
	_, faults := history(t, m, p, 2)
	if faults[0].At < woke {
		t.Errorf("it faulted at %v, and woke at %v", faults[0].At, woke)
	}
	p.line()
	p.do("burn 40")
	// On a busy host, or where swap is slow, it slept between, and as it waited for a page. What
	// it took before a switch that was not told is not known: half of it all is awaited.
	var used time.Duration
	await(t, m, "that it slept after it worked", func(b Batch) bool {
		for _, a := range b.Activity {
			if a.What == annex.Slept && a.At > faults[1].At {
				used += a.CPU
			}
		}
		return used >= 20*time.Millisecond
	})
	// What did nothing since is silent: the next that is told is that it wakes.
	time.Sleep(4 * dormancy) // what it still did after its answer is over by then, and told
	told := annex.Moment(clock.Monotonic())
	p.tell("burn 1")
	await(t, m, "that it woke again", func(b Batch) bool {
		for _, a := range b.Activity {
			if a.What == annex.Woke && a.At >= told {
				return true
			}
			if a.At >= told { // what is late is of its work
				t.Fatalf("activity %+v while it slept", a)
			}
		}
		return false
	})
}

// The switch by which a container got its CPU may not be told; that by which it leaves is.
func TestASwitchThatWasNotToldIsMadeUpFor(t *testing.T) {
	g, dir := newGroup(t)
	m := streaming(t, Options{Dormancy: 50 * time.Millisecond})
	p := begin(t, g, 16)
	watch(t, m, "one", dir)
	// Nobody takes its CPU from it, as what follows would be a switch that is told.
	if out, err := exec.Command("chrt", "--fifo", "--pid", "1", strconv.Itoa(int(p.pid))).CombinedOutput(); err != nil {
		t.Skipf("nothing here takes a CPU for itself: %v: %s", err, out)
	}
	p.do("burn 10")
	awaitActivity(t, m, "one", annex.Slept)
	s := m.source.(*stream)
	last := len(s.links) - 1 // switches begin to be seen last
	if err := s.links[last].Close(); err != nil {
		t.Fatal(err)
	}
	before := p.ran()
	p.tell("burn 300")
	// It has its CPU, and no switch has told so.
	for end := time.Now().Add(patience); p.ran()-before < 20*time.Millisecond; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has not begun")
		}
	}
	if ran := p.ran() - before; ran > 250*time.Millisecond {
		t.Skipf("it had nearly ended when that was seen: %v of 300ms", ran)
	}
	again, err := link.AttachTracing(link.TracingOptions{Program: s.collection.Programs[objectProgOnSwitch]})
	if err != nil {
		t.Fatal(err)
	}
	s.links[last] = again
	p.line()
	awaitActivity(t, m, "one", annex.Woke)
	if slept := awaitActivity(t, m, "one", annex.Slept); slept.CPU < 250*time.Millisecond {
		t.Errorf("it took 300ms, and %v are told", slept.CPU)
	}
}

// One that ticks and takes next to nothing sleeps, and wakes where it needs what has left.
func TestAMurmurIsNoWaking(t *testing.T) {
	needSwap(t)
	g, dir := newGroup(t)
	m := streaming(t, Options{Dormancy: 100 * time.Millisecond, Murmur: 20 * time.Millisecond})
	p := begin(t, g, 64)
	watch(t, m, "one", dir)
	p.do("out")
	stop, stopped := make(chan struct{}), make(chan struct{})
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-ticks.C:
				// To no page of what has left: a line that asks for nothing.
				p.tell("nothing")
				p.line()
			}
		}
	}()
	awaitActivity(t, m, "one", annex.Slept)
	close(stop)
	<-stopped
	p.do("touch 7")
	woke := awaitActivity(t, m, "one", annex.Woke)
	_, faults := history(t, m, p, 1)
	if faults[0].At < woke.At {
		t.Errorf("it faulted at %v, and woke at %v", faults[0].At, woke.At)
	}
}

func TestProcessesAreFollowed(t *testing.T) {
	needSwap(t)
	g, dir := newGroup(t)
	m := streaming(t, Options{})
	watch(t, m, "one", dir)
	a, b := begin(t, g, 64), begin(t, g, 64)
	a.do("out")
	b.do("out")
	order := shuffled(64, 7)
	a.touch("touch", order)
	got, faults := history(t, m, a, 64)
	if !slices.Equal(got, order) {
		t.Errorf("the first's: %v, want %v", got, order)
	}
	b.touch("touch", order[:10])
	// Address spaces may lie alike: only the process tells.
	var other []int
	await(t, m, "the second's faults", func(batch Batch) bool {
		for _, f := range batch.Faults {
			if page, is := b.of(f.Page); is && f.Space.PID == b.pid {
				other = append(other, page)
			}
		}
		return len(other) >= 10
	})
	if !slices.Equal(other, order[:10]) {
		t.Errorf("the second's: %v, want %v", other, order[:10])
	}
	if faults[0].Space.PID != a.pid {
		t.Errorf("the first's are of %v", faults[0].Space)
	}
	// A child is followed from its first page on.
	a.do("out")
	child := int32(a.touch("child", order[:5]))
	var steps []Step
	var childs []int
	await(t, m, "the child's end", func(batch Batch) bool {
		for _, f := range batch.Faults {
			if page, is := a.of(f.Page); is && f.Space.PID == child {
				childs = append(childs, page)
			}
		}
		for _, s := range batch.Processes {
			if s.Space.PID == child {
				steps = append(steps, s.What)
			}
		}
		return slices.Contains(steps, Ended)
	})
	if !slices.Equal(steps, []Step{Forked, Ended}) {
		t.Errorf("the child %v", steps)
	}
	if !slices.Equal(childs, order[:5]) {
		t.Errorf("the child's: %v, want %v", childs, order[:5])
	}
	// And what it executes.
	a.tell("again")
	a.meet()
	await(t, m, "that it executed", func(batch Batch) bool {
		return slices.ContainsFunc(batch.Processes, func(s Process) bool {
			return s.What == Executed && s.Space == faults[0].Space
		})
	})
	a.do("out")
	a.touch("touch", order)
	if got, _ := history(t, m, a, 64); !slices.Equal(got, order) {
		t.Errorf("after it executed: %v, want %v", got, order)
	}
}

func TestNewPages(t *testing.T) {
	g, dir := newGroup(t)
	p := begin(t, g, 16)
	for _, told := range []bool{true, false} {
		m := streaming(t, Options{NewPages: told})
		watch(t, m, "one", dir)
		before, err := m.Counts()
		if err != nil {
			t.Fatal(err)
		}
		const n = 100
		first := annex.Page(p.do("fresh %d", n))
		after, err := m.Counts()
		if err != nil {
			t.Fatal(err)
		}
		if after.Others-before.Others < n {
			t.Errorf("%d other faults counted, want %d at least", after.Others-before.Others, n)
		}
		var got []annex.Page
		if told {
			await(t, m, "new pages", func(b Batch) bool {
				for _, f := range b.Faults {
					if f.Page >= first && f.Page < first+n {
						got = append(got, f.Page-first)
						if f.Swapped {
							t.Fatalf("a new page was in swap: %+v", f)
						}
					}
				}
				return len(got) >= n
			})
			for i, page := range got {
				if page != annex.Page(i) {
					t.Fatalf("new pages %v", got)
				}
			}
		}
		// What comes next comes after what was told, if anything was.
		if err := m.Unwatch("one"); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for b := range m.Events() {
			if !told && len(b.Faults) > 0 {
				t.Fatalf("told of %+v", b.Faults[0])
			}
		}
	}
}

// Whether the reader blocks, rests or is about to block when a fault comes, it is told.
func TestEachFaultIsTold(t *testing.T) {
	needSwap(t)
	g, dir := newGroup(t)
	for _, delay := range []time.Duration{time.Nanosecond, 100 * time.Microsecond} {
		m := streaming(t, Options{Delay: delay})
		id := annex.ID(delay.String())
		p := begin(t, g, 1024)
		watch(t, m, id, dir)
		p.do("out")
		for i := range p.pages {
			p.do("touch %d", i)
			if got, _ := history(t, m, p, 1); !slices.Equal(got, []int{i}) {
				t.Fatalf("page %d was touched, and %v told", i, got)
			}
		}
	}
}

// What there is no room for is told as lost, and what comes later is told again.
func TestLossIsTold(t *testing.T) {
	needSwap(t)
	g, dir := newGroup(t)
	// Each fault is handed over by itself, into room for few.
	m := streaming(t, Options{Ring: 4096, Delay: time.Nanosecond})
	p := begin(t, g, 2048)
	watch(t, m, "one", dir)
	p.do("out")
	var counts Counts
	for i := 0; counts.Lost == 0; i++ {
		if i == p.pages {
			t.Fatal("nothing was lost, though nobody read")
		}
		p.do("touch %d", i)
		var err error
		if counts, err = m.Counts(); err != nil {
			t.Fatal(err)
		}
	}
	late := time.After(patience)
	for told := uint64(0); told < counts.Lost; {
		select {
		case b := <-m.Events():
			told += b.Lost
		case <-late:
			t.Fatalf("%d losses told of %d", told, counts.Lost)
		}
	}
	p.do("out")
	p.do("touch 9 4")
	if got, _ := history(t, m, p, 2); !slices.Equal(got[len(got)-2:], []int{9, 4}) {
		t.Errorf("afterwards %v", got)
	}
}

// An event to which nobody listens does not hold up the end.
func TestCloseWithoutReader(t *testing.T) {
	needSwap(t)
	g, dir := newGroup(t)
	m := streaming(t, Options{Delay: time.Nanosecond})
	p := begin(t, g, 512)
	watch(t, m, "one", dir)
	p.do("out")
	for i := range p.pages {
		p.do("touch %d", i)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	for range m.Events() {
		continue // what was told before
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}
