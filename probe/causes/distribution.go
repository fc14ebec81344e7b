package causes

import (
	"cmp"
	"slices"
	"time"

	"tare/probe/bursts"
)

// distributionOf carries a histogram over.
func distributionOf(h *bursts.Histogram) Distribution {
	d := Distribution{Sum: h.Sum()}
	for step, n := range h.Steps {
		d.Steps = append(d.Steps, Step{step.Low, step.High, n})
		d.Count += n
	}
	return d
}

// Mean is the mean; 0 of none.
func (d *Distribution) Mean() time.Duration {
	if d.Count == 0 {
		return 0
	}
	return time.Duration(uint64(d.Sum) / d.Count)
}

// Quantile is the duration that a share q of all does not exceed (0.99),
// interpolated within its step, as far as one of them can have been; 0 of none.
func (d *Distribution) Quantile(q float64) time.Duration {
	rank := min(max(q, 0), 1) * float64(d.Count)
	var below float64
	for i, s := range d.Steps {
		if s.Count == 0 || below+float64(s.Count) < rank && i < len(d.Steps)-1 {
			below += float64(s.Count)
			continue
		}
		high := s.High
		if below+float64(s.Count) >= float64(d.Count) {
			high = min(high, max(s.Low, d.longest()))
		}
		share := min(1, max(0, (rank-below)/float64(s.Count)))
		return s.Low + time.Duration(float64(high-s.Low)*share)
	}
	return 0
}

// longest is what none of them exceeds: what is left of the sum where all others were as
// short as their steps allow.
func (d *Distribution) longest() time.Duration {
	left := d.Sum
	var last time.Duration
	for _, s := range d.Steps {
		if s.Count > 0 {
			left -= s.Low * time.Duration(s.Count)
			last = s.Low
		}
	}
	return left + last
}

// Add takes another's in. Both are of the same steps, as all that this package makes
// are.
func (d *Distribution) Add(o Distribution) {
	d.Count += o.Count
	d.Sum += o.Sum
	steps := slices.Concat(d.Steps, o.Steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.Low, b.Low) })
	d.Steps = nil
	for _, s := range steps {
		if n := len(d.Steps); n > 0 && d.Steps[n-1].Low == s.Low {
			d.Steps[n-1].Count += s.Count
			continue
		}
		d.Steps = append(d.Steps, s)
	}
}
