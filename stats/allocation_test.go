package stats

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// What a pilot has found determines how many strips a round should have.
func ExampleStripsPerRound() {
	const round, strip = 6 * time.Second, time.Second
	fmt.Printf("rounds of %d strips\n", StripsPerRound(round, strip, 0.01*0.01, 0.001*0.001, 5, 60))
	// Output: rounds of 25 strips
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
