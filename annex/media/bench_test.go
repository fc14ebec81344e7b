package media

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tare/annex"
)

// benchPages is a container of 64 MiB.
const benchPages = 16384

// orders are in what pieces pages are asked for.
var orders = []struct {
	name string
	of   func(h *holder) []annex.Run
	left bool // they had left in that order
}{
	{"contiguous", func(h *holder) []annex.Run { return h.all() }, false},
	{"runs of 4, every second", func(h *holder) []annex.Run {
		var runs []annex.Run
		for at := 0; at < h.pages; at += 8 {
			runs = append(runs, h.run(at, 4))
		}
		return runs
	}, false},
	{"runs of 4, gaps of 2", func(h *holder) []annex.Run {
		var runs []annex.Run
		for at := 0; at+8 <= h.pages; at += 6 {
			if at/(h.pages/segments) == (at+3)/(h.pages/segments) {
				runs = append(runs, h.run(at, 4))
			}
		}
		return runs
	}, false},
	{"scattered", scattered, false},
	{"scattered, left in that order", scattered, true},
}

func scattered(h *holder) []annex.Run {
	var runs []annex.Run
	for _, at := range rand.New(rand.NewPCG(1, 2)).Perm(h.pages)[:h.pages/4] {
		runs = append(runs, h.run(at, 1))
	}
	return runs
}

func benchmarkOn(b *testing.B, media func(testing.TB, int64) Medium) {
	m := media(b, 128<<20)
	k := newKernel(b, Options{Medium: m})
	h, group := grouped(b, "one", benchPages)
	perPage := func(b *testing.B, spent time.Duration, pages int) {
		b.ReportMetric(float64(spent.Nanoseconds())/float64(max(1, pages)), "ns/page")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("page out in order", func(b *testing.B) {
		var spent time.Duration
		pages := 0
		for b.Loop() {
			spent += out(b, k, h, group, nil)
			pages += h.pages
		}
		perPage(b, spent, pages)
	})
	for _, op := range []annex.Op{annex.Fetch, annex.Map} {
		for _, order := range orders {
			b.Run(fmt.Sprintf("%s %s", op, order.name), func(b *testing.B) {
				runs := order.of(h)
				var first []annex.Run
				if order.left {
					first = runs
				}
				var spent time.Duration
				pages, waiting := 0, 0
				for b.Loop() {
					out(b, k, h, group, first)
					began := time.Now()
					r := k.Do(b.Context(), annex.Request{Op: op, Runs: runs})
					spent += time.Since(began)
					pages += r.Moved
					if reads, err := m.Reading(); err == nil {
						waiting += reads
					}
					if r.Err != nil {
						b.Fatal(r.Err)
					}
				}
				perPage(b, spent, pages)
				b.ReportMetric(float64(waiting)/float64(b.N), "reads-waiting")
			})
		}
	}
}

func BenchmarkFile(b *testing.B) { benchmarkOn(b, onFile) }
func BenchmarkZRAM(b *testing.B) { benchmarkOn(b, onZRAM) }

// shallow is a medium that is asked for as much as it takes.
type shallow struct{ Medium }

func (s shallow) Traits() Traits {
	traits := s.Medium.Traits()
	traits.Depth = 0
	return traits
}

// What a program's own faults wait while pages of another are fetched: why there is a
// depth.
func BenchmarkDemandFaultBeside(b *testing.B) {
	m := onFile(b, 256<<20)
	h, group := grouped(b, "faulting", benchPages)
	other, others := grouped(b, "fetched", benchPages)
	for _, c := range []struct {
		name string
		m    Medium
		runs []annex.Run
	}{
		{"nothing", m, nil},
		{"contiguous", m, other.all()},
		{"scattered", m, scattered(other)},
		{"scattered without a depth", shallow{m}, scattered(other)},
	} {
		b.Run(c.name, func(b *testing.B) {
			k := newKernel(b, Options{Medium: c.m})
			var p50s, p99s time.Duration
			fetched := 0
			for b.Loop() {
				out(b, k, h, group, nil)
				out(b, k, other, others, nil)
				ctx, cancel := context.WithCancel(b.Context())
				fetching := make(chan int)
				go func() {
					n := 0
					if c.runs != nil {
						n = k.Do(ctx, annex.Request{Op: annex.Fetch, Runs: c.runs}).Moved
					}
					fetching <- n
				}()
				p50, p99 := h.time(b)
				cancel()
				fetched += <-fetching
				p50s, p99s = p50s+p50, p99s+p99
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(p50s.Microseconds())/float64(b.N), "p50-us")
			b.ReportMetric(float64(p99s.Microseconds())/float64(b.N), "p99-us")
			b.ReportMetric(float64(fetched)/float64(b.N), "fetched")
		})
	}
}
