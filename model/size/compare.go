package size

import (
	"math"

	"tare/stats"
)

// Comparison is the model with a term for size beside that without.
type Comparison struct {
	With Fitted
	// Without is the mean overhead where size is left out, and WithoutBetween the
	// standard deviation between sizes that is then left, as logarithms.
	Without        stats.Estimate
	WithoutBetween float64
	// AgreeWithout is the p-value that all sizes have the same overhead but for their
	// errors.
	AgreeWithout float64
	// Slope is the size term by which S2.5 is judged: in the mean over input, output and
	// tasks, for each unit of the form. Above 0 the overhead grows as the share shrinks.
	Slope stats.Estimate
}

// Compare fits with a size term and without. Errors are Fit's, and *[NotIdentifiable]
// where the sizes are too few for the term.
func Compare(points []Point, o Options) (Comparison, error) {
	f, err := Fit(points, o)
	if err != nil {
		return Comparison{}, err
	}
	if err := f.Identifiable(Size); err != nil {
		return Comparison{}, err
	}
	plain, err := design{workloads: names(f.points)}.fit("", f.points, f.options.Level)
	if err != nil {
		return Comparison{}, err
	}
	without := Fitted{fits: []fit{plain}}
	return Comparison{
		With: f, Without: without.line(Point{}, -1),
		WithoutBetween: math.Sqrt(plain.Between), AgreeWithout: plain.Agree,
		Slope: f.fits[0].perUnit(f.points, 1),
	}, nil
}
