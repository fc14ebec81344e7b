package workload

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	output, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// What redis-benchmark 7.0.15 really printed.
func TestParseBenchmark(t *testing.T) {
	type want struct {
		title         string
		requests      int64
		perSecond     float64
		p50, p95, p99 int64
	}
	for file, wants := range map[string][]want{
		"redis-benchmark-get-set.txt": {
			{"SET", 100_000, 96_805.42, 263, 327, 559},
			{"GET", 100_000, 91_575.09, 279, 375, 463},
		},
		"redis-benchmark-s5.txt": {
			{title: "HSET", requests: 5000}, {title: "LPUSH", requests: 5000},
			{title: "LRANGE_100", requests: 5000}, {title: "MSET", requests: 5000},
		},
		"redis-benchmark-threads.txt": {{"SET", 20_000, 73_529.41, 247, 9135, 10_055}},
	} {
		sections, err := parseBenchmark(recorded(t, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(sections) != len(wants) {
			t.Fatalf("%s: %d sections, want %d", file, len(sections), len(wants))
		}
		for i, w := range wants {
			s := sections[i]
			if s.title != w.title || s.requests != w.requests || w.perSecond != 0 && s.perSecond != w.perSecond {
				t.Errorf("%s: %s with %d requests at %v/s, want %+v", file, s.title, s.requests, s.perSecond, w)
			}
			h, err := s.histogram()
			if err != nil {
				t.Fatalf("%s %s: %v", file, s.title, err)
			}
			if h.TotalCount() != s.requests {
				t.Errorf("%s %s: %d latencies of %d requests", file, s.title, h.TotalCount(), s.requests)
			}
			if w.p50 == 0 {
				continue
			}
			for percent, printed := range map[float64]int64{50: w.p50, 95: w.p95, 99: w.p99} {
				if got := h.ValueAtPercentile(percent); (got-printed) > 0 || printed-got > bucketWidth(printed) {
					t.Errorf("%s %s: p%v %d us, printed %d", file, s.title, percent, got, printed)
				}
			}
		}
	}
}

// printBenchmark prints a histogram as redis-benchmark does.
func printBenchmark(title string, h *hdrhistogram.Histogram) []byte {
	var b bytes.Buffer
	ms := func(v int64) float64 { return float64(v) / 1000 }
	fmt.Fprintf(&b, "%s: rps=1.0 (overall: 1.0)\r====== %s ======\n  %d requests completed in 1.00 seconds\n\n", title, title, h.TotalCount())
	fmt.Fprint(&b, "Latency by percentile distribution:\n")
	for _, p := range h.CumulativeDistributionWithTicks(1) {
		fmt.Fprintf(&b, "%3.3f%% <= %.3f milliseconds (cumulative count %d)\n", p.Quantile, ms(p.ValueAt), p.Count)
	}
	fmt.Fprint(&b, "\nCumulative distribution of latencies:\n")
	var sum int64
	bars := h.Distribution()
	for at, i := int64(100), 0; i < len(bars); at += map[bool]int64{true: 100, false: 1000}[at < 2000] {
		end := at - at%bucketWidth(at) + bucketWidth(at) - 1
		before := sum
		for i < len(bars) && bars[i].To <= end {
			sum += bars[i].Count
			i++
		}
		if sum > before {
			fmt.Fprintf(&b, "%3.3f%% <= %.3f milliseconds (cumulative count %d)\n", 100*float64(sum)/float64(h.TotalCount()), ms(end), sum)
		}
	}
	at := func(p float64) float64 { return ms(h.ValueAtPercentile(p)) }
	fmt.Fprintf(&b, "\nSummary:\n  throughput summary: 1000.00 requests per second\n  latency summary (msec):\n%s\n%9.3f %9.3f %9.3f %9.3f %9.3f %9.3f\n",
		"          avg       min       p50       p95       p99       max", h.Mean()/1000, ms(h.Min()), at(50), at(95), at(99), ms(h.Max()))
	return b.Bytes()
}

// The bound that the type's comment promises, over shapes of latencies.
func TestRebuiltHistogramIsWithinABucket(t *testing.T) {
	for _, shape := range []struct {
		name string
		draw func(random *rand.Rand) float64
	}{
		{"narrow", func(r *rand.Rand) float64 { return 270 + 12*r.NormFloat64() }},
		{"lognormal", func(r *rand.Rand) float64 { return 300 * math.Exp(0.6*r.NormFloat64()) }},
		{"heavy tail", func(r *rand.Rand) float64 { return 50 / math.Pow(r.Float64(), 1.3) }},
		{"two modes", func(r *rand.Rand) float64 { return []float64{200, 41_000}[r.IntN(2)] * (1 + 0.1*r.Float64()) }},
		{"slow", func(r *rand.Rand) float64 { return 2e5 * math.Exp(r.NormFloat64()) }},
		{"all the same", func(r *rand.Rand) float64 { return 500 }},
	} {
		name := shape.name
		for seed, n := range []int{100, 101, 128, 500, 1000, 3000, 100_000} {
			random := rand.New(rand.NewPCG(uint64(seed), 2))
			source := hdrhistogram.New(10, 3_000_000, 3) // as redis-benchmark makes it
			for range n {
				if err := source.RecordValue(int64(min(max(shape.draw(random), 10), 3_000_000))); err != nil {
					t.Fatal(err)
				}
			}
			sections, err := parseBenchmark(printBenchmark("GET", source))
			if err != nil {
				t.Fatal(err)
			}
			h, err := sections[0].histogram()
			if err != nil {
				t.Fatalf("%s, %d: %v", name, n, err)
			}
			if h.TotalCount() != int64(n) {
				t.Errorf("%s, %d: %d latencies", name, n, h.TotalCount())
			}
			// The tables round a percentile's rank up, the summary to the nearest.
			up := func(percent float64) int64 { return int64(math.Ceil(percent / 100 * float64(n))) }
			nearest := func(percent float64) int64 { return int64(percent/100*float64(n) + 0.5) }
			for _, rank := range []int64{up(50), up(75), up(87.5), up(93.75), nearest(50), nearest(95), nearest(99), int64(n)} {
				want, got := atRank(source, rank), atRank(h, rank)
				// Either histogram adds the width of its own bucket.
				if off := got - want; off < -bucketWidth(want)-want/1000 || off > want/1000+1 {
					t.Errorf("%s: latency %d of %d rebuilt as %d us, was %d", name, rank, n, got, want)
				}
			}
		}
	}
}

// atRank is the value of the rankth latency, from 1.
func atRank(h *hdrhistogram.Histogram, rank int64) int64 {
	return h.ValueAtPercentile(100 * float64(rank) / float64(h.TotalCount()))
}

func TestParseBenchmarkRefuses(t *testing.T) {
	good := string(printBenchmark("GET", func() *hdrhistogram.Histogram {
		h := hdrhistogram.New(10, 3_000_000, 3)
		for i := range int64(1000) {
			_ = h.RecordValue(100 + i)
		}
		return h
	}()))
	for name, c := range map[string]struct{ output, want string }{
		"refused command":     {"====== SET ======\nError from server: LOADING Redis is loading\n", "LOADING"},
		"no throughput":       {strings.Replace(good, "throughput", "", 1), "throughput"},
		"no distribution":     {strings.Replace(strings.ReplaceAll(good, "milliseconds", "ms"), "\n\n", "\n", 1), "distribution"},
		"counts that shrink":  {strings.Replace(good, "(cumulative count 1000)", "(cumulative count 1)", 1), "latencies"},
		"too few latencies":   {strings.Replace(good, "1000 requests completed", "2000 requests completed", 1), "2000"},
		"negative throughput": {strings.Replace(good, "summary: 1000.00", "summary: -1", 1), "throughput"},
	} {
		sections, err := parseBenchmark([]byte(c.output))
		if err == nil && len(sections) > 0 {
			_, err = sections[0].histogram()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", name, err, c.want)
		}
	}
}

// Whatever is printed, a rebuilt histogram holds exactly the requests.
func FuzzParseBenchmark(f *testing.F) {
	for _, name := range []string{"redis-benchmark-get-set.txt", "redis-benchmark-s5.txt", "redis-benchmark-threads.txt"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		sections, err := parseBenchmark(output)
		if err != nil {
			return
		}
		for _, s := range sections {
			h, err := s.histogram()
			if err == nil && h.TotalCount() != s.requests {
				t.Errorf("%s: %d latencies of %d requests", s.title, h.TotalCount(), s.requests)
			}
		}
	})
}

// redis-benchmark counts whole milliseconds: what is done within the first has
// an infinite rate, which is fit for a warm-up and no figure of a measurement.
func TestBenchmarkWithinAMillisecond(t *testing.T) {
	output := bytes.Replace(recorded(t, "redis-benchmark-get-set.txt"), []byte("96805.42 requests per second"), []byte("inf requests per second"), 1)
	sections, err := parseBenchmark(output)
	if err != nil || !math.IsInf(sections[0].perSecond, 1) {
		t.Fatalf("%v, %v; want an infinite rate for the first section", sections, err)
	}
}
