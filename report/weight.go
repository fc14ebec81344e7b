package report

import (
	"tare/stats"
)

// Weight is what measuring itself cost: the program under tare against the
// same program started by hand, probes on against off, the lateness of the
// load generator. Whoever measured it hands it in.
type Weight []WeightItem

// WeightItem is one such figure.
type WeightItem struct {
	What     string // "redis get rate, under tare against by hand"
	Unit     string // of Estimate: "%", "us"
	Estimate stats.Estimate
	Reason   string // why there is no figure, where Estimate is NaN or zero
	// Difference items carry a sign: what is more with the instrument than without.
	Difference bool
}

// text writes the item with its interval, or with the reason for its absence.
func (i WeightItem) text() string {
	what := clean(i.What)
	e := i.Estimate
	sc := scaleFor(i.Unit, e.Value)
	v, low, high := e.Value/sc.divisor, e.Interval.Low/sc.divisor, e.Interval.High/sc.divisor
	write, span := fixed, plainSpan
	if i.Difference {
		write, span = signed, spanText
	}
	switch {
	case !present(e) || !finite(v):
		return what + ": no figure: " + orElse(clean(i.Reason), "not measured with this run")
	case !bounded(v, low, high) || e.Interval == (stats.Interval{}):
		return what + ": " + write(v, significant(v)) + " " + clean(sc.unit) + " (no interval: " + orElse(clean(i.Reason), "a single reading") + ")"
	}
	return what + ": " + write(v, decimalsOf(v, low, high)) + " " + clean(sc.unit) + " (" + span(low, high) + ")"
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
