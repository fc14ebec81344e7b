package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tare/record"
	"tare/stats"
)

// significance is the chance that independent repetitions of an import are taken for
// dependent ones.
const significance = 0.01

// unjudged says why no verdict can rest on figures that vary, with what to do, and of which
// conditions that is so; empty where verdicts can. What was said to be pairs is taken to be so.
func (a *arrangement) unjudged() (text string, of map[string]string) {
	if a.Paired || a.alone() {
		return "", nil
	}
	of = map[string]string{}
	var texts []string
	for _, reason := range []struct {
		why  string
		find func() (of []*arranged, text string)
	}{{record.NotInterleaved, a.notInterleaved}, {record.DependentRepetitions, a.dependent}} {
		those, text := reason.find()
		n := 0
		for _, c := range those {
			if of[c.ID] == "" {
				of[c.ID] = reason.why
				n++
			}
		}
		if n == 0 {
			continue
		}
		if all := a.comparisons(); n < all {
			reason.why += fmt.Sprintf(" (%d of %d comparisons)", n, all)
		}
		texts = append(texts, reason.why+": "+text)
	}
	if len(texts) == 0 {
		return "", nil
	}
	return strings.Join(texts, ". And "), of
}

// comparisons counts the conditions that have a baseline beside them.
func (a *arrangement) comparisons() (n int) {
	for _, cell := range a.byCell() {
		if cell[0].Baseline {
			n += len(cell) - 1
		}
	}
	return n
}

// fewProcesses are the conditions whose values are not known to come from enough processes
// to show that a count is exact.
func (a *arrangement) fewProcesses() (ids []string) {
	const enough = 5 // as many as equal values of which one is exact
	for _, c := range a.conditions {
		if len(c.processes) < enough {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// byCell are the conditions of each cell, in the order of the run: the baseline first.
func (a *arrangement) byCell() [][]*arranged {
	var cells [][]*arranged
	place := map[string]int{}
	for _, c := range a.conditions {
		i, known := place[c.Workload]
		if !known {
			i = len(cells)
			place[c.Workload] = i
			cells = append(cells, nil)
		}
		cells[i] = append(cells[i], c)
	}
	return cells
}

// notInterleaved are the conditions that are in other files than the baseline beside them,
// where either is in one file alone: what changed on the host from file to file is in
// their difference, and in no spread. Of several files each, it is in the spread.
func (a *arrangement) notInterleaved() (apart []*arranged, text string) {
	var from *arranged // the baseline of the first
	for _, cell := range a.byCell() {
		base := cell[0]
		if !base.Baseline {
			continue
		}
		for _, c := range cell[1:] {
			together := slices.ContainsFunc(
				slices.Collect(maps.Keys(c.files)),
				func(f string) bool { return base.files[f] },
			)
			if together || len(base.files) > 1 && len(c.files) > 1 {
				continue
			}
			if apart = append(apart, c); len(apart) == 1 {
				from = base
			}
		}
	}
	if len(apart) == 0 {
		return nil, ""
	}
	to := apart[0]
	return apart, fmt.Sprintf(
		"%s is in %s, and %s in %s. What changed on the host between the two is in the difference. %s"+
			"Measure both in turn, several times, into files such as 1-%s and 1-%s, and import them by %s --paired",
		from.Label, in(from.files), to.Label, in(to.files), a.alike(apart), of(from.files), of(to.files), a.byFile())
}

// of is the name of the first of some files.
func of(files map[string]bool) string {
	return filepath.Base(slices.Min(slices.Collect(maps.Keys(files))))
}

// byFile are the options by which repetitions have files of their own, and what is read from
// files' names already still is.
func (a *arrangement) byFile() string {
	if a.name == nil {
		return "--name '{block}-*' --block block"
	}
	if slices.Contains(a.name.factors, a.Block) {
		return fmt.Sprintf("--name '%s' --block %s", a.Name, a.Block)
	}
	dir, name := path.Split(a.Name)
	return fmt.Sprintf("--name '%s{block}-%s' --block block", dir, name)
}

// in names files.
func in(files map[string]bool) string { return listed(slices.Sorted(maps.Keys(files))) }

// alike says that conditions changed by about the same, as a change of the host makes them.
func (a *arrangement) alike(conditions []*arranged) string {
	const fewest = 3
	var percents []float64
	for _, cell := range a.byCell() {
		for _, c := range cell[1:] {
			for _, m := range c.Metrics {
				if m.Counted() || !slices.Contains(conditions, c) {
					continue
				}
				e := stats.UnpairedRatio(cell[0].values(m.Name), c.values(m.Name), defaultLevel)
				if !e.DiffersFrom(1) {
					return ""
				}
				percents = append(percents, e.PercentMore().Value)
			}
		}
	}
	if len(percents) < fewest {
		return ""
	}
	least, most := slices.Min(percents), slices.Max(percents)
	if math.Signbit(least) != math.Signbit(most) || most-least > math.Abs(least+most)/4 {
		return ""
	}
	return fmt.Sprintf(
		"All %d comparisons changed alike, by %+.1f to %+.1f %%, as a change of the host makes them. ", len(percents), least, most)
}

// dependent are the conditions of which repetitions that nobody counted depend on the one
// before, or those of the baseline beside them: they are samples of fewer repetitions, and an
// interval over them is too narrow.
func (a *arrangement) dependent() (on []*arranged, text string) {
	if a.Block != "" {
		return nil, ""
	}
	type series struct {
		of     *arranged
		metric string
		n      int
		test   stats.Dependence
	}
	var all []series
	for _, c := range a.conditions {
		for _, m := range c.Metrics {
			if m.Counted() { // most are equal, and the test is of what varies
				continue
			}
			values := c.values(m.Name)
			if test, ok := stats.SerialDependence(values); ok {
				all = append(all, series{c, m.Name, len(values), test})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y series) int { return cmp.Compare(x.test.P, y.test.P) })
	if len(all) == 0 || all[0].test.P*float64(len(all)) >= significance {
		return nil, ""
	}
	// That some are is shown for all together; which ones are, for each.
	depends := map[*arranged]bool{}
	for _, s := range all {
		depends[s.of] = depends[s.of] || s.test.P < significance
	}
	for _, cell := range a.byCell() {
		for _, c := range cell {
			if !c.Baseline && (depends[c] || cell[0].Baseline && depends[cell[0]]) {
				on = append(on, c)
			}
		}
	}
	worst := all[0]
	return on, fmt.Sprintf(
		"the %d values of %s of %s follow one another too closely to be independent runs (rank von Neumann ratio %.2f, p = %.1g). "+
			"Name the factor that counts independent runs by --block, leave the samples' own number out by --ignore, and give --mean; "+
			"without such a factor, measure again: each run of the program in a file of its own, and %s",
		worst.n, worst.metric, worst.of.ID, worst.test.Ratio, worst.test.P, a.byFile())
}

// values are a metric's values under a condition, in the order of its repetitions.
func (c *arranged) values(metric string) []float64 {
	var all []float64
	for _, t := range c.trials {
		if t.Error != "" {
			continue
		}
		if i := slices.IndexFunc(t.Samples, func(s record.Sample) bool { return s.Metric == metric }); i >= 0 {
			all = append(all, t.Samples[i].Value)
		}
	}
	return all
}
