// Package stats holds estimators: effects paired within blocks and pooled over
// nodes, levels, counts, quantiles of merged histograms, each with an interval; sample sizes, p-values
// and the arithmetic of verdicts.
//
// It knows nothing of trials, metrics or files, does no input or output and
// reads no clock; randomness comes in as a seed. It never panics: what cannot be
// estimated has a NaN interval and a warning that says why.
//
// docs/statistics.md names the source of each method and publishes, from the
// simulation in stats/coverage, how often its intervals hold the true value.
package stats

import "math"

// Interval is a confidence interval at Level (0.95).
type Interval struct {
	Low, High, Level float64
}

// Estimate is a figure with what it rests on.
type Estimate struct {
	Value    float64
	Interval Interval
	N        int      // blocks (or values) that it rests on
	Method   string   // one of the Method constants: "t", "BCa", "jackknife-t"
	Warnings []string // "need at least 3 blocks for an interval, have 2"
}

// Known tells whether it has a value and an interval: both are not a number
// where there was too little to make them.
func (e Estimate) Known() bool {
	return e.Value == e.Value && e.Interval.Low == e.Interval.Low && e.Interval.High == e.Interval.High
}

// DiffersFrom reports whether the whole interval lies above or below a value.
func (e Estimate) DiffersFrom(v float64) bool {
	return e.Known() && (e.Interval.Low > v || e.Interval.High < v)
}

// PercentMore is how much more than 1 a ratio is, in percent.
func (e Estimate) PercentMore() Estimate {
	e.Value = 100 * (e.Value - 1)
	e.Interval.Low, e.Interval.High = 100*(e.Interval.Low-1), 100*(e.Interval.High-1)
	return e
}

// Absent is the estimate of what was not measured.
func Absent(level float64) Estimate {
	return Estimate{Value: math.NaN(), Interval: Interval{Low: math.NaN(), High: math.NaN(), Level: level}}
}
