package overhead

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tare/record"
	"tare/workload"
)

// aligned gives two runs of which one, at least, was measured elsewhere, with the
// conditions of that one named as those of the other that they are the counterparts
// of. Names say how a run was made, and no two makers agree on them; what two
// conditions have in common is the levels of factors, of which each tells its own.
// The notes name what could not be matched for certain.
func aligned(was, is record.Run) (record.Run, record.Run, []string) {
	var notes []string
	switch {
	case was.Status == record.Imported:
		was, notes = renamed(was, is)
	case is.Status == record.Imported:
		is, notes = renamed(is, was)
	}
	return was, is, notes
}

// renamed is an imported run in the names of another.
func renamed(run, other record.Run) (record.Run, []string) {
	known := map[string]bool{} // factors of which the other tells anything
	given := make([]map[string]string, len(other.Conditions))
	taken := map[string]bool{}
	for i, c := range other.Conditions {
		given[i] = levels(c)
		for factor := range given[i] {
			known[factor] = true
		}
	}
	for _, c := range run.Conditions {
		taken[c.ID] = true // a name that both have stays
	}
	to := map[string]record.Condition{}
	var unclear []string
	for _, c := range run.Conditions {
		if slices.ContainsFunc(other.Conditions, func(o record.Condition) bool { return o.ID == c.ID }) {
			continue
		}
		i, clear := counterpart(c, other.Conditions, given, known)
		switch {
		case i < 0:
		case !clear || taken[other.Conditions[i].ID]:
			unclear = append(unclear, c.ID)
		default:
			to[c.ID] = other.Conditions[i]
			taken[other.Conditions[i].ID] = true
		}
	}
	run.Conditions = slices.Clone(run.Conditions)
	for i := range run.Conditions {
		if o, ok := to[run.Conditions[i].ID]; ok {
			run.Conditions[i].ID, run.Conditions[i].Workload = o.ID, o.Workload
		}
	}
	run.Trials = slices.Clone(run.Trials)
	for i := range run.Trials {
		if o, ok := to[run.Trials[i].Condition]; ok {
			run.Trials[i].Condition, run.Trials[i].Workload = o.ID, o.Workload
		}
	}
	if len(unclear) == 0 {
		return run, nil
	}
	const shown = 3
	text := strings.Join(unclear[:min(len(unclear), shown)], ", ")
	if rest := len(unclear) - shown; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return run, []string{fmt.Sprintf("%s of %s could be more than one condition of %s, or shares one: tell them apart by tare import --factor", text, run.ID, other.ID)}
}

// counterpart finds the condition that agrees with c in all factors that both runs
// tell of and has a metric in common with it; of several the one of which c leaves
// least beyond it. -1 where there is none; clear is false where two are as good.
func counterpart(
	c record.Condition,
	others []record.Condition,
	given []map[string]string,
	known map[string]bool,
) (at int, clear bool) {
	at, clear = -1, true
	var least [2]int
	for i, o := range others {
		if !agree(c, given[i], known) ||
			!slices.ContainsFunc(c.Metrics, func(m workload.Metric) bool { return hasMetric(&o, m) }) {
			continue
		}
		var extra [2]int // factors first: a setting that is not given is the usual one
		for factor := range o.Factors {
			if _, ok := c.Factors[factor]; !ok {
				extra[0]++
			}
		}
		extra[1] = len(o.Setting.Pairs())
		switch order := slices.Compare(extra[:], least[:]); {
		case at < 0 || order < 0:
			at, least, clear = i, extra, true
		case order == 0:
			clear = false
		}
	}
	return at, clear
}

// agree tells whether a condition has the levels that c has of the factors known.
// There must be one at least.
func agree(c record.Condition, levels map[string]string, known map[string]bool) bool {
	shared := 0
	for factor, level := range c.Factors {
		if !known[factor] {
			continue
		}
		if levels[factor] != level {
			return false
		}
		shared++
	}
	return shared > 0
}

// levels are all that a condition tells of itself as levels of factors: its study's
// first, then parameters and settings by their own names, and the platform.
func levels(c record.Condition) map[string]string {
	all := map[string]string{"platform": c.Platform}
	for _, p := range c.Setting.Pairs() {
		all[p.Key] = p.Value
	}
	for name, value := range c.Params {
		all[name] = value
	}
	for factor, level := range c.Factors {
		all[factor] = level
	}
	return all
}

// importedNotes are what the imported ones of two runs lack, with their names.
func importedNotes(runs ...record.Run) []string {
	var all []string
	for _, run := range runs {
		for _, lack := range Lacks(run) {
			all = append(all, cmp.Or(run.ID, "the imported run")+", "+lack)
		}
	}
	return all
}
