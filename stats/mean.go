package stats

import "math"

// GeometricMean estimates the level of positive values on the log scale, as
// [PairedRatio] does ratios.
func GeometricMean(values []float64, level float64, seed int64) Estimate {
	return GeometricMeanBy(MethodDefault, values, level, seed)
}

// GeometricMeanBy is [GeometricMean] by a method of the caller's choice, as
// [PairedRatioBy].
func GeometricMeanBy(method Method, values []float64, level float64, seed int64) Estimate {
	n := len(values)
	if method == MethodDefault {
		method = logDefault
	}
	if err := each(values, positive); err != nil {
		return undefined(n, level, method, "no geometric mean: %v", err)
	}
	logs := make([]float64, n)
	for i, v := range values {
		logs[i] = math.Log(v)
	}
	return locate(method, logs, rounding*max(1, largest(logs)), level, seed).exponential(n, level)
}

// skewTells is the number of values below which the simulation finds no method
// whose interval for the mean of skewed values holds often enough.
const skewTells = 10

// Mean estimates the arithmetic mean of values, which may be zero or negative.
func Mean(values []float64, level float64, seed int64) Estimate {
	return MeanBy(MethodDefault, values, level, seed)
}

// MeanBy is [Mean] by a method of the caller's choice, as [PairedRatioBy].
func MeanBy(method Method, values []float64, level float64, seed int64) Estimate {
	n := len(values)
	if method == MethodDefault {
		// Neither a logarithm nor a pairing takes the skew out of these values.
		// Where there is some, this covers most at every n.
		method = MethodBootstrapT
	}
	if err := each(values, finite); err != nil {
		return undefined(n, level, method, "no mean: %v", err)
	}
	e := locate(method, values, rounding*largest(values), level, seed).estimate(n, level)
	if n < skewTells && !math.IsNaN(e.Interval.Low) {
		e.warn("need at least %d values, have %d: below, no method covers where values are skewed", skewTells, n)
	}
	return e
}
