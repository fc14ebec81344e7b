package stats

import "math"

// fewEvents is the number of events, of both sides together, below which counts
// are too coarse for the t distribution (docs/statistics.md).
const fewEvents = 10

// CountDifference estimates how many more events a block of treatment has than
// the same block of base: the mean of the paired differences. Zeros are counts
// like any other.
func CountDifference(base, treatment []float64, level float64, seed int64) Estimate {
	n := min(len(base), len(treatment))
	const method = MethodT
	if err := paired(base, treatment, notNegative); err != nil {
		return undefined(n, level, method, "no difference of counts: %v", err)
	}
	e := PairedDifferenceBy(method, base, treatment, level, seed)
	if n == 0 {
		return e
	}
	if sum(base)+sum(treatment) == 0 {
		e.Warnings = nil
		e.warn("no events in %d blocks of either: rates up to %.2g a block would show none with probability %.2g",
			n, unseenRate(n, level), 1-level)
		return e
	}
	e.warnFewEvents(base, treatment)
	return e
}

// CountRatio estimates the ratio of the events under treatment to those under
// base: of the sums, so that blocks with zeros take part. The interval is that
// of Fieller (1954) with the blocks as pairs, which counts the baseline as
// uncertain too. Where the baseline does not differ from zero the ratio has no
// upper bound: there is no interval then, but a warning. The seed is not used.
func CountRatio(base, treatment []float64, level float64, seed int64) Estimate {
	e := ratioOfSums(base, treatment, level, summed{
		what: "counts", allowed: notNegative,
		zero:      "no events in %d blocks of the baseline: no ratio, see the difference",
		unbounded: "the baseline's count does not differ significantly from zero in %d blocks: the ratio has no upper bound, see the difference",
	})
	if e.Value == 0 && e.N >= fewest && level > 0 && level < 1 {
		none := undefined(e.N, level, MethodFieller, "no events in %d blocks of the condition: rates up to %.2g a block would show none with probability %.2g",
			e.N, unseenRate(e.N, level), 1-level)
		none.Value = 0
		return none
	}
	e.Interval.Low = math.Max(0, e.Interval.Low) // counts are not negative, nor is their ratio; none stays none
	e.warnFewEvents(base, treatment)
	return e
}

// fiellerOutcome says what kind of set Fieller's inequality leaves.
type fiellerOutcome int

const (
	bounded fiellerOutcome = iota
	unbounded
	noSpread
)

// fieller solves (a - r b)^2 <= t^2 var(a - r b) for the ratio r of the means
// a over b.
func fieller(base, treatment []float64, level float64) (low, high float64, outcome fiellerOutcome) {
	n := float64(len(base))
	a, sa := meanSD(treatment)
	b, sb := meanSD(base)
	var product float64
	for i := range base {
		product += (treatment[i] - a) * (base[i] - b)
	}
	t := tQuantile(1-(1-level)/2, n-1)
	shrink := t * t / n
	covariance := product / (n - 1)
	square := b*b - shrink*sb*sb
	linear := a*b - shrink*covariance
	constant := a*a - shrink*sa*sa
	spread := sa*sa - 2*(a/b)*covariance + (a/b)*(a/b)*sb*sb // variance of a - r b at the estimate
	if spread <= 1e-14*a*a {
		return math.NaN(), math.NaN(), noSpread
	}
	if square <= 0 {
		return math.NaN(), math.NaN(), unbounded
	}
	root := math.Sqrt(max(0, linear*linear-square*constant))
	return (linear - root) / square, (linear + root) / square, bounded
}

// unseenRate is the largest Poisson rate a block that shows no event in n
// blocks with probability 1-level; at 95 % the "rule of three".
func unseenRate(n int, level float64) float64 { return -math.Log(1-level) / float64(n) }

func (e *Estimate) warnFewEvents(base, treatment []float64) {
	if events := sum(base) + sum(treatment); events < fewEvents && !math.IsNaN(e.Interval.Low) {
		e.warn("%.4g events in all, fewer than %d: the interval is approximate", events, fewEvents)
	}
}

func sum(values []float64) float64 {
	var total float64
	for _, v := range values {
		total += v
	}
	return total
}
