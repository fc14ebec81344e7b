package stats

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// A round costs six seconds of launches and warm-up, a strip one; strips differ by 1 %,
// rounds by 0.1 %. So a round holds 25 strips, and five minutes hold nine rounds.
func ExampleStripsPerRound() {
	const round, strip = 6 * time.Second, time.Second
	strips := StripsPerRound(round, strip, 0.01*0.01, 0.001*0.001, 5, 60)
	rounds := RoundsWithin(5*time.Minute, round, strip, strips)
	fmt.Printf("%d rounds of %d strips: half-width %.2f %%\n",
		rounds, strips, 100*HalfWidthExpected(0.01*0.01, 0.001*0.001, strips, rounds, 0.95))
	// Output: 9 rounds of 25 strips: half-width 0.17 %
}

func TestStripsPerRound(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		round, strip         time.Duration
		varStrips, varRounds float64
		least, most, want    int
	}{
		{4 * s, s, 9, 1, 1, 100, 6},
		{4 * s, s, 9, 1.01, 1, 100, 6}, // 5.97, rounded up
		{4 * s, s, 9, 1, 10, 100, 10},
		{4 * s, s, 9, 1, 1, 5, 5},
		{4 * s, s, 9, -1e-9, 1, 100, 100}, // rounds are not seen to differ
		{4 * s, s, 9, math.NaN(), 1, 100, 100},
		{4 * s, s, 9, 1e-300, 1, 100, 100},
		{4 * s, s, 0, 1, 3, 100, 3},
		{4 * s, s, math.NaN(), 1, 3, 100, 3},
		{0, s, 9, 1, 3, 100, 3},
	} {
		if got := StripsPerRound(c.round, c.strip, c.varStrips, c.varRounds, c.least, c.most); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// No other number of strips does better in the same time, up to the rounding of a step.
func TestStripsPerRoundIsBest(t *testing.T) {
	const round, strip = 7 * time.Second, time.Second
	spread := func(strips int) float64 { // variance of the mean, times the time
		return (1 + 20/float64(strips)) * (round + time.Duration(strips)*strip).Seconds()
	}
	best := StripsPerRound(round, strip, 20, 1, 1, 1000)
	for strips := 1; strips <= 1000; strips++ {
		if spread(strips) < 0.999*spread(best) {
			t.Errorf("%d strips a round: %v, best %d: %v", strips, spread(strips), best, spread(best))
		}
	}
}

func TestRoundsWithin(t *testing.T) {
	for _, c := range []struct {
		budget time.Duration
		want   int
	}{{-time.Second, 0}, {0, 0}, {15 * time.Second, 0}, {16 * time.Second, 1}, {time.Minute, 3}} {
		if got := RoundsWithin(c.budget, 6*time.Second, time.Second, 10); got != c.want {
			t.Errorf("%v: %d rounds, want %d", c.budget, got, c.want)
		}
	}
	if got := RoundsWithin(time.Minute, 0, 0, 10); got != 0 {
		t.Errorf("rounds that cost nothing: %d", got)
	}
}

// 12.7062 is Student's quantile at one degree of freedom.
func TestHalfWidthExpectedByHand(t *testing.T) {
	want := math.Expm1(12.7062047 * math.Sqrt((1e-6+4e-4/100)/2))
	if got := HalfWidthExpected(4e-4, 1e-6, 100, 2, 0.95); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("%v, want %v", got, want)
	}
	if a, b := HalfWidthExpected(1, 0, 10, 5, 0.95), HalfWidthExpected(1, -3, 10, 5, 0.95); a != b {
		t.Errorf("rounds that are not seen change %v to %v", a, b)
	}
	for _, got := range []float64{
		HalfWidthExpected(1, 1, 10, 1, 0.95), HalfWidthExpected(1, 1, 0, 5, 0.95), HalfWidthExpected(-1, 1, 10, 5, 0.95),
		HalfWidthExpected(1, math.NaN(), 10, 5, 0.95), HalfWidthExpected(1, 1, 10, 5, 1),
	} {
		if !math.IsNaN(got) {
			t.Errorf("%v, want NaN", got)
		}
	}
}

func TestPreciseWithin(t *testing.T) {
	narrow := Interval{Low: 1 / 1.009, High: 1.009, Level: 0.95}
	for _, c := range []struct {
		e    Estimate
		want bool
	}{
		{Estimate{Value: 1, N: 8, Interval: narrow}, true},
		{Estimate{Value: 1, N: 7, Interval: narrow}, false},
		{Estimate{Value: 1, N: 80, Interval: Interval{Low: 0.98, High: 1.01}}, false},
		{Estimate{Value: math.NaN(), N: 80, Interval: Interval{Low: math.NaN(), High: math.NaN()}}, false},
	} {
		if got := PreciseWithin(c.e, 0.01); got != c.want {
			t.Errorf("%+v: %v", c.e, got)
		}
	}
}
