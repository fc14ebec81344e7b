package overhead

import (
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/stats"
	"tare/workload"
)

// pairs are a metric's figures under two conditions, element i of both from
// the same block; or, where they are unpaired, two samples that may differ in size.
type pairs struct {
	metric          workload.Metric
	blocks          []int // of the smaller sample where they are unpaired
	base, treatment []figure
	dropped         int // blocks in which one of the two is missing
	fewProcesses    bool
	unpaired        bool
	// rounds tells that each element is a round; its log ratios are then by strips: the
	// typical one, with the weights of the rounds, and that of totals. A quantile has none.
	rounds                  bool
	single                  bool // a round is one strip
	typical, total, weights []float64
}

func (p *pairs) add(number int, base, treatment figure) {
	p.blocks = append(p.blocks, number)
	p.base = append(p.base, base)
	p.treatment = append(p.treatment, treatment)
}

// pair gathers a condition's figures beside the baseline's. Tainted blocks
// take part where all is set.
func (l *layout) pair(metric workload.Metric, condition string, all bool) pairs {
	baseline := l.conditions[l.baseline].ID
	p := pairs{
		metric:       metric,
		fewProcesses: slices.Contains(l.fewProcesses, baseline) || slices.Contains(l.fewProcesses, condition),
	}
	if l.unpaired {
		return l.samples(p, baseline, condition, all)
	}
	if l.rounds {
		return l.pairRounds(metric, []place{{baseline, 0}, {baseline, 1}}, place{condition, 0}, all)
	}
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.tainted && !all {
			continue
		}
		base, ok := b.figure(baseline, metric)
		treatment, also := b.figure(condition, metric)
		if ok && also {
			p.add(b.number, base, treatment)
		} else {
			p.dropped++
		}
	}
	return p
}

// samples gathers two conditions' figures that nothing pairs.
func (l *layout) samples(p pairs, baseline, condition string, all bool) pairs {
	p.unpaired = true
	var base, treatment []int
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.tainted && !all {
			continue
		}
		if f, ok := b.figure(baseline, p.metric); ok {
			p.base, base = append(p.base, f), append(base, b.number)
		}
		if f, ok := b.figure(condition, p.metric); ok {
			p.treatment, treatment = append(p.treatment, f), append(treatment, b.number)
		}
	}
	if p.blocks = base; len(treatment) < len(base) {
		p.blocks = treatment
	}
	return p
}

// pairAA gathers the baseline's second execution beside its first.
func (l *layout) pairAA(metric workload.Metric) pairs {
	p := pairs{metric: metric}
	baseline := l.conditions[l.baseline].ID
	if l.rounds {
		return l.pairRounds(metric, []place{{baseline, 0}}, place{baseline, 1}, l.allTainted())
	}
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.tainted {
			continue
		}
		first, ok := b.execution(baseline, 0, metric)
		second, also := b.execution(baseline, 1, metric)
		if ok && also {
			p.add(b.number, first, second)
		} else {
			p.dropped++
		}
	}
	return p
}

func (p pairs) ratio(opt Options) stats.Estimate {
	switch {
	case p.exact():
		return stats.ExactRatio(values(p.base), values(p.treatment), opt.Level)
	case p.byStrips():
		ratios, weights := p.headline()
		return stats.RoundMean(ratios, weights, opt.Level)
	case p.unpaired && logarithmic(p.metric):
		return stats.UnpairedRatio(values(p.base), values(p.treatment), opt.Level)
	case p.unpaired:
		return mover(level(p.metric, p.base, opt), level(p.metric, p.treatment, opt), opt.Level)
	case p.metric.Quantile != 0:
		return stats.QuantileRatio(histograms(p.base), histograms(p.treatment), p.metric.Quantile, opt.Level, opt.Seed)
	case p.metric.Count:
		return stats.CountRatio(values(p.base), values(p.treatment), opt.Level, opt.Seed)
	}
	return stats.PairedRatio(values(p.base), values(p.treatment), opt.Level, opt.Seed)
}

// exact tells that a metric counts, and that each repetition of a condition has the same
// whole number, in several processes. Equal times and rates are rounded ones, and none on
// both sides may be of what is rare.
func (p pairs) exact() bool { return p.equalCounts() && !p.fewProcesses }

// withinProcesses tells of equal counts that may differ from process to process.
func (p pairs) withinProcesses() bool { return p.equalCounts() && p.fewProcesses }

func (p pairs) equalCounts() bool {
	base, treatment := values(p.base), values(p.treatment)
	return p.metric.Counted() && p.metric.Quantile == 0 && !p.byStrips() && stats.Exact(base, treatment) &&
		base[0]+treatment[0] > 0
}

func (p pairs) difference(opt Options) stats.Estimate {
	switch {
	case p.exact():
		return stats.ExactDifference(values(p.base), values(p.treatment), opt.Level)
	case p.unpaired && p.metric.Quantile == 0:
		return stats.UnpairedDifference(values(p.base), values(p.treatment), opt.Level)
	case p.unpaired:
		return absent(opt)
	case p.metric.Quantile != 0:
		return stats.QuantileDifference(
			histograms(p.base),
			histograms(p.treatment),
			p.metric.Quantile,
			opt.Level,
			opt.Seed,
		)
	case p.metric.Count:
		return stats.CountDifference(values(p.base), values(p.treatment), opt.Level, opt.Seed)
	}
	return stats.PairedDifference(values(p.base), values(p.treatment), opt.Level, opt.Seed)
}

// logSD is the spread of the blocks' log ratios. For a quantile metric the
// blocks' own quantiles stand in: their spread says how many blocks it takes,
// though the effect itself is that of the merged histograms.
func (p pairs) logSD() float64 {
	if p.byStrips() {
		return stats.RoundSD(p.headline())
	}
	if p.unpaired {
		return stats.UnpairedLogSD(values(p.base), values(p.treatment))
	}
	return stats.LogSD(values(p.base), values(p.treatment))
}

// level estimates a metric's own level under a condition from its blocks.
func level(metric workload.Metric, figures []figure, opt Options) stats.Estimate {
	switch {
	case metric.Quantile != 0:
		return stats.Quantile(histograms(figures), metric.Quantile, opt.Level, opt.Seed)
	case metric.Count || !positive(figures):
		return stats.Mean(values(figures), opt.Level, opt.Seed)
	}
	return stats.GeometricMean(values(figures), opt.Level, opt.Seed)
}

func positive(figures []figure) bool {
	for _, f := range figures {
		if f.value <= 0 {
			return false
		}
	}
	return true
}

func values(figures []figure) []float64 {
	v := make([]float64, len(figures))
	for i, f := range figures {
		v[i] = f.value
	}
	return v
}

func histograms(figures []figure) []*hdrhistogram.Histogram {
	h := make([]*hdrhistogram.Histogram, len(figures))
	for i, f := range figures {
		h[i] = f.histogram
	}
	return h
}
