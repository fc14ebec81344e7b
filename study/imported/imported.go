// Package imported shows runs that were measured elsewhere and read by package
// record/foreign. Its pages have the words of tare's own runs, and say first what the
// design lacks. It measures nothing, and such a run cannot be continued.
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
	"tare/terminal"
)

// Name is the study of such runs, in the store.
const Name = "import"

// Study is what the commands need of imported runs. Their pages say what a design lacks
// before any figure.
type Study struct{}

// Judge decides the claim for which a run was imported, by the judge of our own runs. The
// verdict says that the figures are not this host's.
func (Study) Judge(run record.Run) []claim.Judgement {
	if place.Of(run) == "" || unjudged(run) != "" {
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

// unjudged says why no verdict rests on a run's figures; empty where one can.
func unjudged(run record.Run) string {
	if run.Plan.Imported == nil {
		return ""
	}
	return run.Plan.Imported.Unjudged
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
		Title: "tare import: " + strings.Join(workloads(run), ", "), Answer: answer(r),
		Together: report.Together(run, r.Report), Facts: facts(r),
		Banners: banners(r), Parts: overview(r), Command: terminal.Shell(run.Command...),
	}
	headline, tables := io.Studies.Found(run)
	if headline != "" && unjudged(run) == "" {
		s.Answer = headline + " " + s.Answer
	}
	if len(judgements) > 0 {
		s.Parts = append(s.Parts, report.Judgements{
			Title: "Verdict on the published claim",
			Note:  "The rules are those of tare's own runs. The banners above say what the design of these figures lacks.",
			Rows:  report.JudgedClaims(judgements),
		})
		s.Parts = append(s.Parts, summaries(judgements)...)
	} else if of := place.Of(run); of != "" {
		s.Parts = append(s.Parts, report.Prose{Title: "No verdict", Text: "The figures do not have what decides the claim."})
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
		fmt.Sprintf("cells: %d, with %d conditions and %d runs in all",
			len(r.Report.Groups), len(r.Run.Conditions), len(r.Run.Trials)),
		"compared: " + strings.Join(conditions, ", "),
	}
	if from := r.Run.Plan.Imported; from != nil && len(from.Sources) > 0 {
		text := from.Sources[0].Name
		if n := len(from.Sources); n > 1 {
			text = fmt.Sprintf("%s and %d more, %s", text, n-1, from.Format)
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

// banners are what the design lacks, what its importer noted, and the warnings of single
// cells; of many, their number.
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
		warnings = []string{fmt.Sprintf("cautions: %d on single cells, such as %s; tare export has all of them",
			len(warnings), warnings[0])}
	}
	return append(all, warnings...)
}

// fewRepetitions warns that repetitions may have been read as cells, where no condition has
// enough of them for an interval.
func fewRepetitions(run record.Run) string {
	const fewest = 3
	times := map[string]int{}
	for _, t := range run.Trials {
		if times[t.Condition]++; times[t.Condition] >= fewest {
			return ""
		}
	}
	return fmt.Sprintf("few: no condition has the %d repetitions that an interval requires. "+
		"If a column or a part of the file names counts repetitions, name it by --block; otherwise it makes cells", fewest)
}

// outcome is a condition's row in a cell.
type outcome struct {
	group  overhead.Group
	metric overhead.MetricReport
	row    overhead.Row
}

// outcomes are all comparisons of a run, the worst first: by verdict, then by effect.
func outcomes(r overhead.Reading) []outcome {
	var all []outcome
	for _, g := range r.Report.Groups {
		for _, m := range g.Metrics {
			for _, row := range m.Rows {
				if compared(row) {
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

// severity orders verdicts by their importance to a reader.
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

// answer is the headline: by name where there are few comparisons, else their verdicts
// counted and the worst of them.
func answer(r overhead.Reading) string {
	all := outcomes(r)
	if len(all) == 0 {
		return uncompared(r)
	}
	first := ""
	if why, _, ok := strings.Cut(unjudged(r.Run), ":"); ok {
		first = "No verdict on what varies: " + why + ". The first caution says more. "
		if !slices.ContainsFunc(all, func(o outcome) bool { return o.row.Verdict != overhead.Inconclusive }) {
			return "No verdict: " + why + ". The first caution says more."
		}
	}
	if len(r.Report.Groups) <= mostTables {
		return first + report.Answer(r.Run, r.Report)
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
	text := first + fmt.Sprintf(
		"Of %d comparisons in %d cells: %s", len(all), len(r.Report.Groups), strings.Join(words, ", "))
	if worst := all[0]; worst.row.Verdict == overhead.Worse {
		by := "by a difference, its baseline being zero,"
		if !math.IsNaN(worst.row.Percent) {
			by = place.Percent(adjusted(worst.row), 1)
		}
		text += fmt.Sprintf(
			"; the worst is %s: %s of %s is %s worse", worst.row.Label, worst.metric.Name, worst.group.Workload, by)
	}
	return text + "."
}

// uncompared says why nothing was compared.
func uncompared(r overhead.Reading) string {
	const elsewhere = "Compare the figures with another run's by tare compare."
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
		return "No effect is known: no cell has values above zero of one metric for both the baseline and another condition. " +
			"Failed repetitions do not count. " + elsewhere
	case len(based) > 0 && len(other) > 0:
		return "Nothing is compared: no cell has the baseline and another condition. A note names the factors that separate them. " + elsewhere
	}
	return "Nothing is compared: the figures have no baseline with another condition. " + elsewhere
}

var verdicts = []overhead.Verdict{overhead.Worse, overhead.Better, overhead.Equivalent, overhead.Inconclusive}
