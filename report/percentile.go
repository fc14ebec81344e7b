package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
)

// mostCurves are as many as can be distinguished in one drawing.
const mostCurves = 8

// percentileCharts draw each histogram of a workload, a curve a condition.
func percentileCharts(run record.Run, of, workload string) []Part {
	merged, broken := mergedHistograms(run, workload)
	var charts []Part
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		var curves []Tail
		var counts []string
		left := 0
		for _, c := range run.Conditions {
			h := merged[name][c.ID]
			switch {
			case h == nil || h.TotalCount() == 0:
			case len(curves) == mostCurves:
				left++
			default:
				condition := orElse(clean(c.Label), clean(c.ID))
				curves = append(curves, Tail{Name: condition, H: h})
				counts = append(counts, fmt.Sprintf("%s %d", condition, h.TotalCount()))
			}
		}
		if len(curves) == 0 && len(broken[name]) == 0 {
			continue
		}
		notes := []string{"The trials that count, merged. Each step to the right is ten times rarer. Requests: " + strings.Join(counts, ", ") + "."}
		if left > 0 {
			notes = append(notes, Counted(left, "more condition")+" in the export of the run; more curves could not be distinguished.")
		}
		charts = append(charts, Tails(of+"Latency by percentile: "+clean(name), strings.Join(append(notes, broken[name]...), "\n\n"), curves))
	}
	return charts
}

// mergedHistograms adds up, for each histogram name and condition, the trials
// that count: valid, past the warm-up, and of the last attempt at their block,
// where no trial of it was tainted. Percentiles are read off the sum and never averaged.
func mergedHistograms(
	run record.Run,
	workload string,
) (map[string]map[string]*hdrhistogram.Histogram, map[string][]string) {
	attempts, tainted := map[int]int{}, map[[2]int]bool{}
	for _, t := range run.Trials {
		if t.Workload == workload {
			attempts[t.Block] = max(attempts[t.Block], t.Attempt)
			if len(t.Taint) > 0 {
				tainted[[2]int{t.Block, t.Attempt}] = true
			}
		}
	}
	merged := map[string]map[string]*hdrhistogram.Histogram{}
	broken := map[string][]string{}
	for _, t := range run.Trials {
		if t.Workload != workload || t.Block < 1 || t.Error != "" || t.Attempt != attempts[t.Block] ||
			tainted[[2]int{t.Block, t.Attempt}] {
			continue
		}
		for name, encoded := range t.Histograms {
			if merged[name] == nil {
				merged[name] = map[string]*hdrhistogram.Histogram{}
			}
			h, err := decodeHistogram(encoded)
			if err != nil {
				broken[name] = append(broken[name], fmt.Sprintf("trial %d: %v", t.ID, err))
				continue
			}
			sum := merged[name][t.Condition]
			if sum == nil {
				merged[name][t.Condition] = h
				continue
			}
			if h.HighestTrackableValue() > sum.HighestTrackableValue() {
				sum, h = h, sum
				merged[name][t.Condition] = sum
			}
			sum.Merge(h)
		}
	}
	return merged, broken
}

// decodeHistogram reads an encoded histogram. What is not one is an error even
// where the decoder, which trusts its input's lengths, would panic.
func decodeHistogram(encoded record.Histogram) (h *hdrhistogram.Histogram, err error) {
	defer func() {
		if r := recover(); r != nil {
			h, err = nil, fmt.Errorf("not a histogram: %v", r)
		}
	}()
	h, err = hdrhistogram.Decode([]byte(encoded))
	if err == nil && h == nil {
		err = fmt.Errorf("not a histogram")
	}
	return h, err
}

// rarity places a quantile: 0.9 is 1, 0.99 is 2, 0.999 is 3.
func rarity(q float64) float64 { return -math.Log10(1 - q) }
