package overhead

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
	"tare/workload"
)

// layout is one workload's trials, put in their places.
type layout struct {
	workload   string
	conditions []record.Condition
	metrics    []workload.Metric
	baseline   int // index of the condition that the others are compared with; -1 for none
	blocks     []block
	warmUp     map[place]*measured // block 0
	trials     []*record.Trial     // all but the warm-up, every attempt
	warnings   []string
	// rounds says that it is measured by rounds of slices: its blocks are rounds.
	rounds bool
	// least is how many strips of a round have to be there for it to count: what was cut
	// short, or is tainted but for a little, has not the weight of a round.
	least int
	pilot bool // its blocks are the pilot's, for want of others
	// unpaired says that nothing pairs the conditions' figures of a block.
	unpaired bool
	// unjudged says why no verdict can rest on a condition's figures, and fewProcesses which
	// conditions show no exact count ([record.Import]).
	unjudged     func(condition string) string
	fewProcesses []string
	imported     bool // its trials were measured elsewhere
}

// block is the last attempt at a block.
type block struct {
	number   int
	attempt  int
	tainted  bool // some trial of the attempt stayed so: the block is left out as a whole
	repeated bool // some trial was tainted and made again, or with it, in older runs, the block
	complete bool // every condition was measured, the baseline twice
	cells    map[place]*measured
	// instances are those of a round, in place of cells.
	instances map[place]*instance
	least     int // strips that two places have to have in common for the round to count
	// disturbed means that every strip of the workload is tainted: they are shown for want of others.
	disturbed bool
	merged    map[mergedKey]*hdrhistogram.Histogram // see merge
}

// place is a trial's place within a block.
type place struct {
	condition string
	replicate int
}

// measured is a valid trial with its samples gathered by metric.
type measured struct {
	trial      *record.Trial
	samples    map[string][]float64
	histograms map[string]*hdrhistogram.Histogram
}

// why says why the design bears no verdict on a condition; empty where it does, and on what
// is exact.
func (l *layout) why(condition string, p pairs) string {
	if l.unjudged == nil || p.exact() {
		return ""
	}
	return l.unjudged(condition)
}

// layouts gives the workloads of a run, in its order, or the one that opt names.
func layouts(run record.Run, opt Options) []*layout {
	var all []*layout
	byName := map[string]*layout{}
	home := map[string]*layout{} // of each condition
	for _, c := range run.Conditions {
		if opt.Workload != "" && c.Workload != opt.Workload {
			continue
		}
		l := byName[c.Workload]
		if l == nil {
			l = &layout{
				workload: c.Workload,
				baseline: -1,
				warmUp:   map[place]*measured{},
				rounds:   run.Plan.InRounds(c.Workload),
				least:    min(fewestStrips, run.Plan.Rounds[c.Workload].Strips),
				unpaired: run.Plan.Unpaired(),
				imported: run.Status == record.Imported,
			}
			if is := run.Plan.Imported; is != nil {
				l.unjudged, l.fewProcesses = is.Why, is.FewProcesses
			}
			byName[c.Workload] = l
			all = append(all, l)
		}
		if c.Baseline && l.baseline >= 0 {
			l.warnings = append(l.warnings, fmt.Sprintf("%s is marked as a baseline too: compared with %s like the others", c.ID, l.conditions[l.baseline].ID))
		} else if c.Baseline {
			l.baseline = len(l.conditions)
		}
		l.conditions = append(l.conditions, c)
		home[c.ID] = l
		// Parameters may add metrics: a later condition can have more than the first.
		for _, m := range c.Metrics {
			if !slices.ContainsFunc(l.metrics, func(o workload.Metric) bool { return o.Name == m.Name }) {
				l.metrics = append(l.metrics, m)
			}
		}
	}
	attempts := map[*layout]map[int][]*record.Trial{} // of the last attempt, by block
	slots := map[*layout][]*record.Trial{}            // of rounds
	for i := range run.Trials {
		t := &run.Trials[i]
		l := home[t.Condition]
		if l == nil {
			continue
		}
		if t.Error == record.NotEnded && run.Status == record.Running && !l.rounds {
			continue // it runs now
		}
		if t.Block > 0 {
			l.trials = append(l.trials, t)
			if t.Attempt == record.MadeAgain {
				continue // it counts for nothing, also where the other was not made any more
			}
		}
		if l.rounds {
			slots[l] = append(slots[l], t)
			continue
		}
		if attempts[l] == nil {
			attempts[l] = map[int][]*record.Trial{}
		}
		last := attempts[l][t.Block]
		switch {
		case len(last) == 0 || t.Attempt > last[0].Attempt:
			attempts[l][t.Block] = []*record.Trial{t}
		case t.Attempt == last[0].Attempt:
			attempts[l][t.Block] = append(last, t)
		}
	}
	for _, l := range all {
		l.place(attempts[l])
		l.placeRounds(slots[l], opt.Pilot)
		if l.baseline < 0 {
			l.warnings = append(l.warnings, "no condition is the baseline: there is nothing to compare with")
		}
	}
	return all
}

// place fills the blocks from each one's last attempt.
func (l *layout) place(attempts map[int][]*record.Trial) {
	wanted := map[place]bool{}
	for _, c := range l.conditions {
		wanted[place{c.ID, 0}] = true
	}
	for _, t := range l.trials {
		if l.isBaseline(t.Condition) && t.Replicate == 1 {
			wanted[place{t.Condition, 1}] = true
		}
	}
	for number, trials := range attempts {
		b := block{number: number, attempt: trials[0].Attempt, cells: map[place]*measured{}}
		for _, t := range trials {
			b.tainted = b.tainted || len(t.Taint) > 0
			if t.Error == "" {
				b.cells[place{t.Condition, t.Replicate}] = l.measure(t)
			}
		}
		if number <= 0 {
			l.warmUp = b.cells
			continue
		}
		for _, t := range l.trials {
			b.repeated = b.repeated || t.Block == number && t.Attempt < b.attempt && len(t.Taint) > 0
		}
		b.complete = true
		for p := range wanted {
			b.complete = b.complete && b.cells[p] != nil
		}
		l.blocks = append(l.blocks, b)
	}
	slices.SortFunc(l.blocks, func(a, b block) int { return cmp.Compare(a.number, b.number) })
}

func (l *layout) isBaseline(condition string) bool {
	return l.baseline >= 0 && l.conditions[l.baseline].ID == condition
}

func (l *layout) measure(t *record.Trial) *measured {
	m := &measured{trial: t, samples: map[string][]float64{}, histograms: map[string]*hdrhistogram.Histogram{}}
	for _, s := range t.Samples {
		m.samples[s.Metric] = append(m.samples[s.Metric], s.Value)
	}
	for name, encoded := range t.Histograms {
		h, err := encoded.Decode()
		if err != nil {
			l.warnings = append(l.warnings, fmt.Sprintf("histogram %s of trial %d (%s, block %d) is left out: %v", name, t.ID, t.Condition, t.Block, err))
			continue
		}
		m.histograms[name] = h
	}
	return m
}

// value is the trial's own value of a metric: the mean of its samples
// (geometric where all are positive; counts are averaged as they are), or the
// quantile of its histogram.
func (m *measured) value(metric workload.Metric) (float64, bool) {
	if m == nil {
		return 0, false
	}
	if metric.Quantile != 0 {
		h := m.histograms[metric.Histogram]
		if h == nil || h.TotalCount() == 0 {
			return 0, false
		}
		return float64(h.ValueAtQuantile(100 * metric.Quantile)), true
	}
	samples := m.samples[metric.Name]
	if len(samples) == 0 {
		return 0, false
	}
	if metric.Count {
		return mean(samples), true
	}
	return centre(samples), true
}

// centre is the geometric mean of positive values, and the arithmetic mean
// where some are not.
func centre(values []float64) float64 {
	var logs float64
	for _, v := range values {
		if v <= 0 {
			return mean(values)
		}
		logs += math.Log(v)
	}
	if len(values) == 1 {
		return values[0] // exactly
	}
	return math.Exp(logs / float64(len(values)))
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// figure is what one block says of one condition for one metric.
type figure struct {
	value     float64                 // see block.figure
	histogram *hdrhistogram.Histogram // merged, for quantile metrics
}

// figure gives a condition's figure in a block; ok is false where it was not
// measured.
//
// The baseline's is that of its two executions together: the mean of both
// (geometric; counts arithmetic), or the quantile of their merged histograms.
// Both are executions under the same condition in the same block, so using
// both halves the variance that the baseline brings into every ratio of the
// block. Where one of the two failed the other stands alone.
func (b *block) figure(condition string, metric workload.Metric) (f figure, ok bool) {
	if b.instances != nil {
		return b.roundFigure(condition, metric, []int{0, 1}, b.disturbed)
	}
	var values []float64
	var merged []*hdrhistogram.Histogram
	for replicate := range 2 {
		m := b.cells[place{condition, replicate}]
		v, measured := m.value(metric)
		if !measured {
			continue
		}
		values = append(values, v)
		if metric.Quantile == 0 {
			continue
		}
		merged = append(merged, m.histograms[metric.Histogram])
	}
	switch {
	case len(values) == 0:
		return figure{}, false
	case metric.Quantile != 0:
		f.histogram = b.merge(mergedKey{condition, metric.Histogram, true}, merged)
		f.value = float64(f.histogram.ValueAtQuantile(100 * metric.Quantile))
	case metric.Count:
		f.value = mean(values)
	default:
		f.value = centre(values)
	}
	return f, true
}

// merge gives the sum of a condition's histograms of one name in the block.
// Several metrics are quantiles of the same one, so it is kept.
func (b *block) merge(key mergedKey, parts []*hdrhistogram.Histogram) *hdrhistogram.Histogram {
	if len(parts) == 1 {
		return parts[0]
	}
	if h := b.merged[key]; h != nil {
		return h
	}
	sum := together(parts)
	if b.merged == nil {
		b.merged = map[mergedKey]*hdrhistogram.Histogram{}
	}
	b.merged[key] = sum
	return sum
}

type mergedKey struct {
	condition, histogram string
	all                  bool // tainted ones, too
}

// together is the sum of histograms, at least one. All have one shape, unless their workload
// changed between two versions: then the one with the widest range holds the others' values.
func together(parts []*hdrhistogram.Histogram) *hdrhistogram.Histogram {
	widest := parts[0]
	for _, h := range parts {
		if h.HighestTrackableValue() > widest.HighestTrackableValue() {
			widest = h
		}
	}
	sum := widest.Clone()
	for _, h := range parts {
		if h != widest {
			sum.Merge(h)
		}
	}
	return sum
}

// execution is one of the baseline's two, for A/A.
func (b *block) execution(condition string, replicate int, metric workload.Metric) (f figure, ok bool) {
	m := b.cells[place{condition, replicate}]
	if f.value, ok = m.value(metric); ok && metric.Quantile != 0 {
		f.histogram = m.histograms[metric.Histogram]
	}
	return f, ok
}
