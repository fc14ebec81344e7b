package stats

// EquivalentWithin tells whether the whole interval of a ratio lies inside the
// smallest effect of interest: between 1/(1+smallest) and 1+smallest. With a
// 95 % interval this is the two one-sided tests of Schuirmann (1987) at 2.5 %
// each. An estimate without an interval is never equivalent.
func EquivalentWithin(e Estimate, smallest float64) bool {
	return e.Interval.Low >= 1/(1+smallest) && e.Interval.High <= 1+smallest
}

// Within tells that the whole interval of a ratio lies within so many percent of 1.
func Within(ratio Estimate, percent float64) bool {
	return ratio.Known() && ratio.Interval.Low >= 1-percent/100 && ratio.Interval.High <= 1+percent/100
}

// Beyond tells that the whole interval of a ratio lies more than so many percent above 1 or
// below.
func Beyond(ratio Estimate, percent float64) bool {
	return ratio.Known() && (ratio.Interval.Low > 1+percent/100 || ratio.Interval.High < 1-percent/100)
}
