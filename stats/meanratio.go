package stats

// MeanRatio estimates the ratio of two means whose blocks are pairs, of figures that
// may be negative: of what one figure differs by between two conditions, say, the part
// that another does. The interval is Fieller's (1954), which counts the baseline as
// uncertain and as going with the treatment. Where the baseline does not differ from zero
// the ratio has no bounds: there is no interval then, but a warning. What cannot be negative is
// [CountRatio]'s. The seed is not used.
func MeanRatio(base, treatment []float64, level float64, seed int64) Estimate {
	return ratioOfSums(base, treatment, level, summed{
		what: "means", allowed: finite,
		zero:      "the baseline's mean is 0 over %d blocks: no ratio, see the difference",
		unbounded: "the baseline's mean does not differ significantly from zero in %d blocks: the ratio has no bounds, see the difference",
	})
}

// summed says what a ratio of sums is of, and the warning where there is none: each
// text takes the number of blocks.
type summed struct {
	what            string
	allowed         func(float64) error
	zero, unbounded string
}

// ratioOfSums is the ratio of the sums of pairs, with Fieller's interval where the
// baseline differs from zero.
func ratioOfSums(base, treatment []float64, level float64, of summed) Estimate {
	n := min(len(base), len(treatment))
	if err := paired(base, treatment, of.allowed); err != nil {
		return undefined(n, level, MethodFieller, "no ratio of %s: %v", of.what, err)
	}
	if n == 0 {
		return undefined(n, level, MethodFieller, "no blocks: nothing to estimate from")
	}
	if sum(base) == 0 {
		return undefined(n, level, MethodFieller, of.zero, n)
	}
	e := unknown(n, level, MethodFieller)
	e.Value = sum(treatment) / sum(base)
	switch {
	case n < fewest:
		e.warn("need at least %d blocks for an interval, have %d", fewest, n)
		return e
	case !(level > 0 && level < 1):
		e.warn("level %v is not between 0 and 1: no interval", level)
		return e
	}
	low, high, outcome := fieller(base, treatment, level)
	switch outcome {
	case noSpread:
		e.warn("every block has the same ratio: its spread, and so an interval, is unknown")
	case unbounded:
		e.warn(of.unbounded, n)
	default:
		e.Interval.Low, e.Interval.High = low, high
		if n < shown {
			e.warn("need at least %d blocks, have %d: coverage is not shown below", shown, n)
		}
	}
	return e
}
