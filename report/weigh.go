package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/terminal"
)

// WeighSheet is the page of a run that weighed programs under several conditions.
func WeighSheet(run record.Run, rep overhead.Report) Sheet {
	answer := Answer(run, rep)
	if threshold := RunThresholdAnswer(run, rep); threshold != "" {
		answer = threshold + " " + answer
	}
	s := Sheet{
		Answer: answer, Together: Together(run, rep), Banners: cautions(run, rep),
		Command: Reproduce(run), Version: run.Version,
		Foot: slices.Concat(settingsParts(run), hostParts(run), guide(rep)),
	}
	var workloads []string
	for _, g := range rep.Groups {
		workloads = append(workloads, g.Workload)
		s.Parts = append(s.Parts, groupParts(run, rep, g)...)
	}
	s.Title = strings.TrimSuffix("tare weigh: "+strings.Join(workloads, ", "), ": ")
	if len(rep.Groups) == 1 {
		s.Facts = groupFacts(run, rep.Groups[0])
	}
	s.Facts = append(s.Facts, HostFact(run.Host),
		fmt.Sprintf("%s, seed %d", orElse(TimeFact(run), "time: not recorded"), run.Seed))
	if undecided(rep) {
		s.Facts = append(s.Facts, "undecided: "+toDecide(run, rep))
	}
	for _, n := range run.Plan.Notes {
		s.Facts = append(s.Facts, "note: "+n)
	}
	if len(rep.Warnings) > 0 {
		s.Parts = append(s.Parts, warnings(rep.Warnings))
	}
	return s
}

// undecided reports whether there are verdicts, and all of them are inconclusive.
func undecided(rep overhead.Report) bool {
	any := false
	for _, g := range rep.Groups {
		for _, m := range g.Primaries() {
			for _, r := range m.Rows {
				switch r.Verdict {
				case overhead.Worse, overhead.Better, overhead.Equivalent:
					return false
				case overhead.Inconclusive:
					any = true
				}
			}
		}
	}
	return any
}

// toDecide says what would decide a run of which nothing is decided.
func toDecide(run record.Run, rep overhead.Report) string {
	for _, g := range rep.Groups {
		if g.Rounds && 2*g.StripsTainted > g.Strips {
			return fmt.Sprintf("no comparison is decided yet: %d of %d strips were disturbed%s. "+
				"End that first, since more time decides little beside it.", g.StripsTainted, g.Strips, taintText(run, g.Workload))
		}
	}
	text := "no comparison is decided yet. Allow more time"
	if run.Plan.Budget > 0 {
		text += " (this run had --budget " + run.Plan.Budget.String() + ")"
	}
	most := 0
	for _, g := range rep.Groups {
		for _, m := range g.Primaries() {
			most = max(most, len(m.Rows)-1)
		}
	}
	if most > 1 {
		text += fmt.Sprintf(", or name fewer conditions than %d beside the baseline", most)
	}
	return text + ". The lines below a table say how much would decide it."
}

// InterimSheet is a short sheet of a run that goes on, without verdicts; it has no parts
// while there is nothing to show.
func InterimSheet(run record.Run, rep overhead.Report) Sheet {
	var s Sheet
	var progress []string
	for _, g := range rep.Groups {
		if comparedBlocks(g) == 0 {
			continue // a table of absences says nothing
		}
		p := newMetricTables(run, rep, g)
		p.workload = clean(g.Workload)
		for i, m := range p.metrics {
			p.metrics[i] = m.interim()
		}
		s.Parts = append(s.Parts, p)
		base := Counted(comparedBlocks(g), unitOf(g))
		if g.Pilot {
			base = "the pilot alone, provisional"
		}
		progress = append(progress, p.workload+" after "+base)
	}
	s.Answer = "Interim: " + strings.Join(progress, ", ") + "."
	if len(s.Parts) == 1 {
		p := s.Parts[0].(metricTables)
		p.workload = ""
		s.Parts[0] = p
	}
	return s
}

// groupFacts say what the figures of a workload rest on.
func groupFacts(run record.Run, g overhead.Group) []string {
	return []string{"workload: " + workloadText(run, g), unitOf(g) + "s: " + blocksText(run, g)}
}

// groupParts show one workload: its metrics, the division of costs, latencies, what moves
// the figures, and warnings.
func groupParts(run record.Run, rep overhead.Report, g overhead.Group) []Part {
	metrics, of := newMetricTables(run, rep, g), ""
	if len(rep.Groups) > 1 {
		metrics.workload = clean(g.Workload)
		metrics.answer = strings.TrimSuffix(groupAnswer(rep, g), ".") + layersAnswer(rep, g.Workload) + "."
		metrics.facts = groupFacts(run, g)
		of = clean(g.Workload) + ": "
	}
	parts := []Part{metrics}
	if run.Plan.Ladder {
		primaries := g.Primaries()
		for i, rungs := range Ladder(run, primaries, rep.Level) {
			parts = append(parts, ladderTable(rungs, of, primaries[i], rep.Level))
		}
	}
	parts = append(parts, layersTables(rep, of, g.Workload)...)
	for _, p := range percentileCharts(run, of, g.Workload) {
		parts = append(parts, Long{p})
	}
	for _, t := range loadTables(g, of, rep.Level) {
		parts = append(parts, Long{t})
	}
	if t := effectsTable(g, of, rep.Level); len(t.Rows) > 0 {
		parts = append(parts, Long{t})
	}
	if len(g.Warnings) > 0 {
		parts = append(parts, warnings(g.Warnings))
	}
	return parts
}

// hostParts are the host, what was seen around the trials, and the trials that failed.
func hostParts(run record.Run) []Part {
	parts := []Part{factList{title: "Host", Facts: fingerprint(run.Host)}}
	if t := surroundings(run); len(t.Rows) > 0 {
		parts = append(parts, t)
	}
	if f := failures(run); len(f) > 0 {
		parts = append(parts, factList{title: "Trials that failed", Facts: f})
	}
	return parts
}

// guide says how to read the page of a run that weighed.
func guide(rep overhead.Report) []Part {
	level, smallest := strings.TrimSuffix(levelText(rep.Level), " interval"), ratioText(rep.SmallestEffect)+" %"
	inRounds, inBlocks := false, false
	for _, g := range rep.Groups {
		inRounds, inBlocks = inRounds || g.Rounds, inBlocks || !g.Rounds
	}
	var text []string
	unit, again := "blocks", "block"
	if inRounds {
		unit, again = "rounds", "block or round"
		text = append(text, "A round launches every condition once, and the baseline twice, in random order. "+
			"All instances stay up, and all but one are frozen. "+
			"A slice is a short stretch of load on one of them, or one execution of a program that runs to its end. "+
			"A strip is one slice of each, again in random order. "+
			"A change compares slices of a condition with slices of the baseline in the same strip.",
			"The typical effect of a round is the mean of these ratios without 40 % at either end, close to their median. "+
				"The total effect counts all that the slices did, stalls included. CPU time is shown as a total. "+
				"The "+level+" interval is Student's, over rounds. "+
				"A program that runs to its end is launched anew for each strip. There, a round is one strip, and the effect is the mean over all. "+
				"A run speaks for one boot of the host and one day only.")
	}
	if inBlocks || !inRounds {
		text = append(text, "Every block runs every condition once, and the baseline twice, in random order. "+
			"A change compares a condition with the baseline of the same block, so that slow changes of the host cancel out. "+
			"The "+level+" interval is the range of changes that the blocks leave plausible. "+
			"If the run were repeated many times, about "+level+" of such intervals would contain the true change.")
	}
	text = append(text, "Percentiles are read from merged histograms, never averaged. "+
		"docs/statistics.md explains the methods, and how often their intervals contain the truth.")
	terms := []fact{
		{"tare", "The weight of a container, which is subtracted to find the weight of its content."},
		{"change", "How much more (+) or less (-) a metric is than under the baseline, in percent of the baseline. " +
			"The verdict says whether that is worse."},
		{"condition", "A platform, its settings and the workload's parameters."},
		{"baseline", "The condition that all others are compared with: bare metal, unless another was named."},
	}
	if inRounds {
		terms = append(terms,
			fact{"round, strip, slice", "See above. A strip that was disturbed from outside is left out for all its conditions."},
			fact{"stalls", "Moments in which the program stands still or is slow. They make totals exceed the typical effect."})
	}
	terms = append(terms,
		fact{"block", "One trial of every condition. A trial that was disturbed from outside is repeated within its block. " +
			"If it stays disturbed, the block is left out."},
		fact{"worse, better", "Verdicts: the whole interval lies on that side of no change."},
		fact{"equivalent", "Verdict: the whole interval lies within " + smallest + "."},
		fact{"worse, within " + smallest, "Verdict: there is a change, and the whole interval lies within " + smallest + "."},
		fact{"inconclusive", "Verdict: the interval decides nothing. More " + unit + " would make it narrower."},
		fact{"together", "Verdicts, and the intervals in sentences, hold for all comparisons of the run together (Holm). " +
			"More comparisons make them wider."},
		fact{"found in four of five", "Of five runs such as this one, four would find an effect of that size, and one would miss it."},
		fact{"A/A", "The baseline's second run in each " + again + " against its first. It should show no difference. " +
			"Where it shows one, doubt the rest."})
	return []Part{Prose{"How to read this", strings.Join(text, "\n\n")}, factList{Facts: terms}}
}

// workloadText names a workload with the parameters that all its conditions
// share, and the baseline.
func workloadText(run record.Run, g overhead.Group) string {
	parts := []string{clean(g.Workload)}
	if params := sharedParams(run, g.Workload); params != "" {
		parts[0] += " (" + params + ")"
	}
	for _, m := range g.Primaries() {
		if b, ok := baselineOf(m); ok {
			parts = append(parts, "against "+label(b))
			break
		}
	}
	return strings.Join(parts, ", ")
}

// blocksText says what a workload's effects rest on, and how sharp they became
// where a precision was wanted.
func blocksText(run record.Run, g overhead.Group) string {
	compared := comparedBlocks(g)
	text := fmt.Sprintf("%d compared, %d repeated for taint", compared, g.Repeated)
	if g.Blocks < compared {
		text = fmt.Sprintf("%d compared (%d of them with every condition), %d repeated for taint",
			compared, g.Blocks, g.Repeated)
	}
	if g.Tainted > 0 {
		text += fmt.Sprintf(", %d tainted still", g.Tainted)
	}
	if g.Failed > 0 {
		text += ", " + Counted(g.Failed, "trial") + " failed"
	}
	if g.Rounds {
		text = roundsText(run, g)
	}
	if why, ok := run.Plan.Blocked[g.Workload]; ok && run.Plan.Design == record.DesignRounds {
		text += "; not in rounds of slices: " + clean(why)
	}
	if wanted := run.Plan.Precision; wanted > 0 {
		reached := overhead.HalfWidth(run, overhead.Options{Workload: g.Workload})
		if finite(reached) {
			text += fmt.Sprintf("; half-width reached %s %%, wanted %s %%",
				fixed(100*reached, clamp(significant(100*reached)-1, 0, 3)), ratioText(wanted))
		}
	}
	return text
}

func hostText(h record.Host) string {
	parts := []string{}
	add := func(format, value string) {
		if value = clean(value); value != "" {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	cpus := h.CPUModel
	if h.CPUs > 0 {
		cpus = Counted(h.CPUs, "CPU")
		if h.CPUModel != "" {
			cpus += " (" + h.CPUModel + ")"
		}
	}
	add("%s", h.Hostname)
	add("%s", cpus)
	if h.Memory > 0 {
		add("%s", bytesText(h.Memory))
	}
	add("kernel %s", h.Kernel)
	add("cgroup %s", h.Cgroup)
	switch h.Virtual {
	case "none", "":
	case "unknown":
		add("%s", "a virtual machine")
	default:
		add("guest of %s", h.Virtual)
	}
	if len(parts) == 0 {
		return "not recorded"
	}
	return strings.Join(parts, ", ")
}

// first gives the name of a field for the first of its lines alone.
func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

// Reproduce gives the command that makes a run again, with its seed; empty where no
// command made it.
func Reproduce(run record.Run) string {
	if len(run.Command) == 0 {
		return ""
	}
	args := append([]string{filepath.Base(run.Command[0])}, run.Command[1:]...)
	at := len(args)
	for i, a := range args {
		if a == "--" {
			at = i
			break
		}
		if a == "--seed" || strings.HasPrefix(a, "--seed=") {
			return terminal.Shell(args...)
		}
	}
	seeded := append(append(append([]string(nil), args[:at]...), "--seed", fmt.Sprint(run.Seed)), args[at:]...)
	return terminal.Shell(seeded...)
}

// failures counts the trials that yielded nothing, by their error.
func failures(run record.Run) []fact {
	counts := map[string]int{}
	var order []string
	for _, t := range run.Trials {
		if !failed(run, t) {
			continue
		}
		key := clean(t.Condition) + ": " + clean(t.Error)
		if counts[key]++; counts[key] == 1 {
			order = append(order, key)
		}
	}
	const most = 20
	facts := make([]fact, 0, min(len(order), most))
	for i, key := range order {
		if i == most {
			facts = append(facts, fact{Counted(len(order)-most, "other error"), "in the export of the run"})
			break
		}
		facts = append(facts, fact{Counted(counts[key], "trial"), key})
	}
	return facts
}
