package stats

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// What a pilot has found tells how many strips a round should have, and what five minutes
// will resolve: nine rounds of 31 s.
func ExampleStripsPerRound() {
	const round, strip = 6 * time.Second, time.Second
	strips := StripsPerRound(round, strip, 0.01*0.01, 0.001*0.001, 5, 60)
	fmt.Printf("rounds of %d strips: half-width %.2f %% after nine\n", strips, 100*HalfWidthExpected(0.01*0.01, 0.001*0.001, strips, 9, 0.95))
	// Output: rounds of 25 strips: half-width 0.17 % after nine
}

// A round costs six seconds of launches and warm-up, a strip one; strips differ by 1 %,
// rounds by 0.1 %. So a round holds 25 strips, and five minutes hold nine rounds.
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
