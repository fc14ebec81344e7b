package overhead

import (
	"math"

	"tare/stats"
)

// Two runs at different times share no blocks, so their figures are compared
// as independent ones: by stats.UnpairedRatio where both have logarithms, by mover
// where all that is known of each is an interval.

// mover is the factor from a to b where all that is known of each is its own
// interval: the "method of variance estimates recovery" of Zou and Donner
// (2008) on the log scale, which keeps the skew of the two intervals.
func mover(a, b stats.Estimate, level float64) stats.Estimate {
	e := stats.Estimate{
		Value:    math.NaN(),
		Interval: stats.Interval{Low: math.NaN(), High: math.NaN(), Level: level},
		N:        min(a.N, b.N),
		Method:   "MOVER",
	}
	e.Warnings = append(append(e.Warnings, a.Warnings...), b.Warnings...)
	if !(a.Value > 0) || !(b.Value > 0) {
		if e.N == 0 {
			e.Warnings = append(e.Warnings, "not measured in both runs")
		} else {
			e.Warnings = append(e.Warnings, "not positive in both runs: no factor between them")
		}
		return e
	}
	e.Value = b.Value / a.Value
	la, ha, lb, hb := a.Interval.Low, a.Interval.High, b.Interval.Low, b.Interval.High
	if !(la > 0) || !(ha > 0) || !(lb > 0) || !(hb > 0) {
		e.Warnings = append(e.Warnings, "no interval above zero in both runs")
		return e
	}
	value := math.Log(e.Value)
	e.Interval.Low = math.Exp(value - math.Hypot(math.Log(b.Value/lb), math.Log(ha/a.Value)))
	e.Interval.High = math.Exp(value + math.Hypot(math.Log(hb/b.Value), math.Log(a.Value/la)))
	return e
}
