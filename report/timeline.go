package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
)

// A timelinePage is a Timeline as the page shows it.
type timelinePage struct {
	Phases  template.HTML
	Lanes   []lanePage
	Foot    template.HTML
	Remarks []string
	Stages  dataTable // the phases
	Data    dataTable // the spans
}

type lanePage struct {
	Name    string
	Drawing template.HTML
}

const (
	// narrowest is the least width of a span in percent; what is shorter in one
	// place is drawn once.
	narrowest = 0.08
	// mostSpans are as many rows as the table of spans has.
	mostSpans = 200
)

// A stopwatch writes moments of a timeline all in one unit.
type stopwatch struct {
	axis
	scale
	digits int
}

// newStopwatch measures the whole: its length, or what reaches beyond it.
func newStopwatch(t Timeline) stopwatch {
	length := t.Length
	for _, p := range t.Phases {
		length = max(length, p.To)
	}
	for _, l := range t.Lanes {
		for _, s := range l.Spans {
			length = max(length, s.To)
		}
	}
	w := stopwatch{axis: axis{0, float64(length)}, scale: scaleFor("ns", float64(length))}
	w.digits = clamp(significant(float64(length)/w.divisor)+1, 0, 3)
	return w
}

func (w stopwatch) bare(d time.Duration) string { return fixed(float64(d)/w.divisor, w.digits) }
func (w stopwatch) text(d time.Duration) string { return w.bare(d) + " " + w.unit }

// place gives where a stretch begins and how wide it is.
func (w stopwatch) place(from, to time.Duration) (x, width float64) {
	x = w.at(float64(from))
	if !(w.high > 0) {
		return 0, 0
	}
	return x, max(0, w.at(float64(to))-x)
}

func newTimelinePage(t Timeline) *timelinePage {
	w := newStopwatch(t)
	page := &timelinePage{Phases: phasesDrawing(t, w)}
	hidden := 0
	for _, l := range t.Lanes {
		drawing, left := laneDrawing(t, l, w)
		page.Lanes = append(page.Lanes, lanePage{clean(l.Name), drawing})
		hidden += left
	}
	if hidden > 0 {
		page.Remarks = append(page.Remarks, Counted(hidden, "span")+" too short to be seen here, each beside another of its kind.")
	}
	if len(t.Lanes) == 0 && len(t.Phases) == 0 {
		page.Remarks = append(page.Remarks, "There is nothing to draw.")
	}
	foot := &svg{}
	foot.b.WriteString(`<svg class="foot" aria-hidden="true">`)
	inUnits := axis{0, w.high / w.divisor}
	if w.high > 0 {
		for _, mark := range linearTicks(inUnits, 6) {
			x := inUnits.at(mark.at)
			foot.text(tickClass(x), x, 0, 0, 14, mark.label+" "+w.unit)
		}
	}
	page.Foot = foot.html()
	page.Stages = dataTable{Caption: "Phases, " + w.unit, Head: []string{"phase", "from", "takes"}}
	for _, p := range t.Phases {
		page.Stages.Rows = append(page.Stages.Rows, []string{clean(p.Name), w.bare(p.From), w.bare(p.To - p.From)})
	}
	page.Data = spansTable(t, w)
	return page
}

// phasesDrawing is the band above the lanes.
func phasesDrawing(t Timeline, w stopwatch) template.HTML {
	if len(t.Phases) == 0 {
		return ""
	}
	var said []string
	for _, p := range t.Phases {
		said = append(said, clean(p.Name)+" "+w.text(p.To-p.From))
	}
	s := newSVG("phases", "phases of "+t.Title)
	s.desc(strings.Join(said, ", "))
	for i, p := range t.Phases {
		x, width := w.place(p.From, p.To)
		tooltip := fmt.Sprintf("%s: %s, from %s to %s", clean(p.Name), w.text(p.To-p.From), w.text(p.From), w.text(p.To))
		s.clipped(fmt.Sprintf("told phase odd%d", i%2), x, width, tooltip)
		if label := clean(p.Name); fits(label, width) {
			s.text("phase-name", 0, 0, 6, 16, shortened(label, 60))
		}
		for _, takes := range []string{w.text(p.To - p.From), w.bare(p.To - p.From)} {
			if fits(takes, width) {
				s.text("phase-time", 0, 0, 6, 31, takes)
				break
			}
		}
		s.unclip()
	}
	return s.html()
}

// fits tells whether a label has room in a stretch of a drawing about as wide
// as a page; where the page is narrower the label is clipped.
func fits(label string, width float64) bool {
	const perLetter = 0.82 // percent of the drawing
	return width >= 1.2+perLetter*float64(min(columns(label), 60))
}

// clipped opens a stretch of the drawing that clips what stands in it.
func (s *svg) clipped(class string, x, width float64, tooltip string) {
	fmt.Fprintf(&s.b, `<svg class="clip %s" x="%s" y="0" width="%s" height="100%%"><title>%s</title>`, class, pct(x), pct(width), template.HTMLEscapeString(clean(tooltip)))
	s.b.WriteString(`<rect width="100%" height="100%"/>`)
}

func (s *svg) unclip() { s.b.WriteString("</svg>") }

// laneDrawing draws one lane. The kinds differ by shape: what runs fills the
// lane, what is ready is a hatched half, what waits is a line.
func laneDrawing(t Timeline, l Lane, w stopwatch) (template.HTML, int) {
	totals := map[SpanKind]time.Duration{}
	for _, sp := range l.Spans {
		totals[sp.Kind] += max(0, sp.To-sp.From)
	}
	s := newSVG("lane", clean(l.Name))
	s.desc(fmt.Sprintf("runs %s, ready %s, waits %s", w.text(totals[Runs]), w.text(totals[Ready]), w.text(totals[Waits])))
	for _, p := range t.Phases {
		if x, _ := w.place(p.From, p.To); x > 0 {
			s.line("grid", x, 0, x, 100)
		}
	}
	hidden := 0
	drawnTo := map[SpanKind]float64{Runs: -1, Ready: -1, Waits: -1}
	inOrder := slices.SortedStableFunc(
		slices.Values(l.Spans),
		func(a, b Span) int { return cmp.Compare(a.From, b.From) },
	)
	for _, sp := range inOrder {
		if sp.To <= sp.From {
			continue
		}
		x, width := w.place(sp.From, sp.To)
		if last, known := drawnTo[sp.Kind]; known && width < narrowest && x+width < last {
			hidden++
			continue
		}
		width = max(width, narrowest)
		drawnTo[sp.Kind] = x + width
		label := clean(sp.Label)
		tooltip := fmt.Sprintf("%s: %s, from %s to %s", doing(sp), w.text(sp.To-sp.From), w.text(sp.From), w.text(sp.To))
		fmt.Fprintf(&s.b, `<g class="told %s"><title>%s</title>`, known(sp.Kind), template.HTMLEscapeString(clean(l.Name)+": "+tooltip))
		switch sp.Kind {
		case Runs:
			s.rect("block", x, 12, width, 76)
		case Ready:
			s.rect("block", x, 34, width, 54)
			s.rect("hatched", x, 34, width, 54)
		default:
			s.rect("hit", x, 0, width, 100)
			s.line("thread", x, 62, x+width, 62)
		}
		s.b.WriteString("</g>")
		if label != "" && fits(label, width) {
			s.clipped("free "+string(known(sp.Kind)), x, width, tooltip)
			dy := 13
			if sp.Kind == Runs || sp.Kind == Ready {
				dy = 20
			}
			s.text("span-name", 0, 0, 5, dy, shortened(label, 60))
			s.unclip()
		}
	}
	return s.html(), hidden
}

// known gives the kind; what is none of ours waits.
func known(k SpanKind) SpanKind {
	switch k {
	case Runs, Ready, Waits:
		return k
	}
	return Waits
}

// spansTable lists the spans, of very many the longest.
func spansTable(t Timeline, w stopwatch) dataTable {
	table := dataTable{Caption: "Spans, " + w.unit, Head: []string{"lane", "from", "takes", "does"}}
	count := 0
	for _, l := range t.Lanes {
		count += len(l.Spans)
	}
	least := time.Duration(math.MinInt64)
	if count > mostSpans {
		least = longestSpans(t, mostSpans)
		table.Note = fmt.Sprintf("Of %d spans, those of %s or more; all are in the export of the run.", count, w.text(least))
	}
	for _, l := range t.Lanes {
		for _, s := range l.Spans {
			if s.To-s.From >= least && len(table.Rows) < 2*mostSpans {
				table.Rows = append(
					table.Rows,
					[]string{clean(l.Name), w.bare(s.From), w.bare(s.To - s.From), doing(s)},
				)
			}
		}
	}
	return table
}

// doing says what a thread does in a span.
func doing(s Span) string {
	if label := clean(s.Label); label != "" {
		return label
	}
	return string(known(s.Kind))
}

// longestSpans gives the length of the n-th longest span.
func longestSpans(t Timeline, n int) time.Duration {
	var lengths []time.Duration
	for _, l := range t.Lanes {
		for _, s := range l.Spans {
			lengths = append(lengths, s.To-s.From)
		}
	}
	slices.Sort(lengths)
	if len(lengths) <= n {
		return 0
	}
	return lengths[len(lengths)-n]
}
