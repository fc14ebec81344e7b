package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Two rounds of five strips. Winsorised, the first is 4 2 3 4 2 with a sum of squares of 4;
// three strips remain, so that its trimmed mean, 3, has the variance 4/(3*2). So has the
// second, whose trimmed mean is 5. The trimmed means have the variance 2.
func TestVarianceComponentsByHand(t *testing.T) {
	c := VarianceComponents([][]float64{{100, 1, 3, 4, 2}, {7, -50, 5, 6, 4}}, 0.2, 0.95)
	if math.Abs(c.Strips-5*4./6) > 1e-12 || math.Abs(c.Rounds-(2-4./6)) > 1e-12 {
		t.Errorf("%+v, want strips %v and rounds %v", c, 5*4./6, 2-4./6)
	}
	wantWarning(t, c.Warnings, "need at least 10 strips a round")
}

// Rounds of plain means, one of them longer: the components of an analysis of variance.
func TestVarianceComponentsOfMeans(t *testing.T) {
	c := VarianceComponents([][]float64{{1, 3}, {4, 6}, {2, 4}}, 0, 0.95)
	// Mean square within 2; means 2, 5, 3 with variance 7/3.
	if math.Abs(c.Strips-2) > 1e-12 || math.Abs(c.Rounds-(7./3-1)) > 1e-12 {
		t.Errorf("%+v", c)
	}
	// chi-squared 0.05-quantile at 2: 0.102587; F(2, 3): 0.052184.
	if want := 2 / 0.102587 * (7./3 - 0.052184); math.Abs(c.RoundsMost/want-1) > 1e-4 {
		t.Errorf("upper limit %v, want %v", c.RoundsMost, want)
	}
}

func TestUnknownVarianceComponents(t *testing.T) {
	for want, rounds := range map[string][][]float64{
		"need at least 2 rounds":  {{1, 2, 3}},
		"a round has no strips":   {{1, 2}, {}},
		"not a finite number":     {{1, 2}, {1, math.NaN()}},
		"no round has two strips": {{1}, {2}},
	} {
		c := VarianceComponents(rounds, 0.2, 0.95)
		if !math.IsNaN(c.Strips) || c.Rounds > 0 {
			t.Errorf("%v: %+v", rounds, c)
		}
		wantWarning(t, c.Warnings, want)
	}
}

// stripNoise draws rounds of strips: an effect of each round, and strips whose correlation
// fades by the factor by from one to the next.
func stripNoise(rng *rand.Rand, rounds, strips int, roundSD, stripSD, by float64) [][]float64 {
	drawn := make([][]float64, rounds)
	for i := range drawn {
		effect, state := roundSD*rng.NormFloat64(), rng.NormFloat64()
		for range strips {
			drawn[i] = append(drawn[i], effect+stripSD*state)
			state = by*state + math.Sqrt(1-by*by)*rng.NormFloat64()
		}
	}
	return drawn
}

// Over many pilots the components are right in the mean, correlated strips or not, and the
// upper limit holds as often as it says. For normal strips a trimmed mean has a little more
// variance than a mean.
func TestVarianceComponentsOverManyPilots(t *testing.T) {
	const pilots = 1000
	for _, c := range []struct {
		rounds, strips int
		roundSD, by    float64
	}{
		{rounds: 5, strips: 40, roundSD: 0, by: 0},
		{rounds: 5, strips: 40, roundSD: 0.3, by: 0},
		{rounds: 10, strips: 100, roundSD: 0.3, by: 0.5},
		{rounds: 10, strips: 400, roundSD: 0.3, by: 0.8},
	} {
		rng := rand.New(rand.NewPCG(7, 8))
		// No formula has the variance of a trimmed mean of correlated values: it is simulated.
		var alike []float64
		for _, round := range stripNoise(rng, 2*pilots, c.strips, 0, 1, c.by) {
			alike = append(alike, TrimmedMean(round, Trim))
		}
		_, sd := meanSD(alike)
		want := sd * sd * float64(c.strips)
		var strips, rounds float64
		most, least := 0, 0
		for range pilots {
			got := VarianceComponents(stripNoise(rng, c.rounds, c.strips, c.roundSD, 1, c.by), Trim, 0.95)
			strips += got.Strips / pilots
			rounds += got.Rounds / pilots
			if got.RoundsMost >= c.roundSD*c.roundSD {
				most++
			}
			if got.RoundsLeast <= c.roundSD*c.roundSD {
				least++
			}
		}
		t.Logf("%+v: strips %.3f, want %.3f (%.2f times); rounds %+.4f, want %.4f; upper limit holds in %.1f %%, lower in %.1f %%",
			c, strips, want, strips/want, rounds, c.roundSD*c.roundSD, 100*float64(most)/pilots, 100*float64(least)/pilots)
		// It comes out a tenth to a sixth too large: the safe side.
		if strips < 0.95*want || strips > 1.25*want {
			t.Errorf("%+v: strips %v, want %v", c, strips, want)
		}
		if off := math.Abs(rounds - c.roundSD*c.roundSD); off > 0.2*(c.roundSD*c.roundSD+want/float64(c.strips)) {
			t.Errorf("%+v: rounds %v, want %v", c, rounds, c.roundSD*c.roundSD)
		}
		if share := float64(most) / pilots; share < 0.95-4*math.Sqrt(0.95*0.05/pilots) {
			t.Errorf("%+v: the upper limit holds in %.1f %%", c, 100*share)
		}
		// Rounds that do not differ are taken to differ in up to 11 %, not 5 %.
		if share := float64(least) / pilots; share < 0.85 {
			t.Errorf("%+v: the lower limit holds in %.1f %%", c, 100*share)
		}
	}
}

func TestVarianceComponentsAreEvenHanded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	drawn := stripNoise(rng, 6, 30, 0.5, 1, 0.3)
	want := VarianceComponents(drawn, 0.2, 0.95)
	shuffled := slices.Clone(drawn)
	slices.Reverse(shuffled)
	mirrored := make([][]float64, len(drawn))
	for i, round := range drawn {
		for _, v := range round {
			mirrored[i] = append(mirrored[i], 3-v)
		}
	}
	for name, rounds := range map[string][][]float64{"rounds in another order": shuffled, "mirrored and moved": mirrored} {
		got := VarianceComponents(rounds, 0.2, 0.95)
		for what, pair := range map[string][2]float64{"strips": {got.Strips, want.Strips}, "rounds": {got.Rounds, want.Rounds}, "most": {got.RoundsMost, want.RoundsMost}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%s: %s %v, was %v", name, what, pair[0], pair[1])
			}
		}
	}
}
