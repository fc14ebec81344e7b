package report

import (
	"html/template"
	"math"
	"sort"

	"tare/overhead"
)

// Shapes of the verdicts, about ten pixels across: a plot that is printed in
// grey still tells them apart.
var verdictShape = map[overhead.Verdict]string{
	overhead.Worse:        "M0-6.5L6.5 0L0 6.5L-6.5 0Z",
	overhead.Better:       "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0Z",
	overhead.Equivalent:   "M-4.5-4.5h9v9h-9Z",
	overhead.Inconclusive: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0Z",
	overhead.Baseline:     "M0-7v14",
	oddNode:               "M0-6.5L6 4.5L-6 4.5Z",
	allNodes:              "M0-8L8 0L0 8L-8 0Z",
	otherNode:             "M0-5v10",
}

// verdictClass names a verdict for the style sheet; what is none of ours is
// none of the sheet's.
func verdictClass(v overhead.Verdict) string {
	if _, ok := verdictShape[v]; ok {
		return string(v)
	}
	return "none"
}

// A forest is the plot of one metric's changes, a piece a row, all on one
// axis.
type forest struct {
	effect   effectAxis
	smallest float64 // effect of interest, in percent
	beyond   []string
}

// newForest chooses an axis that holds every interval and the band of the
// smallest effect. One condition that dwarfs the rest (an emulated machine)
// would press them into a line: such lie beyond the plot and are named.
func newForest(m overhead.MetricReport, smallest float64) forest {
	f := forest{effect: effectAxis{higherIsBetter: m.HigherIsBetter}, smallest: 100 * smallest}
	type extent struct {
		low, high float64
		name      string
	}
	var extents []extent
	for _, r := range m.Rows {
		if r.Baseline || !finite(r.Percent) {
			continue
		}
		low, high := r.Percent, r.Percent
		if bounded(r.Percent, r.PercentLow, r.PercentHigh) {
			low, high = r.PercentLow, r.PercentHigh
		}
		extents = append(extents, extent{f.effect.place(low), f.effect.place(high), label(r)})
	}
	size := func(e extent) float64 { return max(math.Abs(e.low), math.Abs(e.high)) }
	sort.Slice(extents, func(i, j int) bool { return size(extents[i]) < size(extents[j]) })
	const dwarfing = 12
	band := f.effect.place(f.smallest)
	for len(extents) > 1 && size(extents[len(extents)-1]) > dwarfing*max(size(extents[len(extents)-2]), band) {
		f.beyond = append(f.beyond, extents[len(extents)-1].name)
		extents = extents[:len(extents)-1]
	}
	a := axis{f.effect.place(-f.smallest), band}
	for _, e := range extents {
		a.low, a.high = min(a.low, e.low), max(a.high, e.high)
	}
	f.effect.axis = a.widened(0.06)
	return f
}

// ground draws what all rows share: the band, the lines of the ticks, zero.
func (f forest) ground(s *svg) {
	low, high := f.effect.x(-f.smallest), f.effect.x(f.smallest)
	s.rect("band", low, 0, high-low, 100)
	for _, t := range f.effect.ticks() {
		s.line("grid", f.effect.at(t.at), 0, f.effect.at(t.at), 100)
	}
	s.line("zero", f.effect.x(0), 0, f.effect.x(0), 100)
}

func (f forest) axis() template.HTML {
	s := newSVG("axis", "axis of change on a logarithmic scale of the ratio; worse lies to the right")
	low, high := f.effect.x(-f.smallest), f.effect.x(f.smallest)
	s.rect("band", low, 0, high-low, 100)
	for _, t := range f.effect.ticks() {
		x := f.effect.at(t.at)
		s.text(tickClass(x), x, 100, 0, -8, t.label)
	}
	return s.html()
}

func (f forest) row(r overhead.Row) template.HTML {
	figure := "the baseline"
	if !r.Baseline {
		figure = "no figure"
		if finite(r.Percent) {
			v, low, high := natural(f.effect.higherIsBetter, r.Percent, r.PercentLow, r.PercentHigh)
			figure = signed(v, decimalsOf(v, low, high)) + " %"
			if bounded(r.Percent, r.PercentLow, r.PercentHigh) {
				figure += ", interval " + spanText(low, high) + " %"
			}
			if r.Verdict != "" {
				figure += ", " + clean(string(r.Verdict))
			}
		}
	}
	s := newSVG("forest", label(r)+": "+figure)
	f.ground(s)
	class := "mark " + verdictClass(r.Verdict)
	switch {
	case r.Baseline:
		s.mark("mark baseline", f.effect.x(0), 50, verdictShape[overhead.Baseline])
	case !finite(r.Percent):
	case f.effect.holds(f.effect.place(r.Percent)):
		if bounded(r.Percent, r.PercentLow, r.PercentHigh) {
			s.line("span "+verdictClass(r.Verdict), f.effect.x(r.PercentLow), 50, f.effect.x(r.PercentHigh), 50)
		}
		shape := verdictShape[r.Verdict]
		if shape == "" {
			shape = verdictShape[overhead.Inconclusive]
		}
		s.mark(class, f.effect.x(r.Percent), 50, shape)
	case r.Percent > 0:
		s.mark(class, 98.5, 50, "M-8-6L2 0L-8 6Z")
	default:
		s.mark(class, 1.5, 50, "M8-6L-2 0L8 6Z")
	}
	return s.html()
}
