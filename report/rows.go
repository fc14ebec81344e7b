package report

import (
	"math"
	"sort"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// worstFirst orders a metric's rows for reading: by overhead, the baseline and
// then what yielded no figure last.
func worstFirst(rows []overhead.Row) []overhead.Row {
	sorted := append([]overhead.Row(nil), rows...)
	rank := func(r overhead.Row) int {
		switch {
		case r.Baseline:
			return 1
		case math.IsNaN(r.Percent) && !present(r.Difference):
			return 2
		}
		return 0
	}
	sort.SliceStable(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		if rank(a) != rank(b) {
			return rank(a) < rank(b)
		}
		if math.IsNaN(a.Percent) != math.IsNaN(b.Percent) {
			return math.IsNaN(a.Percent)
		}
		return a.Percent > b.Percent
	})
	return sorted
}

// direction says which way a metric is good.
func direction(m overhead.MetricReport) string {
	if m.HigherIsBetter {
		return "more is better"
	}
	return "less is better"
}

// label names a row; an empty label (a run of one platform and no setting)
// falls back on the condition.
func label(r overhead.Row) string {
	for _, name := range []string{r.Label, r.Platform, r.Condition} {
		if name = clean(name); name != "" {
			return name
		}
	}
	return "?"
}

// spoken is label as a sentence says it: "Docker with network=bridge".
func spoken(r overhead.Row) string {
	name := label(r)
	platform, rest, found := strings.Cut(name, " ")
	if platform != clean(r.Platform) {
		return name
	}
	if !found {
		return platformName(platform)
	}
	return platformName(platform) + " with " + strings.Join(strings.Fields(rest), " and ")
}

func platformName(path string) string {
	switch path {
	case "bare":
		return "bare metal"
	case "docker":
		return "Docker"
	case "docker:rootless":
		return "rootless Docker"
	case "docker:swarm":
		return "a Docker service"
	case "podman":
		return "Podman"
	case "cgroup":
		return "a cgroup"
	}
	if name, ok := strings.CutPrefix(path, "oci:"); ok && name != "" {
		return name
	}
	return path
}

// baselineOf gives the row against which the others stand.
func baselineOf(m overhead.MetricReport) (overhead.Row, bool) {
	for _, r := range m.Rows {
		if r.Baseline {
			return r, true
		}
	}
	return overhead.Row{}, false
}

// overheadText gives the change against the baseline and its interval for a table. Where only a
// difference could be computed (a count whose baseline is zero) they are in
// the column's unit, and unit is not empty. Where there is no figure at all
// both are empty and why tells the reason.
func overheadText(r overhead.Row, col column, run record.Run) (figure, span, unit, why string) {
	if r.Baseline {
		return "", "", "", ""
	}
	if finite(r.Percent) {
		figure, span = col.percent(r.Percent, r.PercentLow, r.PercentHigh)
		if span == "" {
			why = "no interval: " + reason(r, run)
		}
		return figure, span, "", why
	}
	if v := r.Difference.Value / col.divisor; present(r.Difference) && finite(v) {
		low, high := r.Difference.Interval.Low/col.divisor, r.Difference.Interval.High/col.divisor
		if !bounded(v, low, high) {
			why = "too few blocks"
			if len(r.Difference.Warnings) > 0 {
				why = clean(r.Difference.Warnings[0])
			}
			return signed(v, significant(v)), "", col.unit, "no interval: " + why
		}
		return signed(v, decimalsOf(v, low, high)), spanText(low, high), col.unit, ""
	}
	return "", "", "", "no figure: " + reason(r, run)
}

// reason tells why a row lacks a figure or an interval: what stopped its trials
// where none yielded anything, or else what the estimators said.
func reason(r overhead.Row, run record.Run) string {
	if len(r.Blocks) == 0 {
		if text := commonError(r.Condition, run); text != "" {
			return text
		}
	}
	for _, warnings := range [][]string{r.Ratio.Warnings, r.Difference.Warnings, r.Value.Warnings} {
		if len(warnings) > 0 {
			return clean(warnings[0])
		}
	}
	if len(r.Blocks) < 2 {
		return "too few blocks (" + Counted(len(r.Blocks), "block") + ")"
	}
	return "its blocks could not be paired with the baseline's"
}

// failed tells whether a trial yielded nothing; one that has not ended in a run
// that goes on has not failed.
func failed(run record.Run, t record.Trial) bool {
	return t.Error != "" && !(t.Error == record.NotEnded && run.Status == record.Running)
}

// commonError gives the most frequent error of a condition's trials.
func commonError(condition string, run record.Run) string {
	counts := map[string]int{}
	best := ""
	for _, t := range run.Trials {
		if t.Condition != condition || !failed(run, t) {
			continue
		}
		text := clean(t.Error)
		counts[text]++
		if best == "" || counts[text] > counts[best] {
			best = text
		}
	}
	return best
}

// floorText says how small an effect a run would have found.
func floorText(m overhead.MetricReport) string {
	switch floor := 100 * m.NoiseFloor; {
	case !finite(floor):
		return "How small an effect would be found is unknown."
	case floor > 100:
		return "Only effects above 100 % would be found in four runs of five."
	default:
		return "An effect of " + fixed(floor, clamp(significant(floor)-1, 0, 3)) + " % would be found in four runs of five."
	}
}

// selfText says what the baseline's second execution says, or "".
func selfText(m overhead.MetricReport) string {
	if m.AA == nil || !present(*m.AA) || m.AA.Interval == (stats.Interval{}) {
		return ""
	}
	v, low, high := 100*(m.AA.Value-1), 100*(m.AA.Interval.Low-1), 100*(m.AA.Interval.High-1)
	if !bounded(v, low, high) {
		return ""
	}
	name := "the baseline"
	if b, ok := baselineOf(m); ok {
		name = label(b)
	}
	return "A/A, " + name + " against itself: " + changeText(v, low, high) + "."
}

// comparedBlocks counts the blocks that the effects rest on: the whole ones,
// or, where some condition never worked and so no block is whole, those that
// the best-measured condition has.
func comparedBlocks(g overhead.Group) int {
	n := g.Blocks
	for _, m := range g.Primaries() {
		for _, r := range m.Rows {
			n = max(n, r.Ratio.N)
		}
	}
	return n
}
