package startup

import (
	"errors"
	"math"
	"testing"
)

func TestSearchKneeFindsCapacity(t *testing.T) {
	for _, capacity := range []float64{0.15, 0.7, 5, 6, 6.6, 41, 300, 499} {
		for _, guess := range []float64{0.1, 6, 5000} {
			tries := 0
			knee, bounded, err := searchKnee(guess, 0.1, 500, func(rate float64) (bool, error) {
				tries++
				return rate <= capacity, nil
			})
			if err != nil || !bounded {
				t.Fatalf("capacity %v from %v: %v, bounded %v", capacity, guess, err, bounded)
			}
			if off := math.Abs(math.Log(knee / capacity)); off > math.Log(kneeGap)/2+1e-9 {
				t.Errorf("capacity %v from %v: knee %v", capacity, guess, knee)
			}
			if tries > 25 {
				t.Errorf("capacity %v from %v took %d tries", capacity, guess, tries)
			}
		}
	}
}

func TestSearchKneeBeyondItsBounds(t *testing.T) {
	knee, bounded, err := searchKnee(6, 0.1, 500, func(float64) (bool, error) { return true, nil })
	if knee != 500 || bounded || err != nil {
		t.Errorf("a platform that keeps up with everything: %v, bounded %v, %v", knee, bounded, err)
	}
	if _, _, err := searchKnee(6, 0.1, 500, func(float64) (bool, error) { return false, nil }); err == nil {
		t.Error("a platform that keeps up with nothing has a knee")
	}
	broken := errors.New("broken")
	if _, _, err := searchKnee(6, 0.1, 500, func(float64) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("a broken trial: %v", err)
	}
}
