package overhead

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"tare/stats"
)

// Two runs at different times share no blocks, so their figures are compared
// as independent ones.

// welch is the factor from a to b, given their logs, with the interval of
// Welch (1947), which lets the two spread differently.
func welch(a, b []float64, level float64) stats.Estimate {
	e := stats.Estimate{Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN(), Level: level}, N: min(len(a), len(b)), Method: "Welch"}
	if e.N == 0 {
		e.Warnings = append(e.Warnings, "not measured in both runs")
		return e
	}
	difference := stat.Mean(b, nil) - stat.Mean(a, nil)
	e.Value = math.Exp(difference)
	if e.N < 2 {
		e.Warnings = append(e.Warnings, "need at least 2 blocks in each run")
		return e
	}
	va, vb := stat.Variance(a, nil)/float64(len(a)), stat.Variance(b, nil)/float64(len(b))
	if va+vb == 0 {
		e.Warnings = append(e.Warnings, "all blocks of a run are equal: their spread, and so an interval, cannot be told")
		return e
	}
	if e.N < fewestBlocks {
		e.Warnings = append(e.Warnings, fmt.Sprintf("need at least %d blocks in each run, have %d and %d", fewestBlocks, len(a), len(b)))
	}
	// Satterthwaite's degrees of freedom.
	degrees := (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: degrees}.Quantile(1-(1-level)/2) * math.Sqrt(va+vb)
	e.Interval.Low, e.Interval.High = math.Exp(difference-half), math.Exp(difference+half)
	return e
}

// mover is the factor from a to b where all that is known of each is its own
// interval: the "method of variance estimates recovery" of Zou and Donner
// (2008) on the log scale, which keeps the skew of the two intervals.
func mover(a, b stats.Estimate, level float64) stats.Estimate {
	e := stats.Estimate{Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN(), Level: level}, N: min(a.N, b.N), Method: "MOVER"}
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
