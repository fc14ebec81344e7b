package size

import (
	"fmt"
	"math"
	"slices"

	"tare/stats"
)

// An allowed form misses the sizes that it has not seen by no more than this many
// times what the best one does, or by less than errors alone would have it.
const (
	muchWorse  = 2
	unremarked = 1
)

// choose fits every form, and goes by the default unless the points speak against it.
func (f *Fitted) choose(d design) error {
	forms := Forms
	if f.options.Form != "" {
		forms = []Form{f.options.Form}
	}
	fits := map[Form]fit{}
	best := math.Inf(1)
	for _, g := range forms {
		one, err := d.fit(g, f.points, f.options.Level)
		if err != nil {
			return fmt.Errorf("form %s: %w", g, err)
		}
		off := d.off(g, f.points, f.options.Level)
		fits[g] = one
		f.Forms = append(f.Forms, Choice{Form: g, Off: off})
		best = min(best, off)
	}
	for i := range f.Forms {
		c := &f.Forms[i]
		// With a size left out too few may be left to predict it: then nothing speaks
		// against any form.
		c.Allowed = math.IsNaN(c.Off) || math.IsInf(best, 1) || c.Off <= max(muchWorse*best, unremarked)
	}
	chosen := slices.IndexFunc(f.Forms, func(c Choice) bool { return c.Allowed && c.Form == DefaultForm })
	if chosen < 0 {
		for i, c := range f.Forms {
			if c.Allowed && (chosen < 0 || c.Off < f.Forms[chosen].Off) {
				chosen = i
			}
		}
	}
	f.fits = []fit{fits[f.Forms[chosen].Form]}
	for i, c := range f.Forms {
		if c.Allowed && i != chosen {
			f.fits = append(f.fits, fits[c.Form])
		}
	}
	return nil
}

// off is by how much a form misses the sizes that it has not seen; NaN where none can
// be left out.
func (d design) off(g Form, points []weighed, level float64) float64 {
	var sum float64
	var n int
	for _, chr := range shares(points) {
		out, rest := split(points, chr)
		if !slices.Equal(names(rest), d.workloads) {
			continue
		}
		one, err := d.fit(g, rest, level)
		if err != nil {
			continue
		}
		for _, p := range out {
			w, _ := slices.BinarySearch(d.workloads, p.Workload)
			row := one.row(g, p.Point, w)
			miss := p.Log - one.Combination(row).Value
			sum += miss * miss / (p.error*p.error + one.FixedVariance(row))
			n++
		}
	}
	return math.Sqrt(sum / float64(n))
}

// split takes the points of one share out.
func split[P interface{ CHR() float64 }](points []P, chr float64) (out, rest []P) {
	for _, p := range points {
		if same(p.CHR(), chr) {
			out = append(out, p)
		} else {
			rest = append(rest, p)
		}
	}
	return out, rest
}

// LeftOut is a point beside what the other sizes predict of it.
type LeftOut struct {
	Point     Point
	Predicted stats.Estimate // logarithm of the ratio, with a prediction interval
	// Inside reports whether the measured one lies in it.
	Inside bool
	// Why says why the others do not predict it; nil where they do.
	Why error
}

// LeaveOneOut predicts the points of each size by a fit on those of the others, the
// choice of a form included. The first and the last size are predicted from beyond the
// others, as far as [Options].Reach goes. Errors are Fit's on all points.
func LeaveOneOut(points []Point, o Options) ([]LeftOut, error) {
	whole, err := Fit(points, o)
	if err != nil {
		return nil, err
	}
	all := make([]LeftOut, len(points))
	for _, chr := range shares(whole.points) {
		_, rest := split(points, chr)
		f, err := Fit(rest, o)
		if err == nil {
			err = f.Identifiable(Size)
		}
		for i, p := range points {
			if !same(p.CHR(), chr) {
				continue
			}
			all[i] = LeftOut{Point: p, Predicted: f.absent(), Why: err}
			if err != nil {
				continue
			}
			e, err := f.Predict(p)
			if err != nil {
				all[i].Why = err
				continue
			}
			all[i].Predicted, all[i].Inside = e, e.Interval.Low <= p.Log && p.Log <= e.Interval.High
		}
	}
	return all, nil
}
