package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// One round of ten strips, in requests per second. The condition is 1 % slower than the
// baseline, and slices of both were disturbed.
func ExampleTypical() {
	baseline := []float64{1000, 1002, 640, 999, 1001, 998, 870, 1000, 1003, 997}
	condition := []float64{990, 610, 991, 989, 992, 730, 988, 420, 990, 991}
	level := func(speeds []float64) float64 {
		logs := make([]float64, len(speeds))
		for i, v := range speeds {
			logs[i] = math.Log(v)
		}
		return Typical(logs)
	}
	fmt.Printf("%+.2f %%\n", 100*math.Expm1(level(condition)-level(baseline)))
	// Output: -1.02 %
}

// What each strip contributes: the slow ones, which are left out, count as the slowest that
// is not, 3, and the fast one as the fastest that is not, 8.
func ExampleTypicalParts() {
	logSpeeds := []float64{3, -40, 5, 7, -90, 8, 2, 90, 6, -20}
	parts := TypicalParts(logSpeeds)
	mean, _ := meanSD(parts)
	fmt.Printf("typical %.1f, mean of the parts %.1f\n%.1f\n", Typical(logSpeeds), mean, parts)
	// Output:
	// typical 5.8, mean of the parts 5.8
	// [2.0 2.0 6.0 10.0 2.0 12.0 2.0 12.0 8.0 2.0]
}

// Five rounds of slices: in each, the difference of the typical levels of the condition and
// the baseline; over rounds, the mean and its interval.
func ExampleRoundMean() {
	rounds := []struct{ baseline, condition []float64 }{ // logarithms of speeds, by strip
		{[]float64{7.011, 7.009, 7.010, 6.612, 7.010}, []float64{7.000, 6.999, 7.001, 6.998, 6.500}},
		{[]float64{7.013, 7.012, 7.011, 7.010, 7.012}, []float64{7.000, 6.999, 6.890, 7.002, 7.001}},
		{[]float64{7.009, 7.010, 6.708, 6.750, 7.009}, []float64{7.000, 7.001, 6.998, 6.999, 7.002}},
		{[]float64{7.010, 7.012, 7.011, 7.011, 7.013}, []float64{6.310, 7.001, 7.000, 7.002, 6.540}},
		{[]float64{7.012, 7.010, 6.910, 7.009, 7.011}, []float64{6.998, 7.000, 7.001, 6.999, 7.000}},
	}
	var differences []float64
	for _, r := range rounds {
		differences = append(differences, Typical(r.condition)-Typical(r.baseline))
	}
	e := RoundMean(differences, 0.95)
	fmt.Printf("%+.2f %% (%+.2f to %+.2f), %d rounds\n",
		100*(e.Value-1), 100*(e.Interval.Low-1), 100*(e.Interval.High-1), e.N)
	// Output: -1.03 % (-1.17 to -0.88), 5 rounds
}

func TestTypicalByHand(t *testing.T) {
	for _, c := range []struct {
		x     []float64
		want  float64
		parts []float64
	}{
		{[]float64{7}, 7, []float64{7}},
		{[]float64{1, 4}, 2.5, []float64{1, 4}}, // 0.8 of a value: none is left out
		// The slowest is left out. With it as 4 the mean is 6, and 3 of 2 values stay.
		{[]float64{10, -50, 4}, 7, []float64{13, 4, 4}},
		// The two slowest are left out. With them as 3 the mean is 3.6, and 5 of 3 stay.
		{[]float64{3, 6, -9, 3, -8}, 4, []float64{3, 8, 3, 3, 3}},
		{nil, math.NaN(), nil},
		{[]float64{1, math.NaN()}, math.NaN(), nil},
		{[]float64{1, math.Inf(-1), 2}, math.NaN(), nil}, // even if it would be left out
	} {
		if got := Typical(c.x); !(math.Abs(got-c.want) < 1e-12) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v: %v, want %v", c.x, got, c.want)
		}
		parts := TypicalParts(c.x)
		if !slices.EqualFunc(parts, c.parts, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("%v: parts %v, want %v", c.x, parts, c.parts)
		}
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

func TestPropertiesOfTypical(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	for n := 1; n < 60; n++ {
		x := disturbedRound(rng, 1, n, 0.2, 0.5, 0.5)[0]
		level, parts := Typical(x), TypicalParts(x)
		if mean, _ := meanSD(parts); len(parts) != n || !near(mean, level) {
			t.Errorf("n = %d: %d parts with the mean %v, typical is %v", n, len(parts), mean, level)
		}
		order := rng.Perm(n)
		shuffled, moved := make([]float64, n), make([]float64, n)
		for i, from := range order {
			shuffled[i], moved[i] = x[from], x[i]-3
		}
		if got := Typical(shuffled); !near(got, level) {
			t.Errorf("n = %d: typical %v in another order, was %v", n, got, level)
		}
		if got := Typical(moved); !near(got, level-3) {
			t.Errorf("n = %d: typical %v of speeds that are lower by 3, was %v", n, got, level)
		}
		partsShuffled := TypicalParts(shuffled)
		for i, from := range order {
			if !near(partsShuffled[i], parts[from]) {
				t.Errorf("n = %d: the part of strip %d is %v in another order, was %v", n, from, partsShuffled[i], parts[from])
			}
		}
		// A slow slice that becomes slower still changes nothing once one may be left out.
		slowest := slices.Index(x, slices.Min(x))
		x[slowest] -= 5
		if got := Typical(x); n >= 3 && !near(got, level) || n < 3 && near(got, level) {
			t.Errorf("n = %d: typical %v with a slice that stalls, was %v", n, got, level)
		}
	}
}

// Over many rounds the difference of two instances' typical levels varies as the components
// of their parts say. Where a round may have more disturbed strips than are left out, they
// say too much: that is on the safe side.
func TestTypicalVariesAsItsPartsSay(t *testing.T) {
	const rounds = 4000
	for _, c := range []struct {
		strips           int
		disturbed, lasts float64
		most             float64 // of the variance that the components say, over that of rounds
	}{
		{strips: 40, disturbed: 0, lasts: 0, most: 1.15},
		{strips: 40, disturbed: 0.2, lasts: 0, most: 1.15},
		{strips: 200, disturbed: 0.2, lasts: 0.5, most: 1.15},
		{strips: 40, disturbed: 0.2, lasts: 0.5, most: 3},
	} {
		rng := rand.New(rand.NewPCG(11, 12))
		differences, parts := make([]float64, rounds), make([][]float64, rounds)
		for i := range differences {
			drawn := disturbedRound(rng, 2, c.strips, c.disturbed, 0.5, c.lasts)
			differences[i] = Typical(drawn[1]) - Typical(drawn[0])
			parts[i] = TypicalParts(drawn[1])
			for j, v := range TypicalParts(drawn[0]) {
				parts[i][j] -= v
			}
		}
		_, sd := meanSD(differences)
		components := VarianceComponents(parts, 0, 0.95)
		ratio := components.Strips / float64(c.strips) / (sd * sd)
		t.Logf("%+v: components say %.2f times the variance", c, ratio)
		if ratio < 0.85 || ratio > c.most {
			t.Errorf("%+v: variance %v, components say %v", c, sd*sd, components.Strips/float64(c.strips))
		}
	}
}

// Where conditions do not differ, the difference of typical levels is near zero although a
// fifth of all slices is disturbed. The trimmed mean of ratios to the mean of two baseline
// slices is not: of two slices one is disturbed more often than of one.
func TestRatioToTheMeanOfTwoIsBiased(t *testing.T) {
	const rounds, strips = 200, 200
	rng := rand.New(rand.NewPCG(13, 14))
	var byLevels, byRatios float64
	for range rounds {
		drawn := disturbedRound(rng, 3, strips, 0.2, 0, 0)
		byLevels += (Typical(drawn[2]) - (Typical(drawn[0])+Typical(drawn[1]))/2) / rounds
		ratios := make([]float64, strips)
		for j := range ratios {
			ratios[j] = drawn[2][j] - (drawn[0][j]+drawn[1][j])/2
		}
		byRatios += TrimmedMean(ratios, Trim) / rounds
	}
	t.Logf("off by %+.3f %% by levels, %+.2f %% by ratios", 100*byLevels, 100*byRatios)
	if math.Abs(byLevels) > 0.0002 {
		t.Errorf("typical levels differ by %v, want 0", byLevels)
	}
	if byRatios < 0.005 {
		t.Errorf("ratios to the mean of two differ by %v, want the bias that they are left for", byRatios)
	}
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
		total, typical := make([]float64, n), make([]float64, n)
		for i := range total {
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
		if a := TrimmedMean(total, Trim); !near(a, TrimmedMean(pick(total, 1), Trim)) || !near(a, -TrimmedMean(pick(total, -1), Trim)) {
			t.Errorf("n = %d: the trimmed mean goes by the order or the sign", n)
		}
		stalls, most := Stalls(total, typical, 0.95)
		again, mostAgain := Stalls(pick(total, 1), pick(typical, 1), 0.95)
		mirrored, mostMirrored := Stalls(pick(total, -1), pick(typical, -1), 0.95)
		for name, e := range map[string][3]Estimate{
			"mean":   {RoundMean(total, 0.95), RoundMean(pick(total, 1), 0.95), RoundMean(pick(total, -1), 0.95)},
			"stalls": {stalls, again, mirrored},
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
	e := RoundMean([]float64{0.01, 0.02, 0.03}, 0.95)
	half := 4.302653 * 0.01 / math.Sqrt(3)
	if math.Abs(math.Log(e.Value)-0.02) > 1e-9 || math.Abs(math.Log(e.Interval.High)-0.02-half) > 1e-7 || e.Method != string(MethodT) || e.N != 3 {
		t.Errorf("%+v", e)
	}
	wantWarning(t, e.Warnings, "need at least 5 rounds, have 3")
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
		e := RoundMean(c.x, 0.95)
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
