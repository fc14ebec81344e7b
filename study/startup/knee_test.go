package startup

import (
	"errors"
	"math"
	"slices"
	"testing"

	"tare/stats"
)

func TestSearchKneeFindsCapacity(t *testing.T) {
	for _, capacity := range []float64{0.15, 0.7, 5, 6, 6.6, 41, 300, 499} {
		tries := 0
		knee, bounded, err := searchKnee(firstGuess, func(rate float64) (bool, error) {
			tries++
			return rate <= capacity, nil
		})
		if err != nil || !bounded {
			t.Fatalf("capacity %v: %v, bounded %v", capacity, err, bounded)
		}
		if off := math.Abs(math.Log(knee / capacity)); off > math.Log(kneeGap)/2+1e-9 {
			t.Errorf("capacity %v: knee %v", capacity, knee)
		}
		if tries > 14 {
			t.Errorf("capacity %v took %d rates", capacity, tries)
		}
	}
}

func TestSearchKneeBeyondItsBounds(t *testing.T) {
	knee, bounded, err := searchKnee(firstGuess, func(float64) (bool, error) { return true, nil })
	if knee != highestKnee || bounded || err != nil {
		t.Errorf("a platform that keeps up with everything: %v, bounded %v, %v", knee, bounded, err)
	}
	if _, _, err := searchKnee(firstGuess, func(float64) (bool, error) { return false, nil }); err == nil {
		t.Error("a platform that keeps up with nothing has a knee")
	}
	broken := errors.New("broken")
	if _, _, err := searchKnee(firstGuess, func(float64) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("a broken trial: %v", err)
	}
}

// Whole searches on platforms of known capacity, in simulated time: one that
// serves in turn, and one whose starts share its CPUs.
func TestSimulatedKnees(t *testing.T) {
	const searches = 60
	for name, platform := range map[string]func(n int, rate, service, noise float64, seed uint64) []timing{"in turn": queue, "sharing": share} {
		for _, capacity := range []float64{1.3, 5, 28, 60, 180} {
			var knees []float64
			for s := range uint64(searches) {
				seed := 1000 * s
				knee, bounded, err := searchKnee(firstGuess, func(rate float64) (bool, error) {
					return decide(func() (stats.Estimate, error) {
						seed++
						return growthOf(platform(kneeCount(rate), rate, 1/capacity, 0.3, seed), 0.95), nil
					})
				})
				if err != nil || !bounded {
					t.Fatalf("%s, capacity %v: knee %v, bounded %v, %v", name, capacity, knee, bounded, err)
				}
				knees = append(knees, math.Log(knee/capacity))
			}
			slices.Sort(knees)
			median, low, high := knees[searches/2], knees[searches/20], knees[searches-1-searches/20]
			t.Logf("%s, capacity %v: knees %.2f (%.2f to %.2f) times it", name, capacity, math.Exp(median), math.Exp(low), math.Exp(high))
			if math.Abs(median) > 0.15 || low < -0.4 || high > 0.4 {
				t.Errorf("%s, capacity %v: the middle knee is %.2f times it, nine of ten between %.2f and %.2f", name, capacity, math.Exp(median), math.Exp(low), math.Exp(high))
			}
		}
	}
}
