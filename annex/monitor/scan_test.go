package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"tare/annex"
	"tare/kernel/cgroup"
	"tare/probe/pagetable"
)

// statesOf gives the states of a process' pages, as scanned.
func statesOf(t testing.TB, m *Monitor, id annex.ID, p *toucher) (states []annex.State, scan annex.Scan) {
	t.Helper()
	scans, err := m.Scan(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(scans, func(s annex.Scan) bool { return s.Space.PID == p.pid })
	if i < 0 {
		t.Fatalf("process %d was not scanned", p.pid)
	}
	states = make([]annex.State, p.pages)
	last := annex.Page(0)
	for _, s := range scans[i].Stretches {
		if s.First < last {
			t.Fatalf("a stretch at page %d, below the end of the one before at %d", s.First, last)
		}
		last = s.First + annex.Page(len(s.States))
		for j, state := range s.States {
			if page, is := p.of(s.First + annex.Page(j)); is {
				states[page] = state
			}
		}
	}
	return states, scans[i]
}

// both runs a test with what this host offers, and with page maps alone.
func both(t *testing.T, test func(t *testing.T, m *Monitor)) {
	for _, c := range []struct {
		name  string
		plain bool
	}{{"tables", false}, {"plain", true}} {
		t.Run(c.name, func(t *testing.T) {
			test(t, open(t, Options{Plain: c.plain, Dormancy: 20 * time.Millisecond}))
		})
	}
}

func TestScanTellsStates(t *testing.T) {
	needSwap(t)
	both(t, func(t *testing.T, m *Monitor) {
		g, dir := newGroup(t)
		p := begin(t, g, 200)
		watch(t, m, "one", dir)
		before, scan := statesOf(t, m, "one", p)
		for i, s := range before {
			if !s.Has(annex.Present) || s.Has(annex.Swapped) || s.Has(annex.Shared) {
				t.Fatalf("page %d, written to, is %b", i, s)
			}
			if scan.KnowsAccess && !s.Has(annex.Accessed|annex.Dirty) {
				t.Fatalf("page %d, written to, is %b", i, s)
			}
		}
		p.do("out")
		back := []int{3, 90, 91, 199}
		p.touch("touch", back)
		after, _ := statesOf(t, m, "one", p)
		for i, s := range after {
			if want := slices.Contains(back, i); s.Has(annex.Present) != want || s.Has(annex.Swapped) == want {
				t.Errorf("page %d is %b; brought back: %t", i, s, want)
			}
		}
		cost := m.Cost("one")
		if cost.Processes != 1 || cost.Pages < p.pages || cost.CPU <= 0 || cost.Elapsed <= 0 || cost.At <= 0 {
			t.Errorf("cost %+v", cost)
		}
	})
}

func TestScanTellsWhatIsShared(t *testing.T) {
	both(t, func(t *testing.T, m *Monitor) {
		g, dir := newGroup(t)
		p := begin(t, g, 64)
		watch(t, m, "one", dir)
		child := int32(p.do("stay"))
		p.do("touch 5 6")
		states, _ := statesOf(t, m, "one", p)
		for i, s := range states {
			// What the parent wrote since is its own.
			if want := i != 5 && i != 6; s.Has(annex.Shared) != want {
				t.Errorf("page %d is %b, want it shared: %t", i, s, want)
			}
		}
		scans, err := m.Scan(context.Background(), "one")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(scans, func(s annex.Scan) bool { return s.Space.PID == child }) {
			t.Errorf("%d spaces, without that of the child", len(scans))
		}
	})
}

func TestScanOfWhatEnds(t *testing.T) {
	both(t, func(t *testing.T, m *Monitor) {
		g, dir := newGroup(t)
		watch(t, m, "one", dir)
		// Processes execute themselves and have children that end while they are scanned.
		a, b := begin(t, g, 64), begin(t, g, 64)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					a.tell("again")
					a.meet()
					b.do("child 1")
				}
			}
		}()
		seen := 0
		for range 40 {
			scans, err := m.Scan(context.Background(), "one")
			if err != nil {
				t.Errorf("scan: %v", err)
			}
			for _, s := range scans {
				seen++
				if s.ID != "one" || s.Ended < s.Began || s.Space.Started == 0 {
					t.Errorf("scan %+v", s)
				}
			}
		}
		close(stop)
		<-stopped
		if seen == 0 {
			t.Error("nothing was scanned")
		}
	})
}

func TestScanOfWhatIsGone(t *testing.T) {
	both(t, func(t *testing.T, m *Monitor) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		g, dir := newGroup(t)
		begin(t, g, 16)
		watch(t, m, "one", dir)
		if err := m.Watch("one", dir); !errors.Is(err, ErrWatched) {
			t.Errorf("watched again: %v", err)
		}
		if err := m.Watch("two", dir); !errors.Is(err, ErrWatched) {
			t.Errorf("watched by another name: %v", err)
		}
		if err := errors.Join(g.Kill(ctx), g.Remove(ctx)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Scan(ctx, "one"); !errors.Is(err, ErrGone) {
			t.Errorf("scan: %v", err)
		}
		if err := m.Unwatch("one"); err != nil {
			t.Error(err)
		}
		if err := m.Unwatch("one"); !errors.Is(err, ErrUnknown) {
			t.Errorf("unwatched again: %v", err)
		}
		if _, err := m.Scan(ctx, "one"); !errors.Is(err, ErrUnknown) {
			t.Errorf("scan of what is not watched: %v", err)
		}
		if err := m.Watch("one", dir); !errors.Is(err, ErrGone) {
			t.Errorf("watched when gone: %v", err)
		}
		if err := m.Watch("one", t.TempDir()); err == nil {
			t.Error("a directory that is no group is watched")
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Scan(ctx, "one"); !errors.Is(err, ErrClosed) {
			t.Errorf("scan when closed: %v", err)
		}
		if err := m.Watch("one", dir); err == nil {
			t.Error("watched when closed")
		}
	})
}

// Where a process of the group has ended before it is identified, its id may be another's, who is not in
// the group: that one's memory is nobody's here.
func TestScanOfAnIDUsedAgain(t *testing.T) {
	both(t, func(t *testing.T, m *Monitor) {
		g, dir := newGroup(t)
		elsewhere, _ := newGroup(t)
		stays, leaves := begin(t, g, 16), begin(t, g, 16)
		watch(t, m, "one", dir)
		m.idle.taker = afterwards{m.idle.taker, func() {
			if err := elsewhere.Add(int(leaves.pid)); err != nil {
				t.Error(err)
			}
		}}
		scans, err := m.Scan(t.Context(), "one")
		if err != nil || len(scans) != 1 || scans[0].Space.PID != stays.pid {
			t.Errorf("%d address spaces, %v, want that of process %d alone", len(scans), err, stays.pid)
		}
		if cost := m.Cost("one"); cost.Gone != 1 {
			t.Errorf("%d are gone, want 1", cost.Gone)
		}
	})
}

// afterwards reads page tables after something happened.
type afterwards struct {
	pagetable.Taker
	what func()
}

func (a afterwards) Take(ctx context.Context, all []pagetable.Process, flags bool) (*pagetable.Census, error) {
	a.what()
	return a.Taker.Take(ctx, all, flags)
}

// A container that starts anew is another, though its group has the same name.
func TestWatchedAnew(t *testing.T) {
	needSwap(t)
	m := streaming(t, Options{})
	g, dir := newGroup(t)
	watch(t, m, "one", dir)
	if err := m.Unwatch("one"); err != nil {
		t.Fatal(err)
	}
	watch(t, m, "two", dir)
	p := begin(t, g, 16)
	p.do("out")
	p.do("touch 3 1")
	if got, faults := history(t, m, p, 2); !slices.Equal(got, []int{3, 1}) || faults[0].ID != "two" {
		t.Errorf("faults on %v, %+v", got, faults)
	}
}

// Of groups within one another the inner counts; and one of version 2 is told like one of
// version 1.
func TestInnerAndOtherHierarchy(t *testing.T) {
	needSwap(t)
	m := streaming(t, Options{})
	g, dir := newGroup(t)
	inner := g.Child("inner")
	if err := inner.Create(); err != nil {
		t.Fatal(err)
	}
	place, _ := inner.For("memory")
	watch(t, m, "outer", dir)
	watch(t, m, "inner", place.Dir())
	p := begin(t, inner, 16)
	check := func(id annex.ID) {
		t.Helper()
		p.do("out")
		p.do("touch 3 1")
		if got, faults := history(t, m, p, 2); !slices.Equal(got, []int{3, 1}) || faults[0].ID != id {
			t.Errorf("faults on %v of %+v, want %s", got, faults, id)
		}
	}
	check("inner")
	if err := m.Unwatch("inner"); err != nil {
		t.Fatal(err)
	}
	check("outer")
	if err := m.Unwatch("outer"); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(inner.Places, func(p cgroup.Place) bool { return p.Version == 2 })
	if i < 0 || inner.Places[i].Dir() == place.Dir() {
		t.Skip("the host has one version of control groups alone")
	}
	watch(t, m, "second", inner.Places[i].Dir())
	check("second")
}

// A verifier that refuses a program, or memory that there is not, leaves what is seen without BPF.
func TestRefusedBPF(t *testing.T) {
	stream, walk := newStream, newWalk
	defer func() { newStream, newWalk = stream, walk }()
	for says, refused := range map[string]error{
		"R1 is bad":              needs.Refusal("load", &ebpf.VerifierError{Cause: syscall.EACCES, Log: []string{"R1 is bad", "processed 7 insns"}}),
		"cannot allocate memory": needs.Refusal("load", fmt.Errorf("map create: %w", syscall.ENOMEM)),
	} {
		newStream = func(*Monitor) (source, error) { return nil, refused }
		newWalk = func() (pagetable.Taker, error) { return nil, refused }
		m := open(t, Options{})
		lacks := m.Lacks()
		if m.Streams() || len(lacks) != 2 {
			t.Fatalf("it streams: %v, lacks %v", m.Streams(), lacks)
		}
		for _, one := range lacks {
			if text := one.Error(); !strings.Contains(text, says) || strings.Contains(text, "\n") || one.Mend == "" {
				t.Errorf("%q, want one line with %q", text, says)
			}
		}
	}
}

func TestPlainTellsActivity(t *testing.T) {
	g, dir := newGroup(t)
	m := open(t, Options{Plain: true, Dormancy: 20 * time.Millisecond})
	if m.Streams() {
		t.Fatal("it streams without BPF")
	}
	p := begin(t, g, 16)
	watch(t, m, "one", dir)
	p.do("burn 60")
	woke := awaitActivity(t, m, "one", annex.Woke)
	slept := awaitActivity(t, m, "one", annex.Slept)
	if slept.CPU <= 0 || slept.At < woke.At {
		t.Errorf("%+v after %+v", slept, woke)
	}
}
