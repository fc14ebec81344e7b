package report

import (
	"html/template"
	"math"
	"sort"

	"tare/overhead"
)

// Bounds on what is drawn, so that the page of a long run opens as fast as
// that of a short one.
const (
	driftPoints  = 120 // dots along the blocks; beyond it, spans of blocks are drawn
	spreadPoints = 90  // dots of a distribution; beyond it, that many of its quantiles
)

// values gives a row's finite block values in the order of the blocks.
func blockValues(r overhead.Row) []overhead.BlockPoint {
	points := make([]overhead.BlockPoint, 0, len(r.Blocks))
	for _, b := range r.Blocks {
		if finite(b.Value) {
			points = append(points, b)
		}
	}
	sort.SliceStable(points, func(i, j int) bool { return points[i].Block < points[j].Block })
	return points
}

// center is the geometric mean where all values are positive, else the mean.
func center(points []overhead.BlockPoint) float64 {
	logs, sum := 0.0, 0.0
	positive := true
	for _, p := range points {
		sum += p.Value
		if p.Value <= 0 {
			positive = false
			continue
		}
		logs += math.Log(p.Value)
	}
	n := float64(len(points))
	if positive {
		return math.Exp(logs / n)
	}
	return sum / n
}

// A driftPlot shows one condition's blocks in the order in which they ran, as
// deviations from the condition's own mean.
type driftPlot struct {
	Label   string
	Tainted int
	Drawing template.HTML
}

// drift draws all conditions of a metric on one vertical scale, which is
// returned in percent either way.
func drift(rows []overhead.Row) (plots []driftPlot, reach float64) {
	deviations := make([][]float64, len(rows))
	points := make([][]overhead.BlockPoint, len(rows))
	var all []float64
	for i, r := range rows {
		points[i] = blockValues(r)
		if len(points[i]) < 2 {
			continue
		}
		mean := center(points[i])
		for _, p := range points[i] {
			d := 0.0
			if mean != 0 {
				d = 100 * (p.Value/mean - 1)
			}
			deviations[i] = append(deviations[i], d)
			all = append(all, math.Abs(d))
		}
	}
	if len(all) == 0 {
		return nil, 0
	}
	sort.Float64s(all)
	reach = all[len(all)-1]
	// One wild block must not flatten all others.
	if bulk := all[len(all)*98/100]; reach > 4*bulk && bulk > 0 {
		reach = 2 * bulk
	}
	if reach == 0 {
		reach = 1
	}
	vertical := axis{-reach, reach}.widened(0.08)
	for i, r := range rows {
		if len(points[i]) < 2 {
			continue
		}
		plots = append(plots, driftOf(r, points[i], deviations[i], vertical))
	}
	return plots, reach
}

func driftOf(r overhead.Row, points []overhead.BlockPoint, deviations []float64, vertical axis) driftPlot {
	plot := driftPlot{Label: label(r)}
	horizontal := axis{float64(points[0].Block), float64(points[len(points)-1].Block)}.widened(0.02)
	dots, tainted, spans := newPath("dots"), newPath("dots tainted"), newPath("spans")
	y := func(d float64) float64 { return 100 - vertical.at(d) }
	size := (len(points) + driftPoints - 1) / driftPoints
	for from := 0; from < len(points); from += size {
		to := min(from+size, len(points))
		some := append([]float64(nil), deviations[from:to]...)
		sort.Float64s(some)
		taint := 0
		for _, p := range points[from:to] {
			if p.Tainted {
				taint++
			}
		}
		plot.Tainted += taint
		x := horizontal.at(float64(points[(from+to-1)/2].Block))
		if size > 1 {
			spans.segment(x, y(some[0]), x, y(some[len(some)-1]))
		}
		if 2*taint > to-from {
			tainted.dot(x, y(some[len(some)/2]))
		} else {
			dots.dot(x, y(some[len(some)/2]))
		}
	}
	s := newSVG("drift", plot.Label+": "+Counted(len(points), "block")+" in the order in which they ran, as deviations from their mean")
	s.line("zero", 0, y(0), 100, y(0))
	s.field(spans, dots, tainted)
	plot.Drawing = s.html()
	return plot
}

// A strip shows one condition's block values along the metric's axis.
type strip struct {
	Label   string
	Drawing template.HTML
}

// strips draws the distributions of a metric's block values on one axis, with
// the median and the middle half marked.
func strips(rows []overhead.Row, sc scale) (drawn []strip, foot template.HTML) {
	values := make([][]float64, len(rows))
	var all []float64
	for i, r := range rows {
		for _, p := range blockValues(r) {
			values[i] = append(values[i], p.Value/sc.divisor)
		}
		sort.Float64s(values[i])
		all = append(all, values[i]...)
	}
	if len(all) < 2 {
		return nil, ""
	}
	sort.Float64s(all)
	horizontal := axis{all[0], all[len(all)-1]}.widened(0.03)
	if !(horizontal.high > horizontal.low) {
		horizontal = axis{all[0] - 1, all[0] + 1}
	}
	ticks := linearTicks(horizontal, 5)
	for i, r := range rows {
		if len(values[i]) == 0 {
			continue
		}
		median := at(values[i], 0.5)
		s := newSVG("strip", label(r)+": "+Counted(len(values[i]), "block value")+", median "+fixed(median, significant(median))+" "+clean(sc.unit))
		for _, t := range ticks {
			s.line("grid", horizontal.at(t.at), 0, horizontal.at(t.at), 100)
		}
		class := "dots " + verdictClass(r.Verdict)
		dots := newPath(class)
		n := min(len(values[i]), spreadPoints)
		for k := range n {
			v := values[i][k]
			if n < len(values[i]) {
				v = at(values[i], (float64(k)+0.5)/float64(n))
			}
			dots.dot(horizontal.at(v), 22+56*vanDerCorput(k+1))
		}
		half := newPath("half")
		half.segment(horizontal.at(at(values[i], 0.25)), 50, horizontal.at(at(values[i], 0.75)), 50)
		middle := newPath("middle")
		middle.segment(horizontal.at(median), 18, horizontal.at(median), 82)
		s.field(half, dots, middle)
		drawn = append(drawn, strip{label(r), s.html()})
	}
	s := newSVG("axis", "axis of "+clean(sc.unit))
	for _, t := range ticks {
		x := horizontal.at(t.at)
		s.text(tickClass(x), x, 0, 0, 14, t.label)
	}
	return drawn, s.html()
}

// at reads the quantile q off sorted values.
func at(sorted []float64, q float64) float64 {
	place := q * float64(len(sorted)-1)
	low := int(place)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (place-float64(low))*(sorted[low+1]-sorted[low])
}

// vanDerCorput gives the k-th number of a sequence that fills 0 to 1 evenly:
// dots spread over the height without chance, so that a page made twice is the
// same page.
func vanDerCorput(k int) float64 {
	v, f := 0.0, 0.5
	for ; k > 0; k >>= 1 {
		if k&1 == 1 {
			v += f
		}
		f /= 2
	}
	return v
}
