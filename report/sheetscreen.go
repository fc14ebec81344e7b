package report

import (
	"io"
	"strings"

	"tare/terminal"
)

// TerminalOptions say how a screen is shown.
type TerminalOptions struct {
	Width  int      // columns; 80 where 0, never under 60
	Color  bool     // colours repeat what the words say, and say nothing else
	Next   []string // commands to run next, besides a sheet's own
	Report string   // path of the HTML report; empty where there is none
	// All shows what else is left to the page: metrics that carry no verdict, parts that
	// are [Long], and every path of a flame graph that counts.
	All bool
	// Interim leaves the answer, the tables and the bars: the run is not over.
	Interim bool
}

// SheetTerminal writes a sheet as a screen: figures first, colours that repeat the words,
// and no line longer than the width but for a path or a command that has no place to
// break. It stands there to be copied.
func SheetTerminal(w io.Writer, sheet Sheet, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	if title := clean(sheet.Title); title != "" && !opt.Interim {
		s.paragraph(faint, title)
	}
	s.paragraph(bold, orElse(clean(sheet.Answer), "Nothing was found that could be said in a sentence."))
	if !opt.Interim {
		if text := clean(sheet.Together); text != "" {
			s.paragraph(faint, text)
		}
	}
	for _, b := range bannersOf(sheet) {
		s.hang(yellow, strings.ToUpper(b.Name)+":", b.Value)
	}
	if len(sheet.Facts) > 0 && !opt.Interim {
		s.blank()
		for _, f := range sheet.Facts {
			s.fact(f)
		}
	}
	for _, part := range partsOf(sheet.Parts) {
		if long, ok := part.(Long); ok && opt.All {
			part = long.Part
		} else if ok {
			continue
		}
		if opt.Interim && !interim(part) {
			continue
		}
		s.blank()
		s.part(part, opt)
	}
	if !opt.Interim {
		s.sheetClosing(sheet, opt)
	}
	return s.flush(w)
}

// interim tells whether a part says something before a run is over.
func interim(p Part) bool {
	switch p.(type) {
	case Table, Bars, Heat, metricTables:
		return true
	}
	return false
}

// fact writes "host: scales, 2 CPUs" as a field, what has no short name as a
// paragraph.
func (s *screen) fact(text string) {
	name, value := factOf(text)
	if name == "" || columns(name) >= fieldWidth {
		s.paragraph(plain, clean(text))
		return
	}
	s.field(name, value)
}

func (s *screen) part(p Part, opt TerminalOptions) {
	if title := clean(p.heading()); title != "" {
		if columns(title) <= s.width-6 {
			s.rule(title)
		} else {
			s.paragraph(bold, title)
		}
	}
	switch p := p.(type) {
	case Table:
		s.rowTable(p)
	case metricTables:
		s.metricTables(p, opt.All)
	case warnings:
		s.warn(p)
	case Chart:
		s.chart(p)
	case Bars:
		s.bars(p)
	case Heat:
		s.rowTable(p.table())
	case Timeline:
		s.timeline(p)
	case Flame:
		s.flame(p, opt)
	case Judgements:
		s.judgements(p)
	case Prose:
		s.prose(p.Text)
	case Chapter:
		s.prose(p.Text)
	}
	note, method := noteOf(p)
	s.notes(note)
	if opt.All {
		s.notes(method)
	}
}

// prose writes paragraphs.
func (s *screen) prose(text string) {
	for i, paragraph := range paragraphs(text) {
		if i > 0 {
			s.blank()
		}
		s.paragraph(plain, paragraph)
	}
}

// sheetClosing is the foot: what measuring cost, and what to do next.
func (s *screen) sheetClosing(sheet Sheet, opt TerminalOptions) {
	s.blank()
	if len(sheet.Weight) == 0 && !sheet.Runs {
		s.field("weight", "of the instrument itself: not measured with this run")
	}
	for i, item := range sheet.Weight {
		s.field(first(i, "weight"), item.text())
	}
	for i, command := range append(cleaned(sheet.Next), cleaned(opt.Next)...) {
		s.copyable(first(i, "next"), command)
	}
	if command := clean(sheet.Command); command != "" {
		s.copyable("again", command)
	}
	if opt.Report != "" {
		s.copyable("report", clean(opt.Report))
	}
}

// judgements writes each claim with what was published, what was found here,
// and what the verdict rests on.
func (s *screen) judgements(j Judgements) {
	if len(j.Rows) == 0 {
		s.paragraph(faint, "No claims.")
		return
	}
	idWidth := 0
	for _, r := range j.Rows {
		idWidth = max(idWidth, min(columns(clean(r.Claim)), 8)+gap)
	}
	const nameWidth = 14 // of "not yet run", "inconclusive"
	for i, r := range j.Rows {
		if i > 0 {
			s.blank()
		}
		id := shortened(clean(r.Claim), 8)
		lines := []struct{ name, text string }{
			{orElse(clean(r.Verdict), "not yet run"), clean(r.Says)},
			{"published", orElse(clean(r.Published), "no figure")},
			{"here", orElse(clean(r.Ours), "no figure")},
			{"because", clean(r.Why)},
		}
		for k, l := range lines {
			if l.text == "" && k > 0 {
				continue
			}
			style := faint
			if k == 0 {
				style = toneStyle(r.Tone)
			}
			for n, text := range wrap(l.text, s.width-idWidth-nameWidth) {
				head, name := "", ""
				if k == 0 && n == 0 {
					head = id
				}
				if n == 0 {
					name = shortened(l.name, nameWidth-gap)
				}
				s.line(piece{bold, left(head, idWidth)}, piece{style, left(name, nameWidth)}, piece{plain, text})
			}
		}
	}
}

// toneStyle colours a tone.
func toneStyle(t Tone) terminal.Sequence {
	switch t {
	case Good:
		return green
	case Bad:
		return red
	case Unsure:
		return yellow
	case Faint:
		return faint
	}
	return plain
}
