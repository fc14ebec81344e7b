package foreign

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// beside counts the cells, and those that hold the baseline and another condition.
func (a *arrangement) beside() (cells, compared int) {
	based, other := map[string]bool{}, map[string]bool{}
	all := map[string]bool{}
	for _, c := range a.conditions {
		all[c.Workload] = true
		if c.Baseline {
			based[c.Workload] = true
		} else {
			other[c.Workload] = true
		}
	}
	for group := range all {
		if based[group] && other[group] {
			compared++
		}
	}
	return len(all), compared
}

// alone tells that there is one condition, which is to be compared with another run's.
func (a *arrangement) alone() bool {
	return !slices.ContainsFunc(a.conditions, func(c *arranged) bool { return !c.Baseline })
}

// leftOver refuses a table of which a column of measurements was taken for a factor:
// it makes nearly every row a cell of its own, in which nothing is compared.
func (a *arrangement) leftOver(ctx context.Context, all []observation) error {
	cells, compared := a.beside()
	if a.Format != CSV || a.columns != nil || a.alone() || 2*compared >= cells {
		return nil
	}
	by, rows, err := a.numbers(ctx, all)
	if err != nil {
		return err
	}
	var measured, counting []string
	for _, factor := range a.cells {
		switch is := by[factor]; {
		case is.words:
		case 2*len(is.levels) > rows:
			measured = append(measured, factor)
		case consecutive(is.levels):
			counting = append(counting, factor)
		}
	}
	if len(measured) == 0 {
		return nil
	}
	is := "looks like a measurement"
	if len(measured) > 1 {
		is = "look like measurements"
	}
	names := strings.Join(measured, ",")
	hint := "--ignore " + names
	if a.Metric == "" {
		values := a.Values
		if len(values) == 0 {
			values = []string{"value"}
		}
		hint = "--value " + strings.Join(values, ",") + "," + names + " or " + hint
	}
	if a.Block == "" && len(counting) > 0 {
		hint += "; " + counting[0] + " like a count of repetitions: --block " + counting[0]
	}
	return wanted("value", "%d of %d cells hold nothing to compare: %s %s: %s", cells-compared, cells, listed(measured), is, hint)
}

// numbered is a factor as far as its levels are numbers.
type numbered struct {
	levels map[float64]bool
	words  bool // some level is no number, or some row has none
}

// numbers reads the levels of the factors that make cells, in rows: those of the first
// metric, of which each row has one value.
func (a *arrangement) numbers(ctx context.Context, all []observation) (by map[string]*numbered, rows int, err error) {
	by = map[string]*numbered{}
	has := map[string]int{}
	for _, factor := range a.cells {
		by[factor] = &numbered{levels: map[float64]bool{}}
	}
	for i := range all {
		if err := stopped(ctx, i); err != nil {
			return nil, 0, err
		}
		if all[i].metric != all[0].metric {
			continue
		}
		rows++
		for _, l := range all[i].factors {
			is := by[l.factor]
			if is == nil || is.words {
				continue
			}
			has[l.factor]++
			v, err := strconv.ParseFloat(l.level, 64)
			if is.words = err != nil; !is.words {
				is.levels[v] = true
			}
		}
	}
	for factor, is := range by {
		is.words = is.words || has[factor] < rows
	}
	return by, rows, nil
}

// consecutive tells numbers that count from 0 or 1.
func consecutive(levels map[float64]bool) bool {
	first := 1.0
	if levels[0] {
		first = 0
	}
	for i := range len(levels) {
		if !levels[first+float64(i)] {
			return false
		}
	}
	return len(levels) > 1
}

// apart says what keeps the baseline and the other conditions in different cells, where
// it keeps them so throughout; empty where it does not.
func (a *arrangement) apart() string {
	if _, compared := a.beside(); compared > 0 || a.alone() {
		return ""
	}
	var differ []string
	for _, factor := range a.cells {
		base, others := a.levelsOf(factor, true), a.levelsOf(factor, false)
		has := map[string]bool{}
		for _, l := range base {
			has[l] = true
		}
		if !slices.ContainsFunc(others, func(l string) bool { return has[l] }) {
			differ = append(differ, fmt.Sprintf("%s (%s; of the others %s)", factor, listed(base), listed(others)))
		}
	}
	baseline := spaced(a.Baseline)
	if len(differ) == 0 {
		return fmt.Sprintf("no cell holds %s beside another condition: they agree in no combination of %s: leave out by --ignore what is of no account", baseline, listed(a.cells))
	}
	return fmt.Sprintf("no cell holds %s beside another condition: it differs from all of them in %s: name that in --condition and --baseline too, leave it out by --ignore, or give it one level by --rename", baseline, strings.Join(differ, ", "))
}

// levelsOf are the levels of a factor under the baseline, or under all else.
func (a *arrangement) levelsOf(factor string, baseline bool) []string {
	var levels []string
	seen := map[string]bool{}
	for _, c := range a.conditions {
		if c.Baseline != baseline {
			continue
		}
		l, ok := c.Factors[factor]
		if !ok {
			l = "none"
		}
		if !seen[l] {
			seen[l] = true
			levels = append(levels, l)
		}
	}
	return levels
}
