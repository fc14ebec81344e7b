package report

import (
	"time"
)

// Sheet is a study's result, composed of parts, for the terminal or as one HTML
// file. It holds figures that have been computed and words that have been chosen:
// rendering computes nothing but places.
type Sheet struct {
	Title  string // "tare startup: redis on docker, oci:runc"
	Answer string // one sentence: what the reader came for
	// Together says how many comparisons the sentences hold for; empty where they
	// rest on one, or on none.
	Together string
	// Facts stand above the figures: workload, blocks, taint, host, time taken.
	// "host: scales, 2 CPUs" is shown as a name and a value.
	Facts []string
	// Banners say what must be known before any figure is believed. "tainted: 3
	// of 20 blocks ..." is headed by what stands before its colon.
	Banners []string
	Parts   []Part
	Weight  Weight   // what the instrument itself cost
	Next    []string // commands to run next
	Command string   // reproduces this run
	Foot    []Part   // on the page alone, below all else
	Runs    bool     // it is of many runs: each of their pages says what the instrument cost
	Version string   // of the tare that measured
}

// HoldTogether is what a page says whose sentences read several intervals, each list
// of them at a level at which all hold together.
const HoldTogether = "The intervals of this answer hold together (Bonferroni), and so do those of a claim and those of all advice. Tables show each comparison's own."

// Part is one element of a Sheet: a [Table], [Chart], [Bars], [Heat], [Timeline],
// [Flame], [Judgements], [Prose] or [Chapter], or one of them as [Long]. [Tails] makes a chart of
// latencies. [WeighSheet] has parts of its own besides.
type Part interface{ heading() string }

// Long is a part that is left to the page; a screen shows it where all is asked for.
type Long struct{ Part }

// noteOf gives a part's note, and its method.
func noteOf(p Part) (note, method string) {
	switch p := p.(type) {
	case Table:
		return p.Note, p.Method
	case Chart:
		return p.Note, p.Method
	case Bars:
		return p.Note, p.Method
	case Heat:
		return p.Note, p.Method
	case Timeline:
		return p.Note, p.Method
	case Flame:
		return p.Note, p.Method
	case Judgements:
		return p.Note, p.Method
	}
	return "", ""
}

// Filled are those of some parts that hold anything: tables, bars and charts may hold nothing.
func Filled(parts ...Part) (filled []Part) {
	for _, p := range parts {
		empty := false
		switch p := p.(type) {
		case Table:
			empty = len(p.Rows) == 0
		case Bars:
			empty = len(p.Rows) == 0
		case Chart:
			empty = len(p.Series) == 0
		}
		if !empty {
			filled = append(filled, p)
		}
	}
	return filled
}

// Table is rows of text. In a terminal, where columns do not fit, those marked
// Optional go first, from the right; then details go below their figures, and
// then text is wrapped. The first column names the row, and stays.
type Table struct {
	Title   string
	Note    string // below the table, paragraphs parted by an empty line: what the columns mean
	Method  string // how it was measured and computed: folded on a page, on a screen where all is asked for
	Columns []Column
	Rows    [][]Cell
}

// Column is one column of a table.
type Column struct {
	Head     string // with its unit: "p99, ms"
	Number   bool   // aligned right, in tabular figures
	Optional bool   // left out where the screen is narrow
}

// Cell is one figure or word.
type Cell struct {
	Text string
	// Detail is shown smaller beside or below: an interval, a count.
	Detail string
	Tone   Tone
}

// Tone is how a word is to be taken; it is shown by colour and never by colour
// alone.
type Tone string

// The tones.
const (
	Plain  Tone = ""
	Good   Tone = "good"
	Bad    Tone = "bad"
	Unsure Tone = "unsure" // inconclusive
	Faint  Tone = "faint"  // absent, not applicable, not representative
)

// Chart is lines over a common axis.
type Chart struct {
	Title, Note, Method string
	X, Y                Axis
	Series              []Series
	Marks               []Mark // upright lines: a knee
}

// Axis is one axis of a chart.
type Axis struct {
	Label string // "starts a second"
	Unit  string // of what is printed at the ticks: "ms"; may be empty
	Log   bool
	// Tail makes it an axis of percentiles, 0 to below 100, on which each step is
	// ten times rarer than the one before; Log is then of no account.
	Tail bool
	// Ticks are where labels stand; drawn by the renderer where empty.
	Ticks []float64
	// Labels are what stands at Ticks instead of their values: one for each, or
	// none.
	Labels []string
}

// Series is one line of a chart. Series of the same Group share a colour and
// differ by their dashes.
type Series struct {
	Name   string
	Group  string
	Dashed bool
	Points []Point
}

// Point is one point; Low and High its interval, both 0 where there is none.
// Past marks a point that is not of a steady state (a rate past the knee): it
// is drawn hollow.
type Point struct {
	X, Y      float64
	Low, High float64
	Past      bool
}

// Mark is an upright line at X, with a band where Low and High are given.
type Mark struct {
	X, Low, High float64
	Label        string
	Group        string // whose colour it has
}

// Bars are stacked bars, one a row: a breakdown.
type Bars struct {
	Title, Note, Method string
	Unit                string // "%", "ms"
	Rows                []Bar
}

// Bar is one row of Bars.
type Bar struct {
	Label    string
	Segments []Segment
}

// Segment is one part of a bar. Segments of one name have one colour in all
// rows, and stand in one legend with their figures.
type Segment struct {
	Name      string
	Value     float64
	Low, High float64 // interval; both 0 where there is none
	Faint     bool    // the rest, the unassigned
}

// Timeline is what happened when, in lanes.
type Timeline struct {
	Title, Note, Method string
	Length              time.Duration
	Lanes               []Lane
	// Phases divide the whole length, in order.
	Phases []Phase
}

// Phase is a named stretch of a timeline.
type Phase struct {
	Name     string
	From, To time.Duration
}

// Lane is one actor of a timeline.
type Lane struct {
	Name  string
	Spans []Span
}

// Span is one stretch of a lane.
type Span struct {
	From, To time.Duration
	Kind     SpanKind
	Label    string // "waits for RCU", shown where there is room and on pointing
}

// SpanKind is what a thread does in a span.
type SpanKind string

// The kinds of spans.
const (
	Runs  SpanKind = "runs"  // on a CPU
	Ready SpanKind = "ready" // waits for a CPU
	Waits SpanKind = "waits" // blocked
)

// Flame is a flame graph.
type Flame struct {
	Title, Note, Method string
	Unit                string // of values: "samples", "ms"
	Root                *Frame
}

// Frame is one box of a flame graph. Value holds its children's.
type Frame struct {
	Name     string
	Value    float64
	Kind     string // its colour's name: "kernel", "user", "engine"
	Children []*Frame
}

// Judgements are verdicts on published claims.
type Judgements struct {
	Title, Note, Method string
	Rows                []Judgement
}

// Judgement is the verdict on one claim.
type Judgement struct {
	Claim     string // "S1.1"
	Says      string // the claim, in our words
	Published string // the figure it was published with
	Ours      string // ours, with its interval
	Verdict   string // confirmed, refuted, qualified, inconclusive, not yet run
	Why       string // one line: what the verdict rests on, a paper's own inconsistency
	Tone      Tone
}

// Prose is a paragraph or a few.
type Prose struct {
	Title string
	Text  string // paragraphs parted by an empty line
}

// Chapter begins one: the parts up to the next are its own. A page lists its chapters at the top.
type Chapter struct {
	Title string
	Text  string // as Prose has it
}

// factList is a list of names and values, for the page.
type factList struct {
	title  string
	Facts  []fact
	Folded bool // shown on request
}

// warnings stand where what they are about stands.
type warnings []string

func (p Table) heading() string      { return p.Title }
func (p Chart) heading() string      { return p.Title }
func (p Bars) heading() string       { return p.Title }
func (p Timeline) heading() string   { return p.Title }
func (p Flame) heading() string      { return p.Title }
func (p Judgements) heading() string { return p.Title }
func (p Prose) heading() string      { return p.Title }
func (p Chapter) heading() string    { return p.Title }
func (p factList) heading() string   { return p.title }
func (p warnings) heading() string   { return "" }
