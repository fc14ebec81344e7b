package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Tail is the latencies of one condition.
type Tail struct {
	Name   string
	Group  string // tails of one group share a colour, and differ by their dashes
	Dashed bool
	H      *hdrhistogram.Histogram // in microseconds
}

// tailPercentiles are where the axis of a tail is labelled, and what a terminal
// has of the curves.
var tailPercentiles = []float64{0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999}

// Tails draws distributions of latency with their tails stretched: to the right
// by percentile, each step ten times rarer, and latency upwards, both logarithmic.
// A curve ends where ten values lie beyond: what is further out hangs on single
// ones. A tail without values is left out.
func Tails(title, note string, curves []Tail) Part {
	c := Chart{
		Title: title,
		Note:  note,
		X:     Axis{Label: "percentile", Unit: "%", Tail: true},
		Y:     Axis{Label: "latency", Unit: "us", Log: true},
	}
	deepest, least := 0., math.Inf(1)
	for _, t := range curves {
		if t.H == nil || t.H.TotalCount() == 0 {
			continue
		}
		series := Series{Name: t.Name, Group: t.Group, Dashed: t.Dashed}
		reach := max(
			0.5,
			min(rarity(tailPercentiles[len(tailPercentiles)-1]/100), math.Log10(float64(t.H.TotalCount())/10)),
		)
		percentiles := tailPlaces(reach)
		for i, v := range t.H.ValueAtPercentilesSlice(percentiles) {
			// What a histogram of microseconds has as 0 has no place otherwise.
			series.Points = append(series.Points, Point{X: percentiles[i], Y: max(1, float64(v))})
		}
		slices.SortFunc(series.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		deepest = max(deepest, series.Points[len(series.Points)-1].X)
		least = min(least, series.Points[0].Y)
		c.Series = append(c.Series, series)
	}
	if !math.IsInf(least, 0) {
		unit := scaleFor("us", least)
		c.Y.Unit = unit.unit
		for _, s := range c.Series {
			for i := range s.Points {
				s.Points[i].Y /= unit.divisor
			}
		}
	}
	for _, p := range tailPercentiles {
		if p <= deepest {
			c.X.Ticks = append(c.X.Ticks, p)
			c.X.Labels = append(c.X.Labels, strconv.FormatFloat(p, 'f', -1, 64))
		}
	}
	return c
}

// tailPlaces are the percentiles by which a curve is drawn that reaches so far
// into the tail: evenly on its axis, and those that are labelled.
func tailPlaces(reach float64) []float64 {
	const steps = 90
	var places []float64
	for k := range steps + 1 {
		places = append(places, 100*(1-math.Pow(10, -reach*float64(k)/steps)))
	}
	for _, p := range tailPercentiles {
		// The ladder of powers meets some of them but for rounding.
		near := func(q float64) bool { return math.Abs(rarity(q/100)-rarity(p/100)) < 1e-6 }
		if places = slices.DeleteFunc(places, near); rarity(p/100) <= reach+1e-6 {
			places = append(places, p)
		}
	}
	slices.Sort(places)
	return places
}
