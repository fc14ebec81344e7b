package report

import (
	"tare/record"
	"tare/stats"
)

// Estimated is a cell with an estimate times scale, its interval beside it: no
// more digits than the interval supports, but one at least of each figure of an interval
// that is above zero, which is no zero however wide it is. What was not measured is a
// faint dash.
func Estimated(e stats.Estimate, scale float64) Cell {
	if !present(e) {
		return Absent()
	}
	v, low, high := e.Value*scale, e.Interval.Low*scale, e.Interval.High*scale
	if !bounded(v, low, high) {
		return Cell{Text: fixed(v, significant(v))}
	}
	if low == high {
		return Cell{Text: fixed(v, significant(v)), Detail: exact}
	}
	figure, from, to := supported(v, low, high)
	if low > 0 && high/low > unbounded {
		if v > unbounded || v < 1/unbounded {
			figure = "–" // digits of nothing
		}
		return Cell{Text: figure, Detail: "not bounded"}
	}
	return Cell{Text: figure, Detail: from + " to " + to}
}

// unbounded is how many times its lower end the upper end of an interval is at most that is
// written out. A geometric mean of two or three values may have ends that are fifty orders
// of magnitude apart: that bounds nothing, and a column of zeros hides that.
const unbounded = 1e6

// Measured is a cell with one figure to three digits.
func Measured(v float64) Cell {
	if !finite(v) {
		return Absent()
	}
	return Cell{Text: fixed(v, significant(v))}
}

// Absent is the cell of what was not measured.
func Absent() Cell { return Cell{Text: "–", Tone: Faint} }

// Said is an estimate in a sentence: "5.8 (5.1 to 6.4)".
func Said(e stats.Estimate, scale float64) string {
	c := Estimated(e, scale)
	if c.Detail == "" {
		return c.Text
	}
	return c.Text + " (" + c.Detail + ")"
}

// HostFact is a machine in one line, as a [Sheet]'s fact.
func HostFact(h record.Host) string { return "host: " + hostText(h) }

// At is a point of a chart: an estimate times scale, with its interval.
func At(x float64, e stats.Estimate, scale float64) Point {
	p := Point{X: x, Y: e.Value * scale}
	if e.Known() {
		p.Low, p.High = e.Interval.Low*scale, e.Interval.High*scale
	}
	return p
}

// Against is [Estimated], faint where the estimate does not differ significantly from a value.
func Against(v float64, e stats.Estimate) Cell {
	c := Estimated(e, 1)
	if !e.DiffersFrom(v) {
		c.Tone = Faint
	}
	return c
}
