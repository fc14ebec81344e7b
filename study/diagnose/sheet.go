package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/record"
	"tare/report"
	"tare/stats"
)

// Answer is the result in one sentence.
func (r *Result) Answer() string { return answer(r.Findings, len(r.Facts), r.Span) }

// answer is of findings in some containers, in any order.
func answer(found []Finding, containers int, span time.Duration) string {
	found = slices.Clone(found)
	Sort(found, "cost")
	costly := 0
	for _, f := range found {
		if f.Level != Harmless {
			costly++
		}
	}
	switch {
	case costly == 0:
		return fmt.Sprintf("Nothing found in %s within %s.", report.Counted(containers, "container"), short(span))
	case costly == 1:
		return "One finding: " + found[0].sentence()
	}
	return fmt.Sprintf("%d findings. The costliest: %s", costly, found[0].sentence())
}

func (f Finding) sentence() string {
	says := " " + f.Says
	if of, ok := strings.CutPrefix(f.Says, "its "); ok {
		says = "'s " + of
	}
	text := f.Container + says
	if !f.Cost.IsUnknown {
		text += fmt.Sprintf(", which costs %s", f.Cost)
	}
	if f.Cost.Each > 0 {
		text += fmt.Sprintf(", %s each time", short(f.Cost.Each))
	}
	if f.Cost.PerRequest > 0 {
		text += fmt.Sprintf(", %s for each request", short(f.Cost.PerRequest))
	}
	return text + "."
}

// String writes the time lost in each second, or the memory held.
func (c Cost) String() string {
	if c.Bytes > 0 {
		return bytes(c.Bytes)
	}
	return fmt.Sprintf("%s s in each second", report.Rounded(c.Rate, 2))
}

// Sheet is the page of the result.
func (r *Result) Sheet(on record.Host, isWhole bool) report.Sheet {
	s := report.Sheet{
		Title: "tare diagnose", Answer: r.Answer(),
		Facts: []string{
			r.containers(),
			fmt.Sprintf("time: %s from %s", short(r.Span), r.Began.UTC().Format("2006-01-02 15:04:05 UTC")),
			report.HostFact(on),
		},
		Weight: r.weight(),
	}
	for _, n := range r.Notes {
		s.Banners = append(s.Banners, "note: "+n)
	}
	if r.Lost > 0 {
		s.Banners = append(s.Banners, fmt.Sprintf("lost: %d scheduler events found no room: waits are too low by as many", r.Lost))
	}
	if r.Requests != nil {
		s.Parts = append(s.Parts, r.Requests.part())
	}
	if len(r.Findings) == 0 {
		return s
	}
	tables := report.Filled(table(r.Findings, r.Requests != nil), settingsOf(r.Findings...))
	s.Parts, s.Next = slices.Concat(tables, s.Parts, evidenceOf(r.Findings, isWhole)), detailOf(r.Findings...)
	if len(s.Next) > mostNext {
		s.Next = s.Next[:mostNext]
	}
	return s
}

// containers says how many there are, and how many of them were idle.
func (r *Result) containers() string {
	if idle := len(r.Facts) - r.Watched; idle > 0 {
		return fmt.Sprintf("containers: %d (%d watched, %d idle)", len(r.Facts), r.Watched, idle)
	}
	return fmt.Sprintf("containers: %d", len(r.Facts))
}

// evidenceOf are tables of what findings rest on. A screen shows them where all is asked for.
func evidenceOf(found []Finding, isWhole bool) (parts []report.Part) {
	for _, f := range found {
		var part report.Part = f.evidence()
		if !isWhole {
			part = report.Long{Part: part}
		}
		parts = append(parts, part)
	}
	return parts
}

// weight is what the probe took.
func (r *Result) weight() report.Weight {
	if r.Weight.Time <= 0 {
		return nil
	}
	return report.Weight{{
		What: "CPU time of the probe's programs, of one CPU", Unit: "%", Reason: "the kernel timed each of their runs",
		Estimate: stats.Estimate{Value: 100 * rate(r.Weight.Time, r.Span), N: 1},
	}}
}

var tones = map[Level]report.Tone{High: report.Bad, Medium: report.Bad, Low: report.Plain, Harmless: report.Faint}

// mostNext is how many commands are proposed.
const mostNext = 3

// table has a row for each finding. Those of nodes of a cluster name their pods.
func table(found []Finding, perRequest bool) report.Table {
	t := report.Table{
		Title: "Findings",
		Note: "Cost: time that its work lost in each second. " +
			"Each: time lost by one piece of work, which is what a thread runs between two blockings.",
		Columns: []report.Column{
			{Head: "container"}, {Head: "finding"}, {Head: "level"},
			{Head: "cost, s/s", Number: true}, {Head: "each"},
		},
	}
	onNodes := slices.ContainsFunc(found, func(f Finding) bool { return f.Node != "" })
	if onNodes {
		t.Columns = slices.Insert(t.Columns, 0, report.Column{Head: "node"}, report.Column{Head: "pod"})
	}
	if perRequest {
		t.Columns = append(t.Columns, report.Column{Head: "per request"})
		t.Note += " Per request: the cost, divided by the requests a second that the service counted."
	}
	held := slices.ContainsFunc(found, func(f Finding) bool { return f.Cost.Bytes > 0 })
	if held {
		t.Columns = append(t.Columns, report.Column{Head: "memory, MiB", Number: true})
	}
	if slices.ContainsFunc(found, func(f Finding) bool { return f.Based == Estimated }) {
		t.Note += " ~: estimated by an assumed cost, a model or a sample."
	}
	for _, f := range found {
		lost, memory := report.Measured(f.Cost.Rate), report.Absent()
		if f.Cost.IsUnknown {
			lost = report.Absent()
		}
		if f.Cost.Bytes > 0 {
			lost, memory = memory, report.Measured(float64(f.Cost.Bytes)/mebibyte)
		}
		if f.Based == Estimated {
			lost, memory = estimated(lost), estimated(memory)
		}
		if f.Within != "" {
			lost.Detail = "within " + f.Within
		}
		row := []report.Cell{
			{Text: f.Container}, {Text: f.Says}, {Text: string(f.Level), Tone: tones[f.Level]},
			lost, length(f.Cost.Each),
		}
		if onNodes {
			pod, name := f.pod()
			row[0].Text = name
			row = slices.Insert(row, 0, report.Cell{Text: f.Node}, report.Cell{Text: pod})
		}
		if perRequest {
			row = append(row, length(f.Cost.PerRequest))
		}
		if held {
			row = append(row, memory)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// estimated marks a figure that is estimated.
func estimated(c report.Cell) report.Cell {
	if c != report.Absent() {
		c.Text = "~" + c.Text
	}
	return c
}

// length is a time in the unit that fits it; absent where it is none.
func length(d time.Duration) report.Cell {
	if d == 0 {
		return report.Absent()
	}
	return report.Cell{Text: short(d)}
}

// settingsOf are what to set, the best first, each once.
func settingsOf(found ...Finding) report.Table {
	t := report.Table{
		Title:   "What to set",
		Columns: []report.Column{{Head: "container"}, {Head: "setting"}},
	}
	for _, p := range proposals(found...) {
		t.Rows = append(t.Rows, []report.Cell{{Text: p.of()}, {Text: p.text(), Detail: p.command}})
	}
	return t
}

func (f Finding) evidence() report.Table {
	t := report.Table{
		Title:   "Evidence: " + f.ID,
		Note:    explanations[f.Kind].prose(),
		Columns: []report.Column{{Head: "figure"}, {Head: "value"}, {Head: "source"}},
	}
	for _, e := range f.Evidence {
		t.Rows = append(t.Rows, []report.Cell{{Text: e.Name}, {Text: e.Value}, {Text: e.Source, Tone: report.Faint}})
	}
	return t
}

// Schema names the layout of what `tare diagnose --json` writes.
const Schema = "tare-diagnose/1"

// Document is the result as JSON. Fields that end in _ns are nanoseconds.
type Document struct {
	Schema     string        `json:"schema"`
	Host       record.Host   `json:"host"`
	Began      time.Time     `json:"began"`
	Span       time.Duration `json:"span_ns"`
	Answer     string        `json:"answer"`
	Containers []string      `json:"containers"`
	Findings   []Finding     `json:"findings"`
	Requests   *Requests     `json:"requests,omitempty"`
	Lost       uint64        `json:"lost_events"`
	Notes      []string      `json:"notes,omitempty"`
}

// Document makes what `tare diagnose --json` writes.
func (r *Result) Document(on record.Host) Document {
	d := Document{
		Schema: Schema, Host: on, Began: r.Began.UTC(), Span: r.Span, Answer: r.Answer(),
		Containers: []string{}, Findings: append([]Finding{}, r.Findings...),
		Requests: r.Requests, Lost: r.Lost, Notes: r.Notes,
	}
	for _, f := range r.Facts {
		d.Containers = append(d.Containers, f.Container.Name)
	}
	return d
}
