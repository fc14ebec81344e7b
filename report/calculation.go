package report

import (
	"io"

	"tare/stats"
)

// Calculation writes a sentence, what it assumes, and the tables of what was computed without
// measuring. Of the options it takes the width and the colour.
func Calculation(w io.Writer, answer string, assumes []string, tables []Table, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	s.paragraph(bold, clean(answer))
	s.blank()
	for i, text := range assumes {
		s.field(first(i, "assumes"), clean(text))
	}
	for _, t := range tables {
		s.blank()
		s.tables(t)
	}
	return s.flush(w)
}

// Changed is the cell of a ratio as a change in percent: "+2.1", with its interval.
func Changed(ratio stats.Estimate) Cell {
	e := ratio.PercentMore()
	switch {
	case !finite(e.Value):
		return Absent()
	case !bounded(e.Value, e.Interval.Low, e.Interval.High):
		return Cell{Text: signed(e.Value, significant(e.Value))}
	}
	return Cell{
		Text:   signed(e.Value, decimalsOf(e.Value, e.Interval.Low, e.Interval.High)),
		Detail: spanText(e.Interval.Low, e.Interval.High),
	}
}
