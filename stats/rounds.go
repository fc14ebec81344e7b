package stats

import (
	"math"
	"slices"
)

// Trim is the share of strips that a round's typical ratio leaves out at each end
// ([TrimmedMean]): what is left is close to the median. It is the same for every metric and
// every run: a trim that is chosen after the data are seen chooses the result.
//
// On a shared host a fifth to two fifths of all slices are disturbed, and of the ratios of two
// slices up to two thirds. A trim of 20 % keeps many of these.
const Trim = 0.4

// TrimmedMean is the mean of what remains of x when floor(share * n) of its n values are
// left out at each end, of the lowest and of the highest, but never so many that fewer than
// two remain. share lies from 0, the mean, to
// below 0.5. NaN where x is empty, or an argument is out of range or not finite.
func TrimmedMean(x []float64, share float64) float64 {
	if len(x) == 0 || !(share >= 0 && share < 0.5) || each(x, finite) != nil {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(x))
	g := trimmed(len(x), share)
	mean, _ := meanSD(sorted[g : len(sorted)-g])
	return mean
}

// trimmed is how many of n values are left out at each end.
func trimmed(n int, share float64) int {
	const slack = 1e-9 // in floating point, 0.29 * 100 is below 29
	return max(0, min(int(share*float64(n)+slack), (n-2)/2))
}

// RoundError is the standard error that a round's own strips give of its typical ratio: that
// of a median of normal values, whose standard deviation is found from the quartiles of the
// strips' log ratios. NaN where there are fewer than two.
func RoundError(logRatios []float64) float64 {
	if len(logRatios) < 2 || each(logRatios, finite) != nil {
		return math.NaN()
	}
	const quartiles = 1.349 // apart, in standard deviations
	sorted := slices.Sorted(slices.Values(logRatios))
	sd := (ranked(sorted, 0.75) - ranked(sorted, 0.25)) / quartiles
	return sd * math.Sqrt(math.Pi/2/float64(len(logRatios)))
}

// leastError is the part of the median error of all rounds below which no round's own is
// taken: a few strips may agree by chance.
const leastError = 0.1

// RoundWeights says how much each round counts in [RoundMean], from the typical log ratio
// that each found and its standard error ([RoundError]): the inverse of the standard
// deviation that it has with what rounds differ by (as in [Regress]). A round on a quiet host
// so counts for more than one that was disturbed.
//
// The inverse of the variance would be the best weight if the errors were known. They are
// estimates from few strips: intervals with that weight cover too seldom, and with this one
// they hold the level at nearly the same width (docs/statistics.md). nil, all alike,
// where an error is unknown, or most are zero.
func RoundWeights(logRatios, errors []float64) []float64 {
	if len(logRatios) < fewest || paired(logRatios, errors, finite) != nil {
		return nil
	}
	least := leastError * middle(slices.Sorted(slices.Values(errors)))
	if least <= 0 {
		return nil
	}
	weights := slices.Clone(errors)
	for i := range weights {
		weights[i] = max(weights[i], least)
	}
	between, err := spreadBetween(logRatios, weights)
	if err != nil {
		return nil
	}
	for i, e := range weights {
		weights[i] = 1 / math.Sqrt(e*e+between)
	}
	return weights
}

// RoundMean estimates an effect from the log ratio that each round found: the exponential
// of their mean, with an interval over rounds. Rounds are the independent units: strips of
// one round share its launches.
//
// weights are those of [RoundWeights]. nil weighs all alike, and the interval is Student's t.
// Weights have to be independent of the ratios: where a ratio differs in busy rounds, a weighted
// mean leaves much of that out. The interval does not need weights that fit the rounds' true
// errors.
func RoundMean(logRatios, weights []float64, level float64) Estimate {
	n := len(logRatios)
	if err := each(logRatios, finite); err != nil {
		return undefined(n, level, MethodT, "no ratio: %v", err)
	}
	if weights != nil {
		if err := each(weights, positive); err != nil || len(weights) != n {
			return undefined(n, level, MethodWeightedT, "%d weights for %d ratios: want as many, each above 0", len(weights), n)
		}
	}
	return locateRounds(logRatios, weights, rounding*max(1, largest(logRatios)), level).exponential(n, level)
}

// RoundSD is the standard deviation of rounds that would give the same standard error as these
// with their weights, if all counted alike: what one more round is worth.
func RoundSD(logRatios, weights []float64) float64 {
	if weights == nil || paired(logRatios, weights, finite) != nil {
		_, sd := meanSD(logRatios)
		return sd
	}
	_, se, _ := robust(logRatios, weights)
	return se * math.Sqrt(float64(len(logRatios)))
}

func locateRounds(x, weights []float64, resolution, level float64) location {
	l := locateIn(ofRounds, MethodT, x, resolution, level, 0)
	if weights == nil || math.IsNaN(l.low) {
		return l
	}
	mean, se, degrees := robust(x, weights)
	half := tQuantile(1-(1-level)/2, degrees) * se
	l.method, l.value, l.low, l.high = MethodWeightedT, mean, mean-half, mean+half
	if len(x) >= shown {
		l.warnings = nil // that a round lies far off, which may count for little
	}
	return l
}

// robust gives a weighted mean, its standard error and the degrees of freedom of that.
//
// The variance is found from the deviations, each raised by its leverage: CR2 of Bell and
// McCaffrey (2002) for variances that are the inverse of the weights. The degrees are
// Satterthwaite's (Tipton, Psychological Methods 20, 2015) for standard deviations that are the
// inverse of the weights. With equal weights both are Student's. With unequal ones the variance
// is rather too large if the standard deviations are right.
func robust(x, weights []float64) (mean, se, degrees float64) {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	shares, variances := make([]float64, len(x)), make([]float64, len(x))
	var ofMean float64 // its variance, to a factor
	for i, w := range weights {
		shares[i], variances[i] = w/sum, sum*sum/(w*w)
		mean += shares[i] * x[i]
		ofMean += shares[i] * shares[i] * variances[i]
	}
	var variance, trace, squares float64
	for i, h := range shares {
		a := h * h / (1 - h)
		variance += a * (x[i] - mean) * (x[i] - mean)
		for j, g := range shares {
			covariance := ofMean - h*variances[i] - g*variances[j] // of two deviations
			if i == j {
				covariance += variances[i]
				trace += a * covariance
			}
			squares += a * g * g / (1 - g) * covariance * covariance
		}
	}
	return mean, math.Sqrt(variance), max(1, trace*trace/squares)
}

// Stalls estimates by what factor the ratio of totals exceeds the typical ratio, from the
// log ratios that each round found of either. It differs from 1 where a condition changes how
// often the program stalls, or for how long: the typical ratio leaves stalls out, and totals
// hold them. notExcluded is the largest such change, in either direction, that the interval
// leaves possible, as a ratio-effect (0.01 is 1 %); NaN where there is no interval.
//
// All rounds count alike: stalls come with busy rounds, which weights would leave out.
func Stalls(total, typical []float64, level float64) (difference Estimate, notExcluded float64) {
	n := min(len(total), len(typical))
	if err := paired(typical, total, finite); err != nil {
		return undefined(n, level, MethodT, "no difference: %v", err), math.NaN()
	}
	differences := make([]float64, n)
	for i := range differences {
		differences[i] = total[i] - typical[i]
	}
	resolution := rounding * max(1, largest(total), largest(typical))
	l := locateRounds(differences, nil, resolution, level)
	return l.exponential(n, level), math.Expm1(max(math.Abs(l.low), math.Abs(l.high)))
}
