package stats

import (
	"fmt"
	"math"
)

// rounding is what the arithmetic of one subtraction, division or logarithm may
// leave of two equal values, relative to them.
const rounding = 4e-15

// PairedRatio estimates by what factor treatment differs from base, where
// element i of both was measured in block i: the geometric mean of the blocks'
// ratios. The interval is found on the log scale, so that an effect and its
// inverse are treated alike; it is Student's t, for which seed is of no account.
// All values must be positive.
func PairedRatio(base, treatment []float64, level float64, seed int64) Estimate {
	return PairedRatioBy(MethodDefault, base, treatment, level, seed)
}

// PairedRatioBy is [PairedRatio] by a method of the caller's choice: MethodT,
// MethodBootstrapT, MethodBCa or MethodHodgesLehmann. By the last the value is
// the pseudomedian of the ratios, which one wild block hardly moves.
func PairedRatioBy(method Method, base, treatment []float64, level float64, seed int64) Estimate {
	n := min(len(base), len(treatment))
	if method == MethodDefault {
		method = logDefault
	}
	ratios, err := logRatios(base, treatment)
	if err != nil {
		return undefined(n, level, method, "no ratio: %v", err)
	}
	return locate(method, ratios, rounding, level, seed).exponential(n, level)
}

// PairedDifference estimates by how much treatment exceeds base, in their unit:
// the mean of the blocks' differences. Values may be zero or negative.
func PairedDifference(base, treatment []float64, level float64, seed int64) Estimate {
	return PairedDifferenceBy(MethodDefault, base, treatment, level, seed)
}

// PairedDifferenceBy is [PairedDifference] by a method of the caller's choice,
// as [PairedRatioBy].
func PairedDifferenceBy(method Method, base, treatment []float64, level float64, seed int64) Estimate {
	n := min(len(base), len(treatment))
	if method == MethodDefault {
		// The difference of two skewed values has long tails on both sides, for
		// which both bootstraps cover less.
		method = MethodT
	}
	if err := paired(base, treatment, finite); err != nil {
		return undefined(n, level, method, "no difference: %v", err)
	}
	differences := make([]float64, n)
	for i := range differences {
		differences[i] = treatment[i] - base[i]
	}
	resolution := rounding * max(largest(base), largest(treatment))
	return locate(method, differences, resolution, level, seed).estimate(n, level)
}

// LogSD is the standard deviation of the paired log ratios: the spread that
// [SteinBlocks], [DetectableEffect] and [BlocksNeeded] ask for. NaN below two
// blocks, or where a value is not positive.
func LogSD(base, treatment []float64) float64 {
	ratios, err := logRatios(base, treatment)
	if err != nil || len(ratios) < 2 {
		return math.NaN()
	}
	_, sd := meanSD(ratios)
	return sd
}

// logRatios gives the logarithm of treatment over base for each block.
func logRatios(base, treatment []float64) ([]float64, error) {
	if err := paired(base, treatment, positive); err != nil {
		return nil, err
	}
	ratios := make([]float64, len(base))
	for i := range ratios {
		// The quotient keeps equal ratios equal, which the difference of two
		// logarithms does not; it overflows only where nothing is left to keep.
		ratio := treatment[i] / base[i]
		if ratio == 0 || math.IsInf(ratio, 0) {
			ratios[i] = math.Log(treatment[i]) - math.Log(base[i])
			continue
		}
		ratios[i] = math.Log(ratio)
	}
	return ratios, nil
}

// paired refuses sides of unequal length and values that are not as allowed.
func paired(base, treatment []float64, allowed func(float64) error) error {
	if len(base) != len(treatment) {
		return fmt.Errorf("%d blocks of the baseline against %d of the condition", len(base), len(treatment))
	}
	if err := each(base, allowed); err != nil {
		return fmt.Errorf("baseline, %w", err)
	}
	if err := each(treatment, allowed); err != nil {
		return fmt.Errorf("condition, %w", err)
	}
	return nil
}

// each refuses values that are not as allowed; the first is named, counted from 1.
func each(values []float64, allowed func(float64) error) error {
	for i, v := range values {
		if err := allowed(v); err != nil {
			return fmt.Errorf("value %d of %d: %w", i+1, len(values), err)
		}
	}
	return nil
}

func finite(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%v is not a finite number", v)
	}
	return nil
}

func positive(v float64) error {
	if err := finite(v); err != nil {
		return err
	}
	if v <= 0 {
		return fmt.Errorf("%v is not positive", v)
	}
	return nil
}

func notNegative(v float64) error {
	if err := finite(v); err != nil {
		return err
	}
	if v < 0 {
		return fmt.Errorf("%v is not a count", v)
	}
	return nil
}

// largest is the greatest magnitude among values.
func largest(values []float64) float64 {
	var most float64
	for _, v := range values {
		most = max(most, math.Abs(v))
	}
	return most
}
