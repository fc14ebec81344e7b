package stats

import (
	"math"
	"testing"
)

// Power of the two-sided one-sample t test at 5 %: published with Cohen (1988)
// and in every program since: effect 0.5 needs 34 for 80 %, 0.8 needs 15, 0.2
// needs 199; effect 0.5 at 90 % needs 44.
func TestBlocksNeededAgreesWithPublishedTables(t *testing.T) {
	for _, c := range []struct {
		standardised, power float64
		want                int
	}{{0.5, 0.8, 34}, {0.8, 0.8, 15}, {0.2, 0.8, 199}, {0.5, 0.9, 44}} {
		sd := math.Log1p(0.02) / c.standardised
		if got := BlocksNeeded(sd, 0.02, 0.95, c.power); got != c.want {
			t.Errorf("effect of %v sd at power %v: %d blocks, want %d", c.standardised, c.power, got, c.want)
		}
	}
}

func TestPowerWithoutEffectIsTheErrorRate(t *testing.T) {
	for _, n := range []int{2, 3, 5, 30, 1000, 20000} {
		near(t, "power", tPower(0, n, 0.95), 0.05, 2e-5)
	}
}

// The normal limit joins on to the integral.
func TestPowerIsSmoothWhereTheApproximationBegins(t *testing.T) {
	for _, shift := range []float64{0.5, 2, 3} {
		near(t, "power", tPower(shift, 10001, 0.95), tPower(shift, 10000, 0.95), 1e-4)
	}
}

// DetectableEffect and BlocksNeeded are each other's inverse.
func TestDetectableEffectInvertsBlocksNeeded(t *testing.T) {
	for _, n := range []int{3, 5, 10, 30, 200} {
		effect := DetectableEffect(0.05, n, 0.95, 0.8)
		if got := BlocksNeeded(0.05, effect*1.0001, 0.95, 0.8); got != n {
			t.Errorf("what %d blocks detect (%v) needs %d", n, effect, got)
		}
		if got := BlocksNeeded(0.05, effect*0.9999, 0.95, 0.8); got != n+1 {
			t.Errorf("a little less than what %d blocks detect needs %d", n, got)
		}
	}
	if few, many := DetectableEffect(0.05, 5, 0.95, 0.8), DetectableEffect(0.05, 50, 0.95, 0.8); few <= many {
		t.Errorf("5 blocks see %v, 50 see %v", few, many)
	}
}

// By hand: t at 97.5 % and 9 degrees of freedom is 2.2622; with sd 3 % and
// half-width log 1.02, (2.2622 * 0.03 / 0.019803)^2 = 11.75, so 12 blocks.
func TestSteinBlocksByHand(t *testing.T) {
	if got := SteinBlocks(0.03, 10, 0.02, 0.95); got != 12 {
		t.Errorf("%d blocks, want 12", got)
	}
	if got := SteinBlocks(0.001, 10, 0.02, 0.95); got != 10 {
		t.Errorf("%d blocks where the pilot suffices, want its 10", got)
	}
	if got := SteinBlocks(0, 5, 0.02, 0.95); got != 5 {
		t.Errorf("%d blocks where the pilot had no spread, want its 5", got)
	}
	if got := SteinBlocks(1e300, 5, 0.02, 0.95); got != mostBlocks {
		t.Errorf("%d blocks for a hopeless spread", got)
	}
}

func TestSampleSizesOutOfRange(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, got := range []int{
		SteinBlocks(0.1, 1, 0.02, 0.95), SteinBlocks(nan, 5, 0.02, 0.95), SteinBlocks(-1, 5, 0.02, 0.95), SteinBlocks(inf, 5, 0.02, 0.95),
		SteinBlocks(0.1, 5, 0, 0.95), SteinBlocks(0.1, 5, nan, 0.95), SteinBlocks(0.1, 5, 0.02, 1),
		BlocksNeeded(nan, 0.02, 0.95, 0.8), BlocksNeeded(0.1, 0, 0.95, 0.8), BlocksNeeded(0.1, -0.1, 0.95, 0.8),
		BlocksNeeded(0.1, 0.02, 0.95, 1), BlocksNeeded(0.1, 0.02, 95, 0.8), BlocksNeeded(0, 0.02, 0.95, 0.8),
	} {
		if got != 0 {
			t.Errorf("%d blocks from arguments out of range", got)
		}
	}
	for _, got := range []float64{
		DetectableEffect(0.1, 1, 0.95, 0.8), DetectableEffect(nan, 5, 0.95, 0.8), DetectableEffect(0, 5, 0.95, 0.8),
		DetectableEffect(0.1, 5, 0.95, 0.01), DetectableEffect(0.1, 5, nan, 0.8),
	} {
		if !math.IsNaN(got) {
			t.Errorf("detects %v from arguments out of range", got)
		}
	}
	if got := BlocksNeeded(1e9, 1e-9, 0.95, 0.8); got != mostBlocks {
		t.Errorf("%d blocks for a hopeless effect", got)
	}
}
