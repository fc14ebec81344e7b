package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// The extra hours of sleep by two drugs in ten patients: the example by which
// Student (1908) introduced the test. Paired difference 1.58, 95 % interval
// 0.70 to 2.46, as every textbook since has it.
var (
	sleepFirst  = []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0}
	sleepSecond = []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
)

var pairedMethods = []Method{MethodT, MethodBootstrapT, MethodBCa, MethodHodgesLehmann}

func ExamplePairedRatio() {
	bare := []float64{10.0, 10.4, 9.8, 10.1, 10.2}
	container := []float64{10.3, 10.8, 10.0, 10.5, 10.4}
	e := PairedRatio(bare, container, 0.95, 1)
	fmt.Printf("%.3f, %.3f to %.3f, %d blocks, %s\n", e.Value, e.Interval.Low, e.Interval.High, e.N, e.Method)
	// Output: 1.030, 1.018 to 1.041, 5 blocks, t
}

func TestPairedDifferenceAgreesWithStudent(t *testing.T) {
	e := PairedDifferenceBy(MethodT, sleepFirst, sleepSecond, 0.95, 1)
	near(t, "value", e.Value, 1.58, 1e-12)
	near(t, "low", e.Interval.Low, 0.7001142, 1e-6)
	near(t, "high", e.Interval.High, 2.4598858, 1e-6)
}

// Darwin's fifteen pairs of maize, in eighths of an inch, which Fisher (1935)
// analysed by t: mean 20.93, standard error 9.746, and t at 5 % is 2.145.
var darwin = []float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}

func TestMeanAgreesWithFisher(t *testing.T) {
	e := MeanBy(MethodT, darwin, 0.95, 1)
	near(t, "value", e.Value, 20.933, 5e-4)
	near(t, "half-width", (e.Interval.High-e.Interval.Low)/2, 2.14479*9.7455, 2e-3)
}

// The bootstrap of the mean has moments in closed form: BCa on a sample without
// skew is the percentile interval, about 1.96 sd sqrt((n-1)/n) / sqrt(n) to each side.
func TestBCaWithoutSkewIsThePercentileInterval(t *testing.T) {
	x := make([]float64, 101)
	for i := range x {
		x[i] = float64(i - 50)
	}
	e := MeanBy(MethodBCa, x, 0.95, 7)
	_, sd := meanSD(x)
	want := 1.959964 * sd * math.Sqrt(100.0/101) / math.Sqrt(101)
	near(t, "low", e.Interval.Low, -want, 0.08*want)
	near(t, "high", e.Interval.High, want, 0.08*want)
}

// On normal data the bootstrap finds about the quantiles of Student's table.
func TestBootstrapTFindsStudentsQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 200)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	byT, byBootstrap := MeanBy(MethodT, x, 0.95, 1), MeanBy(MethodBootstrapT, x, 0.95, 1)
	half := (byT.Interval.High - byT.Interval.Low) / 2
	near(t, "low", byBootstrap.Interval.Low, byT.Interval.Low, 0.1*half)
	near(t, "high", byBootstrap.Interval.High, byT.Interval.High, 0.1*half)
}

// The longer tail is where the interval reaches further: by both bootstraps,
// in the direction of the skew.
func TestBootstrapIntervalsLeanWithTheSkew(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	x := make([]float64, 40)
	for i := range x {
		x[i] = math.Exp(rng.NormFloat64())
	}
	for _, method := range []Method{MethodBootstrapT, MethodBCa} {
		e := MeanBy(method, x, 0.95, 1)
		if up, down := e.Interval.High-e.Value, e.Value-e.Interval.Low; up <= down {
			t.Errorf("%s: reaches %.3f up and %.3f down on data skewed to the right", method, up, down)
		}
	}
}

// Cuts of the signed-rank statistic at 5 % two-sided, from the tables in use
// since Wilcoxon: the largest sum of ranks that is still significant.
func TestSignedRankCutAgreesWithTables(t *testing.T) {
	for n, largest := range map[int]int{6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 12: 13, 15: 25, 20: 52, 25: 89} {
		k, reached := signedRankCut(n, 0.95)
		if k-1 != largest {
			t.Errorf("n = %d: significant up to %d, the tables have %d", n, k-1, largest)
		}
		if reached < 0.95 {
			t.Errorf("n = %d: reaches %v", n, reached)
		}
	}
	if k, reached := signedRankCut(5, 0.95); k != 1 || reached != 0.9375 {
		t.Errorf("n = 5: k = %d, reaches %v; want the whole range and 1 - 2/32", k, reached)
	}
	exact, _ := signedRankCut(exactRanks, 0.95)
	approximate, _ := signedRankCut(exactRanks+1, 0.95)
	if step := approximate - exact; step < 20 || step > 40 { // one more value moves the cut by about half of n
		t.Errorf("the cut jumps from %d to %d where the approximation begins", exact, approximate)
	}
}

func TestHodgesLehmannByHand(t *testing.T) {
	// Means of pairs of 1, 2, 4: 1, 1.5, 2, 2.5, 3, 4; their median is 2.25.
	e := MeanBy(MethodHodgesLehmann, []float64{4, 1, 2}, 0.95, 1)
	near(t, "value", e.Value, 2.25, 1e-15)
	near(t, "low", e.Interval.Low, 1, 1e-15)
	near(t, "high", e.Interval.High, 4, 1e-15)
	if !warns(e, "at most 75.0 %") {
		t.Errorf("warnings %q do not say what three blocks reach", e.Warnings)
	}
}

func TestHodgesLehmannHardlyMovesForOneWildBlock(t *testing.T) {
	base, treatment := noisy(20, 5)
	before := PairedRatioBy(MethodHodgesLehmann, base, treatment, 0.95, 1)
	treatment[3] *= 1000
	after := PairedRatioBy(MethodHodgesLehmann, base, treatment, 0.95, 1)
	if moved := math.Abs(math.Log(after.Value / before.Value)); moved > 0.1 {
		t.Errorf("one wild block moves the ratio by a factor of %v", math.Exp(moved))
	}
	if byT := PairedRatioBy(MethodT, base, treatment, 0.95, 1); !warns(byT, "outlying blocks") {
		t.Errorf("t does not warn of the wild block: %q", byT.Warnings)
	}
}

// The defaults are one method at every number of blocks; the tables of
// docs/statistics.md say why.
func TestDefaultMethodsByBlocks(t *testing.T) {
	for _, n := range []int{5, 29, 30, 50, 200} {
		base, treatment := noisy(n, 1)
		ratio := PairedRatio(base, treatment, 0.95, 1)
		if ratio.Method != string(MethodT) {
			t.Errorf("ratio over %d blocks: %s, want t", n, ratio.Method)
		}
		same(t, ratio, PairedRatioBy(MethodT, base, treatment, 0.95, 2), 1)
		if got := GeometricMean(base, 0.95, 1).Method; got != string(MethodT) {
			t.Errorf("geometric mean over %d blocks: %s, want t", n, got)
		}
		if got := PairedDifference(base, treatment, 0.95, 1).Method; got != string(MethodT) {
			t.Errorf("difference over %d blocks: %s, want t", n, got)
		}
		if got := Mean(base, 0.95, 1).Method; got != string(MethodBootstrapT) {
			t.Errorf("mean over %d blocks: %s, want bootstrap-t", n, got)
		}
	}
}

// Swapping the sides gives the inverse, by every method and to rounding: no
// resampling noise may favour one side.
func TestPairedRatioSwapped(t *testing.T) {
	eachSize(t, func(t *testing.T, method Method, base, treatment []float64) {
		there := PairedRatioBy(method, base, treatment, 0.95, 42)
		back := PairedRatioBy(method, treatment, base, 0.95, 42)
		near(t, "value", back.Value, 1/there.Value, 1e-9)
		near(t, "low", back.Interval.Low, 1/there.Interval.High, 1e-9)
		near(t, "high", back.Interval.High, 1/there.Interval.Low, 1e-9)
	})
}

func TestPairedRatioDoesNotDependOnTheUnit(t *testing.T) {
	eachSize(t, func(t *testing.T, method Method, base, treatment []float64) {
		want := PairedRatioBy(method, base, treatment, 0.95, 42)
		same(t, PairedRatioBy(method, scaled(base, 1e6), scaled(treatment, 1e6), 0.95, 42), want, 1)
		same(t, PairedRatioBy(method, base, scaled(treatment, 3), 0.95, 42), want, 3)
	})
}

func TestPairedDifferenceScalesWithTheUnit(t *testing.T) {
	eachSize(t, func(t *testing.T, method Method, base, treatment []float64) {
		want := PairedDifferenceBy(method, base, treatment, 0.95, 42)
		same(t, PairedDifferenceBy(method, scaled(base, 1000), scaled(treatment, 1000), 0.95, 42), want, 1000)
		same(t, PairedDifferenceBy(method, scaled(base, -1), scaled(treatment, -1), 0.95, 42),
			Estimate{Value: -want.Value, Interval: Interval{-want.Interval.High, -want.Interval.Low, 0.95}}, 1)
	})
}

func TestPairedRatioDoesNotDependOnTheOrderOfBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	eachSize(t, func(t *testing.T, method Method, base, treatment []float64) {
		want := PairedRatioBy(method, base, treatment, 0.95, 42)
		rng.Shuffle(len(base), func(i, j int) {
			base[i], base[j] = base[j], base[i]
			treatment[i], treatment[j] = treatment[j], treatment[i]
		})
		same(t, PairedRatioBy(method, base, treatment, 0.95, 42), want, 1)
	})
}

func TestIntervalsWidenWithTheLevel(t *testing.T) {
	eachSize(t, func(t *testing.T, method Method, base, treatment []float64) {
		narrow := PairedRatioBy(method, base, treatment, 0.80, 42).Interval
		wide := PairedRatioBy(method, base, treatment, 0.95, 42).Interval
		if narrow.Low < wide.Low || narrow.High > wide.High || narrow.High-narrow.Low >= wide.High-wide.Low {
			t.Errorf("80 %%: %v to %v; 95 %%: %v to %v", narrow.Low, narrow.High, wide.Low, wide.High)
		}
	})
}

func TestSeedDecidesTheBootstrap(t *testing.T) {
	base, treatment := noisy(12, 3)
	for _, method := range []Method{MethodBootstrapT, MethodBCa} {
		first := PairedRatioBy(method, base, treatment, 0.95, 1)
		same(t, PairedRatioBy(method, base, treatment, 0.95, 1), first, 1)
		if other := PairedRatioBy(method, base, treatment, 0.95, 2); other.Interval == first.Interval {
			t.Errorf("%s: seeds 1 and 2 give the same interval %v", method, other.Interval)
		}
	}
}

// Whatever cannot be estimated has no interval and says why.
func TestDegenerateInputs(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	good := []float64{1, 2, 3, 5, 4}
	for _, c := range []struct {
		name            string
		base, treatment []float64
		level           float64
		value           float64
		warning         string
	}{
		{"no blocks", nil, nil, 0.95, nan, "no blocks"},
		{"one block", []float64{2}, []float64{3}, 0.95, 1.5, "need at least 3 blocks"},
		{"two blocks", []float64{2, 2}, []float64{2, 8}, 0.95, 2, "need at least 3 blocks"},
		{"unequal sides", good, good[:4], 0.95, nan, "5 blocks of the baseline against 4"},
		{"zero", good, []float64{1, 2, 0, 4, 5}, 0.95, nan, "condition, value 3 of 5: 0 is not positive"},
		{"negative", []float64{-1, 2, 3, 4, 5}, good, 0.95, nan, "baseline, value 1 of 5: -1 is not positive"},
		{"NaN", []float64{1, nan, 3, 4, 5}, good, 0.95, nan, "NaN is not a finite number"},
		{"infinite", good, []float64{1, 2, 3, 4, inf}, 0.95, nan, "+Inf is not a finite number"},
		{"the same twice", good, good, 0.95, 1, "are equal"},
		{"one ratio throughout", good, scaled(good, 1.1), 0.95, 1.1, "are equal"},
		{"level 1", good, []float64{2, 2, 2, 2, 2}, 1, nan, "level 1 is not between 0 and 1"},
		{"level NaN", good, []float64{2, 2, 2, 2, 2}, nan, nan, "level NaN is not between"},
		{"extremes", []float64{5e-324, 1, 1}, []float64{math.MaxFloat64, 1, 1}, 1.5, nan, "level 1.5"},
	} {
		for _, method := range append([]Method{MethodDefault}, pairedMethods...) {
			t.Run(c.name+"/"+string(method), func(t *testing.T) {
				e := PairedRatioBy(method, c.base, c.treatment, c.level, 1)
				if !math.IsNaN(e.Interval.Low) || !math.IsNaN(e.Interval.High) {
					t.Errorf("interval %v to %v, want none", e.Interval.Low, e.Interval.High)
				}
				if !warns(e, c.warning) {
					t.Errorf("warnings %q lack %q", e.Warnings, c.warning)
				}
				if !math.IsNaN(c.value) {
					near(t, "value", e.Value, c.value, 1e-9)
				}
				if e.N != min(len(c.base), len(c.treatment)) || e.Method == "" {
					t.Errorf("n = %d, method %q", e.N, e.Method)
				}
			})
		}
	}
	if e := PairedRatioBy("sign test", good, scaled(good, 2), 0.95, 1); !math.IsNaN(e.Interval.Low) {
		t.Errorf("an unknown method gives %v", e.Interval)
	}
	if e := PairedRatioBy(MethodJackknifeT, good, []float64{2, 2, 2, 2, 2}, 0.95, 1); !warns(e, `"jackknife-t" is not one for paired values`) {
		t.Errorf("a method for quantiles is not refused: %q", e.Warnings)
	}
	for name, e := range map[string]Estimate{
		"difference":     PairedDifference(good, []float64{1, nan, 3, 4, 5}, 0.95, 1),
		"geometric mean": GeometricMean([]float64{1, 2, 0}, 0.95, 1),
		"mean":           Mean([]float64{1, inf, 0}, 0.95, 1),
		"no mean":        Mean(nil, 0.95, 1),
	} {
		if !math.IsNaN(e.Value) || !math.IsNaN(e.Interval.High) || len(e.Warnings) == 0 {
			t.Errorf("%s: %+v, want nothing but a warning", name, e)
		}
	}
}

// Three blocks leave the bootstrap so often without spread that it has no
// interval; below five there is one, with a warning.
func TestFewBlocksWarn(t *testing.T) {
	base, treatment := noisy(3, 1)
	if e := PairedRatioBy(MethodBootstrapT, base, treatment, 0.95, 1); !warns(e, "too few for an interval by bootstrap-t") || !math.IsNaN(e.Interval.Low) {
		t.Errorf("bootstrap-t on three blocks: %+v", e)
	}
	if e := PairedRatio(base, treatment, 0.95, 1); math.IsNaN(e.Interval.Low) || !warns(e, "need at least 5 blocks, have 3") {
		t.Errorf("t on three blocks: %+v", e)
	}
}

// FuzzPairedRatio holds every method to its manners on any five blocks: no
// panic, and an interval around the value or a reason why there is none.
func FuzzPairedRatio(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, 5.0, 0.95)
	f.Add(5e-324, math.MaxFloat64, 1.0, 1.0, 1.0, 0.5)
	f.Add(0.0, math.NaN(), math.Inf(1), -1.0, 1.0, 0.999999)
	f.Fuzz(func(t *testing.T, a, b, c, d, e, level float64) {
		base, treatment := []float64{1, 2, 1, 3, 1}, []float64{a, b, c, d, e}
		for _, method := range append([]Method{MethodDefault}, pairedMethods...) {
			for _, got := range []Estimate{
				PairedRatioBy(method, base, treatment, level, 1),
				PairedDifferenceBy(method, base, treatment, level, 1),
			} {
				if math.IsNaN(got.Interval.Low) != math.IsNaN(got.Interval.High) {
					t.Errorf("%s: half an interval: %+v", method, got)
				}
				if math.IsNaN(got.Interval.Low) && len(got.Warnings) == 0 {
					t.Errorf("%s: no interval and no reason: %+v", method, got)
				}
				if got.Interval.Low > got.Interval.High {
					t.Errorf("%s: interval turned around: %+v", method, got)
				}
			}
		}
	})
}

// eachSize runs a property over methods and numbers of blocks.
func eachSize(t *testing.T, property func(t *testing.T, method Method, base, treatment []float64)) {
	t.Helper()
	for _, method := range pairedMethods {
		for _, n := range []int{6, 11, 30} {
			t.Run(fmt.Sprintf("%s/%d", method, n), func(t *testing.T) {
				base, treatment := noisy(n, uint64(n))
				property(t, method, base, treatment)
			})
		}
	}
}

// noisy gives n blocks with a ratio about 1.1.
func noisy(n int, seed uint64) (base, treatment []float64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	for range n {
		block := 100 * math.Exp(0.2*rng.NormFloat64())
		base = append(base, block*math.Exp(0.1*rng.NormFloat64()))
		treatment = append(treatment, 1.1*block*math.Exp(0.1*rng.NormFloat64()))
	}
	return base, treatment
}

func scaled(values []float64, factor float64) []float64 {
	result := make([]float64, len(values))
	for i, v := range values {
		result[i] = factor * v
	}
	return result
}

// same wants got to be factor times want.
func same(t *testing.T, got, want Estimate, factor float64) {
	t.Helper()
	near(t, "value", got.Value, factor*want.Value, 1e-9)
	near(t, "low", got.Interval.Low, factor*want.Interval.Low, 1e-9)
	near(t, "high", got.Interval.High, factor*want.Interval.High, 1e-9)
}

// near wants a value within tolerance, relative above 1.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*max(1, math.Abs(want))) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func warns(e Estimate, text string) bool {
	return strings.Contains(strings.Join(e.Warnings, "\n"), text)
}
