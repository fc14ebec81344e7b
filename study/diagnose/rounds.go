package diagnose

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tare/report"
	"tare/terminal"
)

// keptRounds is of how many rounds the costs are kept.
const keptRounds = 8

// Trend is a finding over several rounds of diagnosing.
type Trend struct {
	Finding
	Since time.Time // when the round began that found it first
	// Costs are those of the last rounds, in s/s, the newest last; 0 where it was not found.
	Costs  []float64
	IsGone bool // the last round did not find it
}

// Rounds are what one diagnosis after the other found. The zero value has none.
type Rounds struct {
	count  int
	trends []Trend // the costliest first
}

// View is what is known after a round.
type View struct {
	Round  int
	Last   *Result // nil before the first round has ended
	Failed error   // of the round after Last, if it failed
	Trends []Trend
}

// Add takes a round in. A finding that no kept round has is dropped.
func (h *Rounds) Add(r *Result) View {
	h.count++
	was := map[string]Trend{}
	for _, t := range h.trends {
		was[t.ID] = t
	}
	h.trends = nil
	for _, f := range distinct(r.Findings) {
		t, ok := was[f.ID]
		if !ok {
			t.Since = r.Began
		}
		delete(was, f.ID)
		t.Finding, t.IsGone = f, false
		h.trends = append(h.trends, t.then(f.Cost.Rate))
	}
	var gone []Finding
	for _, t := range was {
		gone = append(gone, t.Finding)
	}
	Sort(gone, "cost")
	for _, f := range gone {
		t := was[f.ID].then(0)
		if t.IsGone = true; slices.Max(t.Costs) > 0 {
			h.trends = append(h.trends, t)
		}
	}
	return View{Round: h.count, Last: r, Trends: slices.Clone(h.trends)}
}

// then adds a cost to a copy.
func (t Trend) then(cost float64) Trend {
	t.Costs = append(slices.Clone(t.Costs), cost)
	t.Costs = t.Costs[max(0, len(t.Costs)-keptRounds):]
	return t
}

// distinct adds findings of one id up, as two engines' containers of one name have.
func distinct(found []Finding) (all []Finding) {
	at := map[string]int{}
	for _, f := range found {
		if i, ok := at[f.ID]; ok {
			all[i].Cost.Rate += f.Cost.Rate
			continue
		}
		at[f.ID] = len(all)
		all = append(all, f)
	}
	return all
}

// name is the finding's, as its id has it: "noisy-neighbour:batch".
func (f Finding) name() string { return strings.TrimPrefix(f.ID, f.Container+"/") }

// The widths of the columns of a view, and the least of the first two.
const (
	costWidth, levelWidth, sinceWidth = 8, 8, 10
	leastContainer, leastName         = 10, 12
)

// Rows are the view on a screen: a line a finding, and below them what to set.
func (v View) Rows(width, height int) []terminal.Row {
	rows := []terminal.Row{v.heading()}
	for _, n := range v.notes() {
		rows = append(rows, terminal.Row{{Style: terminal.Faint, Words: "note: " + terminal.Line(n)}})
	}
	rows = append(rows[:min(len(rows), max(1, height/4))], nil)
	if len(v.Trends) == 0 {
		if v.Last != nil {
			rows = append(rows, terminal.Row{{Words: "nothing found"}})
		}
		return rows
	}
	container, name := columns(v.Trends, width)
	line := func(style terminal.Sequence, level terminal.Sequence, cells [6]string) {
		rows = append(rows, terminal.Row{
			{Style: style, Words: terminal.Fit(terminal.CutMiddle(cells[0], container), container, false) + "  "},
			{Style: style, Words: terminal.Fit(terminal.CutMiddle(cells[1], name), name, false) + "  "},
			{Style: style, Words: terminal.Fit(cells[2], costWidth, true) + "  "},
			{Style: level, Words: terminal.Fit(cells[3], levelWidth, false)},
			{Style: style, Words: "  " + terminal.Fit(cells[4], keptRounds, true) + "  " + cells[5]},
		})
	}
	line(terminal.Bold, terminal.Bold, [6]string{"CONTAINER", "FINDING", "COST s/s", "LEVEL", "TREND", "SINCE"})
	for i, t := range v.Trends {
		if left := height - len(rows); i > 0 && left <= 1 && len(v.Trends)-i > left {
			return append(rows, terminal.Row{{Words: "and " + report.Counted(len(v.Trends)-i, "finding") + " more"}})
		}
		style, levelStyle := terminal.Plain, styles[t.Level]
		cost, level := report.Measured(t.Cost.Rate).Text, string(t.Level)
		if t.IsGone {
			style, levelStyle, cost, level = terminal.Faint, terminal.Faint, "-", "gone"
		}
		line(style, levelStyle, [6]string{
			terminal.Line(t.Container), terminal.Line(t.name()), cost, level, t.sparkline(), since(t.Since),
		})
	}
	return append(rows, v.settings(width)...)
}

var styles = map[Level]terminal.Sequence{High: terminal.Red, Medium: terminal.Red, Harmless: terminal.Faint}

func (v View) heading() terminal.Row {
	row := terminal.Row{{Style: terminal.Bold, Words: "tare diagnose"}}
	if v.Last == nil {
		return append(row, terminal.Span{Words: "  the first round goes on"})
	}
	return append(row, terminal.Span{Words: fmt.Sprintf("  %s, %d watched; round %d of %s ended %s",
		report.Counted(len(v.Last.Facts), "container"), v.Last.Watched, v.Round, short(v.Last.Span.Round(time.Second)),
		v.Last.Began.Add(v.Last.Span).Format(time.TimeOnly))})
}

func (v View) notes() (all []string) {
	if v.Failed != nil {
		all = append(all, "the last round failed: "+v.Failed.Error())
	}
	if v.Last == nil {
		return all
	}
	if q := v.Last.Requests; q != nil {
		all = append(all, fmt.Sprintf("%s requests/s, mean %s (%s)", report.Rounded(q.Rate, 3), short(q.Mean), q.Metric))
	}
	return append(all, v.Last.Notes...)
}

// settings are the first thing to set of each finding, each once.
func (v View) settings(width int) []terminal.Row {
	var found []Finding
	for _, t := range v.Trends {
		if f := t.Finding; len(f.Set) > 0 && !t.IsGone {
			f.Set = f.Set[:1]
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return nil
	}
	rows := []terminal.Row{nil, {{Style: terminal.Bold, Words: "WHAT TO SET"}}}
	for _, p := range proposals(found...) {
		text := terminal.Line(p.of() + ": " + p.text())
		if terminal.Columns(text) > width { // what to set goes before what it saves
			text = terminal.Line(p.of() + ": " + p.says)
		}
		rows = append(rows, terminal.Row{{Words: terminal.CutMiddle(text, width)}})
	}
	return rows
}

// columns are the widths of the first two, so that a line has a width at most.
func columns(trends []Trend, width int) (container, name int) {
	container, name = len("CONTAINER"), len("FINDING")
	for _, t := range trends {
		container = max(container, terminal.Columns(terminal.Line(t.Container)))
		name = max(name, terminal.Columns(terminal.Line(t.name())))
	}
	left := width - costWidth - levelWidth - keptRounds - sinceWidth - 5*len("  ")
	name = min(name, max(leastName, left-min(container, max(leastContainer, left/2))))
	return min(container, max(leastContainer, left-name)), name
}

// sparkline draws the costs, as parts of the greatest.
func (t Trend) sparkline() string {
	most := slices.Max(t.Costs)
	var heights []float64
	for _, c := range t.Costs {
		heights = append(heights, 100*c/max(most, 1e-9))
	}
	return report.Sparkline(heights)
}

// since is a time of today, or a day.
func since(t time.Time) string {
	if time.Since(t) < 24*time.Hour {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateOnly)
}

// Block prints the view where there is no screen: names are whole.
func (v View) Block(w io.Writer) {
	const unbounded = 1 << 10
	for _, row := range v.Rows(unbounded, unbounded) {
		line := ""
		for _, s := range row {
			line += s.Words
		}
		terminal.Fprintln(w, strings.TrimRight(line, " "))
	}
}
