package report

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/workload"
)

// Answer is the sentence that stands first: what each condition costs. A run
// of several workloads is answered by naming what each of them pays at most.
func Answer(run record.Run, rep overhead.Report) string {
	var answer string
	switch len(rep.Groups) {
	case 0:
		answer = "Nothing was measured that could be compared"
		if run.Reason != "" {
			answer += ": " + clean(run.Reason)
		}
	case 1:
		answer = groupAnswer(rep, rep.Groups[0]) + layersAnswer(rep, rep.Groups[0].Workload)
		if run.Plan.Ladder {
			answer += mostExpensiveRung(run, rep)
		}
	default:
		answer = overallAnswer(rep)
	}
	return strings.TrimSuffix(answer, ".") + "."
}

// mostExpensiveRung names the layer of a ladder that costs most, if any costs anything.
func mostExpensiveRung(run record.Run, rep overhead.Report) string {
	var most *Rung
	for _, rungs := range Ladder(run, rep.Groups[0].Primaries(), rep.Level) {
		for _, r := range rungs {
			if r.AdjustedLow > 0 && (most == nil || r.Percent > most.Percent) {
				most = &r
			}
		}
	}
	if most == nil {
		return ""
	}
	return ". The most expensive rung is " + spoken(most.Row) + ": " + percentText(most.Percent, most.AdjustedLow, most.AdjustedHigh) +
		" % (" + plainSpan(most.AdjustedLow, most.AdjustedHigh) + ") over the one before"
}

// secondaryText says what the verdicts on secondary metrics hold for, where they are
// shown.
func secondaryText(g overhead.Group) string {
	carrying := map[string]bool{}
	for _, m := range g.Primaries() {
		carrying[m.Name] = true
	}
	for _, m := range g.Metrics {
		if !carrying[m.Name] && m.Comparisons > 1 {
			return fmt.Sprintf("Verdicts on secondary metrics hold for all of their %d comparisons together.", m.Comparisons)
		}
	}
	return ""
}

// Together says what the verdicts hold for, and why the intervals of the
// sentence are not those of the tables; empty where there is nothing else that a
// comparison could be judged with.
func Together(run record.Run, rep overhead.Report) string {
	n := rep.Comparisons()
	if n < 2 {
		return ""
	}
	text := fmt.Sprintf("Verdicts and the intervals in sentences hold for all %d comparisons together (Holm). "+
		"Tables show each comparison's own %s.", n, levelText(rep.Level))
	if run.Plan.Ladder {
		text += " The rungs are judged together on their own."
	}
	return text
}

// A finding is one condition's outcome over the primary metrics of a workload:
// that of the metric in which it does worst.
type finding struct {
	row     overhead.Row
	metric  overhead.MetricReport
	one     bool // of several primary metrics
	verdict overhead.Verdict
	// needs is how much more would decide all primary metrics that are undecided, in words,
	// and needsBlocks as a number.
	needs       string
	needsBlocks int
	// reserve is a verdict of it that is another with what was disturbed left in, in words.
	reserve string
	// low and high hold the adjusted intervals of all primary metrics, in percent;
	// NaN where one has none.
	low, high float64
}

// severity orders verdicts by how much a reader must know of them.
func severity(v overhead.Verdict) int {
	switch v {
	case overhead.Worse:
		return 4
	case overhead.Inconclusive:
		return 3
	case overhead.Better:
		return 2
	case overhead.Equivalent:
		return 1
	}
	return 0
}

// reserveText says of a verdict that it is another with what was disturbed left in; empty
// where it is not.
func reserveText(m overhead.MetricReport, r overhead.Row) string {
	if r.WithTainted == "" || r.WithTainted == r.Verdict {
		return ""
	}
	word, what := string(r.WithTainted), "blocks"
	if r.WithTainted == overhead.Inconclusive {
		word = "undecided"
	}
	if m.Rounds {
		what = "strips"
	}
	return word + " with the disturbed " + what + " left in"
}

// findings gives one finding a condition, the costliest first.
func findings(g overhead.Group) []finding {
	metrics := g.Primaries()
	byCondition := map[string]*finding{}
	var order []string
	for _, m := range metrics {
		for _, r := range m.Rows {
			if r.Baseline {
				continue
			}
			f := finding{
				row: r, metric: m, one: len(metrics) > 1 && !m.Rounds, verdict: r.Verdict,
				low: r.AdjustedLow, high: r.AdjustedHigh, reserve: reserveText(m, r),
			}
			if r.Verdict == overhead.Inconclusive {
				f.needs, f.needsBlocks = r.Needs, r.NeedsBlocks
			}
			if severity(r.Verdict) == 0 || !finite(r.Percent) && !f.byDifference() {
				f.verdict = ""
			}
			old, seen := byCondition[r.Condition]
			if !seen {
				order = append(order, r.Condition)
				byCondition[r.Condition] = &f
				continue
			}
			low, high := math.Min(old.low, f.low), math.Max(old.high, f.high)
			needs, needsBlocks, reserve := old.needs, old.needsBlocks, old.reserve
			if f.needs != "" && (needs == "" || f.needsBlocks > needsBlocks) {
				needs, needsBlocks = f.needs, f.needsBlocks
			}
			switch {
			case severity(f.verdict) > severity(old.verdict):
				reserve = f.reserve
			case severity(f.verdict) == severity(old.verdict) && reserve == "":
				reserve = f.reserve
			}
			if graver(f, *old) {
				*old = f
			}
			old.low, old.high, old.needs, old.needsBlocks, old.reserve = low, high, needs, needsBlocks, reserve
		}
	}
	found := make([]finding, len(order))
	for i, c := range order {
		found[i] = *byCondition[c]
	}
	sort.SliceStable(found, func(i, j int) bool { return graver(found[i], found[j]) })
	return found
}

// graver reports whether a matters more to a reader than b. What does not stand for
// what it is named after never comes before what does.
func graver(a, b finding) bool {
	if a.marked() != b.marked() {
		return b.marked()
	}
	if severity(a.verdict) != severity(b.verdict) {
		return severity(a.verdict) > severity(b.verdict)
	}
	if a.verdict == overhead.Better {
		return a.row.Percent < b.row.Percent
	}
	if minor(a.row) != minor(b.row) {
		return minor(a.row)
	}
	return !math.IsNaN(a.row.Percent) && (math.IsNaN(b.row.Percent) || a.row.Percent > b.row.Percent)
}

// within writes the span that holds the intervals of all that was found:
// "all within -6 to +3 %". Where one has no interval, nothing can be said.
func within(found []finding) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, f := range found {
		low, high = math.Min(low, f.low), math.Max(high, f.high)
	}
	if !finite(low) || !finite(high) {
		return ""
	}
	return worseText(low, high)
}

// named is how many conditions the sentence names one by one; beyond it, a
// sentence is no answer any more and the table is.
const named = 3

func groupAnswer(rep overhead.Report, g overhead.Group) string {
	found := findings(g)
	workload := clean(g.Workload)
	if len(found) == 0 {
		return sentenceCase("nothing was compared with the baseline of " + workload)
	}
	var clauses []string
	say := func(clause string) {
		if clause != "" {
			clauses = append(clauses, clause)
			workload = "it"
		}
	}
	for _, marked := range []bool{false, true} {
		by := map[overhead.Verdict][]finding{}
		for _, f := range found {
			if f.marked() == marked {
				by[f.verdict] = append(by[f.verdict], f)
			}
		}
		say(worseClause(by[overhead.Worse], workload))
		say(betterClause(by[overhead.Better], workload))
		say(equivalentClause(by[overhead.Equivalent], workload, rep.SmallestEffect))
		say(undecidedClause(by[overhead.Inconclusive], workload))
		say(absentClause(by[""]))
	}
	return sentenceCase(against(g) + strings.Join(clauses, "; "))
}

// against names the baseline where it is not what everyone expects.
func against(g overhead.Group) string {
	for _, m := range g.Primaries() {
		if b, ok := baselineOf(m); ok && (b.Platform != "bare" || label(b) != "bare") {
			return "against " + spoken(b) + ", "
		}
	}
	return ""
}

// marked reports whether the finding does not carry over to what it is named
// after.
func (f finding) marked() bool { return f.row.NotRepresentative != "" }

func (f finding) name() string {
	name := spoken(f.row)
	if f.marked() {
		name += " (not representative)"
	}
	if f.reserve != "" {
		name += " (" + f.reserve + ")"
	}
	return name
}

// byDifference reports whether the finding rests on a difference, since no ratio
// can be formed (a count whose baseline is zero), or none that has an end.
func (f finding) byDifference() bool {
	d, in := f.row.Difference, f.row.AdjustedDifference
	return !bounded(f.row.Percent, f.row.AdjustedLow, f.row.AdjustedHigh) && present(d) &&
		bounded(d.Value, in.Low, in.High)
}

// cost writes "3.1 % of its get rate (2.2 to 4.0)"; noun is left out where
// empty.
func (f finding) cost(noun string) string {
	size, span := f.size(1)
	if noun != "" {
		size += " " + noun
	}
	return size + " (" + span + ")"
}

// size writes how much worse a condition is, or how much better for a sign of
// -1, with its adjusted interval.
func (f finding) size(sign float64) (figure, span string) {
	v, low, high, unit := f.row.Percent, f.row.AdjustedLow, f.row.AdjustedHigh, " %"
	if f.byDifference() {
		d := f.row.AdjustedDifference
		v, low, high, unit = f.row.Difference.Value, d.Low, d.High, ""
		if f.metric.HigherIsBetter {
			v, low, high = -v, -high, -low
		}
	}
	if sign < 0 {
		v, low, high = -v, -high, -low
	}
	if !bounded(v, low, high) {
		return fixed(v, significant(v)) + unit, "no interval"
	}
	return percentText(v, low, high) + unit, plainSpan(low, high)
}

func worseClause(found []finding, workload string) string {
	if len(found) == 0 {
		return ""
	}
	var parts []string
	for i, f := range found[:min(len(found), named)] {
		switch {
		case i == 0 && f.metric.HigherIsBetter:
			noun := "of its " + quantity(f.metric)
			if workload == "it" {
				noun = "of the " + quantity(f.metric)
			}
			parts = append(parts, f.name()+" costs "+workload+" "+f.cost(noun+atWorst(f)))
		case i == 0:
			parts = append(parts, f.name()+" adds "+f.cost("to "+possessive(workload)+" "+quantity(f.metric)+atWorst(f)))
		case f.metric.Name == found[0].metric.Name:
			parts = append(parts, f.name()+" "+f.cost(""))
		default:
			parts = append(parts, f.name()+" "+f.cost("on "+quantity(f.metric)))
		}
	}
	if rest := len(found) - named; rest > 0 {
		parts = append(parts, fmt.Sprintf("%d more cost less", rest))
	}
	return strings.Join(parts, ", ")
}

func atWorst(f finding) string {
	if f.one {
		return " at worst"
	}
	return ""
}

func betterClause(found []finding, workload string) string {
	var parts []string
	for i, f := range found[:min(len(found), named)] {
		gain, span := f.size(-1)
		gain += " (" + span + ")"
		what := possessive(workload) + " " + quantity(f.metric)
		switch {
		case i > 0 && f.metric.Name == found[0].metric.Name:
			parts = append(parts, f.name()+" by "+gain)
		case f.metric.HigherIsBetter:
			parts = append(parts, f.name()+" raises "+what+" by "+gain)
		default:
			parts = append(parts, f.name()+" lowers "+what+" by "+gain)
		}
	}
	if rest := len(found) - named; rest > 0 {
		parts = append(parts, fmt.Sprintf("%d more by less", rest))
	}
	return strings.Join(parts, ", ")
}

func equivalentClause(found []finding, workload string, smallest float64) string {
	if len(found) == 0 {
		return ""
	}
	var parts []string
	differing := 0
	for _, f := range found {
		if !minor(f.row) {
			continue
		}
		differing++
		if differing <= named {
			parts = append(parts, minorClause(f, workload))
			workload = "it"
		}
	}
	if rest := differing - named; rest > 0 {
		parts = append(parts, fmt.Sprintf("%d more by less", rest))
	}
	if differing > 0 {
		parts[len(parts)-1] += ", within your " + ratioText(smallest) + " %"
	}
	found = slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return minor(f.row) })
	if len(found) > 0 {
		parts = append(parts, nothingClause(found, workload, smallest))
	}
	return strings.Join(parts, "; ")
}

// minorClause says by how much a condition differs whose effect is smaller than is of interest.
func minorClause(f finding, workload string) string {
	if f.row.Percent > 0 {
		return worseClause([]finding{f}, workload)
	}
	return betterClause([]finding{f}, workload)
}

func nothingClause(found []finding, workload string, smallest float64) string {
	object := ""
	if workload != "it" {
		object = " " + workload
	}
	above := " nothing above " + ratioText(smallest) + " %"
	if len(found) > named {
		return fmt.Sprintf("%d conditions cost%s", len(found), object) + above
	}
	return Listed(names(found)) + verb(len(found), " costs", " cost") + object + above
}

func undecidedClause(found []finding, workload string) string {
	if len(found) == 0 {
		return ""
	}
	of := ""
	if workload != "it" {
		of = " for " + workload
	}
	if len(found) == 1 {
		f := found[0]
		detail := []string{}
		if bounded(f.row.Percent, f.row.AdjustedLow, f.row.AdjustedHigh) {
			detail = append(detail, worseText(f.row.AdjustedLow, f.row.AdjustedHigh))
		}
		if f.needs != "" {
			detail = append(detail, clean(f.needs)+" would decide")
		}
		text := f.name() + " is undecided" + of
		if len(detail) > 0 {
			text += " (" + strings.Join(detail, "; ") + ")"
		}
		return text
	}
	bounds := ""
	if span := within(found); span != "" {
		bounds = " (all " + span + ")"
	}
	if len(found) > named {
		return fmt.Sprintf("%d conditions are undecided%s", len(found), of) + bounds
	}
	return Listed(names(found)) + " are undecided" + of + bounds
}

func absentClause(found []finding) string {
	switch {
	case len(found) == 0:
		return ""
	case len(found) > named:
		return fmt.Sprintf("%d conditions yielded no figure", len(found))
	}
	return Listed(names(found)) + " yielded no figure"
}

func names(found []finding) []string {
	words := make([]string, len(found))
	for i, f := range found {
		words[i] = f.name()
	}
	return words
}

// overallAnswer gives each workload's worst finding, the dearest first.
func overallAnswer(rep overhead.Report) string {
	var pay []finding
	workload := map[string]string{}
	var clauses, free, undecided, absent []string
	for _, g := range rep.Groups {
		found := findings(g)
		name := clean(g.Workload)
		switch {
		case len(found) == 0 || found[0].verdict == "":
			absent = append(absent, name)
		case found[0].verdict == overhead.Worse:
			pay = append(pay, found[0])
			workload[found[0].row.Condition] = name
		case found[0].verdict == overhead.Inconclusive:
			open := slices.DeleteFunc(
				found,
				func(f finding) bool { return f.verdict != overhead.Inconclusive || f.marked() },
			)
			if span := within(open); span != "" {
				name += " (" + span + ")"
			}
			undecided = append(undecided, name)
		default:
			free = append(free, name)
		}
	}
	sort.SliceStable(pay, func(i, j int) bool { return graver(pay[i], pay[j]) })
	for _, f := range pay[:min(len(pay), named)] {
		clauses = append(clauses, worseClause([]finding{f}, workload[f.row.Condition]))
	}
	if rest := len(pay) - named; rest > 0 {
		clauses = append(clauses, Counted(rest, "more workload")+verb(rest, " pays less", " pay less"))
	}
	if len(free) > 0 {
		clauses = append(clauses, "nothing costs "+Listed(free)+" more than "+ratioText(rep.SmallestEffect)+" %")
	}
	if len(undecided) > 0 {
		clauses = append(clauses, Listed(undecided)+verb(len(undecided), " is", " are")+" undecided")
	}
	if len(absent) > 0 {
		clauses = append(clauses, Listed(absent)+" yielded nothing to compare")
	}
	return sentenceCase(against(rep.Groups[0]) + strings.Join(clauses, "; "))
}

// verb agrees with the number of what it is said of.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// quantity is a metric as a sentence says it: "get rate", "elapsed time".
func quantity(m overhead.MetricReport) string {
	name := clean(m.Name)
	operation, _ := workload.Operation(m.Name, m.Part)
	if m.Figure == workload.FigureRate && operation != "" && operation != workload.OneRequest {
		return clean(operation + " throughput")
	}
	if t := title(m); t != clean(m.Name) {
		return t
	}
	lower := strings.ToLower(name)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(lower, w) {
				return true
			}
		}
		return false
	}
	switch {
	case strings.HasSuffix(m.Unit, "/s") && !has("rate", "throughput", "bandwidth", "speed", "/s"):
		return name + " rate"
	case lower == "elapsed":
		return name + " time"
	}
	return name
}

func possessive(name string) string {
	if name == "it" {
		return "its"
	}
	return name + "'s"
}

// sentenceCase raises the first letter, unless the first word is a name that
// is written small ("runc", "containerd") or holds more than letters.
func sentenceCase(s string) string {
	for _, word := range []string{"against ", "at ", "bare metal", "a cgroup", "nothing "} {
		if strings.HasPrefix(s, word) {
			return strings.ToUpper(s[:1]) + s[1:]
		}
	}
	return s
}
