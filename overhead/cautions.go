package overhead

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/stats"
	"tare/workload"
)

// cautions are what a reader should know of a workload's blocks before
// believing its figures.
func (l *layout) cautions(group Group, opt Options) []string {
	var all []string
	switch {
	case l.rounds:
		all = append(all, l.roundCautions(group, opt)...)
	case group.Blocks == 0 && len(l.blocks) > 0:
		all = append(all, "no block is both complete and untainted")
	}
	all = append(all, l.failures()...)
	if !l.rounds { // of a strip all conditions are tainted, or none
		all = append(all, l.taintThatFollows()...)
	}
	primaries := 0
	for _, m := range l.metrics {
		if l.carries(m.Name) {
			primaries++
		}
	}
	for i, m := range l.metrics {
		if !l.carries(m.Name) {
			continue
		}
		all = append(all, l.taintThatMatters(group.Metrics[i])...)
		if l.baseline >= 0 {
			all = append(all, l.drift(m, opt, primaries)...)
		}
		all = append(all, l.warmUpEffect(m, opt)...)
	}
	return all
}

// failures names the conditions of which trials yielded nothing, with the reasons: how
// often each of a few, the most frequent first.
func (l *layout) failures() []string {
	var all []string
	for _, c := range l.conditions {
		var trials, failed int
		times := map[string]int{}
		for _, t := range l.trials {
			if t.Condition != c.ID {
				continue
			}
			trials++
			if t.Error != "" {
				failed++
				times[t.Error]++
			}
		}
		if failed > 0 {
			all = append(all, fmt.Sprintf(
				"%s: %d of %d trials yielded nothing: %s", label(c), failed, trials, often(times)))
		}
	}
	return all
}

// often names reasons, the most frequent first, and how often each was given where there
// are several.
func often(times map[string]int) string {
	const named = 3
	reasons := slices.SortedFunc(maps.Keys(times), func(a, b string) int {
		return cmp.Or(times[b]-times[a], strings.Compare(a, b))
	})
	if len(reasons) == 1 {
		return reasons[0]
	}
	var parts []string
	for _, reason := range reasons[:min(len(reasons), named)] {
		parts = append(parts, fmt.Sprintf("%d × %s", times[reason], reason))
	}
	if rest := len(reasons) - named; rest > 0 {
		parts = append(parts, fmt.Sprintf("%d other reasons", rest))
	}
	return strings.Join(parts, ", ")
}

// significance is the chance of a false alarm that the checks below accept,
// each for a whole workload.
const significance = 0.05

// once is a place in a block, however often a trial was made there.
type once struct {
	condition        string
	block, replicate int
}

// disturbed tells of each place whether any trial made there was tainted. A trial that
// was made again follows upon itself, into what disturbed it: the tries of one are one.
func (l *layout) disturbed() map[once]bool {
	disturbed := map[once]bool{}
	for _, t := range l.trials {
		one := once{t.Condition, t.Block, t.Replicate}
		disturbed[one] = disturbed[one] || len(t.Taint) > 0
	}
	return disturbed
}

// taintThatFollows compares each condition's share of tainted trials with that
// of all others (Fisher's exact test, adjusted by Holm): a cause that follows
// a condition is an effect of it and no accident.
func (l *layout) taintThatFollows() []string {
	tainted, trials := map[string]int{}, map[string]int{}
	var allTainted, allTrials int
	for one, is := range l.disturbed() {
		trials[one.condition]++
		allTrials++
		if is {
			tainted[one.condition]++
			allTainted++
		}
	}
	p := make([]float64, len(l.conditions))
	for i, c := range l.conditions {
		mine, of := tainted[c.ID], trials[c.ID]
		p[i] = stats.FisherExact(mine, of-mine, allTainted-mine, allTrials-of-(allTainted-mine))
	}
	p = stats.Holm(p)
	var all []string
	for i, c := range l.conditions {
		mine, of := tainted[c.ID], trials[c.ID]
		others, ofOthers := allTainted-mine, allTrials-of
		if p[i] < significance && mine*ofOthers > others*of {
			all = append(all, fmt.Sprintf("taint follows %s: %d of its %d trials against %d of %d elsewhere (p = %.2g): what taints them may be its own effect, and leaving them out hides it",
				label(c), mine, of, others, ofOthers, p[i]))
		}
	}
	return all
}

// judgeWithTainted gives rows the verdict that they would have with all that is tainted left
// in, at the level at which they were judged without.
func (l *layout) judgeWithTainted(m workload.Metric, report *MetricReport, opt Options) {
	if l.rounds && !l.anyTainted() {
		return
	}
	for i := range report.Rows {
		row := &report.Rows[i]
		if row.Baseline || row.RatioAll.N == row.Ratio.N && !l.rounds || math.IsNaN(row.Ratio.Value) {
			continue
		}
		at := opt
		at.Level = row.Adjusted.Level
		with := l.pair(m, row.Condition, true)
		row.WithTainted = Inconclusive
		if !l.rounds || len(with.blocks) >= fewestBlocks {
			row.WithTainted = judge(with.ratio(at), absent(at), m.Better, opt.SmallestEffect)
		}
	}
}

// taintThatMatters names the conditions that would be judged otherwise with the tainted
// blocks or strips left in.
func (l *layout) taintThatMatters(report MetricReport) []string {
	unit := "blocks"
	if l.rounds {
		unit = "strips"
	}
	var all []string
	for _, row := range report.Rows {
		if row.WithTainted != "" && row.WithTainted != row.Verdict {
			all = append(all, fmt.Sprintf("%s, %s: %s without the tainted %s, %s with them", row.Label, report.Name, row.Verdict, unit, row.WithTainted))
		}
	}
	return all
}

// drift tells of a trend in the baseline's figures from block to block, where
// it amounts to more than the smallest effect. Pairing within blocks takes it
// out of the overheads; the levels themselves carry it. The metric is one of
// several that are tested so, and each has its share of the significance (Bonferroni).
func (l *layout) drift(m workload.Metric, opt Options, metrics int) []string {
	var at, figures []float64
	for i := range l.blocks {
		b := &l.blocks[i]
		if f, ok := b.figure(l.conditions[l.baseline].ID, m); ok && !b.tainted && f.value > 0 {
			at = append(at, float64(b.number))
			figures = append(figures, math.Log(f.value))
		}
	}
	if len(at) < fewestBlocks || trendPValue(figures) >= significance/float64(metrics) {
		return nil
	}
	change := math.Expm1(slope(at, figures) * (at[len(at)-1] - at[0]))
	if math.Abs(change) < opt.SmallestEffect {
		return nil
	}
	carried := "ratios within blocks do not carry it"
	if l.unpaired {
		carried = "what is compared with it carries that, for nothing pairs the blocks"
	}
	unit := "block"
	if l.rounds {
		unit = "round"
		carried = "ratios within rounds do not carry it"
	}
	return []string{fmt.Sprintf("drift: %s of the baseline %s by %.1f %% from %s %.0f to %s %.0f; %s",
		m.Name, rose(change), 100*math.Abs(change), unit, at[0], unit, at[len(at)-1], carried)}
}

// warmUpEffect tells by how much block 0, which is not used, differed from
// those that are: the median over conditions, where it is more than the
// smallest effect.
func (l *layout) warmUpEffect(m workload.Metric, opt Options) []string {
	var effects []float64
	for _, c := range l.conditions {
		cold, ok := l.warmUp[place{c.ID, 0}].value(m)
		if !ok || cold <= 0 {
			continue
		}
		var warm []float64
		for i := range l.blocks {
			if v, ok := l.blocks[i].cells[place{c.ID, 0}].value(m); ok && v > 0 && !l.blocks[i].tainted {
				warm = append(warm, math.Log(v))
			}
		}
		if len(warm) > 0 {
			effects = append(effects, math.Log(cold)-mean(warm))
		}
	}
	if len(effects) == 0 {
		return nil
	}
	slices.Sort(effects)
	change := math.Expm1((effects[(len(effects)-1)/2] + effects[len(effects)/2]) / 2)
	if math.Abs(change) < opt.SmallestEffect {
		return nil
	}
	where := "lower"
	if change > 0 {
		where = "higher"
	}
	return []string{fmt.Sprintf("warm-up: %s was %.1f %% %s in the first executions, which are left out, than later (median of %d conditions)",
		m.Name, 100*math.Abs(change), where, len(effects))}
}

func rose(change float64) string {
	if change > 0 {
		return "rose"
	}
	return "fell"
}

// slope is the median of the slopes between all pairs of points (Theil 1950,
// Sen 1968), which single wild blocks do not move.
func slope(at, y []float64) float64 {
	var slopes []float64
	for i := range y {
		for j := i + 1; j < len(y); j++ {
			slopes = append(slopes, (y[j]-y[i])/(at[j]-at[i]))
		}
	}
	slices.Sort(slopes)
	n := len(slopes)
	return (slopes[(n-1)/2] + slopes[n/2]) / 2
}
