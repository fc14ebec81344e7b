package faults

import "time"

// Rate is faults per second over a recording, of one count.
func (r *Recording) Rate(n uint64) float64 {
	if r.To <= r.From {
		return 0
	}
	return float64(n) / (r.To - r.From).Seconds()
}

// Bin is the faults of a stretch of time.
type Bin struct {
	From time.Duration
	Count
}

// Series counts the recorded faults of one target, or of all for -1, by
// stretches of time of one width, from the recording's start on. The last may reach beyond its
// end. Faults of which there is no record are in none.
func (r *Recording) Series(target int32, width time.Duration) []Bin {
	if width <= 0 || r.To <= r.From {
		return nil
	}
	bins := make([]Bin, (r.To-r.From+width-1)/width)
	for i := range bins {
		bins[i].From = r.From + time.Duration(i)*width
	}
	for f := range r.All() {
		if target >= 0 && f.Target != target {
			continue
		}
		i := int(max(f.At-r.From, 0) / width)
		c := &bins[min(i, len(bins)-1)].Count
		if f.Kernel {
			c.Kernel[f.Type]++
		} else {
			c.User[f.Type]++
		}
	}
	return bins
}
