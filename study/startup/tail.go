package startup

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
	"tare/stats"
)

// tailGrowth tells how many times more a quantile of the answer grows from one
// rate to another than the mean does. Quantiles and means are of all blocks'
// starts together: those of single blocks, of which each rate has another number
// of starts, would be off by another amount at each. The interval is Student's t
// on the pseudo-values that leaving out one block at a time gives.
func (r reading) tailGrowth(low, high record.Condition, quantile float64) stats.Estimate {
	a, b := r.histograms(low, answer), r.histograms(high, answer)
	var blocks []int
	for block := range a {
		if b[block] != nil {
			blocks = append(blocks, block)
		}
	}
	growth := func(without int) float64 {
		part := func(of map[int]*hdrhistogram.Histogram) float64 {
			var merged *hdrhistogram.Histogram
			for _, block := range blocks {
				if block == without {
					continue
				}
				if merged == nil {
					merged = hdrhistogram.Import(of[block].Export())
				} else {
					merged.Merge(of[block])
				}
			}
			if merged == nil || merged.TotalCount() == 0 {
				return math.NaN()
			}
			return math.Log(float64(merged.ValueAtQuantile(100*quantile)) / merged.Mean())
		}
		return part(b) - part(a)
	}
	n := len(blocks)
	const none = -1 // no block has this number
	pseudo := make([]float64, n)
	for i, block := range blocks {
		pseudo[i] = math.Exp(float64(n)*growth(none) - float64(n-1)*growth(block))
	}
	e := stats.GeometricMean(pseudo, r.analysis.Level, r.run.Seed)
	if n > 0 {
		e.Value = math.Exp(growth(none))
	}
	e.Method = string(stats.MethodJackknifeT)
	return e
}

// histograms gives a condition's, by block, its executions together.
func (r reading) histograms(c record.Condition, name string) map[int]*hdrhistogram.Histogram {
	of := map[int]*hdrhistogram.Histogram{}
	for _, t := range r.trials(c) {
		encoded, ok := t.Histograms[name]
		if !ok || len(t.Taint) > 0 && !r.allTainted(c) {
			continue
		}
		h, err := encoded.Decode()
		if err != nil {
			continue // told where the run is read
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
	for _, t := range r.trials(c) {
		if len(t.Taint) == 0 {
			return false
		}
	}
	return true
}
