// Package imported shows runs that were measured elsewhere and read by package
// record/foreign: by the words of tare's own runs, and with all that their design
// lacks said first. It measures nothing and designs nothing: there is no way to go on
// with such a run.
package imported

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/study/io"
	"tare/study/io/place"
	"tare/study/kit"
)

// Name is the study of such runs, in the store.
const Name = "import"

// Study is what the commands need of imported runs. Their pages have a form of their own: what
// a design lacks goes before every figure.
type Study struct{}

// Judge has the claim judged for which a run was imported, by the judge of our own
// runs, and says beside the verdict that the figures are not this host's.
func (Study) Judge(run record.Run) []claim.Judgement {
	if place.Of(run) == "" {
		return nil
	}
	judgements := io.Studies.Judge(run)
	for i := range judgements {
		const why = "measured elsewhere, and imported"
		if judgements[i].NotRepresentative == "" {
			judgements[i].NotRepresentative = why
		}
	}
	return judgements
}

// NextOf proposes what to do with an imported run: to measure the same here, where it
// was imported for a claim, or to take it elsewhere.
func (Study) NextOf(run record.Run) string {
	if of := place.Of(run); of != "" {
		return "tare io " + of
	}
	return "tare export " + run.ID + " --format csv"
}

// Interim is Sheet: nothing of such a run is under way.
func (s Study) Interim(run record.Run) report.Sheet { return s.Sheet(run, nil, nil) }

// Sheet composes a run's page.
func (Study) Sheet(run record.Run, _ kit.Attachments, judgements []claim.Judgement) report.Sheet {
	r := overhead.Read(run)
	s := report.Sheet{
		Title: "tare import: " + strings.Join(workloads(run), ", "), Answer: answer(r), Together: report.Together(run, r.Report), Facts: facts(r),
		Banners: banners(r), Parts: overview(r), Command: strings.Join(quoted(run.Command), " "),
	}
	found, tables := io.Studies.Found(run)
	if found != "" {
		s.Answer = found + " " + s.Answer
	}
	if len(judgements) > 0 {
		s.Parts = append(s.Parts, report.Judgements{
			Title: "What was published, and what these figures say of it",
			Note:  "Judged by the rules of our own runs, from figures whose design lacks what stands above.",
			Rows:  report.JudgedClaims(judgements),
		})
	} else if of := place.Of(run); of != "" {
		s.Parts = append(s.Parts, report.Prose{Title: "No verdict", Text: "The figures do not hold what decides the claim."})
	}
	if len(tables) == 0 {
		tables = cellByCell(r)
	}
	s.Parts = append(s.Parts, tables...)
	return s
}

// workloads names what the figures are of, without the parameters.
func workloads(run record.Run) []string {
	var all []string
	for _, c := range run.Conditions {
		if name, _, _ := strings.Cut(c.Workload, "["); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func facts(r overhead.Reading) []string {
	var conditions []string
	for _, c := range r.Run.Conditions {
		if !slices.Contains(conditions, c.Label) {
			conditions = append(conditions, c.Label)
		}
	}
	facts := []string{
		fmt.Sprintf("cells: %d, %d conditions, %d runs in all", len(r.Report.Groups), len(r.Run.Conditions), len(r.Run.Trials)),
		"compared: " + strings.Join(conditions, ", "),
	}
	if told := r.Run.Plan.Imported; told != nil && len(told.Sources) > 0 {
		text := told.Sources[0].Name
		if n := len(told.Sources); n > 1 {
			text = fmt.Sprintf("%s and %d more, %s", text, n-1, told.Format)
		}
		facts = append(facts, "read from: "+text)
	}
	if h := r.Run.Host; h.CPUModel != "" || h.Arch != "" {
		facts = append(facts, "their host: "+strings.TrimSpace(h.CPUModel+" "+h.Arch))
	}
	return append(facts, fmt.Sprintf("imported: %s, run %s", r.Run.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Run.ID))
}

// mostBanners is how many warnings of single cells stand above the figures.
const mostBanners = 4

// banners are what the design lacks, what its importer said, and what the figures
// themselves warn of; of many cells the number.
func banners(r overhead.Reading) []string {
	all := overhead.Lacks(r.Run)
	for _, n := range r.Run.Plan.Notes {
		all = append(all, "note: "+n)
	}
	if few := fewRepetitions(r.Run); few != "" {
		all = append(all, few)
	}
	var warnings []string
	for _, g := range r.Report.Groups {
		for _, w := range g.Warnings {
			if !strings.HasPrefix(w, "no condition is the baseline") { // a note says so of all
				warnings = append(warnings, g.Workload+": "+w)
			}
		}
	}
	if len(warnings) > mostBanners {
		warnings = []string{fmt.Sprintf("cautions: %d on single cells, such as %s; tare export has them all", len(warnings), warnings[0])}
	}
	return append(all, warnings...)
}

// fewRepetitions says what may have made cells of what are repetitions, where no
// condition has enough of them for an interval.
func fewRepetitions(run record.Run) string {
	const fewest = 3
	times := map[string]int{}
	for _, t := range run.Trials {
		if times[t.Condition]++; times[t.Condition] >= fewest {
			return ""
		}
	}
	return fmt.Sprintf("few: no condition has %d repetitions, which an interval takes; where a column or a part of the files' names counts them, name it by --block: else it makes cells of their own", fewest)
}

// outcome is a condition's row in a cell.
type outcome struct {
	group  overhead.Group
	metric overhead.MetricReport
	row    overhead.Row
}

// outcomes are all comparisons of a run, the worst first: by verdict, then by how
// much is surely lost.
func outcomes(r overhead.Reading) []outcome {
	var all []outcome
	for _, g := range r.Report.Groups {
		for _, m := range g.Metrics {
			for _, row := range m.Rows {
				if !row.Baseline && !math.IsNaN(row.Percent) {
					all = append(all, outcome{g, m, row})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b outcome) int {
		if sa, sb := severity(a.row.Verdict), severity(b.row.Verdict); sa != sb {
			return sb - sa
		}
		return -compare(a.row.Percent, b.row.Percent)
	})
	return all
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// severity orders verdicts by how much a reader must know of them.
func severity(v overhead.Verdict) int {
	switch v {
	case overhead.Worse:
		return 3
	case overhead.Inconclusive:
		return 2
	case overhead.Better:
		return 1
	}
	return 0
}

// answer says what came of the comparisons: by name where there are few.
func answer(r overhead.Reading) string {
	all := outcomes(r)
	if len(all) == 0 {
		return uncompared(r)
	}
	if len(r.Report.Groups) <= mostTables {
		return report.Answer(r.Run, r.Report)
	}
	count := map[overhead.Verdict]int{}
	for _, o := range all {
		count[o.row.Verdict]++
	}
	var words []string
	for _, v := range verdicts {
		if n := count[v]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, v))
		}
	}
	text := fmt.Sprintf("Of %d comparisons in %d cells: %s", len(all), len(r.Report.Groups), strings.Join(words, ", "))
	if worst := all[0]; worst.row.Verdict == overhead.Worse {
		text += fmt.Sprintf("; the worst is %s, which costs %s of %s %s %%", worst.row.Label, worst.metric.Name, worst.group.Workload, report.Said(adjusted(worst.row), 1))
	}
	return text + "."
}

// uncompared says why nothing was compared.
func uncompared(r overhead.Reading) string {
	const elsewhere = "the figures can be compared with those of another run (tare compare)."
	based, other := map[string]bool{}, map[string]bool{}
	together := false
	for _, c := range r.Run.Conditions {
		if c.Baseline {
			based[c.Workload] = true
		} else {
			other[c.Workload] = true
		}
		together = together || based[c.Workload] && other[c.Workload]
	}
	switch {
	case together:
		return "No effect can be told: in no cell do the baseline and another condition both have values of one metric of which a ratio can be formed, which zero, less, and failed repetitions are not; " + elsewhere
	case len(based) > 0 && len(other) > 0:
		return "No cell holds the baseline beside another condition, and nothing is compared: a note says what parts them; " + elsewhere
	}
	return "Nothing stood beside a baseline: " + elsewhere
}

var verdicts = []overhead.Verdict{overhead.Worse, overhead.Better, overhead.Equivalent, overhead.Inconclusive}

// quoted are a command's words, fit to be pasted into a shell.
func quoted(args []string) []string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?;&|<>(){}[]#~!") {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return words
}
