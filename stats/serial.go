package stats

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// fewestBatches is the least number of batches for which an interval is given: below
// ten, batches tell too little of their own spread (Schmeiser 1982).
const fewestBatches = 10

// tightest bounds the correlation of batches with the next that is allowed for. Where it
// is greater, a series holds hardly more than one independent value, and its own spread
// does not tell by how much that is off.
const tightest = 0.8

// SerialMean estimates the mean of a series, such as a rate, from its values over
// successive spans of equal length: batch means. What is correlated within a span does
// no harm; that spans are, with the next, is allowed for. Unlike other estimators here
// it goes by the order of its values.
func SerialMean(batches []float64, level float64) Estimate {
	n := len(batches)
	if err := each(batches, finite); err != nil {
		return undefined(n, level, MethodBatchMeans, "no mean: %v", err)
	}
	if n == 0 {
		return undefined(n, level, MethodBatchMeans, "no batches: nothing to estimate from")
	}
	e := unknown(n, level, MethodBatchMeans)
	mean, se, degrees := serial(batches)
	e.Value = mean
	switch {
	case !(level > 0 && level < 1):
		e.warn("level %v is not between 0 and 1: no interval", level)
	case n < fewestBatches:
		e.warn("need at least %d batches for an interval, have %d", fewestBatches, n)
	case se <= rounding*largest(batches):
		e.warn("all %d batches are equal: their spread, and so an interval, is unknown", n)
	default:
		half := tQuantile(1-(1-level)/2, degrees) * se
		e.Interval.Low, e.Interval.High = mean-half, mean+half
	}
	return e
}

// SerialQuantile estimates the q-quantile of all that a series' batches hold, which may be
// nothing in some. Its interval is that of the share of values below the estimate, as a
// ratio over batches, read back from the merged histogram (Woodruff 1952): of those up to
// it or of those below it, whichever is less precise. Where that
// share's upper end is all values, the quantile has no upper bound that they tell: the
// interval then ends at infinity. It goes by the order of batches, as [SerialMean].
func SerialQuantile(batches []*hdrhistogram.Histogram, q, level float64) Estimate {
	e := unknown(len(batches), level, MethodBatchShares)
	var holding []*hdrhistogram.Histogram
	at := make([]int, len(batches)) // the place among those that hold something; -1 is none
	for i, h := range batches {
		at[i] = -1
		if h != nil && h.TotalCount() > 0 {
			at[i] = len(holding)
			holding = append(holding, h)
		}
	}
	counts, err := newBlockCounts(holding)
	switch {
	case err != nil:
		e.warn("no quantile: %v", err)
		return e
	case len(holding) == 0:
		e.warn("no batch holds anything: nothing to estimate from")
		return e
	case !(q > 0 && q < 1):
		e.warn("quantile %v is not between 0 and 1", q)
		return e
	}
	m := newMerger(counts)
	once := make([]float64, len(holding))
	for i := range once {
		once[i] = 1
	}
	m.weigh(once)
	e.Value = m.quantile(q, everyBlock)
	switch {
	case !(level > 0 && level < 1):
		e.warn("level %v is not between 0 and 1: no interval", level)
		return e
	case len(batches) < fewestBatches:
		e.warn("need at least %d batches for an interval, have %d", fewestBatches, len(batches))
		return e
	}

	last := len(m.high) - 1
	bucket := 0
	for bucket < last && m.high[bucket] < e.Value {
		bucket++
	}
	total := m.below(last, everyBlock)
	// shares are the deviations, in each batch, of the share of values up to a bucket,
	// weighed by what the batch holds: one without values says nothing either way.
	shares := func(bucket int) []float64 {
		below := m.below(bucket, everyBlock)
		residuals := make([]float64, len(batches))
		for i, b := range at {
			if b >= 0 {
				held := m.upTo[last*m.blocks+b]
				residuals[i] = (m.upTo[bucket*m.blocks+b] - held*below/total) * float64(len(batches)) / total
			}
		}
		return residuals
	}
	_, se, degrees := serial(shares(bucket))
	// Where many values are tied at the quantile, as those of requests that failed are,
	// the share up to there hardly differs among batches, whatever that below it does: it
	// is wholly all values at the top.
	if bucket > 0 {
		if _, under, fewer := serial(shares(bucket - 1)); under > se {
			se, degrees = under, fewer
		}
	}
	// Never less than that of independent values: few beyond the quantile may lie evenly
	// among the batches, by chance.
	se = math.Max(se, math.Sqrt(q*(1-q)/total))
	half := tQuantile(1-(1-level)/2, degrees) * se
	e.Interval.Low, e.Interval.High = 0, math.Inf(1)
	if q-half > 0 {
		e.Interval.Low = m.quantile(q-half, everyBlock)
	}
	if q+half < 1 {
		e.Interval.High = m.quantile(q+half, everyBlock)
	}
	return e
}

// serial gives the mean of a series of batches, its standard error and the degrees of
// freedom of that, by the number of independent values that so many correlated ones
// amount to (Zwiers and von Storch 1995).
func serial(batches []float64) (mean, se, degrees float64) {
	n := float64(len(batches))
	mean, sd := meanSD(batches)
	if len(batches) <= fewest || sd == 0 {
		return mean, sd / math.Sqrt(n), n - 1
	}
	inflation := inflation(0, batches)
	independent := math.Max(n/inflation, 2.5) // below, t has no use
	return mean, sd * math.Sqrt(inflation/n), independent - 1
}

// inflation is the factor by which the correlation of batches with the next raises the
// variance of their mean. It pools series that each have a mean of their own. The
// correlation is freed of its bias in short series (Kendall 1954), and never taken for
// less than least: 0 where an interval must not gain by it. Series have more than fewest
// batches in the mean.
func inflation(least float64, series ...[]float64) float64 {
	var product, squares, n float64
	for _, batches := range series {
		mean, _ := meanSD(batches)
		for i, v := range batches {
			squares += (v - mean) * (v - mean)
			if i > 0 {
				product += (v - mean) * (batches[i-1] - mean)
			}
		}
		n += float64(len(batches))
	}
	n /= float64(len(series))
	if squares == 0 {
		return 1
	}
	correlation := min(max((product/squares+1/n)/(1-3/n), least), tightest)
	return (1 + correlation) / (1 - correlation)
}
