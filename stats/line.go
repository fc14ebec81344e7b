package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Line fits a straight line by least squares: y is intercept + slope x. left is
// the share of y's variance that it does not explain (1 - R²): 0 where all points
// lie on it, NaN where all y are equal. All three are NaN for fewer than two
// different x, sides of unequal length, or what is not a finite number.
func Line(x, y []float64) (intercept, slope, left float64) {
	if paired(x, y, finite) != nil || len(x) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	meanX, _ := meanSD(x)
	meanY, _ := meanSD(y)
	var xx, xy, yy float64
	for i := range x {
		dx, dy := x[i]-meanX, y[i]-meanY
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	if !(math.Sqrt(xx) > rounding*largest(x)) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	slope = xy / xx
	intercept = meanY - slope*meanX
	if !(math.Sqrt(yy) > rounding*largest(y)) {
		return intercept, slope, math.NaN()
	}
	var rest float64
	for i := range x {
		off := y[i] - meanY - slope*(x[i]-meanX)
		rest += off * off
	}
	return intercept, slope, rest / yy
}

// Lines is a straight line fitted in each of several blocks: a fixed part and a
// part for each unit of x.
type Lines struct {
	// Intercept and Slope are the means of the blocks' own, with Student's t over
	// the blocks: what points of one block have in common does no harm, as it
	// would if all points were thrown together.
	Intercept, Slope Estimate
	// Left is the share of the variance between levels of x that the line leaves:
	// of the means of y at each x over all blocks. 0 is a straight line. Its
	// interval is by the jackknife over blocks, which also takes off what the
	// noise of the means adds; both are kept within 0 and 1. At least three
	// levels, the same in every block, are needed.
	Left Estimate
	// Bent is the p-value of the test that nothing but noise is left: F, of the
	// deviations of the means from the line against what the blocks disagree on
	// after their own levels have been taken off. NaN where it is unknown. A
	// small one says that the line is not straight, and not by how much: that is
	// Left. It takes the noise to be alike at all levels; where it grows with x,
	// small values come somewhat too often.
	Bent float64

	intercepts, slopes []float64
	resolution         float64 // of intercepts
	farthest           float64 // x
	level              float64
	seed               int64
	refused            error
}

// LineBy fits a line in each block, given as its x and its y, and estimates over
// blocks what they have in common.
func LineBy(blocks [][2][]float64, level float64, seed int64) Lines {
	n := len(blocks)
	l := Lines{Bent: math.NaN(), level: level, seed: seed}
	for i, b := range blocks {
		intercept, slope, _ := Line(b[0], b[1])
		if math.IsNaN(slope) {
			l.refused = fmt.Errorf("block %d of %d has no line: it needs as many finite x as y, two of them different", i+1, n)
			break
		}
		l.intercepts, l.slopes = append(l.intercepts, intercept), append(l.slopes, slope)
		l.farthest = max(l.farthest, largest(b[0]))
		l.resolution = max(l.resolution, rounding*float64(len(b[0]))*largest(b[1]))
	}
	l.Intercept, l.Slope = l.Combination(1, 0), l.Combination(0, 1)
	if l.refused != nil {
		l.Left = undefined(n, level, MethodJackknifeT, "no line: %v", l.refused)
		return l
	}
	l.Left, l.Bent = straightness(blocks, level)
	return l
}

// Combination estimates a sum of the two parts, ofIntercept times the intercept
// and ofSlope times the slope, block by block: (1, x) is the line at x, and
// (1, -x) by how much the fixed part exceeds the part for x units. The interval
// knows, as one put together from both intervals would not, that a block whose
// slope is high has a low intercept.
func (l Lines) Combination(ofIntercept, ofSlope float64) Estimate {
	if l.refused != nil {
		return undefined(len(l.slopes), l.level, MethodT, "no line: %v", l.refused)
	}
	values := make([]float64, len(l.slopes))
	for i := range values {
		values[i] = ofIntercept*l.intercepts[i] + ofSlope*l.slopes[i]
	}
	resolution := l.resolution * max(
		math.Abs(ofIntercept),
		math.Abs(ofSlope)/max(l.farthest, math.SmallestNonzeroFloat64),
	)
	return locate(MethodT, values, resolution, l.level, l.seed).estimate(len(values), l.level)
}

// straightness tells how much of the differences between levels a line leaves,
// and how probable as much is by noise alone.
func straightness(blocks [][2][]float64, level float64) (left Estimate, bent float64) {
	n := len(blocks)
	bent = math.NaN()
	x, table, err := levels(blocks)
	if err != nil {
		return undefined(n, level, MethodJackknifeT, "no share left by the line: %v", err), bent
	}
	k := len(x)
	means := make([]float64, k)
	for j := range x {
		for i := range n {
			means[j] += table[i][j] / float64(n)
		}
	}
	_, _, all := Line(x, means)
	left = unknown(n, level, MethodJackknifeT)
	if math.IsNaN(all) {
		left.warn("all levels have the same mean: there is no variance that a line could leave")
		return left, bent
	}
	left.Value = all
	if n < fewest {
		left.warn("need at least %d blocks for an interval, have %d", fewest, n)
		return left, bent
	}
	pseudo := make([]float64, n)
	without := make([]float64, k)
	for i := range n {
		for j := range x {
			without[j] = (means[j]*float64(n) - table[i][j]) / float64(n-1)
		}
		_, _, part := Line(x, without)
		pseudo[i] = float64(n)*all - float64(n-1)*part
	}
	center := locate(MethodT, pseudo, rounding*float64(n), level, 0)
	share := func(v float64) float64 { return max(0, min(1, v)) } // NaN stays
	if !math.IsNaN(center.value) {
		left.Value = share(center.value)
	}
	left.Interval.Low, left.Interval.High = share(center.low), share(center.high)
	left.Warnings = append(left.Warnings, center.warnings...)
	return left, lackOfFit(x, means, table)
}

// lackOfFit is the p-value of the deviations of the levels' means from a line,
// against the deviations of single readings from what block and level make them.
func lackOfFit(x, means []float64, table [][]float64) float64 {
	n, k := float64(len(table)), float64(len(x))
	intercept, slope, _ := Line(x, means)
	grand, _ := meanSD(means)
	var off, noise float64
	for j := range x {
		d := means[j] - intercept - slope*x[j]
		off += n * d * d
	}
	for _, row := range table {
		own, _ := meanSD(row)
		for j, y := range row {
			d := y - own - means[j] + grand
			noise += d * d
		}
	}
	freedom, freedomOfNoise := k-2, (n-1)*(k-1)
	if !(math.Sqrt(noise) > rounding*largest(means)*n*k) {
		return math.NaN() // without noise there is no test
	}
	f := (off / freedom) / (noise / freedomOfNoise)
	return distuv.F{D1: freedom, D2: freedomOfNoise}.Survival(f)
}

// levels gives the different x in order, and of each block the mean y at each.
func levels(blocks [][2][]float64) (x []float64, table [][]float64, err error) {
	for i, b := range blocks {
		sums, counts := map[float64]float64{}, map[float64]float64{}
		var own []float64
		for j, at := range b[0] {
			if counts[at] == 0 {
				own = append(own, at)
			}
			sums[at] += b[1][j]
			counts[at]++
		}
		slices.Sort(own)
		if i == 0 {
			x = own
		}
		if !slices.Equal(own, x) {
			return nil, nil, fmt.Errorf("block %d has other levels of x than block 1", i+1)
		}
		row := make([]float64, len(own))
		for j, at := range own {
			row[j] = sums[at] / counts[at]
		}
		table = append(table, row)
	}
	if len(x) < 3 {
		return nil, nil, fmt.Errorf("need at least 3 levels of x, have %d", len(x))
	}
	return x, table, nil
}
