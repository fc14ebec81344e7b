package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// An svg gathers the markup of one drawing. Numbers are written by it and text
// is escaped by it: nothing else reaches the markup, so that what a run carries
// cannot. Horizontal places are in percent, so that a drawing fills whatever
// width the page has without stretching its letters.
type svg struct{ b strings.Builder }

// newSVG opens a drawing; title is what a screen reader says.
func newSVG(class, title string) *svg {
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg class="%s" role="img"><title>%s</title>`, class, template.HTMLEscapeString(clean(title)))
	return s
}

// desc says in words what is drawn.
func (s *svg) desc(text string) {
	if text = clean(text); text != "" {
		fmt.Fprintf(&s.b, `<desc>%s</desc>`, template.HTMLEscapeString(text))
	}
}

// open begins a group, which close ends: what it holds has one colour.
func (s *svg) open(class string) { fmt.Fprintf(&s.b, `<g class="%s">`, class) }
func (s *svg) close()            { s.b.WriteString("</g>") }

func (s *svg) html() template.HTML { return template.HTML(s.b.String() + "</svg>") }

// coord writes a coordinate with no more digits than a screen has pixels.
func coord(v float64) string {
	return strconv.FormatFloat(v, 'f', -1, 32)
}

func round2(v float64) float64 {
	return float64(int64(v*100+copysignHalf(v))) / 100
}

func copysignHalf(v float64) float64 {
	if v < 0 {
		return -0.5
	}
	return 0.5
}

// coord4 writes four decimals at most.
func coord4(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
}

func pct(v float64) string { return coord(round2(v)) + "%" }

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, pct(x1), pct(y1), pct(x2), pct(y2))
}

func (s *svg) rect(class string, x, y, w, h float64) {
	fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class, pct(x), pct(y), pct(w), pct(h))
}

// text writes at a place in percent, moved by dx and dy pixels.
func (s *svg) text(class string, x, y float64, dx, dy int, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" x="%s" y="%s" dx="%d" dy="%d">%s</text>`, class, pct(x), pct(y), dx, dy, template.HTMLEscapeString(clean(text)))
}

// mark puts a shape of fixed size at a place in percent.
func (s *svg) mark(class string, x, y float64, path string) {
	fmt.Fprintf(&s.b, `<svg x="%s" y="%s" overflow="visible"><path class="%s" d="%s"/></svg>`, pct(x), pct(y), class, path)
}

// pointed is a mark that says something when pointed at; there is more of it to
// hit than to see.
func (s *svg) pointed(class string, x, y float64, path, tooltip string) {
	fmt.Fprintf(&s.b, `<svg x="%s" y="%s" overflow="visible" class="told"><title>%s</title><path class="hit" d="M-10-10h20v20h-20Z"/><path class="%s" d="%s"/></svg>`,
		pct(x), pct(y), template.HTMLEscapeString(clean(tooltip)), class, path)
}

// field opens a nested drawing of a hundred by a hundred that is stretched
// over the whole; strokes in it keep their width (the style sheet's
// non-scaling-stroke), and a stroke without length is a round dot.
func (s *svg) field(paths ...fieldPath) {
	s.b.WriteString(`<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%" x="0" y="0">`)
	for _, p := range paths {
		if p.d.Len() > 0 {
			fmt.Fprintf(&s.b, `<path class="%s" d="%s"/>`, p.class, p.d.String())
		}
	}
	s.b.WriteString("</svg>")
}

// A fieldPath is one path of a field.
type fieldPath struct {
	class string
	d     *strings.Builder
}

func newPath(class string) fieldPath { return fieldPath{class, &strings.Builder{}} }

func (p fieldPath) dot(x, y float64) {
	p.d.WriteString("M" + coord(round2(x)) + " " + coord(round2(y)) + "h0")
}

func (p fieldPath) segment(x1, y1, x2, y2 float64) {
	p.d.WriteString("M" + coord(round2(x1)) + " " + coord(round2(y1)) + "L" + coord(round2(x2)) + " " + coord(round2(y2)))
}

// point goes on from the point before.
func (p fieldPath) point(x, y float64) {
	command := "L"
	if p.d.Len() == 0 {
		command = "M"
	}
	p.d.WriteString(command + coord(round2(x)) + " " + coord(round2(y)))
}
