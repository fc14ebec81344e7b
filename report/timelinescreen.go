package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// timeline writes the phases with a stroke where each lies in time, then what
// each lane did, as figures and as a line of letters, then the longest waits.
func (s *screen) timeline(t Timeline) {
	w := newStopwatch(t)
	if len(t.Phases) == 0 && len(t.Lanes) == 0 {
		s.paragraph(faint, "Nothing to show.")
		return
	}
	if len(t.Phases) > 0 {
		table := Table{
			Columns: []Column{
				{Head: "phase"},
				{Head: "from, " + w.unit, Number: true, Optional: true},
				{Head: "takes, " + w.unit, Number: true},
			},
		}
		for _, p := range t.Phases {
			table.Rows = append(
				table.Rows,
				[]Cell{{Text: clean(p.Name)}, {Text: w.bare(p.From)}, {Text: w.bare(p.To - p.From)}},
			)
		}
		s.drawn(table, "", func(i, cells int) string {
			return spanLine(w, []Span{{From: t.Phases[i].From, To: t.Phases[i].To, Kind: Runs}}, cells)
		})
	}
	if len(t.Lanes) == 0 {
		return
	}
	if len(t.Phases) > 0 {
		s.blank()
	}
	table := Table{
		Columns: []Column{
			{Head: "who"},
			{Head: "runs, " + w.unit, Number: true},
			{Head: "ready, " + w.unit, Number: true},
			{Head: "waits, " + w.unit, Number: true},
		},
	}
	for _, l := range t.Lanes {
		totals := map[SpanKind]time.Duration{}
		for _, sp := range l.Spans {
			totals[known(sp.Kind)] += max(0, sp.To-sp.From)
		}
		table.Rows = append(
			table.Rows,
			[]Cell{
				{Text: clean(l.Name)},
				{Text: w.bare(totals[Runs])},
				{Text: w.bare(totals[Ready])},
				{Text: w.bare(totals[Waits])},
			},
		)
	}
	s.drawn(table, "█ runs ▒ ready ─ waits", func(i, cells int) string { return spanLine(w, t.Lanes[i].Spans, cells) })
	s.longestWaits(t, w)
}

// drawn writes a table with a drawing in its last column where there is room.
func (s *screen) drawn(t Table, head string, draw func(row, cells int) string) {
	cols := sheetColumns(t)
	const least, most = 20, 80
	if cells := min(s.width-s.total(cols, true)-gap, most); cells >= least {
		col := sheetColumn{heads: []string{head}, verbatim: true, width: cells}
		for i := range t.Rows {
			col.texts = append(col.texts, draw(i, cells))
			col.details, col.styles = append(col.details, ""), append(col.styles, plain)
		}
		cols = append(cols, col)
	}
	s.columnTable(cols, stretch{rows: len(t.Rows)})
}

// signs are the letters of the kinds, by rising right of way: where several
// kinds share a letter's time, the CPU's shows.
var signs = map[SpanKind]rune{Waits: '─', Ready: '▒', Runs: '█'}

// spanLine draws spans as letters of equal time.
func spanLine(w stopwatch, spans []Span, cells int) string {
	line := []rune(strings.Repeat(" ", cells))
	for _, kind := range []SpanKind{Waits, Ready, Runs} {
		for _, sp := range spans {
			if known(sp.Kind) != kind || sp.To <= sp.From {
				continue
			}
			x, width := w.place(sp.From, sp.To)
			from := clamp(int(x/100*float64(cells)+0.5), 0, cells-1)
			to := clamp(int((x+width)/100*float64(cells)+0.5), from+1, cells)
			for i := from; i < to; i++ {
				line[i] = signs[kind]
			}
		}
	}
	return string(line)
}

// longestWaits names what was waited for longest.
func (s *screen) longestWaits(t Timeline, w stopwatch) {
	type wait struct {
		lane string
		span Span
	}
	var waits []wait
	for _, l := range t.Lanes {
		for _, sp := range l.Spans {
			if known(sp.Kind) == Waits && clean(sp.Label) != "" && sp.To > sp.From {
				waits = append(waits, wait{clean(l.Name), sp})
			}
		}
	}
	if len(waits) == 0 {
		return
	}
	slices.SortStableFunc(
		waits,
		func(a, b wait) int { return cmp.Compare(b.span.To-b.span.From, a.span.To-a.span.From) },
	)
	const most = 5
	var said []string
	for _, one := range waits[:min(most, len(waits))] {
		said = append(said, fmt.Sprintf("%s %s %s", one.lane, clean(one.span.Label), w.text(one.span.To-one.span.From)))
	}
	s.hang(faint, "longest:", strings.Join(said, "; "))
}
