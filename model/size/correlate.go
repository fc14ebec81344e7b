package size

import (
	"fmt"

	"tare/stats"
)

// Covariate is a figure that a probe has of each point: migrations in a second of
// CPU time, throttled time, interrupts elsewhere. NaN where it has none.
type Covariate struct {
	Name   string
	Values []float64 // by point
}

// Cause is how a covariate goes with the overhead.
type Cause struct {
	Name string
	// Rank is the correlation of the ranks of the two, and Given that of what the
	// share of the host says nothing of either. A cause of the cost of size has the
	// first; only one that varies at the same size can have the second.
	Rank, Given stats.Estimate
}

// Correlate sets covariates beside the overhead of points. It shows what goes
// together, and no cause: what rises as the share shrinks goes with every other such
// thing. A covariate that a point lacks is correlated over the others. The error is a
// *[BadPoint], or names the covariate that is not of as many points.
func Correlate(points []Point, covariates []Covariate, level float64) ([]Cause, error) {
	for i, p := range points {
		if err := p.check(i); err != nil {
			return nil, fmt.Errorf("correlate: %w", err)
		}
	}
	var causes []Cause
	for _, c := range covariates {
		if len(c.Values) != len(points) {
			return nil, fmt.Errorf("correlate: %s has %d values of %d points", c.Name, len(c.Values), len(points))
		}
		var x, y, chr []float64
		for i, p := range points {
			if v := c.Values[i]; v == v {
				x, y, chr = append(x, v), append(y, p.Log), append(chr, p.CHR())
			}
		}
		causes = append(
			causes,
			Cause{
				Name:  c.Name,
				Rank:  stats.Spearman(x, y, level),
				Given: stats.PartialSpearman(x, y, [][]float64{chr}, level),
			},
		)
	}
	return causes, nil
}
