// Package stats holds estimators: effects paired within blocks, their
// intervals, quantiles of merged histograms, sample sizes and verdicts'
// arithmetic. It does no input or output and reads no clock; randomness is
// passed in as a seed.
package stats

// Interval is a confidence interval at Level (0.95).
type Interval struct {
	Low, High, Level float64
}

// Estimate is a figure with what it rests on.
type Estimate struct {
	Value    float64
	Interval Interval
	N        int      // blocks (or values) that it rests on
	Method   string   // "t", "bootstrap-t", "BCa", "block bootstrap", "Hodges-Lehmann"
	Warnings []string // "need at least 5 blocks", "coverage not shown for heavy tails"
}
