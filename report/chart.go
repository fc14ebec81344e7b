package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"sort"
	"strings"
)

// A chartPage is a Chart as the page shows it: the field in the middle fills
// whatever width there is, and the labels around it are drawings of their own
// that keep theirs.
type chartPage struct {
	Vertical, Horizontal string // the axes' names
	Flags                template.HTML
	Levels, Field, Ends  template.HTML
	Foot                 template.HTML
	Named                bool // the lines are named at their ends where there is room
	Legend               []legendLine
	Spare                bool // the legend is: the names at the lines are whole
	Remarks              []string
	Data                 dataTable
}

// A legendLine names one series.
type legendLine struct {
	Sample template.HTML
	Name   string
}

// A dataTable holds the figures behind a drawing, for who cannot see it or
// wants to copy them.
type dataTable struct {
	Caption string
	Head    []string
	Rows    [][]string
	Note    string
}

const (
	// most series that are named at the ends of their lines.
	mostNamed = 9
	// letters that a name at the end of a line has.
	longEnd = 22
	// most points of a line that are drawn one by one, with an interval and a
	// text to point at; longer lines are lines.
	mostMarked = 40
	// points that a line is drawn by: as many as a screen has pixels for.
	mostDrawn = 500
	// rows of a table of data.
	mostRows = 60
)

// A placed series is a series whose points have places.
type placed struct {
	Series
	name, group string
	points      []placedPoint
	lost        int // points that have no place on the axes
}

type placedPoint struct {
	Point
	x, y      float64
	low, high float64 // the interval's; NaN where there is none
}

// A plot is a chart with its axes chosen.
type plot struct {
	Chart
	x, y   measure
	series []placed
	marks  []Mark
}

func groupOf(s Series) string { return orElse(clean(s.Group), clean(s.Name)) }

// newPlot chooses the axes and places the points.
func newPlot(c Chart) plot {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !finite(p.X) || !finite(p.Y) {
				continue
			}
			xs, ys = append(xs, p.X), append(ys, p.Y)
			if ranged(p.Y, p.Low, p.High) {
				ys = append(ys, p.Low, p.High)
			}
		}
	}
	p := plot{Chart: c}
	for _, m := range c.Marks {
		if !finite(m.X) {
			continue
		}
		p.marks = append(p.marks, m)
		xs = append(xs, m.X)
		if ranged(m.X, m.Low, m.High) {
			xs = append(xs, m.Low, m.High)
		}
	}
	p.x, p.y = newMeasure(xs, c.X, false), newMeasure(ys, c.Y, true)
	if !c.X.Log && !c.X.Tail && len(xs) > 0 && slices.Min(xs) >= 0 && slices.Min(xs) < slices.Max(xs)/4 {
		p.x.low = 0 // room before zero would say that there is something
	}
	for _, s := range c.Series {
		p.series = append(p.series, p.put(s))
	}
	return p
}

func (p plot) put(s Series) placed {
	out := placed{Series: s, name: clean(s.Name), group: groupOf(s)}
	for _, point := range s.Points {
		x, inX := p.x.place(point.X)
		y, inY := p.y.place(point.Y)
		if !inX || !inY {
			out.lost++
			continue
		}
		at := placedPoint{Point: point, x: x, y: 100 - y, low: math.NaN(), high: math.NaN()}
		if ranged(point.Y, point.Low, point.High) {
			// An interval that reaches zero on a logarithmic axis goes to its foot.
			low, ok := p.y.place(point.Low)
			if !ok {
				low = 0
			}
			if high, ok := p.y.place(point.High); ok {
				at.low, at.high = 100-low, 100-high
			}
		}
		out.points = append(out.points, at)
	}
	sort.SliceStable(out.points, func(i, j int) bool { return out.points[i].x < out.points[j].x })
	return out
}

// newChartPage draws a chart in the colours of its sheet.
func newChartPage(c Chart, colours *palette) *chartPage {
	p := newPlot(c)
	var groups []string
	for _, s := range p.series {
		groups = append(groups, s.group)
	}
	for _, m := range p.marks {
		if m.Group != "" {
			groups = append(groups, clean(m.Group))
		}
	}
	colours.assign(groups)
	if !p.drawn() {
		return &chartPage{Remarks: p.remarks(), Data: p.data()}
	}
	page := &chartPage{
		Vertical: withUnit(c.Y.Label, c.Y.Unit), Horizontal: withUnit(c.X.Label, c.X.Unit),
		Named: len(p.series) <= mostNamed,
		Flags: p.flags(colours), Levels: p.levels(), Field: p.field(colours), Foot: p.foot(),
		Data: p.data(),
	}
	if page.Named {
		page.Ends = p.ends(colours)
	}
	page.Spare = page.Named
	for _, s := range p.series {
		page.Legend = append(page.Legend, legendLine{lineSample(s.Series, colours), s.name})
		page.Spare = page.Spare && columns(s.name) <= longEnd
	}
	page.Remarks = p.remarks()
	return page
}

// drawn tells whether there is a point to draw.
func (p plot) drawn() bool {
	return slices.ContainsFunc(p.series, func(s placed) bool { return len(s.points) > 0 })
}

// remarks says what the drawing's signs mean, as far as it has them, and what
// it lacks.
func (p plot) remarks() []string {
	var past, intervals bool
	var said []string
	lost := 0
	for _, s := range p.series {
		lost += s.lost
		for _, at := range s.points {
			past = past || at.Past
			intervals = intervals || !math.IsNaN(at.low)
		}
	}
	if !p.drawn() {
		said = append(said, "There is nothing to draw.")
	}
	if past {
		said = append(said, "Hollow points and thin lines are not of a steady state: what they show depends on how long it was watched.")
	}
	if intervals {
		said = append(said, "Bands and whiskers are intervals.")
	}
	if lost > 0 {
		said = append(said, Counted(lost, "point")+" without a place on these axes (no figure, or not above zero where the axis is logarithmic).")
	}
	return said
}

// desc says in words what the lines do, for who hears the page.
func (p plot) desc() string {
	var parts []string
	for _, s := range p.series {
		if len(s.points) == 0 || len(parts) == 12 {
			continue
		}
		first, last := s.points[0], s.points[len(s.points)-1]
		at := reading
		if p.X.Tail {
			at = p.x.label // three digits do not tell its end
		}
		parts = append(parts, fmt.Sprintf("%s: %s at %s to %s at %s", s.name, reading(first.Y), at(first.X), reading(last.Y), at(last.X)))
	}
	return strings.Join(parts, "; ")
}

func (p plot) field(colours *palette) template.HTML {
	s := newSVG("plotted", p.Title+": "+withUnit(p.Y.Label, p.Y.Unit)+" by "+withUnit(p.X.Label, p.X.Unit))
	s.desc(p.desc())
	for _, t := range p.y.ticks(6) {
		y := 100 - p.y.at(t.at)
		s.line("grid", 0, y, 100, y)
	}
	for _, t := range p.x.ticks(6) {
		s.line("grid", p.x.at(t.at), 0, p.x.at(t.at), 100)
	}
	s.line("zero", 0, 100, 100, 100)
	for _, m := range p.marks {
		s.open(markColour(m, colours))
		x, _ := p.x.place(m.X)
		if ranged(m.X, m.Low, m.High) {
			low, _ := p.x.place(m.Low)
			high, _ := p.x.place(m.High)
			s.rect("doubt", low, 0, high-low, 100)
		}
		s.line("upright", x, 0, x, 100)
		s.close()
	}
	banded := 0
	for _, one := range p.series {
		if one.banded() {
			banded++
		}
	}
	for _, one := range p.series {
		s.open(colours.colour(one.group))
		if one.banded() && banded <= 4 {
			s.field(one.band())
		} else if len(one.points) <= mostMarked {
			for _, at := range one.points {
				if !math.IsNaN(at.low) {
					s.line("whisker", at.x, at.low, at.x, at.high)
				}
			}
		}
		s.field(one.lines()...)
		s.close()
	}
	// Points lie above all lines.
	for _, one := range p.series {
		if len(one.points) > mostMarked {
			continue
		}
		s.open(colours.colour(one.group))
		for _, at := range one.points {
			class := "dot"
			if at.Past {
				class = "dot hollow"
			}
			s.pointed(class, at.x, at.y, colours.shape(one.group), p.tooltip(one, at))
		}
		s.close()
	}
	return s.html()
}

// tooltip is what pointing at a point shows.
func (p plot) tooltip(s placed, at placedPoint) string {
	figure, span := readingWithin(at.Y, at.Low, at.High)
	text := fmt.Sprintf("%s: %s", s.name, strings.TrimSpace(figure+" "+clean(p.Y.Unit)))
	if span != "" {
		text += " (" + span + ")"
	}
	text += fmt.Sprintf(" at %s %s", p.x.label(at.X), orElse(clean(p.X.Unit), clean(p.X.Label)))
	if at.Past {
		text += ", not a steady state"
	}
	return text
}

// banded tells whether a series has intervals enough for a band.
func (s placed) banded() bool {
	n := 0
	for _, at := range s.points {
		if !math.IsNaN(at.low) {
			n++
		}
	}
	return n >= 3 && n == len(s.points)
}

func (s placed) band() fieldPath {
	path := newPath("band-of")
	points := thinnedPoints(s.points)
	for _, at := range points {
		path.point(at.x, at.high)
	}
	for _, at := range slices.Backward(points) {
		path.point(at.x, at.low)
	}
	path.d.WriteString("Z")
	return path
}

// lines draws a series, with the stretch past the steady state thinner.
func (s placed) lines() []fieldPath {
	class := "run"
	if s.Dashed {
		class += " dashed"
	}
	steady, beyond := newPath(class), newPath(class+" beyond")
	points := thinnedPoints(s.points)
	for i, at := range points {
		switch {
		case !at.Past:
			steady.point(at.x, at.y)
		case i > 0:
			beyond.segment(points[i-1].x, points[i-1].y, at.x, at.y)
		}
	}
	return []fieldPath{steady, beyond}
}

// thinnedPoints keeps of a long line the least and the greatest of each
// stretch, so that no peak is lost.
func thinnedPoints(points []placedPoint) []placedPoint {
	if len(points) <= mostDrawn {
		return points
	}
	stretch := (2*len(points) + mostDrawn - 1) / mostDrawn
	kept := make([]placedPoint, 0, mostDrawn+2)
	for i := 0; i < len(points); i += stretch {
		low, high := i, i
		for j := i; j < min(i+stretch, len(points)); j++ {
			if points[j].y > points[low].y {
				low = j
			}
			if points[j].y < points[high].y {
				high = j
			}
		}
		kept = append(kept, points[min(low, high)])
		if low != high {
			kept = append(kept, points[max(low, high)])
		}
	}
	return kept
}

func markColour(m Mark, colours *palette) string {
	if m.Group == "" {
		return "plain-mark"
	}
	return colours.colour(clean(m.Group))
}

// flags names the upright marks above the field, a line each, so that no two
// names lie upon each other.
func (p plot) flags(colours *palette) template.HTML {
	if len(p.marks) == 0 {
		return ""
	}
	marks := slices.Clone(p.marks)
	sort.SliceStable(marks, func(i, j int) bool { return marks[i].X < marks[j].X })
	const row, most = 17, 12
	height := row * min(len(marks), most)
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg class="flags" height="%d" aria-hidden="true">`, height)
	for i, m := range marks {
		if i == most {
			break
		}
		x, _ := p.x.place(m.X)
		y := row*i + 12
		s.open(markColour(m, colours))
		fmt.Fprintf(&s.b, `<line class="upright" x1="%s" y1="%d" x2="%s" y2="%d"/>`, pct(x), y-8, pct(x), height)
		class, dx := "flag", 5
		if x > 50 {
			class, dx = "flag end", -5
		}
		fmt.Fprintf(&s.b, `<text class="%s" x="%s" y="%d" dx="%d">%s</text>`, class, pct(x), y, dx, template.HTMLEscapeString(shortened(clean(m.Label), 40)))
		s.close()
	}
	return s.html()
}

func (p plot) levels() template.HTML {
	s := &svg{}
	s.b.WriteString(`<svg class="levels" aria-hidden="true">`)
	for _, t := range p.y.ticks(6) {
		s.text("tick end", 100, 100-p.y.at(t.at), -7, 4, t.label)
	}
	return s.html()
}

func (p plot) foot() template.HTML {
	s := &svg{}
	s.b.WriteString(`<svg class="foot" aria-hidden="true">`)
	free := math.Inf(-1) // where the labels so far end
	for _, t := range p.x.ticks(6) {
		x := p.x.at(t.at)
		class := tickClass(x)
		if p.X.Tail {
			// Towards the end labels grow longer than the way to the next.
			from, to := labelExtent(class, x, columns(t.label))
			if from < free {
				continue
			}
			free = to
		}
		s.text(class, x, 0, 0, 16, t.label)
	}
	return s.html()
}

// labelExtent is about where a label of so many letters begins and ends, in
// percent of the narrowest field that a page has.
func labelExtent(class string, x float64, letters int) (from, to float64) {
	const letter = 100 * 6.5 / 270
	width := letter * float64(letters)
	switch class {
	case "tick start":
		return x, x + width
	case "tick end":
		return x - width, x
	}
	return x - width/2, x + width/2
}

// tickClass keeps a label at either end within the drawing.
func tickClass(x float64) string {
	switch {
	case x < 4:
		return "tick start"
	case x > 96:
		return "tick end"
	}
	return "tick"
}

// ends names the lines at their right ends. Names that would lie upon each
// other are moved apart, and led to their line.
func (p plot) ends(colours *palette) template.HTML {
	type end struct {
		of     placed
		at, to float64
	}
	var ends []end
	for _, s := range p.series {
		if len(s.points) > 0 {
			y := s.points[len(s.points)-1].y
			ends = append(ends, end{s, y, y})
		}
	}
	sort.SliceStable(ends, func(i, j int) bool { return ends[i].at < ends[j].at })
	const apart, least, most = 6.0, 2.0, 98.0
	for i := range ends {
		ends[i].to = max(ends[i].to, least)
		if i > 0 {
			ends[i].to = max(ends[i].to, ends[i-1].to+apart)
		}
	}
	floor := most
	for i := len(ends) - 1; i >= 0; i-- {
		ends[i].to = min(ends[i].to, floor)
		floor = ends[i].to - apart
	}
	s := &svg{}
	s.b.WriteString(`<svg class="ends" aria-hidden="true">`)
	for _, e := range ends {
		s.open(colours.colour(e.of.group))
		class := "leader"
		if e.of.Dashed {
			class += " dashed"
		}
		fmt.Fprintf(&s.b, `<line class="%s" x1="0" y1="%s" x2="16" y2="%s"/>`, class, pct(e.at), pct(e.to))
		fmt.Fprintf(&s.b, `<text class="end-name" x="20" y="%s" dy="4">%s</text>`, pct(e.to), template.HTMLEscapeString(shortened(e.of.name, longEnd)))
		s.close()
	}
	return s.html()
}

// lineSample is a short piece of a series' line with its point.
func lineSample(of Series, colours *palette) template.HTML {
	group := groupOf(of)
	class := "run"
	if of.Dashed {
		class += " dashed"
	}
	return template.HTML(fmt.Sprintf(`<svg class="sample %s" aria-hidden="true"><path class="%s" d="M0 6h30"/><svg x="15" y="6" overflow="visible"><path class="dot" d="%s"/></svg></svg>`,
		colours.colour(group), class, colours.shape(group)))
}

// data gives the figures: a column a series where they share their places, and
// a row a point where they do not.
func (p plot) data() dataTable {
	var xs []float64
	for _, s := range p.series {
		for _, point := range s.Points {
			if finite(point.X) && !slices.Contains(xs, point.X) && len(xs) <= mostRows {
				xs = append(xs, point.X)
			}
		}
	}
	slices.Sort(xs)
	x := orElse(withUnit(p.X.Label, p.X.Unit), "at")
	if p.X.Tail {
		xs = p.labelled()
	} else if len(xs) > mostRows {
		return p.longData(x)
	}
	t := dataTable{Caption: withUnit(p.Y.Label, p.Y.Unit), Head: []string{x}}
	for _, s := range p.series {
		t.Head = append(t.Head, s.name)
	}
	for _, at := range xs {
		row := []string{typeset(p.x.label(at))}
		for _, s := range p.series {
			cell := ""
			for _, point := range s.Points {
				if point.X == at {
					cell = pointText(point)
				}
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// labelled lists the places with labels that a point lies at.
func (p plot) labelled() []float64 {
	var xs []float64
	for _, x := range p.x.asked {
		at := func(point Point) bool { return point.X == x }
		if slices.ContainsFunc(p.series, func(s placed) bool { return slices.ContainsFunc(s.Points, at) }) {
			xs = append(xs, x)
		}
	}
	slices.Sort(xs)
	return xs
}

// longData thins long lines to a table that can be read.
func (p plot) longData(x string) dataTable {
	t := dataTable{
		Caption: withUnit(p.Y.Label, p.Y.Unit),
		Head:    []string{"line", x, orElse(withUnit(p.Y.Label, p.Y.Unit), "value")},
	}
	each := max(4, 4*mostRows/max(1, len(p.series)))
	thinned := false
	for _, s := range p.series {
		step := (len(s.Points) + each - 1) / each
		thinned = thinned || step > 1
		for i := 0; i < len(s.Points); i += max(step, 1) {
			t.Rows = append(t.Rows, []string{s.name, typeset(reading(s.Points[i].X)), pointText(s.Points[i])})
		}
	}
	if thinned {
		t.Note = "Long lines are thinned evenly here; all points are in the export of the run."
	}
	return t
}

func pointText(p Point) string {
	figure, span := readingWithin(p.Y, p.Low, p.High)
	if span != "" {
		figure += " (" + span + ")"
	}
	if p.Past {
		figure += ", not steady"
	}
	return typeset(figure)
}
