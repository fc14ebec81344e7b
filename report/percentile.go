package report

import (
	"fmt"
	"html/template"
	"math"
	"sort"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
)

// A percentilePlot is the latency distribution of one histogram, a curve a
// condition, with the tail stretched: each step to the right is ten times
// rarer.
type percentilePlot struct {
	Name    string
	Drawing template.HTML
	Legend  []curveName
	Left    int // conditions that have a histogram but no curve here
	Broken  []string
}

type curveName struct {
	Index int
	Label string
	Count int64
}

// most curves in a plot; more cannot be told apart.
const mostCurves = 8

// percentilePlots draws each histogram of a workload.
func percentilePlots(run record.Run, workload string) []percentilePlot {
	merged, broken := mergedHistograms(run, workload)
	names := make([]string, 0, len(merged))
	for name := range merged {
		names = append(names, name)
	}
	sort.Strings(names)
	var plots []percentilePlot
	for _, name := range names {
		plot := percentilePlot{Name: clean(name), Broken: broken[name]}
		var curves []*hdrhistogram.Histogram
		for _, c := range run.Conditions {
			h := merged[name][c.ID]
			if h == nil || h.TotalCount() == 0 {
				continue
			}
			if len(curves) == mostCurves {
				plot.Left++
				continue
			}
			text := clean(c.Label)
			if text == "" {
				text = clean(c.ID)
			}
			plot.Legend = append(plot.Legend, curveName{len(curves), text, h.TotalCount()})
			curves = append(curves, h)
		}
		if len(curves) > 0 {
			plot.Drawing = curvesDrawing(plot.Name, curves)
		}
		if len(curves) > 0 || len(plot.Broken) > 0 {
			plots = append(plots, plot)
		}
	}
	return plots
}

// mergedHistograms adds up, for each histogram name and condition, the trials
// that count: valid, past the warm-up, and of the last attempt at their block,
// where no trial of it was tainted. Percentiles are read off the sum and never averaged.
func mergedHistograms(run record.Run, workload string) (map[string]map[string]*hdrhistogram.Histogram, map[string][]string) {
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
		if t.Workload != workload || t.Block < 1 || t.Error != "" || t.Attempt != attempts[t.Block] || tainted[[2]int{t.Block, t.Attempt}] {
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

// curvesDrawing draws curves as far into the tail as ten values lie beyond.
func curvesDrawing(name string, curves []*hdrhistogram.Histogram) template.HTML {
	deepest, least, most := 1.0, math.Inf(1), 0.0
	reach := make([]float64, len(curves))
	for i, h := range curves {
		reach[i] = max(0.5, min(6, math.Log10(float64(h.TotalCount())/10)))
		deepest = max(deepest, reach[i])
		least = min(least, max(1, float64(h.ValueAtQuantile(1))))
		most = max(most, float64(h.ValueAtQuantile(100*(1-math.Pow(10, -reach[i])))))
	}
	horizontal := axis{0, deepest}
	vertical := axis{math.Log10(least), math.Log10(max(most, least*1.05))}.widened(0.06)
	s := newSVG("curves", "latency of "+name+" by percentile, both axes logarithmic")
	const leftEdge, bottom = 11.0, 90.0 // percent kept for the labels
	x := func(q float64) float64 { return leftEdge + (100-leftEdge)*horizontal.at(rarity(q))/100 }
	y := func(us float64) float64 { return bottom - bottom*vertical.at(math.Log10(max(us, 1)))/100 }
	for _, q := range []struct {
		quantile float64
		label    string
	}{{0, "min"}, {0.5, "50 %"}, {0.9, "90 %"}, {0.99, "99 %"}, {0.999, "99.9 %"}, {0.9999, "99.99 %"}, {0.99999, "99.999 %"}} {
		if rarity(q.quantile) > deepest*1.001 {
			break
		}
		s.line("grid", x(q.quantile), 0, x(q.quantile), bottom)
		if q.quantile == 0 || rarity(q.quantile) < 0.06*deepest {
			continue
		}
		class := "tick"
		if x(q.quantile) > 95 {
			class = "tick end"
		}
		s.text(class, x(q.quantile), bottom, 0, 16, q.label)
	}
	for _, t := range latencyTicks(vertical) {
		s.line("grid", leftEdge, y(t.at), 100, y(t.at))
		s.text("tick end", leftEdge, y(t.at), -6, 4, t.label)
	}
	// The curves share the field's coordinates with the grid.
	paths := make([]fieldPath, len(curves))
	for i, h := range curves {
		paths[i] = newPath(fmt.Sprintf("curve s%d", i))
		const steps = 90
		quantiles := make([]float64, steps+1)
		for k := range quantiles {
			quantiles[k] = 1 - math.Pow(10, -reach[i]*float64(k)/steps)
		}
		percentiles := make([]float64, len(quantiles))
		for k, q := range quantiles {
			percentiles[k] = 100 * q
		}
		for k, v := range h.ValueAtPercentilesSlice(percentiles) {
			paths[i].point(x(quantiles[k]), y(float64(v)))
		}
	}
	s.field(paths...)
	return s.html()
}

// latencyTicks labels microseconds at 1, 2 and 5 of each power of ten; at gives
// microseconds, not the axis' logarithm.
func latencyTicks(vertical axis) []tick {
	var ticks []tick
	for power := 0; power < 10; power++ {
		for _, m := range []float64{1, 2, 5} {
			us := m * math.Pow(10, float64(power))
			if vertical.holds(math.Log10(us)) {
				sc := scaleFor("us", us)
				ticks = append(ticks, tick{us, fixed(us/sc.divisor, 0) + " " + sc.unit})
			}
		}
	}
	return thinned(ticks, 8)
}
