package overhead

import (
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// Latency is what a run recorded of the latencies of one kind of request: any quantile of it can
// be had.
type Latency struct {
	Workload, Name, Unit string // Name is of the histogram or the part: "get"
	Conditions           []record.Condition
	layout               *layout
	metric               workload.Metric
	opt                  Options
}

// Latencies are those of a run.
func Latencies(run record.Run) (all []Latency) {
	opt := Options{}.from(run)
	for _, l := range layouts(run, opt) {
		if _, explains := run.Plan.Layers[l.workload]; explains {
			continue
		}
		seen := map[string]bool{}
		for _, m := range l.metrics {
			name := histogram(m)
			if m.Quantile == 0 || seen[name] {
				continue
			}
			seen[name] = true
			all = append(all, Latency{l.workload, name, m.Unit, l.conditions, l, m, opt})
		}
	}
	return all
}

// Together are these latencies with intervals of which n hold together (Bonferroni).
func (l Latency) Together(n int) Latency {
	l.opt.Level = 1 - (1-l.opt.Level)/float64(max(1, n))
	return l
}

// Baseline is the ID of the condition with which others are compared; empty where there is none.
func (l Latency) Baseline() string { return l.layout.baselineID() }

// Quantile gives the q-quantile (0.99, not 99) under a condition, and its ratio to the baseline's;
// without one, and for the baseline itself, the ratio is absent. beyond is how many requests lie
// above it, of those of the condition or of the baseline, whichever are fewer.
func (l Latency) Quantile(condition string, q float64) (value, ratio stats.Estimate, beyond float64) {
	l.metric.Quantile = q
	own := l.layout.figures(l.metric, condition, false)
	value, ratio, beyond = level(l.metric, own, l.opt), absent(l.opt), (1-q)*requests(own)
	if l.layout.baseline < 0 || l.layout.isBaseline(condition) {
		return value, ratio, beyond
	}
	base := l.layout.figures(l.metric, l.Baseline(), false)
	return value, l.layout.pair(l.metric, condition, false).ratio(l.opt), min(beyond, (1-q)*requests(base))
}

func requests(figures []figure) (n float64) {
	for _, h := range histograms(figures) {
		n += float64(h.TotalCount())
	}
	return n
}
