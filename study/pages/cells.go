package pages

import (
	"strconv"

	"tare/report"
	"tare/stats"
)

// near is how wide an interval of a share may be, in points to either side, that
// is not worth telling: what is counted in pages comes out all but the same.
const near = 0.05

// shareCell is a share in percent with its interval; of one that is known to a
// twentieth of a point, to a tenth of a point and without.
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
