package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Five rounds of slices, two conditions side by side: in each, the trimmed mean of the
// strips' log ratios; over rounds, the mean and its interval.
func ExampleRoundMean() {
	rounds := [][]float64{
		{-0.011, -0.009, -0.010, -0.012, 0.300}, // a stall struck the baseline
		{-0.013, -0.012, -0.011, -0.010, -0.012},
		{-0.009, -0.010, -0.008, -0.250, -0.009}, // and here the condition
		{-0.010, -0.012, -0.011, -0.011, -0.013},
		{-0.012, -0.010, -0.010, -0.009, -0.011},
	}
	var typical []float64
	for _, strips := range rounds {
		typical = append(typical, TrimmedMean(strips, 0.2))
	}
	e := RoundMean(typical, nil, 0.95)
	fmt.Printf("%+.2f %% (%+.2f to %+.2f), %d rounds\n",
		100*(e.Value-1), 100*(e.Interval.Low-1), 100*(e.Interval.High-1), e.N)
	// Output: -1.05 % (-1.17 to -0.93), 5 rounds
}

func TestTrimmedMeanByHand(t *testing.T) {
	for _, c := range []struct {
		x     []float64
		share float64
		want  float64
	}{
		{[]float64{7}, 0.2, 7},
		{[]float64{100, 1, 4, 2}, 0.2, 26.75}, // 0.8 of a value: none is left out
		{[]float64{100, 1, 4, 2, 3}, 0.2, 3},
		{[]float64{100, 1, 4, 2, 3, 5, 6, 7, 8}, 0.2, 5}, // 1.8: one at each end
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 90, 100}, 0.2, 5.5},
		{[]float64{1, 2, 9}, 0, 4},
		{nil, 0.2, math.NaN()},
		{[]float64{1, 2, 3}, 0.5, math.NaN()},
		{[]float64{1, 2, math.Inf(1)}, 0.4, math.NaN()},
	} {
		if got := TrimmedMean(c.x, c.share); !(math.Abs(got-c.want) < 1e-12) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v trimmed by %v: %v, want %v", c.x, c.share, got, c.want)
		}
	}
	hundred := make([]float64, 100)
	if got := trimmed(len(hundred), 0.29); got != 29 {
		t.Errorf("29 %% of 100 are %d", got)
	}
}

// What holds of every estimate from rounds: it is blind to order, and mirrored values
// mirror it.
func TestRoundEstimatesAreEvenHanded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	for n := 1; n < 30; n++ {
		total, typical, errors := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range total {
			errors[i] = 0.01 * rng.ExpFloat64()
			typical[i] = 0.01 * rng.NormFloat64()
			total[i] = typical[i] + 0.005*math.Abs(rng.NormFloat64())
		}
		order := rng.Perm(n)
		pick := func(x []float64, sign float64) []float64 {
			y := make([]float64, n)
			for i, from := range order {
				y[i] = sign * x[from]
			}
			return y
		}
		of := func(x []float64) []float64 { return pick(x, 1) }
		if a := TrimmedMean(total, 0.2); !near(a, TrimmedMean(pick(total, 1), 0.2)) || !near(a, -TrimmedMean(pick(total, -1), 0.2)) {
			t.Errorf("n = %d: the trimmed mean goes by the order or the sign", n)
		}
		stalls, most := Stalls(total, typical, 0.95)
		again, mostAgain := Stalls(pick(total, 1), pick(typical, 1), 0.95)
		mirrored, mostMirrored := Stalls(pick(total, -1), pick(typical, -1), 0.95)
		for name, e := range map[string][3]Estimate{
			"mean":   {RoundMean(total, nil, 0.95), RoundMean(pick(total, 1), nil, 0.95), RoundMean(pick(total, -1), nil, 0.95)},
			"stalls": {stalls, again, mirrored},
			"weighted mean": {
				RoundMean(total, RoundWeights(typical, errors), 0.95), RoundMean(pick(total, 1), RoundWeights(pick(typical, 1), of(errors)), 0.95),
				RoundMean(pick(total, -1), RoundWeights(pick(typical, -1), of(errors)), 0.95),
			},
		} {
			if n < fewest {
				if e[0].Known() {
					t.Errorf("n = %d, %s: an interval from too few rounds", n, name)
				}
				continue
			}
			if !near(e[0].Value, e[1].Value) || !near(e[0].Interval.Low, e[1].Interval.Low) || !slices.Equal(e[0].Warnings, e[1].Warnings) {
				t.Errorf("n = %d, %s: in another order %+v, was %+v", n, name, e[1], e[0])
			}
			if !near(e[0].Value, 1/e[2].Value) || !near(e[0].Interval.Low, 1/e[2].Interval.High) {
				t.Errorf("n = %d, %s: mirrored %+v, was %+v", n, name, e[2], e[0])
			}
		}
		if n >= fewest && (!near(most, mostAgain) || !near(most, mostMirrored)) {
			t.Errorf("n = %d: not excluded are %v, %v and %v", n, most, mostAgain, mostMirrored)
		}
	}
}

// Student's t by hand: mean 0.02, standard deviation 0.01, 4.3027 at two degrees of freedom.
func TestRoundMeanByHand(t *testing.T) {
	e := RoundMean([]float64{0.01, 0.02, 0.03}, nil, 0.95)
	half := 4.302653 * 0.01 / math.Sqrt(3)
	if math.Abs(math.Log(e.Value)-0.02) > 1e-9 || math.Abs(math.Log(e.Interval.High)-0.02-half) > 1e-7 || e.Method != string(MethodT) || e.N != 3 {
		t.Errorf("%+v", e)
	}
	wantWarning(t, e.Warnings, "need at least 5 rounds, have 3")
}

// With equal weights the robust interval is Student's t; a round that counts for little
// moves the estimate little, and does not widen it.
func TestWeightsOfRounds(t *testing.T) {
	x := []float64{0.011, 0.009, 0.012, 0.008, 0.010, 0.2}
	alike := RoundMean(x, []float64{3, 3, 3, 3, 3, 3}, 0.95)
	plain := RoundMean(x, nil, 0.95)
	if math.Abs(alike.Value-plain.Value) > 1e-12 || math.Abs(alike.Interval.High-plain.Interval.High) > 1e-9 {
		t.Errorf("equal weights give %+v, Student's t %+v", alike, plain)
	}
	errors := []float64{0.001, 0.001, 0.001, 0.001, 0.001, 0.1}
	weighted := RoundMean(x, RoundWeights(x, errors), 0.95)
	if math.Abs(math.Log(weighted.Value)-0.010) > 0.002 || !(weighted.Interval.High-weighted.Interval.Low < 0.1*(plain.Interval.High-plain.Interval.Low)) {
		t.Errorf("weighted %+v, alike %+v", weighted, plain)
	}
	if weighted.Method != string(MethodWeightedT) || len(weighted.Warnings) != 0 {
		t.Errorf("%+v", weighted)
	}
	if sd := RoundSD(x, []float64{1, 1, 1, 1, 1, 1}); math.Abs(sd-RoundSD(x, nil)) > 1e-9 {
		t.Errorf("equal weights give a standard deviation of %v, want %v", sd, RoundSD(x, nil))
	}
	for _, weights := range [][]float64{{1, 1, 1}, {1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, math.NaN()}, {1, 1, 1, 1, 1, -1}} {
		if e := RoundMean(x, weights, 0.95); e.Known() || len(e.Warnings) != 1 {
			t.Errorf("weights %v give %+v", weights, e)
		}
	}
	for _, unknown := range [][]float64{nil, {1, 2}, {1, 1, 1, 1, 1, math.NaN()}, make([]float64, 6)} {
		if w := RoundWeights(x, unknown); w != nil {
			t.Errorf("errors %v give weights %v", unknown, w)
		}
	}
}

// Two rounds with errors of 1 and 2: the squares of their deviations come to their freedom, 1,
// where 9 = 1 + 4 + twice the variance between.
func TestSpreadBetweenByHand(t *testing.T) {
	if got, err := spreadBetween([]float64{0, 3}, []float64{1, 2}); err != nil || math.Abs(got-2) > 1e-6 {
		t.Errorf("%v, %v, want 2", got, err)
	}
	if got, err := spreadBetween([]float64{1, 1.1, 0.9}, []float64{1, 1, 1}); err != nil || got != 0 {
		t.Errorf("rounds that agree within their errors differ by %v, %v", got, err)
	}
}

func TestRoundErrorByHand(t *testing.T) {
	x := []float64{-1, -0.5, 0, 0.5, 1}
	// Ranks (n+1)p of 1.5 and 4.5: -0.75 and 0.75.
	if got, want := RoundError(x), 1.5/1.349*math.Sqrt(math.Pi/2/5); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
	if !math.IsNaN(RoundError(x[:1])) || !math.IsNaN(RoundError(nil)) {
		t.Error("an error of one strip")
	}
}

func TestRoundsThatDoNotTell(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want string
	}{
		{nil, "no rounds: nothing to estimate from"},
		{[]float64{0.01, 0.02}, "need at least 3 rounds for an interval, have 2"},
		{[]float64{0.01, 0.01, 0.01}, "all 3 values are equal"},
		{[]float64{0.01, math.NaN(), 0.01}, "value 2 of 3: NaN is not a finite number"},
	} {
		e := RoundMean(c.x, nil, 0.95)
		if e.Known() {
			t.Errorf("%v: %+v", c.x, e)
		}
		wantWarning(t, e.Warnings, c.want)
	}
	e, most := Stalls([]float64{1, 2}, []float64{1}, 0.95)
	if e.Known() || !math.IsNaN(most) {
		t.Errorf("unequal numbers of rounds: %+v, %v", e, most)
	}
}

// Totals that lose 1 % more than is typical, in every round alike but for noise.
func TestStallsByHand(t *testing.T) {
	typical := []float64{-0.02, -0.01, -0.03}
	total := []float64{-0.04, -0.02, -0.03} // differences -0.02, -0.01, 0
	e, most := Stalls(total, typical, 0.95)
	half := 4.302653 * 0.01 / math.Sqrt(3)
	if math.Abs(math.Log(e.Value)+0.01) > 1e-9 || math.Abs(math.Log1p(most)-0.01-half) > 1e-7 {
		t.Errorf("%+v, not excluded %v", e, most)
	}
}

func wantWarning(t *testing.T, warnings []string, want string) {
	t.Helper()
	if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, want) }) {
		t.Errorf("warnings %q, want one with %q", warnings, want)
	}
}

// disturbedRound draws the strips of some instances: noise, and slices that are slowed by 5
// to 60 %. The share shared of what is disturbed is so in all instances at once; that goes on
// in the next strip as often as lasts says.
func disturbedRound(rng *rand.Rand, instances, strips int, disturbed, shared, lasts float64) [][]float64 {
	depth := func() float64 { return math.Log1p(-0.05 - 0.55*rng.Float64()) }
	inAll := disturbed * shared
	alone := (disturbed - inAll) / (1 - inAll)
	drawn := make([][]float64, instances)
	everywhere := rng.Float64() < inAll
	for range strips {
		common := depth()
		for i := range drawn {
			v := 0.005 * rng.NormFloat64()
			if everywhere {
				v += common
			} else if rng.Float64() < alone {
				v += depth()
			}
			drawn[i] = append(drawn[i], v)
		}
		next := inAll * (1 - lasts) / (1 - inAll) // which keeps the share of such strips
		if everywhere {
			next = lasts
		}
		everywhere = rng.Float64() < next
	}
	return drawn
}

// Where conditions do not differ, the ratios of single slices are near 1 in the middle
// although a third of all slices is disturbed. The ratios to the mean of two slices are not:
// of two slices one is disturbed more often than of one.
func TestRatioToTheMeanOfTwoIsBiased(t *testing.T) {
	const rounds, strips = 200, 200
	rng := rand.New(rand.NewPCG(13, 14))
	var bySingle, byMean, byMean20 float64
	for range rounds {
		drawn := disturbedRound(rng, 3, strips, 0.3, 0, 0)
		var single, mean []float64
		for j := range strips {
			single = append(single, drawn[2][j]-drawn[0][j], drawn[2][j]-drawn[1][j])
			mean = append(mean, drawn[2][j]-(drawn[0][j]+drawn[1][j])/2)
		}
		bySingle += TrimmedMean(single, Trim) / rounds
		byMean += TrimmedMean(mean, Trim) / rounds
		byMean20 += TrimmedMean(mean, 0.2) / rounds
	}
	t.Logf("off by %+.3f %% by single slices, %+.2f %% by the mean of two, and by %+.2f %% with a trim of 20 %%", 100*bySingle, 100*byMean, 100*byMean20)
	if math.Abs(bySingle) > 0.0005 {
		t.Errorf("single slices differ by %v, want 0", bySingle)
	}
	if byMean < 0.005 || byMean20 < byMean {
		t.Errorf("ratios to the mean of two differ by %v, want the bias that they are not taken for", byMean)
	}
}
