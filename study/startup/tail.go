package startup

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
)

// tailGrowths are how many times more a quantile of the answer grows from one rate to
// another than the mean does, by block.
//
// The quantile of ten starts is not that of forty, even where all take equally
// long: it is an order statistic, of which the expectation depends on their
// number. So both rates' are those of as many starts as the one with fewer has:
// of all ways to draw so many from the block, the mean of the logarithm.
func (r reading) tailGrowths(low, high record.Condition, quantile float64) map[int]float64 {
	a, b := r.histograms(low, answer), r.histograms(high, answer)
	growth := map[int]float64{}
	for block := range a {
		if b[block] == nil {
			continue
		}
		starts := min(a[block].TotalCount(), b[block].TotalCount())
		tail := func(h *hdrhistogram.Histogram) float64 {
			return logQuantileOf(h, int(starts), quantile) - math.Log(h.Mean())
		}
		growth[block] = math.Exp(tail(b[block]) - tail(a[block]))
	}
	return growth
}

// logQuantileOf is the expected logarithm of a quantile of n values that are
// drawn from a histogram's, without putting any back: the r-th of n drawn is the
// j-th of all N with probability C(j-1, r-1) C(N-j, n-r) / C(N, n).
func logQuantileOf(h *hdrhistogram.Histogram, n int, quantile float64) float64 {
	all := int(h.TotalCount())
	rank := max(1, int(math.Ceil(quantile*float64(n))))
	var sum float64
	j := 0
	for _, bar := range h.Distribution() {
		for range bar.Count {
			j++
			if j < rank || all-j < n-rank {
				continue
			}
			p := logChoose(j-1, rank-1) + logChoose(all-j, n-rank) - logChoose(all, n)
			sum += math.Exp(p) * math.Log(float64(bar.From+bar.To)/2)
		}
	}
	return sum
}

func logChoose(n, k int) float64 {
	of := func(v int) float64 { l, _ := math.Lgamma(float64(v + 1)); return l }
	return of(n) - of(k) - of(n-k)
}

// histograms gives a condition's, by block, its executions together.
func (r reading) histograms(c record.Condition, name string) map[int]*hdrhistogram.Histogram {
	of := map[int]*hdrhistogram.Histogram{}
	for _, t := range r.Trials(c) {
		encoded, ok := t.Histograms[name]
		if !ok || len(t.Taint) > 0 && !r.allTainted(c) {
			continue
		}
		h, err := encoded.Decode()
		if err != nil {
			continue // reported where the run is read
		}
		if of[t.Block] == nil {
			of[t.Block] = h
			continue
		}
		of[t.Block].Merge(h)
	}
	return of
}

// allTainted says that nothing of a condition was measured undisturbed.
func (r reading) allTainted(c record.Condition) bool {
	for _, t := range r.Trials(c) {
		if len(t.Taint) == 0 {
			return false
		}
	}
	return true
}
