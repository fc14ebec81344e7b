package report

import (
	"math"
	"strconv"
	"strings"
)

// An axis places values from low to high on 0 to 100.
type axis struct{ low, high float64 }

func (a axis) at(v float64) float64 {
	if !(a.high > a.low) {
		return 50
	}
	return max(0, min(100, 100*(v-a.low)/(a.high-a.low)))
}

func (a axis) holds(v float64) bool { return v >= a.low && v <= a.high }

// widened leaves room at both ends.
func (a axis) widened(share float64) axis {
	room := (a.high - a.low) * share
	return axis{a.low - room, a.high + room}
}

// A tick is a labelled place on an axis.
type tick struct {
	at    float64 // on the axis' own scale
	label string
}

// niceStep gives the 1, 2 or 5 times a power of ten that divides a span into
// about n parts.
func niceStep(span float64, n int) float64 {
	raw := span / float64(max(n, 1))
	if !(raw > 0) || math.IsInf(raw, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*power*1.0001 {
			return m * power
		}
	}
	return 10 * power
}

// linearTicks labels round values.
func linearTicks(a axis, n int) []tick {
	step := niceStep(a.high-a.low, n)
	var ticks []tick
	for k := math.Ceil(a.low / step); k*step <= a.high && len(ticks) < 4*n; k++ {
		v := k * step
		ticks = append(ticks, tick{v, fixed(v, clamp(int(-math.Floor(math.Log10(step)+1e-9)), 0, 9))})
	}
	return ticks
}

// An effectAxis is the log ratio against the baseline, turned so that what is
// worse lies to the right whichever way the metric is good.
type effectAxis struct {
	axis
	higherIsBetter bool
}

// place puts an overhead in percent on the axis' scale.
func (e effectAxis) place(percent float64) float64 {
	if e.higherIsBetter {
		return -math.Log(max(1-percent/100, 1e-9))
	}
	return math.Log(max(1+percent/100, 1e-9))
}

// percent is the inverse of place.
func (e effectAxis) percent(v float64) float64 {
	if e.higherIsBetter {
		return 100 * (1 - math.Exp(-v))
	}
	return 100 * (math.Exp(v) - 1)
}

func (e effectAxis) x(percent float64) float64 { return e.at(e.place(percent)) }

// ticks labels the change in percent where effects are small, and by the factor where they
// are not.
func (e effectAxis) ticks() []tick {
	var ticks []tick
	if e.high-e.low > 1 {
		for _, f := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
			if v := math.Log(f); e.holds(v) {
				shown := f
				if e.higherIsBetter {
					shown = 1 / f
				}
				ticks = append(ticks, tick{v, "×" + strconv.FormatFloat(shown, 'g', 3, 64)})
			}
		}
		return thinned(ticks, 7)
	}
	low, high := e.percent(e.low), e.percent(e.high)
	for _, t := range linearTicks(axis{low, high}, 6) {
		size, sign := strings.TrimPrefix(t.label, "-"), ""
		switch change, _, _ := natural(e.higherIsBetter, t.at, 0, 0); {
		case change > 0:
			sign = "+"
		case change < 0:
			sign = minus
		}
		ticks = append(ticks, tick{e.place(t.at), sign + size + " %"})
	}
	return ticks
}

// thinned keeps every second tick until at most n remain.
func thinned(ticks []tick, n int) []tick {
	for len(ticks) > n {
		kept := ticks[:0]
		for i, t := range ticks {
			if i%2 == 0 {
				kept = append(kept, t)
			}
		}
		ticks = kept
	}
	return ticks
}
