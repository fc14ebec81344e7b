package main

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
	"tare/record"
	"tare/stats"
)

// shapes are what latencies come in, in microseconds.
var shapes = map[string]func(*rand.Rand) float64{
	"constant":    func(*rand.Rand) float64 { return 241 },
	"uniform":     func(r *rand.Rand) float64 { return 5000 * r.Float64() },
	"exponential": func(r *rand.Rand) float64 { return 300 * r.ExpFloat64() },
	"lognormal":   func(r *rand.Rand) float64 { return 241 * math.Exp(0.3*r.NormFloat64()) },
	"quota": func(r *rand.Rand) float64 { // some requests wait for the next period
		v := 241 * math.Exp(0.05*r.NormFloat64())
		if r.IntN(20) == 0 {
			v += 8000 * r.Float64()
		}
		return v
	},
	"stalled":      func(r *rand.Rand) float64 { return max(50, 2e6*(r.Float64()-0.95)) },
	"heavy-tailed": func(r *rand.Rand) float64 { return 20 * math.Pow(r.Float64(), -1.5) },
	"below a step": func(r *rand.Rand) float64 { return 3 * r.Float64() },
	"an hour":      func(r *rand.Rand) float64 { return 3.6e9 * r.Float64() },
}

// step is the width of the histogram's step at a value: one to 2,047, and three
// digits from there on.
func step(micros int64) int64 { return max(1, int64(1)<<max(0, bits.Len64(uint64(micros))-11)) }

// The percentiles that are reported lie within one step of the histogram of the
// exact ones, whatever the shape and the number of values, after storing and
// merging, and however reports read them.
func TestPercentilesWithinAStep(t *testing.T) {
	const most = int64(time.Hour / time.Microsecond)
	for name, draw := range shapes {
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, 9))
			n := []int{1, 7, 100, 999, 20_000, 100_000}[seed]
			values := make([]int64, n)
			parts := make([]*hdrhistogram.Histogram, 1+random.IntN(5))
			for i := range parts {
				parts[i] = load.NewHistogram()
			}
			for i := range values {
				values[i] = min(int64(math.Round(draw(random))), most)
				if err := parts[random.IntN(len(parts))].RecordValue(values[i]); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(values)
			parts = slices.DeleteFunc(parts, func(h *hdrhistogram.Histogram) bool { return h.TotalCount() == 0 })
			merged := load.NewHistogram()
			for i, h := range parts {
				stored, err := record.EncodeHistogram(h)
				if err != nil {
					t.Fatal(err)
				}
				if parts[i], err = stored.Decode(); err != nil {
					t.Fatal(err)
				}
				if dropped := merged.Merge(parts[i]); dropped > 0 {
					t.Fatalf("%s, %d values: %d lost in merging", name, n, dropped)
				}
			}
			if merged.TotalCount() != int64(n) {
				t.Fatalf("%s: %d values of %d", name, merged.TotalCount(), n)
			}
			for _, p := range []float64{1, 10, 50, 90, 95, 99, 99.9, 99.99} {
				// Between two values any quantile is exact: definitions differ.
				rank := p / 100 * float64(n)
				low := values[max(0, int(math.Floor(rank))-1)]
				high := values[min(n-1, max(0, int(math.Ceil(rank))))]
				within := func(how string, got float64) {
					if got < float64(low-step(low)) || got > float64(high+step(high)) {
						t.Errorf("%s, %d values: p%v is %v by %s, exactly %d to %d, where a step is %d", name, n, p, got, how, low, high, step(high))
					}
				}
				within("the histogram", float64(merged.ValueAtPercentile(p)))
				within("the estimate over blocks", stats.Quantile(parts, p/100, 0.95, 1).Value)
			}
		}
	}
}

// The bench's own arithmetic of stalls is wrk2's: the known case of one stall of
// a second at 1,000 requests a second, of which each that is due meanwhile waits
// for what is left of it.
func TestAccountedOfOneStall(t *testing.T) {
	const n = 3000
	spans := make([]time.Duration, n)
	for i := range spans {
		spans[i] = time.Microsecond
	}
	spans[1000] = time.Second
	h := accounted(load.Moments(load.Uniform, 1000, n, 0), spans)
	// Of 3,000 latencies a thousand are spread evenly over a second.
	for p, want := range map[float64]float64{50: 1, 90: 700_000, 99: 970_000, 100: 1_000_000} {
		if got := float64(h.ValueAtPercentile(p)); math.Abs(got-want) > 2000 {
			t.Errorf("p%v is %v us, want about %v", p, got, want)
		}
	}
}
