package size

import (
	"math"

	"tare/stats"
)

// AtLevel is the overhead (as a logarithm) of a container with a share of the host, where
// its isolation alone costs level, a logarithm too, for one that has the whole host: the
// cost of a level of isolation takes the place of the platform's term. Both come from
// measurements of their own, so that the parts of their intervals add in squares. Where
// there is no size term, the error is its *[NotIdentifiable].
func (f Fitted) AtLevel(level stats.Estimate, chr float64) (stats.Estimate, error) {
	e, err := f.SizeAt(chr)
	if err != nil || !level.Known() {
		return f.absent(), err
	}
	low := math.Hypot(e.Value-e.Interval.Low, level.Value-level.Interval.Low)
	high := math.Hypot(e.Interval.High-e.Value, level.Interval.High-level.Value)
	e.Value += level.Value
	e.Interval.Low, e.Interval.High = e.Value-low, e.Value+high
	e.N = min(e.N, level.N)
	return e, nil
}
