package report

import (
	"io"
	"strings"

	"tare/terminal"
)

// SheetTerminal writes a sheet as a screen, by the rules of [Terminal]: figures
// first, no line longer than the width, colours that repeat the words. Of opt,
// Next and Weight are added to the sheet's own; Interim leaves the head, the
// tables and the bars; All adds the parts that are long in a terminal: flame graphs
// that are left to the page, and every path of one that counts.
func SheetTerminal(w io.Writer, sheet Sheet, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	if title := clean(sheet.Title); title != "" && !opt.Interim {
		s.paragraph(faint, title)
	}
	s.paragraph(bold, orElse(clean(sheet.Answer), "Nothing was found that could be said in a sentence."))
	if !opt.Interim {
		s.together(clean(sheet.Together))
	}
	for _, b := range bannersOf(sheet) {
		s.hang(yellow, strings.ToUpper(b.title)+":", b.text)
	}
	if len(sheet.Facts) > 0 && !opt.Interim {
		s.blank()
		for _, f := range sheet.Facts {
			s.fact(f)
		}
	}
	for _, part := range partsOf(sheet) {
		if opt.Interim && !interim(part) || !opt.All && pageOnly(part) {
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
	case Table, Bars, Heat:
		return true
	}
	return false
}

// pageOnly tells whether a part is the page's alone.
func pageOnly(p Part) bool {
	f, ok := p.(Flame)
	return ok && f.Long
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
	note := ""
	switch p := p.(type) {
	case Table:
		s.rowTable(p)
		note = p.Note
	case Chart:
		s.chart(p)
		note = p.Note
	case Bars:
		s.bars(p)
		note = p.Note
	case Heat:
		s.rowTable(p.table())
		note = p.Note
	case Timeline:
		s.timeline(p)
		note = p.Note
	case Flame:
		s.flame(p, opt)
		note = p.Note
	case Judgements:
		s.judgements(p)
		note = p.Note
	case Prose:
		for i, text := range paragraphs(p.Text) {
			if i > 0 {
				s.blank()
			}
			s.paragraph(plain, text)
		}
	}
	if note = clean(note); note != "" {
		s.paragraph(faint, note)
	}
}

// sheetClosing is the foot: what measuring cost, and what to do next.
func (s *screen) sheetClosing(sheet Sheet, opt TerminalOptions) {
	s.blank()
	weight := append(append(Weight(nil), sheet.Weight...), opt.Weight...)
	if len(weight) == 0 {
		s.field("weight", "of the instrument itself: not measured with this run")
	}
	for i, item := range weight {
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
		lines := []struct{ name, text string }{{orElse(clean(r.Verdict), "not yet run"), clean(r.Says)}, {"published", orElse(clean(r.Published), "no figure")}, {"here", orElse(clean(r.Ours), "no figure")}, {"because", clean(r.Why)}}
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
	case Faint:
		return faint
	}
	return plain
}
