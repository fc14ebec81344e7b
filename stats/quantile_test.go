package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

var effectMethods = []Method{MethodJackknifeT, MethodBootstrapT, MethodBlockBootstrap}

func ExampleQuantileRatio() {
	rng := rand.New(rand.NewPCG(1, 2))
	bare := latencies(rng, 12, 2000, 1)
	container := latencies(rng, 12, 2000, 1.2)
	e := QuantileRatio(bare, container, 0.99, 0.95, 1)
	fmt.Printf("p99 %.0f %% higher, %s over %d blocks\n", 100*(e.Value-1), e.Method, e.N)
	// Output: p99 20 % higher, jackknife-t over 12 blocks
}

// The merged quantile agrees with the histogram's own to a bucket's width.
func TestQuantileAgreesWithTheMergedHistogram(t *testing.T) {
	blocks := latencies(rand.New(rand.NewPCG(4, 2)), 6, 3000, 1)
	merged := hdrhistogram.New(1, 10_000_000, 3)
	for _, b := range blocks {
		merged.Merge(b)
	}
	for _, q := range []float64{0.001, 0.25, 0.5, 0.9, 0.99, 0.999} {
		e := Quantile(blocks, q, 0.95, 1)
		own := float64(merged.ValueAtPercentile(100 * q))
		if math.Abs(e.Value-own) > 1+0.002*own {
			t.Errorf("quantile %v: %v, the histogram says %v", q, e.Value, own)
		}
	}
}

// Values at whole numbers have their quantiles there: nothing is added by the
// interpolation within a bucket, wherever in it the quantile falls.
func TestQuantileByHand(t *testing.T) {
	// 10, 20, 20, 30: the median lies in the middle of the 20s.
	blocks := []*hdrhistogram.Histogram{histogram(10, 20), histogram(20, 30)}
	near(t, "median", Quantile(blocks, 0.5, 0.95, 1).Value, 20, 1e-12)
	// Three quarters of a bucket of width 1 around 7.
	near(t, "third quartile", Quantile([]*hdrhistogram.Histogram{histogram(7, 7, 7, 7)}, 0.75, 0.95, 1).Value, 7.25, 1e-12)
}

// Percentiles are not averaged: a block with ten times the requests weighs ten
// times as much.
func TestQuantileWeighsBlocksByTheirValues(t *testing.T) {
	busy, idle := make([]int64, 1000), make([]int64, 10)
	for i := range busy {
		busy[i] = 100
	}
	for i := range idle {
		idle[i] = 1000
	}
	e := Quantile([]*hdrhistogram.Histogram{histogram(busy...), histogram(idle...)}, 0.5, 0.95, 1)
	near(t, "median", e.Value, 100, 0.01)
}

// Blocks whose every value is moved by the same factor have the factor between
// any two quantiles, and an interval no wider than the buckets make it.
func TestQuantileRatioOfScaledBlocks(t *testing.T) {
	var base, treatment []*hdrhistogram.Histogram
	rng := rand.New(rand.NewPCG(5, 5))
	for range 10 {
		level := 10000 * math.Exp(0.3*rng.NormFloat64())
		var b, c []int64
		for range 500 {
			v := int64(level * math.Exp(0.5*rng.NormFloat64()))
			b, c = append(b, v), append(c, 3*v)
		}
		base, treatment = append(base, histogram(b...)), append(treatment, histogram(c...))
	}
	for _, method := range effectMethods {
		for _, q := range []float64{0.5, 0.99} {
			e := QuantileRatioBy(method, base, treatment, q, 0.95, 1)
			near(t, "ratio", e.Value, 3, 0.003)
			if e.Interval.Low < 2.97 || e.Interval.High > 3.03 {
				t.Errorf("%s, quantile %v: %v to %v though the blocks' own differences cancel", method, q, e.Interval.Low, e.Interval.High)
			}
		}
	}
}

// The jackknife by its definition, on Merge of histograms, against the one on
// counts.
func TestJackknifeAgreesWithMergingHistograms(t *testing.T) {
	const n, q = 7, 0.9
	blocks := latencies(rand.New(rand.NewPCG(6, 2)), n, 5000, 1)
	var pseudo []float64
	all := math.Log(quantileOfMerged(blocks, q))
	for i := range n {
		rest := slices.Delete(slices.Clone(blocks), i, i+1)
		pseudo = append(pseudo, n*all-(n-1)*math.Log(quantileOfMerged(rest, q)))
	}
	_, sd := meanSD(pseudo)
	const t6 = 2.446912 // Student's table, 6 degrees of freedom, 97.5 %
	e := QuantileBy(MethodJackknifeT, blocks, q, 0.95, 1)
	near(t, "value", math.Log(e.Value), all, 1e-9)
	near(t, "half-width", math.Log(e.Interval.High/e.Interval.Low)/2, t6*sd/math.Sqrt(n), 1e-6)
}

// quantileOfMerged is the interpolated quantile, found by walking the merged
// histogram.
func quantileOfMerged(blocks []*hdrhistogram.Histogram, q float64) float64 {
	merged := hdrhistogram.New(1, 10_000_000, 3)
	for _, b := range blocks {
		merged.Merge(b)
	}
	rest := q * float64(merged.TotalCount())
	for _, bar := range merged.Distribution() {
		if rest <= float64(bar.Count) {
			return float64(bar.From) - 0.5 + float64(bar.To-bar.From+1)*rest/float64(bar.Count)
		}
		rest -= float64(bar.Count)
	}
	return math.NaN()
}

func TestQuantileRatioSwapped(t *testing.T) {
	eachEffect(t, func(t *testing.T, method Method, base, treatment []*hdrhistogram.Histogram) {
		there := QuantileRatioBy(method, base, treatment, 0.95, 0.95, 42)
		back := QuantileRatioBy(method, treatment, base, 0.95, 0.95, 42)
		near(t, "value", back.Value, 1/there.Value, 1e-9)
		near(t, "low", back.Interval.Low, 1/there.Interval.High, 1e-9)
		near(t, "high", back.Interval.High, 1/there.Interval.Low, 1e-9)

		more := QuantileDifferenceBy(method, base, treatment, 0.95, 0.95, 42)
		less := QuantileDifferenceBy(method, treatment, base, 0.95, 0.95, 42)
		same(t, less, Estimate{Value: -more.Value, Interval: Interval{-more.Interval.High, -more.Interval.Low, 0.95}}, 1)
	})
}

func TestQuantileRatioDoesNotDependOnTheOrderOfBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	eachEffect(t, func(t *testing.T, method Method, base, treatment []*hdrhistogram.Histogram) {
		ratio := QuantileRatioBy(method, base, treatment, 0.95, 0.95, 42)
		level := QuantileBy(method, base, 0.95, 0.95, 42)
		rng.Shuffle(len(base), func(i, j int) {
			base[i], base[j] = base[j], base[i]
			treatment[i], treatment[j] = treatment[j], treatment[i]
		})
		same(t, QuantileRatioBy(method, base, treatment, 0.95, 0.95, 42), ratio, 1)
		same(t, QuantileBy(method, base, 0.95, 0.95, 42), level, 1)
	})
}

// Pairing matters: what a block does to both sides leaves the ratio alone.
func TestQuantileRatioIsPairedByBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 2))
	var base, treatment []*hdrhistogram.Histogram
	for range 10 {
		block := math.Exp(0.5 * rng.NormFloat64())
		base = append(base, latencies(rng, 1, 1000, block)...)
		treatment = append(treatment, latencies(rng, 1, 1000, block)...)
	}
	shuffled := append(slices.Clone(treatment[1:]), treatment[0])
	for _, method := range effectMethods {
		paired := QuantileRatioBy(method, base, treatment, 0.5, 0.95, 1).Interval
		crossed := QuantileRatioBy(method, base, shuffled, 0.5, 0.95, 1).Interval
		if paired.High/paired.Low >= crossed.High/crossed.Low {
			t.Errorf("%s: pairs give %v, crossed pairs %v", method, paired, crossed)
		}
	}
}

// Histograms of different range and precision still merge.
func TestQuantileOfDifferentGeometries(t *testing.T) {
	coarse, fine := hdrhistogram.New(1, 1_000_000, 1), hdrhistogram.New(1, 1000, 3)
	for v := int64(1); v <= 1000; v++ {
		if err := fine.RecordValue(v); err != nil {
			t.Fatal(err)
		}
		if err := coarse.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	blocks := []*hdrhistogram.Histogram{coarse, fine, coarse, fine}
	previous := 0.0
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		e := Quantile(blocks, q, 0.95, 1)
		near(t, fmt.Sprintf("quantile %v", q), e.Value, 1000*q, 0.07)
		if e.Value <= previous {
			t.Errorf("quantile %v is %v, not above %v", q, e.Value, previous)
		}
		previous = e.Value
	}
}

func TestDegenerateHistograms(t *testing.T) {
	good := latencies(rand.New(rand.NewPCG(1, 1)), 6, 1000, 1)
	nan := math.NaN()
	for _, c := range []struct {
		name    string
		e       Estimate
		value   bool // is there one
		warning string
	}{
		{"no blocks", QuantileRatio(nil, nil, 0.5, 0.95, 1), false, "no blocks"},
		{"unequal sides", QuantileRatio(good, good[:5], 0.5, 0.95, 1), false, "6 blocks of the baseline against 5"},
		{"an empty block", Quantile([]*hdrhistogram.Histogram{good[0], histogram(), good[1]}, 0.5, 0.95, 1), false, "histogram 2 of 3 holds no values"},
		{"a missing block", QuantileDifference(good[:2], []*hdrhistogram.Histogram{good[0], nil}, 0.5, 0.95, 1), false, "histogram 2 of 2 holds no values"},
		{"quantile 99", Quantile(good, 99, 0.95, 1), false, "quantile 99 is not between 0 and 1"},
		{"quantile 1", Quantile(good, 1, 0.95, 1), false, "quantile 1 is not between"},
		{"quantile NaN", Quantile(good, nan, 0.95, 1), false, "quantile NaN is not between"},
		{"level 95", Quantile(good, 0.5, 95, 1), true, "level 95 is not between"},
		{"one block", Quantile(good[:1], 0.5, 0.95, 1), true, "need at least 3 blocks"},
		{"two blocks", QuantileRatio(good[:2], good[2:4], 0.5, 0.95, 1), true, "need at least 3 blocks"},
		{"equal blocks", Quantile([]*hdrhistogram.Histogram{good[0], good[0], good[0]}, 0.5, 0.95, 1), true, "whichever of the 3 blocks is left out"},
		{"the same twice", QuantileRatio(good, good, 0.5, 0.95, 1), true, "whichever of the 6 blocks is left out"},
		{"a mean's method", QuantileBy(MethodBCa, good, 0.5, 0.95, 1), true, `"BCa" is not one for quantiles`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !math.IsNaN(c.e.Interval.Low) || !math.IsNaN(c.e.Interval.High) {
				t.Errorf("interval %v to %v, want none", c.e.Interval.Low, c.e.Interval.High)
			}
			if math.IsNaN(c.e.Value) == c.value {
				t.Errorf("value %v", c.e.Value)
			}
			if !warns(c.e, c.warning) {
				t.Errorf("warnings %q lack %q", c.e.Warnings, c.warning)
			}
		})
	}
}

func TestQuantileWarnings(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	if e := Quantile(latencies(rng, 12, 100, 1), 0.999, 0.95, 1); !warns(e, "only 1.2 values lie beyond the quantile 0.999") {
		t.Errorf("an all but empty tail: %q", e.Warnings)
	}
	few := latencies(rng, 6, 5000, 1)
	if e := Quantile(few, 0.99, 0.95, 1); !warns(e, "need at least 20 blocks, have 6") {
		t.Errorf("p99 of six blocks: %q", e.Warnings)
	}
	if e := QuantileRatio(few, latencies(rng, 6, 5000, 1.1), 0.99, 0.95, 1); len(e.Warnings) != 0 {
		t.Errorf("a ratio over six blocks with full tails: %q", e.Warnings)
	}
}

// FuzzQuantileRatio: whatever the histograms hold, no panic, and no half
// interval.
func FuzzQuantileRatio(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0.5)
	f.Add([]byte{0, 0, 0, 0, 0, 0}, 0.99)
	f.Add([]byte{255}, 1e-300)
	f.Fuzz(func(t *testing.T, values []byte, q float64) {
		sides := [2][]*hdrhistogram.Histogram{}
		for i := range 8 {
			h := hdrhistogram.New(1, 100000, 2)
			for j := i; j < len(values); j += 8 {
				if err := h.RecordValue(int64(values[j]) * int64(values[j])); err != nil {
					t.Fatal(err)
				}
			}
			sides[i%2] = append(sides[i%2], h)
		}
		for _, method := range append([]Method{MethodDefault}, effectMethods...) {
			for _, e := range []Estimate{
				QuantileRatioBy(method, sides[0], sides[1], q, 0.95, 1),
				QuantileBy(method, sides[0], q, 0.95, 1),
			} {
				if math.IsNaN(e.Interval.Low) != math.IsNaN(e.Interval.High) || e.Interval.Low > e.Interval.High {
					t.Errorf("%s: interval %v to %v", method, e.Interval.Low, e.Interval.High)
				}
				if math.IsNaN(e.Interval.Low) && len(e.Warnings) == 0 {
					t.Errorf("%s: no interval and no reason", method)
				}
			}
		}
	})
}

func eachEffect(t *testing.T, property func(t *testing.T, method Method, base, treatment []*hdrhistogram.Histogram)) {
	t.Helper()
	for _, method := range effectMethods {
		for _, n := range []int{6, 15} {
			t.Run(fmt.Sprintf("%s/%d", method, n), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(n), 7))
				property(t, method, latencies(rng, n, 500, 1), latencies(rng, n, 500, 1.1))
			})
		}
	}
}

func histogram(values ...int64) *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, 10_000_000, 3)
	for _, v := range values {
		if err := h.RecordValue(v); err != nil {
			panic(err)
		}
	}
	return h
}

// Beyond the level that its resamples reach a bootstrap has no interval, rather than
// one that is too narrow.
func TestBootstrapsEndWhereTheirResamplesDo(t *testing.T) {
	blocks := latencies(rand.New(rand.NewPCG(5, 6)), 12, 500, 1)
	for level, has := range map[float64]bool{0.95: true, 0.998: true, 0.9995: false} {
		for _, method := range []Method{MethodBootstrapT, MethodBlockBootstrap} {
			if e := QuantileBy(method, blocks, 0.5, level, 1); e.Known() != has || has == (len(e.Warnings) > 0) {
				t.Errorf("%s at %v: %+v", method, level, e)
			}
		}
		if e := QuantileBy(MethodJackknifeT, blocks, 0.5, level, 1); !e.Known() {
			t.Errorf("the jackknife at %v: %+v", level, e)
		}
	}
}
