package pages

import (
	"strconv"

	"tare/report"
	"tare/stats"
)

// near is the half-width of an interval of a share, in points, below which it is left out:
// what is counted in pages hardly varies.
const near = 0.05

// shareCell is a share in percent with its interval. One that is known to within 0.05 points
// has no interval and is rounded to a tenth of a point.
func shareCell(e stats.Estimate) report.Cell {
	if !e.Known() || e.Interval.High-e.Interval.Low > 2*near {
		return report.Estimated(e, 1)
	}
	decimals := 1
	if e.Value != 0 && e.Value < 1 {
		decimals = 2
	}
	return report.Cell{Text: strconv.FormatFloat(e.Value, 'f', decimals, 64)}
}

// said is a share in a sentence.
func said(e stats.Estimate) string {
	c := shareCell(e)
	if c.Detail == "" {
		return c.Text
	}
	return c.Text + " (" + c.Detail + ")"
}
