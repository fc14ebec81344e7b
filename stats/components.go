package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Components are the two variances that the log ratios of rounds of strips consist of: the
// log ratio of strip j in round i is effect + round_i + strip_ij.
type Components struct {
	// Strips is the variance of one strip: that of a round's mean of m strips is
	// Strips / m, beside Rounds. The correlation of strips with their neighbours is within
	// it. NaN: unknown.
	Strips float64
	// Rounds is what rounds differ by beyond their strips: launches, memory layout, the
	// state of the host. At or below zero no such difference is seen. NaN: unknown.
	Rounds float64
	// RoundsLeast and RoundsMost are the limits of Rounds, each one-sided, at the level that
	// was asked for. Above 0, the lower one tells that rounds do differ.
	RoundsLeast, RoundsMost float64
	// Inflation is the factor by which the correlation of strips raises Strips; 1 is none,
	// and below it the next tends to the other side.
	Inflation float64
	Warnings  []string
}

// VarianceComponents estimates the components from the log ratios of the strips of each
// round, in the order in which they were measured. share is the trim at each end, as in
// [TrimmedMean]; 0 asks for the components of plain means, such as ratios of totals.
//
// The variance of a round's trimmed mean is that of its winsorised strips (Tukey and
// McLaughlin 1963) with the divisor of Yuen (1974). Their correlation raises it: it is
// found from batch means, ten or more a round, and the correlation of each with the next,
// pooled over rounds, as in [SerialMean]. What the variance of rounds exceeds it by is
// Rounds, by the method of moments (Kalibera and Jones 2013). RoundsLeast and RoundsMost are
// the limits of Tukey (1951) and Williams (1962), whose level is near the one asked for.
func VarianceComponents(rounds [][]float64, share, level float64) Components {
	unknown := math.NaN()
	c := Components{Strips: unknown, Rounds: unknown, RoundsLeast: unknown, RoundsMost: unknown, Inflation: unknown}
	refuse := func(why string) Components {
		c.Warnings = append(c.Warnings, "no variance components: "+why)
		return c
	}
	n := float64(len(rounds))
	centers := make([]float64, len(rounds))
	var strips float64
	for i, round := range rounds {
		if centers[i] = TrimmedMean(round, share); math.IsNaN(centers[i]) {
			return refuse("a round has no strips, or one that is not a finite number")
		}
		strips += float64(len(round))
	}
	if len(rounds) < 2 {
		return refuse("need at least 2 rounds")
	}

	size := max(1, int(strips/n)/fewestBatches)
	var series [][]float64
	var squares, within float64
	for _, round := range rounds {
		batches := batchMeans(winsorised(round, share), size)
		if len(batches) < 2 {
			continue
		}
		_, sd := meanSD(batches)
		squares += sd * sd * float64(len(batches)-1)
		within += float64(len(batches))
		series = append(series, batches)
	}
	if len(series) == 0 {
		return refuse("no round has two strips")
	}
	c.Inflation = 1
	if within >= float64(fewestBatches*len(series)) {
		// To hold the estimate at 0 from below would make strips too large in the mean, and
		// rounds too small.
		c.Inflation = inflation(-0.5, series...)
	} else {
		c.Warnings = append(c.Warnings, fmt.Sprintf("need at least %d strips a round to see how they are correlated: they are taken for independent", fewestBatches))
	}
	degrees := within - float64(len(series))
	variance := float64(size) * squares / degrees * c.Inflation

	// Of a round, and of one strip where all rounds have the same number of them.
	var ofRound, inverse float64
	for _, round := range rounds {
		ofRound += variance * yuen(len(round), share) / n
		inverse += 1 / float64(len(round)) / n
	}
	c.Strips = ofRound / inverse
	_, sd := meanSD(centers)
	c.Rounds = sd*sd - ofRound
	if !(level > 0 && level < 1) {
		c.Warnings = append(c.Warnings, "no upper limit: the level is not between 0 and 1")
		return c
	}
	independent := max(within/c.Inflation-float64(len(series)), 1)
	limit := func(p float64) float64 {
		chi := distuv.ChiSquared{K: n - 1}.Quantile(p)
		f := distuv.F{D1: n - 1, D2: independent}.Quantile(p)
		return max(0, (n-1)/chi*(sd*sd-f*ofRound))
	}
	c.RoundsLeast, c.RoundsMost = limit(level), limit(1-level)
	return c
}

// yuen is the variance of the trimmed mean of n independent values over the variance, with
// divisor n-1, of the winsorised ones: (n-1) / (h (h-1)), where h remain. Where a single
// value remains it is taken for as good as any.
func yuen(n int, share float64) float64 {
	h := float64(n - 2*trimmed(n, share))
	if h == 1 {
		return 1
	}
	return float64(n-1) / (h * (h - 1))
}

// winsorised gives x in its order, the lowest and the highest values, those that
// [TrimmedMean] leaves out, each replaced by the nearest that remains.
func winsorised(x []float64, share float64) []float64 {
	sorted := slices.Sorted(slices.Values(x))
	g := trimmed(len(x), share)
	low, high := sorted[g], sorted[len(x)-1-g]
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = min(max(v, low), high)
	}
	return y
}

// batchMeans are the means of successive values, size each; what is left over at the end
// is left out.
func batchMeans(x []float64, size int) []float64 {
	var means []float64
	for batch := range slices.Chunk(x, size) {
		if len(batch) == size {
			mean, _ := meanSD(batch)
			means = append(means, mean)
		}
	}
	return means
}
