package size

import (
	"fmt"
	"math"
	"slices"

	"tare/stats"
)

// OutOfReach says that a prediction is asked too far from what was fitted.
type OutOfReach struct {
	What      string
	Value     float64
	Low, High float64 // where it may lie
}

func (e *OutOfReach) Error() string {
	return fmt.Sprintf("%s %.3g: the points reach from %.3g to %.3g, beyond which nothing is predicted; measure nearer to it", e.What, e.Value, e.Low, e.High)
}

// Disagreement says that the forms which the points allow predict different things.
type Disagreement struct {
	Point           Point
	Form, Other     Form
	Predicted, Else float64 // logarithms of the ratio
	Low, High       float64 // the interval of the first, in which the other does not lie
}

func (e *Disagreement) Error() string {
	return fmt.Sprintf("%g of %d CPUs: %s predicts %.3g times and %s %.3g, outside of the interval, and the points do not decide between them; measure nearer to it",
		e.Point.CPUs, e.Point.HostCPUs, e.Form, math.Exp(e.Predicted), e.Other, math.Exp(e.Else))
}

// UnknownWorkload says that a workload was not among the points.
type UnknownWorkload struct {
	Name string
	Have []string
}

func (e *UnknownWorkload) Error() string {
	return fmt.Sprintf("no point of workload %q was fitted: there are %q", e.Name, e.Have)
}

// Predict gives the overhead (as a logarithm) where nothing was measured. The
// interval is for the point, not for the line: it holds the spread between sizes and
// the point's own error, where it has one (SE). It refuses what lies beyond the points by
// more than [Options].Reach, with an *[OutOfReach], and what lies beyond them at all where
// the forms that they allow differ there, with a *[Disagreement]. Where there is no
// size term, the error is its *[NotIdentifiable].
func (f Fitted) Predict(p Point) (stats.Estimate, error) {
	fail := func(err error) (stats.Estimate, error) { return f.absent(), fmt.Errorf("predict: %w", err) }
	if err := f.refused[Size]; err != nil || len(f.fits) == 0 {
		return fail(err)
	}
	if reason := p.misplaced(); reason != "" {
		return fail(&BadPoint{Index: 0, Point: p, Reason: reason})
	}
	if !(p.SE >= 0 && p.SE <= mostLog) {
		return fail(&BadPoint{Index: 0, Point: p, Reason: fmt.Sprintf("a standard error of %v", p.SE)})
	}
	workload, ok := slices.BinarySearch(f.fits[0].workloads, p.Workload)
	if !ok {
		return fail(&UnknownWorkload{p.Workload, f.fits[0].workloads})
	}
	inside, err := f.within(p)
	if err != nil {
		return fail(err)
	}
	of := func(one fit) stats.Estimate { return one.Prediction(one.row(one.form, p, workload), p.SE) }
	first := of(f.fits[0])
	if !inside {
		for _, other := range f.fits[1:] {
			if v := of(other).Value; !(first.Interval.Low <= v && v <= first.Interval.High) {
				return fail(
					&Disagreement{p, f.Form, other.form, first.Value, v, first.Interval.Low, first.Interval.High},
				)
			}
		}
	}
	return f.hull(of), nil
}

// within reports whether a point lies among those fitted, and errs where it lies too
// far out. What no term stands for need not be alike: it may differ by the reach too.
func (f Fitted) within(p Point) (inside bool, err error) {
	inside = true
	for _, c := range []struct {
		what    string
		of      func(Point) float64
		nothing float64 // what counts as nothing, below which there is no factor
	}{
		{"a share of the host's CPUs of", Point.CHR, 0},
		{"an intensity of", func(p Point) float64 { return p.Intensity }, 0.01},
		{"tasks a CPU of", func(p Point) float64 { return max(1, p.Tasks/p.CPUs) }, 0},
	} {
		low, high := math.Inf(1), math.Inf(-1)
		for _, q := range f.points {
			low, high = min(low, c.of(q.Point)), max(high, c.of(q.Point))
		}
		v := c.of(p)
		if v < low*(1-1e-9) || v > high*(1+1e-9) {
			inside = false
		}
		low, high = max(low, c.nothing)/f.options.Reach, max(high, c.nothing)*f.options.Reach
		if max(v, c.nothing) < low || v > high {
			return false, &OutOfReach{c.what, v, low, high}
		}
	}
	return inside, nil
}

// SizeAt is the overhead of size (as a logarithm) of a container with a share of the
// host, with the input, output and tasks that the points have in the mean.
func (f Fitted) SizeAt(chr float64) (stats.Estimate, error) {
	if err := f.refused[Size]; err != nil || len(f.fits) == 0 {
		return f.absent(), err
	}
	if !(chr > 0 && chr <= 1) {
		return f.absent(), fmt.Errorf("a share of the host's CPUs of %v: want more than 0, and 1 at most", chr)
	}
	return f.hull(func(one fit) stats.Estimate { return one.perUnit(f.points, one.form.At(chr)) }), nil
}

// perUnit is the size term at g, in the mean over points.
func (one fit) perUnit(points []weighed, g float64) stats.Estimate {
	row := make([]float64, one.columns())
	at := len(one.workloads)
	row[at] = g
	at++
	mean := func(of func(Point) float64) (sum float64) {
		for _, p := range points {
			sum += of(p.Point) / float64(len(points))
		}
		return sum
	}
	if one.io {
		row[at] = g * mean(func(p Point) float64 { return p.Intensity })
		at++
	}
	if one.tasks {
		row[at] = g * mean(func(p Point) float64 { return p.crowding() })
	}
	return one.Combination(row)
}

// LeastShare is the least container-to-host ratio at which the overhead of size is
// below overhead (0.1 is 10 %), with the input, output and tasks that the points have in
// the mean: fit a workload alone for its own. The interval holds those of all forms
// that the points allow; it begins at 0 where every share may do. Where the answer
// lies beyond the sizes by more than [Options].Reach, the error is an *[OutOfReach], and
// the size term's *[NotIdentifiable] where there is none.
func LeastShare(f Fitted, overhead float64) (stats.Estimate, error) {
	fail := func(err error) (stats.Estimate, error) {
		return f.absent(), fmt.Errorf("the least share of the host: %w", err)
	}
	if err := f.refused[Size]; err != nil || len(f.fits) == 0 {
		return fail(err)
	}
	if !(overhead > 0) || math.IsInf(overhead, 0) {
		return fail(fmt.Errorf("an overhead of %v: want more than 0", overhead))
	}
	e := f.hull(func(one fit) stats.Estimate {
		unit := one.perUnit(f.points, 1)
		share := func(slope float64) float64 {
			if !(slope > 0) {
				return 0 // no share is too small
			}
			return one.form.share(math.Log1p(overhead) / slope)
		}
		// The larger the cost, the larger the share: the ends stay in order.
		unit.Value, unit.Interval.Low, unit.Interval.High = share(unit.Value), share(unit.Interval.Low),
			share(unit.Interval.High)
		return unit
	})
	all := shares(f.points)
	low, high := all[0]/f.options.Reach, min(1, all[len(all)-1]*f.options.Reach)
	switch {
	case e.Interval.High < low:
		// Every size that could be asked about is cheap enough.
		e.Value, e.Interval.Low, e.Interval.High = 0, 0, low
		e.Warnings = append(e.Warnings, fmt.Sprintf("every share from %.3g on is below the overhead; smaller ones were not tried", low))
	case e.Interval.Low > high:
		return fail(&OutOfReach{"it lies at", e.Value, low, high})
	case e.Value < low && e.Value > 0 || e.Value > high:
		e.Warnings = append(e.Warnings, "it lies beyond the sizes that were measured")
	}
	return e, nil
}
