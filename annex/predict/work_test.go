package predict

import (
	"math/rand/v2"
	"testing"
	"time"

	"tare/annex"
)

// worker is a container whose bursts touch pages, all of which leave while it sleeps.
type worker struct {
	*Context
	space annex.Space
	now   annex.Moment
	known map[annex.Page]bool // touched before: in swap
}

func newWorker() *worker {
	return &worker{Context: New(Options{}), space: annex.Space{PID: 7}, now: annex.Moment(time.Hour), known: map[annex.Page]bool{}}
}

func (w *worker) burst(pages []annex.Page) {
	w.now = w.now.After(10 * time.Second)
	w.Began(w.now)
	faults := make([]annex.Fault, len(pages))
	for i, p := range pages {
		faults[i] = annex.Fault{Space: w.space, Page: p, At: w.now.After(time.Duration(i) * 50 * time.Microsecond), Swapped: w.known[p]}
		w.known[p] = true
	}
	w.Touched(faults)
	w.Ended(w.now.After(time.Second))
	w.Left([]annex.Run{{Space: w.space, Pages: 1 << 30}})
}

// scored is which part of what is predicted a burst touches, and which part of what it touches
// was predicted.
func (w *worker) scored(pages []annex.Page) (precision, recall float64) {
	predicted := map[annex.Page]bool{}
	for _, r := range w.Pages() {
		for k := range r.Run.Pages {
			predicted[r.Run.First+annex.Page(k)] = true
		}
	}
	hits, known := 0, 0
	seen := map[annex.Page]bool{}
	for _, p := range pages {
		if seen[p] || !w.known[p] {
			continue
		}
		seen[p] = true
		known++
		if predicted[p] {
			hits++
		}
	}
	return share(float64(hits), float64(len(predicted))), share(float64(hits), float64(known))
}

func upTo(from, to int) []annex.Page {
	var pages []annex.Page
	for p := from; p < to; p++ {
		pages = append(pages, annex.Page(p))
	}
	return pages
}

func shuffled(r *rand.Rand, pages []annex.Page) []annex.Page {
	r.Shuffle(len(pages), func(i, k int) { pages[i], pages[k] = pages[k], pages[i] })
	return pages
}

func TestRecordOfWorkingSets(t *testing.T) {
	const bursts = 60
	for _, c := range []struct {
		name              string
		burst             func(r *rand.Rand, n int) []annex.Page
		precision, recall float64 // at least, in the mean of the last 30 bursts
	}{
		{"always the same, in any order", func(r *rand.Rand, _ int) []annex.Page { return shuffled(r, upTo(0, 2000)) }, 0.999, 0.999},
		{"a core, and one in ten of the rest", func(r *rand.Rand, _ int) []annex.Page {
			pages := upTo(0, 1000)
			for range 200 {
				pages = append(pages, annex.Page(1000+r.IntN(2000)))
			}
			return pages
		}, 0.99, 0.8},
		{"drifting by a tenth each time", func(_ *rand.Rand, n int) []annex.Page { return upTo(200*n, 200*n+2000) }, 0.85, 0.99},
		// As everything was touched by the last one, the next is expected to touch it: once.
		{"a collection touches everything each tenth time", func(_ *rand.Rand, n int) []annex.Page {
			if n%10 == 9 {
				return upTo(0, 8000)
			}
			return upTo(0, 1000)
		}, 0.85, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			w := newWorker()
			var precision, recall float64
			for n := range bursts {
				pages := c.burst(r, n)
				if n >= bursts/2 {
					p, c := w.scored(pages)
					precision += p / (bursts / 2)
					recall += c / (bursts / 2)
				}
				w.burst(pages)
			}
			t.Logf("precision %.3f, recall %.3f; it says %+v", precision, recall, w.Scores()[0])
			if precision < c.precision || recall < c.recall {
				t.Errorf("precision %.3f and recall %.3f, want %.2f and %.2f", precision, recall, c.precision, c.recall)
			}
			if s := w.Scores()[0]; !s.On || s.Precision < precision-0.15 || s.Precision > precision+0.15 {
				t.Errorf("it is %.3f precise, and says %+v", precision, s)
			}
		})
	}
}

// Where no burst has anything to do with the last, the record goes silent; and is heard again
// once it is right.
func TestRecordGoesSilentAndComesBack(t *testing.T) {
	w := newWorker()
	for n := range 20 {
		w.burst(upTo(1000*n, 1000*n+1000))
	}
	if s := w.Scores()[0]; s.On && len(w.Pages()) > 0 {
		t.Errorf("the record names %d pages, though none was right: %+v", len(w.Pages()), s)
	}
	for range 12 {
		w.burst(upTo(0, 1000))
	}
	if p, r := w.scored(upTo(0, 1000)); p < 0.95 || r < 0.95 {
		t.Errorf("after twelve equal bursts precision is %.2f and recall %.2f: %+v", p, r, w.Scores()[0])
	}
}

// Pages that are certain, and mapped each time, are never told of. They leave the record all
// the same once they are no longer touched, since in turn they are not called certain.
func TestMappedPagesAreCheckedInTurn(t *testing.T) {
	w := newWorker()
	use := upTo(0, 1024)
	burst := func() (mapped int) {
		resident := map[annex.Page]bool{}
		for _, r := range w.Pages() {
			if r.Certain {
				w.Mapped([]annex.Run{r.Run})
				mapped += r.Run.Pages
				for k := range r.Run.Pages {
					resident[r.Run.First+annex.Page(k)] = true
				}
			} else {
				w.Brought([]annex.Run{r.Run}, w.now)
			}
		}
		var faults []annex.Page
		for _, p := range use {
			if !resident[p] {
				faults = append(faults, p)
			}
		}
		w.burst(faults)
		return mapped
	}
	for range 24 {
		burst()
	}
	if mapped := burst(); mapped < 900 || mapped == 1024 {
		t.Fatalf("%d of 1024 pages that each burst touches are mapped, want nearly all, and not all", mapped)
	}
	if s := w.Scores()[0]; s.Precision < 0.999 {
		t.Fatalf("precision is %+v", s)
	}
	use = upTo(0, 128) // the rest is used no more
	n := 0
	for ; n < 100 && annex.Count(runsOf(w.Pages())) > 128; n++ {
		burst()
	}
	if n > 40 {
		t.Errorf("after %d bursts %d pages are still in the record, of which 128 are used", n, annex.Count(runsOf(w.Pages())))
	}
	t.Logf("forgotten after %d bursts", n)
}

func runsOf(pages []Ranked) []annex.Run {
	var runs []annex.Run
	for _, p := range pages {
		runs = append(runs, p.Run)
	}
	return runs
}

// benchmarkPages are 16384 pages of a working set of 64 MiB: half of each of 32768.
func benchmarkPages(r *rand.Rand, order bool) []annex.Page {
	var pages []annex.Page
	for p := range annex.Page(32768) {
		if p/8%2 == 0 {
			pages = append(pages, p)
		}
	}
	if !order {
		shuffled(r, pages)
	}
	return pages
}

// What a burst of 16384 faults costs, from waking to sleeping, and what the record of them
// takes. At 20,000 faults a second a hundredth of a core is 500 ns each.
func BenchmarkBurst(b *testing.B) {
	for _, c := range []struct {
		name  string
		order bool
	}{{"ascending", true}, {"shuffled", false}} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorker()
			pages := benchmarkPages(rand.New(rand.NewPCG(1, 1)), c.order)
			faults := make([]annex.Fault, len(pages))
			for b.Loop() {
				w.now = w.now.After(10 * time.Second)
				for i, p := range pages {
					faults[i] = annex.Fault{Space: w.space, Page: p, At: w.now, Swapped: true}
				}
				w.Began(w.now)
				for from := 0; from < len(faults); from += 64 {
					w.Touched(faults[from:min(from+64, len(faults))])
				}
				w.Ended(w.now.After(time.Second))
				w.Left([]annex.Run{{Space: w.space, Pages: 1 << 30}})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(pages)), "ns/fault")
			b.ReportMetric(float64(w.Size())/float64(len(pages)), "bytes/page")
		})
	}
}

func BenchmarkPages(b *testing.B) {
	w := newWorker()
	pages := benchmarkPages(rand.New(rand.NewPCG(1, 1)), false)
	for range 3 {
		w.burst(pages)
	}
	for b.Loop() {
		w.Pages()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(pages)), "ns/page")
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name     string
		arrivals arrivals
	}{{"periodic", grid(10, 0.01)}, {"poisson", poisson(10)}, {"bursts", burstsOfBursts}} {
		b.Run(c.name, func(b *testing.B) {
			_, context := forecast(c.arrivals, 1, 200, 0)
			now := context.intervals.last.After(3 * time.Second)
			for b.Loop() {
				context.Next(now)
			}
		})
	}
}
