package overhead

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// instance is what one place of a round measured, strip by strip: one launch of a
// program, or all executions of one that runs to its end.
type instance struct {
	slices   map[string]map[int]*record.Slice // by part and strip
	samples  map[string]map[int]float64       // of executions, by metric and strip
	controls []*record.Slice
	// merged are the latencies of a part, or an execution's histograms of one name, of
	// untainted slices and of all.
	merged map[mergedSlices]*hdrhistogram.Histogram
}

type mergedSlices struct {
	name string
	all  bool
}

// merge adds a histogram to those of its name.
func (i *instance) merge(name string, tainted bool, h *hdrhistogram.Histogram) {
	for _, all := range []bool{true, false} {
		key := mergedSlices{name, all}
		switch known := i.merged[key]; {
		case tainted && !all:
		case known != nil:
			known.Merge(h)
		default:
			i.merged[key] = h.Clone()
		}
	}
}

// histogram names that which a quantile is of.
func histogram(m workload.Metric) string {
	if m.Figure == "" {
		return m.Histogram
	}
	return m.Part
}

// placeRounds fills the blocks of a workload that is measured by rounds. The pilot's take
// part where it is asked for and there are no others.
func (l *layout) placeRounds(trials []*record.Trial, pilot bool) {
	if !l.rounds {
		return
	}
	rounds := map[int]*block{}
	for _, t := range trials {
		b := rounds[t.Block]
		if b == nil {
			b = &block{number: t.Block, attempt: 1, least: l.least, instances: map[place]*instance{}}
			rounds[t.Block] = b
		}
		if t.Error != "" && t.Error != record.NotEnded {
			continue
		}
		at := place{t.Condition, t.Replicate}
		i := b.instances[at]
		if i == nil {
			i = &instance{
				slices:  map[string]map[int]*record.Slice{},
				samples: map[string]map[int]float64{},
				merged:  map[mergedSlices]*hdrhistogram.Histogram{},
			}
			b.instances[at] = i
		}
		l.addSlices(i, t)
	}
	_, l.pilot = rounds[0]
	l.pilot = l.pilot && pilot && len(rounds) == 1
	for _, number := range slices.Sorted(maps.Keys(rounds)) {
		b := rounds[number]
		if number > 0 || l.pilot {
			b.complete = len(b.instances) > 1
			l.blocks = append(l.blocks, *b)
		}
	}
	disturbed := l.allTainted()
	for i := range l.blocks {
		l.blocks[i].disturbed = disturbed
	}
}

func (l *layout) addSlices(i *instance, t *record.Trial) {
	for n := range t.Slices {
		s := &t.Slices[n]
		if s.Control != "" {
			i.controls = append(i.controls, s)
			continue
		}
		if i.slices[s.Part] == nil {
			i.slices[s.Part] = map[int]*record.Slice{}
		}
		i.slices[s.Part][s.Strip] = s
		if s.Histogram == "" {
			continue
		}
		h, err := s.Histogram.Decode()
		if err != nil {
			l.warnings = append(l.warnings, fmt.Sprintf("latencies of strip %d of trial %d (%s, round %d) are left out: %v", s.Strip, t.ID, t.Condition, t.Block, err))
			continue
		}
		i.merge(s.Part, len(s.Taint) > 0, h)
	}
	if len(t.Slices) != 1 {
		return
	}
	execution := l.measure(t)
	for name, h := range execution.histograms {
		i.merge(name, len(t.Slices[0].Taint) > 0, h)
	}
	for name, values := range execution.samples {
		if i.samples[name] == nil {
			i.samples[name] = map[int]float64{}
		}
		i.samples[name][t.Slices[0].Strip] = centre(values)
	}
}

// sums are what a figure of slices is a quotient of.
type sums struct{ over, under float64 }

func (s sums) ratio() float64 { return s.over / s.under }

// strip gives a metric of one strip. ok is false where it was not measured, is tainted and
// all is not set, or has no logarithm and is no count.
func (i *instance) strip(m workload.Metric, number int, all bool) (s sums, ok bool) {
	if i == nil {
		return s, false
	}
	if m.Figure == "" {
		v, measured := i.samples[m.Name][number]
		slice := i.slices[""][number]
		return sums{v, 1}, measured && (v > 0 || m.Count) && slice != nil && (all || len(slice.Taint) == 0)
	}
	slice := i.slices[m.Part][number]
	if slice == nil || !all && len(slice.Taint) > 0 {
		return s, false
	}
	return sumsOf(slice, m)
}

// sumsOf gives a figure of a slice.
func sumsOf(slice *record.Slice, m workload.Metric) (s sums, ok bool) {
	switch m.Figure {
	case workload.FigureRate:
		s = sums{slice.Amount, slice.Window.Seconds()}
	case workload.FigureTime:
		s = sums{slice.Window.Seconds(), slice.Amount}
	case workload.FigureCPU:
		if slice.CPU < 0 {
			return s, false
		}
		s = sums{slice.CPU.Seconds(), slice.Worked}
		if m.Unit == "us" {
			s.over *= 1e6
		}
	case figureLoad:
		if slice.Load < 0 {
			return s, false
		}
		s = sums{1e6 * slice.Load.Seconds(), slice.Worked}
	}
	return s, s.over > 0 && s.under > 0
}

// figureOf is a metric's value of one slice; a quantile's is that of the slice's own histogram.
func figureOf(slice *record.Slice, m workload.Metric) (float64, bool) {
	if m.Figure == "" || slice.Part != m.Part {
		return 0, false
	}
	if m.Quantile == 0 {
		s, ok := sumsOf(slice, m)
		return s.ratio(), ok
	}
	if slice.Histogram == "" {
		return 0, false
	}
	h, err := slice.Histogram.Decode()
	if err != nil || h.TotalCount() == 0 {
		return 0, false
	}
	return float64(h.ValueAtQuantile(100 * m.Quantile)), true
}

// numbers are the strips of a metric, in order.
func (i *instance) numbers(m workload.Metric) []int {
	if i == nil {
		return nil
	}
	if m.Figure == "" {
		return slices.Sorted(maps.Keys(i.samples[m.Name]))
	}
	return slices.Sorted(maps.Keys(i.slices[m.Part]))
}

// byTotals tells whether a metric's effect is headlined by totals: operators pay for CPU
// time in total, while stalls of the host hide what is typical of a rate.
func byTotals(m workload.Metric) bool {
	return m.Figure == workload.FigureCPU || m.Figure == figureLoad
}

// ByTotals tells whether the effects of a metric of rounds are those of totals, and not the
// typical ones.
func (m MetricReport) ByTotals() bool { return byTotals(workload.Metric{Figure: m.Figure}) }

// figureLoad is the load generator's CPU time for an operation: no metric of a workload.
const figureLoad workload.Figure = "load"

// describeLoad fills in what a metric of CPU time tells of the load generator.
func (l *layout) describeLoad(row *Row, m workload.Metric, opt Options) {
	if !l.rounds || m.Figure != workload.FigureCPU {
		return
	}
	load := workload.Metric{Name: "load", Unit: "us", Better: workload.Lower, Part: m.Part, Figure: figureLoad}
	var own []figure
	for i := range l.blocks {
		if f, ok := l.blocks[i].figure(row.Condition, load); ok {
			own = append(own, f)
		}
	}
	if len(own) == 0 {
		return
	}
	row.LoadLevel = level(load, own, opt)
	if l.baseline >= 0 && !l.isBaseline(row.Condition) {
		row.Load = l.pair(load, row.Condition, l.allTainted()).ratio(opt)
	}
}

// summary is what a round says of one place, or of several together, for a metric.
type summary struct {
	typical, total float64
	error          float64 // of typical, where it is a ratio
}

// roundValue gives the level of a metric in a round, over all replicates.
func (b *block) roundValue(condition string, m workload.Metric, all bool) (s summary, ok bool) {
	var level, over, under float64
	places := 0.0
	for replicate := range 2 {
		i := b.instances[place{condition, replicate}]
		var logs []float64
		for _, n := range i.numbers(m) {
			if v, ok := i.strip(m, n, all); ok {
				logs = append(logs, math.Log(v.ratio()))
				over += v.over
				under += v.under
			}
		}
		if len(logs) > 0 { // of each instance by itself: the slower of two is no disturbance
			level += stats.TrimmedMean(logs, stats.Trim)
			places++
		}
	}
	if places == 0 {
		return s, false
	}
	return summary{typical: math.Exp(level / places), total: over / under}, true
}

// roundFigure is [block.figure] of a round.
func (b *block) roundFigure(condition string, m workload.Metric, replicates []int, all bool) (f figure, ok bool) {
	if m.Quantile != 0 {
		var merged []*hdrhistogram.Histogram
		for _, replicate := range replicates {
			if i := b.instances[place{condition, replicate}]; i != nil &&
				i.merged[mergedSlices{histogram(m), all}] != nil {
				merged = append(merged, i.merged[mergedSlices{histogram(m), all}])
			}
		}
		if len(merged) == 0 {
			return f, false
		}
		f.histogram = b.merge(mergedKey{condition, histogram(m), all}, merged)
		f.value = float64(f.histogram.ValueAtQuantile(100 * m.Quantile))
		return f, f.histogram.TotalCount() > 0
	}
	s, ok := b.roundValue(condition, m, all)
	if f.value = s.typical; byTotals(m) || m.Count { // the mean of a count, which may be zero
		f.value = s.total
	}
	return f, ok
}

// fewestStrips are those of which a trim leaves the extremes out, and keeps some.
const fewestStrips = 5

// against gives the log ratios of a round: the trimmed mean of its slices' ratios to the
// slices of the base in the same strip, each to each, and that of totals. A ratio to the mean
// of two slices would be biased: one of two is disturbed more often than one, and makes
// their mean so.
func (b *block) against(m workload.Metric, base []place, other place, all bool) (s summary, ok bool) {
	o := b.instances[other]
	if o == nil || len(o.controls) > 0 {
		return s, false
	}
	var ratios []float64
	places := 0.0
	for _, at := range base {
		i := b.instances[at]
		if i == nil || len(i.controls) > 0 {
			continue // it had a load that no other had, and stands for nothing but the controls
		}
		var own []float64
		var treatment, baseline sums
		for _, n := range o.numbers(m) {
			v, measured := o.strip(m, n, all)
			w, also := i.strip(m, n, all)
			if !measured || !also {
				continue
			}
			own = append(own, math.Log(v.ratio()/w.ratio()))
			treatment.over, treatment.under = treatment.over+v.over, treatment.under+v.under
			baseline.over, baseline.under = baseline.over+w.over, baseline.under+w.under
		}
		if len(own) < max(1, b.least) {
			continue
		}
		ratios = append(ratios, own...)
		s.total += math.Log(treatment.ratio() / baseline.ratio())
		s.error += stats.RoundError(own) // to each by itself: how two of the baseline differ is no noise of strips
		places++
	}
	if places == 0 {
		return s, false
	}
	return summary{stats.TrimmedMean(ratios, stats.Trim), s.total / places, s.error / places}, true
}

// pairRounds gathers a condition's log ratios to the baseline, round by round.
func (l *layout) pairRounds(m workload.Metric, base []place, other place, all bool) pairs {
	p := pairs{metric: m, rounds: true, single: l.least == 1}
	var errors []float64 // of the typical ratios
	replicates := func(condition string) []int {
		if condition != base[0].condition || other.condition != condition {
			return []int{0, 1}
		}
		return nil
	}
	for i := range l.blocks {
		b := &l.blocks[i]
		of, to := replicates(base[0].condition), replicates(other.condition)
		if of == nil { // the baseline against itself
			of, to = []int{base[0].replicate}, []int{other.replicate}
		}
		x, ok := b.roundFigure(base[0].condition, m, of, all)
		y, also := b.roundFigure(other.condition, m, to, all)
		if !ok || !also {
			continue // not every round has every condition, and what failed is counted elsewhere
		}
		if !m.Count && m.Quantile == 0 {
			s, ok := b.against(m, base, other, all)
			if !ok {
				continue
			}
			p.typical, p.total, errors = append(p.typical, s.typical), append(p.total, s.total), append(errors, s.error)
		}
		p.add(b.number, x, y)
	}
	// By how quiet each round was. Totals have none: stalls come with busy rounds.
	p.weights = stats.RoundWeights(p.typical, errors)
	return p
}

// byStrips tells whether a metric's ratio is found strip by strip: not where it is a count,
// or a quantile of what all strips of a round have; nor where a round is one strip, as of
// programs that run to their end, whose rounds are estimated as blocks are.
func (p pairs) byStrips() bool {
	return p.rounds && !p.single && !p.metric.Count && p.metric.Quantile == 0
}

// headline are the log ratios that a metric's verdict rests on, with their weights.
func (p pairs) headline() (logRatios, weights []float64) {
	if byTotals(p.metric) {
		return p.total, nil
	}
	return p.typical, p.weights
}

// describe fills in what rounds tell of a row besides its ratio.
func (p pairs) describe(row *Row, opt Options) {
	if !p.byStrips() {
		return
	}
	row.Typical, row.Total = stats.RoundMean(p.typical, p.weights, opt.Level), stats.RoundMean(p.total, nil, opt.Level)
	row.Stalls, row.StallsNotExcluded = stats.Stalls(p.total, p.typical, opt.Level)
}

// Effect is something within rounds that moves a metric though no condition does: where a
// slice stands in its strip, what was measured before it, which half of a round it is in;
// or what the controls found.
type Effect struct {
	Name   EffectName
	Metric string
	Ratio  stats.Estimate // over rounds; 1 is none
	Counts bool           // its interval, adjusted for all of the workload's, excludes 1
}

// EffectName says what moves a metric within rounds.
type EffectName string

// The effects.
const (
	ByPosition    EffectName = "position in the strip"
	ByPredecessor EffectName = "predecessor"
	ByHalf        EffectName = "half of the round"
	ByCompany     EffectName = "company"
	ByLength      EffectName = "length of slices"
)

// Meaning says what the ratio of an effect compares.
func (n EffectName) Meaning() string {
	switch n {
	case ByPosition:
		return "second half of a strip against its first half"
	case ByPredecessor:
		return "slices that follow one of the baseline against all others"
	case ByHalf:
		return "second half of a round against its first half, the baseline's second instance against its first"
	case ByCompany:
		return "the baseline among the other instances against the baseline alone"
	case ByLength:
		return "the baseline's short slices against its long ones"
	}
	return ""
}

// effects finds them for a workload's primary metrics.
func (l *layout) effects(opt Options) []Effect {
	var all []Effect
	var found [][]float64
	for _, m := range l.metrics {
		if !l.carries(m.Name) || m.Quantile != 0 || m.Count || l.baseline < 0 {
			continue
		}
		for _, e := range []struct {
			name EffectName
			of   func(*block) (float64, bool)
		}{
			{ByPosition, func(b *block) (float64, bool) { return l.positionEffect(b, m) }},
			{ByPredecessor, func(b *block) (float64, bool) { return l.predecessorEffect(b, m) }},
			{ByHalf, func(b *block) (float64, bool) { return l.halfEffect(b, m) }},
			{ByCompany, func(b *block) (float64, bool) { return l.controlEffect(b, m, record.ControlAlone) }},
			{ByLength, func(b *block) (float64, bool) { return l.controlEffect(b, m, record.ControlLong) }},
		} {
			var rounds []float64
			for i := range l.blocks {
				if v, ok := e.of(&l.blocks[i]); ok {
					rounds = append(rounds, v)
				}
			}
			if len(rounds) > 0 {
				all = append(all, Effect{Name: e.name, Metric: m.Name, Ratio: stats.RoundMean(rounds, nil, opt.Level)})
				found = append(found, rounds)
			}
		}
	}
	for i := range all {
		adjusted := stats.RoundMean(found[i], nil, 1-(1-opt.Level)/float64(len(all))) // Bonferroni
		all[i].Counts = adjusted.N >= fewestBlocks && (adjusted.Interval.Low > 1 || adjusted.Interval.High < 1)
	}
	return all
}

// residuals are the log values of a round's slices, each less the mean of its strip and
// the mean of its place over all strips: what neither the moment nor the condition explains.
func (l *layout) residuals(b *block, m workload.Metric) map[*record.Slice]float64 {
	values, strips := map[*record.Slice]float64{}, map[int][]*record.Slice{}
	var places [][]*record.Slice
	for _, i := range b.instances {
		var mine []*record.Slice
		for _, n := range i.numbers(m) {
			v, ok := i.strip(m, n, false)
			slice := i.slices[m.Part][n]
			if !ok || slice == nil {
				continue
			}
			values[slice] = math.Log(v.ratio())
			strips[n] = append(strips[n], slice)
			mine = append(mine, slice)
		}
		places = append(places, mine)
	}
	centred := func(group []*record.Slice) {
		var level float64
		for _, s := range group {
			level += values[s] / float64(len(group))
		}
		for _, s := range group {
			values[s] -= level
		}
	}
	for _, group := range strips {
		if len(group) == len(b.instances) {
			centred(group)
			continue
		}
		for _, s := range group {
			delete(values, s) // of a strip in which somebody is missing
		}
	}
	for _, group := range places {
		var kept []*record.Slice
		for _, s := range group {
			if _, ok := values[s]; ok {
				kept = append(kept, s)
			}
		}
		if len(kept) > 0 {
			centred(kept)
		}
	}
	return values
}

// contrast is by how much the residuals of some slices exceed those of the others.
func (l *layout) contrast(b *block, m workload.Metric, in func(*record.Slice) bool) (float64, bool) {
	var with, without []float64
	for s, v := range l.residuals(b, m) {
		if in(s) {
			with = append(with, v)
		} else {
			without = append(without, v)
		}
	}
	if len(with) < 2 || len(without) < 2 {
		return 0, false
	}
	return stats.TrimmedMean(with, stats.Trim) - stats.TrimmedMean(without, stats.Trim), true
}

func (l *layout) positionEffect(b *block, m workload.Metric) (float64, bool) {
	return l.contrast(b, m, func(s *record.Slice) bool { return 2*s.Position >= len(b.instances) })
}

func (l *layout) predecessorEffect(b *block, m workload.Metric) (float64, bool) {
	baseline := l.baselineID()
	return l.contrast(b, m, func(s *record.Slice) bool { return s.Previous == baseline })
}

// halfEffect is by how much the baseline's second instance is off its first in the second
// half of a round, and was not in the first.
func (l *layout) halfEffect(b *block, m workload.Metric) (float64, bool) {
	last := 0
	for _, i := range b.instances {
		for _, n := range i.numbers(m) {
			last = max(last, n)
		}
	}
	first, second := b.instances[place{l.baselineID(), 0}], b.instances[place{l.baselineID(), 1}]
	var early, late []float64
	for _, n := range first.numbers(m) {
		v, ok := first.strip(m, n, false)
		w, also := second.strip(m, n, false)
		if !ok || !also {
			continue
		}
		if d := math.Log(w.ratio() / v.ratio()); 2*n > last {
			late = append(late, d)
		} else {
			early = append(early, d)
		}
	}
	if len(early) < 2 || len(late) < 2 {
		return 0, false
	}
	return stats.TrimmedMean(late, stats.Trim) - stats.TrimmedMean(early, stats.Trim), true
}

// controlEffect is what the baseline's slices among the others are off those of a control.
func (l *layout) controlEffect(b *block, m workload.Metric, control string) (float64, bool) {
	i := b.instances[place{l.baselineID(), 0}]
	if i == nil {
		return 0, false
	}
	var apart, among []float64
	for _, s := range i.controls {
		if s.Control != control || s.Part != m.Part {
			continue
		}
		if v, ok := sumsOf(s, m); ok && len(s.Taint) == 0 {
			apart = append(apart, math.Log(v.ratio()))
		}
	}
	for _, n := range i.numbers(m) {
		if v, ok := i.strip(m, n, false); ok {
			among = append(among, math.Log(v.ratio()))
		}
	}
	if len(apart) == 0 || len(among) == 0 {
		return 0, false
	}
	return stats.TrimmedMean(among, stats.Trim) - stats.TrimmedMean(apart, stats.Trim), true
}

// strips counts the strips of a workload, and those that are tainted.
func (l *layout) strips() (all, tainted int) {
	for i := range l.blocks {
		disturbed := map[int]bool{}
		for _, at := range l.blocks[i].instances {
			for _, of := range at.slices {
				for n, s := range of {
					disturbed[n] = disturbed[n] || len(s.Taint) > 0
				}
			}
		}
		all += len(disturbed)
		for _, is := range disturbed {
			if is {
				tainted++
			}
		}
	}
	return all, tainted
}

// roundCautions are what a reader should know of the rounds themselves: what moves figures
// within them though no condition does, and where the load is not the same.
func (l *layout) roundCautions(group Group, opt Options) []string {
	var all []string
	for _, e := range group.Effects {
		if e.Counts {
			all = append(all, fmt.Sprintf("%s changes %s by %s: %s", e.Name, e.Metric, percentOf(e.Ratio), e.Name.Meaning()))
		}
	}
	for _, m := range group.Metrics {
		for _, r := range m.Rows {
			if in := r.Load.Interval; r.Load.N > 0 && differs(in, in) && math.Abs(r.Load.Value-1) > opt.SmallestEffect {
				all = append(all, fmt.Sprintf("%s, %s: the load generator's own CPU time for an operation changes by %s: the load itself is another", r.Label, m.Name, percentOf(r.Load)))
			}
		}
	}
	return all
}

// percentOf writes a ratio as a change: "0.4 % (0.1 to 0.7)".
func percentOf(e stats.Estimate) string {
	return fmt.Sprintf("%+.2g %% (%+.2g to %+.2g)", 100*(e.Value-1), 100*(e.Interval.Low-1), 100*(e.Interval.High-1))
}
