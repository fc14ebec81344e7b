package predict

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"tare/annex"
)

// Faults and wakings come from the kernel by different ways: those told first that belong to
// a waking count, and those that do not, do not.
func TestFaultsBeforeTheirWaking(t *testing.T) {
	c := New(Options{})
	s := annex.Space{PID: 7}
	at := func(seconds float64) annex.Moment { return annex.Moment(seconds * float64(time.Second)) }
	c.Touched([]annex.Fault{{Space: s, Page: 100, At: at(9)}, {Space: s, Page: 5, At: at(10.1)}, {Space: s, Page: 4, At: at(10.2)}})
	c.Began(at(10))
	c.Touched([]annex.Fault{{Space: s, Page: 3, At: at(10.3)}})
	c.Ended(at(11))
	want := []Ranked{{Run: annex.Run{Space: s, First: 5, Pages: 1}}, {Run: annex.Run{Space: s, First: 4, Pages: 1}}, {Run: annex.Run{Space: s, First: 3, Pages: 1}}}
	if got := c.Pages(); !slices.Equal(got, want) {
		t.Errorf("the record is %v, want %v", got, want)
	}

	many := make([]annex.Fault, 2*earlyFaults)
	for i := range many {
		many[i] = annex.Fault{Space: s, Page: annex.Page(i), At: at(12)}
	}
	c.Touched(many)
	if len(c.early) > earlyFaults {
		t.Errorf("%d faults wait for their waking", len(c.early))
	}
}

// Two processes may use the same addresses, and one may go without the other.
func TestSpacesAreToldApart(t *testing.T) {
	c := New(Options{})
	a, b := annex.Space{PID: 7, Started: 1}, annex.Space{PID: 7, Started: 2}
	c.Began(0)
	for p := range annex.Page(4) {
		c.Touched([]annex.Fault{{Space: a, Page: p, At: 1}, {Space: b, Page: 10 * p, At: 2}})
	}
	c.Forget(b)
	c.Ended(3)
	if got, want := c.Pages(), []Ranked{{Run: annex.Run{Space: a, Pages: 4}}}; !slices.Equal(got, want) {
		t.Errorf("the record is %v, want %v", got, want)
	}
	before := c.Size()
	c.Forget(a)
	if got := c.Pages(); len(got) > 0 {
		t.Errorf("of spaces that are no more the record is %v", got)
	}
	if after := c.Size(); after >= before {
		t.Errorf("what was forgotten takes %d bytes, and took %d", after, before)
	}
}

// How long before its use a page was predicted: since the burst began, or since the page was
// brought in, where it was.
func TestLeadOfTheRecord(t *testing.T) {
	w := newWorker()
	pages := upTo(0, 200) // 50 us apart, so that the middle one is touched after 5 ms
	for range 10 {
		w.burst(pages)
	}
	if got := w.Scores()[0].Lead; got < 4*time.Millisecond || got > 6*time.Millisecond {
		t.Errorf("with nothing brought in the lead is %v, want 5 ms", got)
	}
	for range 20 {
		w.Brought(runsOf(w.Pages()), w.now.After(8*time.Second)) // two before it wakes
		w.burst(pages)
	}
	if got := w.Scores()[0].Lead; got < 1700*time.Millisecond || got > 2300*time.Millisecond {
		t.Errorf("with pages brought in two seconds before the lead is %v", got)
	}
}

// What the record of a working set takes, in bytes a page, from a dense one to one that has
// each eighth page: a daemon may take eight of each page that it manages, for everything.
func TestSizeOfTheRecord(t *testing.T) {
	for _, c := range []struct {
		every int
		most  float64
	}{{1, 3.1}, {2, 3.6}, {8, 6.5}} {
		w := newWorker()
		var pages []annex.Page
		for p := range 16384 {
			pages = append(pages, annex.Page(p*c.every))
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 8 {
			w.burst(shuffled(r, pages))
		}
		got := float64(w.Size()) / float64(len(pages))
		t.Logf("of each %d. page: %.2f bytes", c.every, got)
		if got > c.most {
			t.Errorf("the record of each %d. page takes %.2f bytes of each, want %.1f at most", c.every, got, c.most)
		}
		w.known = nil
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		says := w.Size()
		runtime.KeepAlive(w)
		w = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		if freed := float64(before.HeapAlloc) - float64(after.HeapAlloc); freed > 1.25*float64(says) {
			t.Errorf("it says that it takes %d bytes, and gave back %.0f", says, freed)
		}
	}
}
