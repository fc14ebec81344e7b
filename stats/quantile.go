package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Quantile estimates the q-quantile (0.99, not 99) of the merged histograms of
// blocks. Values are interpolated within a bucket, so that the estimate differs
// from the histogram's own by less than a bucket's width.
func Quantile(blocks []*hdrhistogram.Histogram, q, level float64, seed int64) Estimate {
	return QuantileBy(MethodDefault, blocks, q, level, seed)
}

// quantileSmall is the number of blocks below which the level of a quantile is
// estimated by the jackknife: the bootstrap has too few blocks to draw from.
const quantileSmall = 10

// outerQuantile is how far out a quantile lies that few blocks tell badly, and
// outerTells is the number of blocks from which the simulation finds that its
// interval covers (docs/statistics.md).
const (
	outerQuantile = 0.9
	outerTells    = 20
)

// QuantileBy is [Quantile] by a method of the caller's choice: MethodJackknifeT,
// MethodBootstrapT or MethodBlockBootstrap.
func QuantileBy(method Method, blocks []*hdrhistogram.Histogram, q, level float64, seed int64) Estimate {
	n := len(blocks)
	chosen := method
	if chosen == MethodDefault {
		// The quantile of few blocks lies below the population's more often than
		// above, by as much as blocks differ, which the bootstrap sees.
		chosen = MethodBootstrapT
		if n < quantileSmall {
			chosen = MethodJackknifeT
		}
	}
	e := quantileEffect(chosen, [][]*hdrhistogram.Histogram{blocks}, q, level, seed, func(v []float64) float64 {
		return math.Log(v[0])
	}).exponential(n, level)
	if n < outerTells && max(q, 1-q) > outerQuantile && !math.IsNaN(e.Interval.Low) {
		e.warn("need at least %d blocks, have %d: the interval of an outer quantile covers too little below where blocks differ much", outerTells, n)
	}
	return e
}

// QuantileRatio estimates the ratio of the q-quantile of the merged histograms
// of treatment to that of base. Element i of both is block i; blocks are
// resampled, or left out, in pairs.
func QuantileRatio(base, treatment []*hdrhistogram.Histogram, q, level float64, seed int64) Estimate {
	return QuantileRatioBy(MethodDefault, base, treatment, q, level, seed)
}

// QuantileRatioBy is [QuantileRatio] by a method as for [QuantileBy].
func QuantileRatioBy(method Method, base, treatment []*hdrhistogram.Histogram, q, level float64, seed int64) Estimate {
	if method == MethodDefault {
		method = MethodJackknifeT
	}
	return quantileEffect(
		method,
		[][]*hdrhistogram.Histogram{base, treatment},
		q,
		level,
		seed,
		func(v []float64) float64 {
			return math.Log(v[1] / v[0])
		},
	).exponential(min(len(base), len(treatment)), level)
}

// QuantileDifference estimates by how much the q-quantile of the merged
// histograms of treatment exceeds that of base, in the histograms' unit.
func QuantileDifference(base, treatment []*hdrhistogram.Histogram, q, level float64, seed int64) Estimate {
	return QuantileDifferenceBy(MethodDefault, base, treatment, q, level, seed)
}

// QuantileDifferenceBy is [QuantileDifference] by a method as for [QuantileBy].
func QuantileDifferenceBy(
	method Method,
	base, treatment []*hdrhistogram.Histogram,
	q, level float64,
	seed int64,
) Estimate {
	if method == MethodDefault {
		method = MethodJackknifeT
	}
	return quantileEffect(
		method,
		[][]*hdrhistogram.Histogram{base, treatment},
		q,
		level,
		seed,
		func(v []float64) float64 {
			return v[1] - v[0]
		},
	).estimate(min(len(base), len(treatment)), level)
}

// fewBeyond is the number of values further out than a quantile below which it
// hangs on single ones.
const fewBeyond = 20

// quantileEffect estimates a function of the merged quantiles of one or more
// sides.
func quantileEffect(
	method Method,
	sides [][]*hdrhistogram.Histogram,
	q, level float64,
	seed int64,
	effect func([]float64) float64,
) location {
	loc := location{value: math.NaN(), low: math.NaN(), high: math.NaN(), method: method}
	n := len(sides[0])
	counts := make([]*blockCounts, len(sides))
	for i, side := range sides {
		switch {
		case len(side) != n:
			loc.warn("no effect on a quantile: %d blocks of the baseline against %d of the condition", n, len(side))
			return loc
		case n == 0:
			loc.warn("no blocks: nothing to estimate from")
			return loc
		}
		var err error
		if counts[i], err = newBlockCounts(side); err != nil {
			loc.warn("no quantile: %v", err)
			return loc
		}
	}
	if !(q > 0 && q < 1) {
		loc.warn("quantile %v is not between 0 and 1", q)
		return loc
	}
	r := newResampler(counts, effect, q)
	loc.value = r.value
	switch {
	case !(level > 0 && level < 1):
		loc.warn("level %v is not between 0 and 1: no interval", level)
		return loc
	case n < fewest:
		loc.warn("need at least %d blocks for an interval, have %d", fewest, n)
		return loc
	case r.se <= rounding*max(1, math.Abs(r.value)):
		loc.warn("the quantile is the same whichever of the %d blocks is left out: its spread, and so an interval, is unknown", n)
		return loc
	}
	if method != MethodJackknifeT && (1-level)/2*(resamples+1) < 1 {
		loc.warn("%d resamples do not reach a level of %.5g: no interval", resamples, level)
		return loc
	}
	switch method {
	case MethodJackknifeT:
		half := tQuantile(1-(1-level)/2, float64(n-1)) * r.se
		loc.low, loc.high = r.value-half, r.value+half
	case MethodBootstrapT:
		loc.low, loc.high = r.bootstrapT(level, seed)
	case MethodBlockBootstrap:
		loc.low, loc.high = r.percentiles(level, seed)
	default:
		loc.warn("method %q is not one for quantiles", method)
		return loc
	}
	if math.IsInf(loc.low, 0) || math.IsInf(loc.high, 0) {
		loc.low, loc.high = math.NaN(), math.NaN()
		loc.warn("%d blocks are too few for an interval by %s", n, method)
		return loc
	}
	if n < shown {
		loc.warn("need at least %d blocks, have %d: coverage is not shown below", shown, n)
	}
	for _, c := range counts {
		if beyond := c.beyond(q); beyond < fewBeyond {
			loc.warn("only %.3g values lie beyond the quantile %v: it hangs on single ones", beyond, q)
			break
		}
	}
	return loc
}

// resampler computes an effect on quantiles over sets of blocks.
type resampler struct {
	sides  []*merger
	effect func([]float64) float64
	q      float64
	values []float64 // room for the sides' quantiles

	value float64 // the effect over all blocks
	se    float64 // its standard error by the jackknife
	// order lists the blocks by their influence, turned so that the longer tail
	// comes last: resampling by rank in it is blind to the order of blocks, and
	// mirrors when the sides are swapped.
	order []int
}

func newResampler(counts []*blockCounts, effect func([]float64) float64, q float64) *resampler {
	n := counts[0].blocks
	r := &resampler{effect: effect, q: q, values: make([]float64, len(counts)), order: make([]int, n)}
	for _, c := range counts {
		r.sides = append(r.sides, newMerger(c))
	}
	once := make([]float64, n)
	for i := range once {
		once[i] = 1
		r.order[i] = i
	}
	r.weigh(once)
	r.value = r.without(everyBlock)
	if n < 2 {
		return r
	}
	leftOut := make([]float64, n)
	r.se = r.jackknife(once, leftOut)
	slices.SortFunc(r.order, func(a, b int) int {
		order := cmp.Compare(leftOut[a], leftOut[b])
		for _, c := range counts {
			order = cmp.Or(order, c.compare(a, b))
		}
		return order
	})
	if s := newSample(leftOut); s.flipped {
		slices.Reverse(r.order)
	}
	return r
}

// weigh chooses how often each block counts from here on.
func (r *resampler) weigh(weights []float64) {
	for _, side := range r.sides {
		side.weigh(weights)
	}
}

// without is the effect over the weighted blocks, with one block once less.
func (r *resampler) without(block int) float64 {
	for i, side := range r.sides {
		r.values[i] = side.quantile(r.q, block)
	}
	return r.effect(r.values)
}

// jackknife gives the standard error of the effect over weighted blocks by
// leaving out one at a time (Tukey 1958), and the effects so found in leftOut.
// A block of weight 0 takes no part.
func (r *resampler) jackknife(weights, leftOut []float64) float64 {
	var n, mean float64
	for b, w := range weights {
		if w > 0 {
			leftOut[b] = r.without(b)
			n += w
			mean += w * leftOut[b]
		}
	}
	mean /= n
	var squares float64
	for b, w := range weights {
		if w > 0 {
			squares += w * (leftOut[b] - mean) * (leftOut[b] - mean)
		}
	}
	return math.Sqrt((n - 1) / n * squares)
}

// resample visits resamples of the blocks, given as weights.
func (r *resampler) resample(seed int64, visit func(i int, weights []float64)) {
	rng := generator(seed)
	weights := make([]float64, len(r.order))
	for i := range resamples {
		clear(weights)
		for range r.order {
			weights[r.order[rng.IntN(len(r.order))]]++
		}
		r.weigh(weights)
		visit(i, weights)
	}
}

func (r *resampler) percentiles(level float64, seed int64) (low, high float64) {
	effects := make([]float64, resamples)
	r.resample(seed, func(i int, _ []float64) { effects[i] = r.without(everyBlock) })
	slices.Sort(effects)
	alpha := (1 - level) / 2
	return ranked(effects, alpha), ranked(effects, 1-alpha)
}

func (r *resampler) bootstrapT(level float64, seed int64) (low, high float64) {
	statistics := make([]float64, resamples)
	room := make([]float64, len(r.order))
	r.resample(seed, func(i int, weights []float64) {
		difference := r.without(everyBlock) - r.value
		if se := r.jackknife(weights, room); se > 1e-7*r.se {
			statistics[i] = difference / se
		} else {
			statistics[i] = math.Inf(sign(difference))
		}
	})
	slices.Sort(statistics)
	alpha := (1 - level) / 2
	return r.value - ranked(statistics, 1-alpha)*r.se, r.value - ranked(statistics, alpha)*r.se
}
