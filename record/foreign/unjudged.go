package foreign

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"tare/record"
	"tare/stats"
)

// significance is the chance that independent repetitions of an import are taken for
// dependent ones.
const significance = 0.01

// unjudged says why no verdict can rest on figures that vary, with what to do; empty where
// one can. What was said to be pairs is taken to be so.
func (a *arrangement) unjudged() string {
	if a.Paired || a.alone() {
		return ""
	}
	if why := a.notInterleaved(); why != "" {
		return why
	}
	return a.dependent()
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

// notInterleaved tells of a condition that is in other files than the baseline beside it,
// where either is in one file alone: what changed on the host from file to file is in
// their difference, and in no spread. Of several files each, it is in the spread.
func (a *arrangement) notInterleaved() string {
	for _, cell := range a.byCell() {
		base := cell[0]
		if !base.Baseline {
			continue
		}
		for _, c := range cell[1:] {
			apart := !slices.ContainsFunc(
				slices.Collect(maps.Keys(c.files)),
				func(f string) bool { return base.files[f] },
			)
			if apart && (len(base.files) == 1 || len(c.files) == 1) {
				return fmt.Sprintf(
					"not interleaved: %s is in %s, and %s in %s. What changed on the host between the two is in the difference. %s"+
						"Measure both in turn, several times, into files such as 1-%s and 1-%s, and import them by --name '{block}-*' --block block --paired",
					base.Label, in(base.files), c.Label, in(c.files), a.alike(), base.Label, c.Label)
			}
		}
	}
	return ""
}

// in names files.
func in(files map[string]bool) string { return listed(slices.Sorted(maps.Keys(files))) }

// alike says that all cells changed by about the same, as a change of the host makes them.
func (a *arrangement) alike() string {
	const fewest = 3
	var percents []float64
	for _, cell := range a.byCell() {
		for _, c := range cell[1:] {
			for _, m := range c.Metrics {
				if m.Counted() {
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

// dependent tells of repetitions that nobody counted, of which the next depends on the one
// before: they are samples of fewer repetitions, and an interval over them is too narrow.
func (a *arrangement) dependent() string {
	if a.Block != "" {
		return ""
	}
	type series struct {
		of, metric string
		n          int
		test       stats.Dependence
	}
	var all []series
	for _, c := range a.conditions {
		for _, m := range c.Metrics {
			if m.Counted() { // most are equal, and the test is of what varies
				continue
			}
			values := c.values(m.Name)
			if test, ok := stats.SerialDependence(values); ok {
				all = append(all, series{c.ID, m.Name, len(values), test})
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	worst := slices.MinFunc(all, func(x, y series) int {
		if x.test.P < y.test.P {
			return -1
		}
		return 1
	})
	if worst.test.P*float64(len(all)) >= significance {
		return ""
	}
	return fmt.Sprintf(
		"dependent repetitions: the %d values of %s of %s follow one another too closely to be independent runs (rank von Neumann ratio %.2f, p = %.1g). Name the factor that counts independent runs by --block, leave the samples' own number out by --ignore, and give --mean; "+
			"without such a factor, measure again: each run of the program in a file of its own, and --name '{block}-*'",
		worst.n, worst.metric, worst.of, worst.test.Ratio, worst.test.P)
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
