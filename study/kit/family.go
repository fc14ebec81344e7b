package kit

import (
	"slices"
	"strings"

	"tare/advise"
	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Family is studies that have one name in the store: each is a command, and a run of its own.
type Family struct {
	Members []Member
	Of      func(record.Run) string // the name of the member that a run is of
	// Title and Next are those of a run that is of no member.
	Title, Next string
	// Facts, where there are any, stand with those that every page has.
	Facts func(record.Run) []string
}

// Member is one study of a family: what it has to say of a run of its own.
type Member struct {
	Name   string
	Title  string // the command
	Judge  func(record.Run) []claim.Judgement
	Answer func(record.Run) string
	Parts  func(record.Run) []report.Part
	// More, where there is any, takes seconds to compute, and stands on a finished page
	// alone.
	More   func(record.Run) []report.Part
	Advice func(record.Run) []advise.Advice
	// Page, where there is one, is all that a finished page says, in the place of the above.
	Page func(record.Run) (answer string, parts []report.Part)
	Next string // the command to run after it
	Note string // how the published measurement differs
}

func (f Family) of(run record.Run) Member {
	name := f.Of(run)
	if i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == name }); i >= 0 {
		return f.Members[i]
	}
	return Member{Title: f.Title, Next: f.Next}
}

// Judge reaches verdicts on published claims from a run, as far as it holds what decides
// them.
func (f Family) Judge(run record.Run) []claim.Judgement {
	if judge := f.of(run).Judge; judge != nil {
		return judge(run)
	}
	return nil
}

// NextOf proposes what to run after a run.
func (f Family) NextOf(run record.Run) string { return f.of(run).Next }

// Sheet composes a run's page.
func (f Family) Sheet(run record.Run, judgements []claim.Judgement) report.Sheet {
	m, r := f.of(run), overhead.Read(run)
	s := report.Sheet{
		Title: m.Title, Answer: "Nothing was measured.", Facts: f.facts(r),
		Banners: report.RunBanners(r), Command: strings.Join(run.Command, " "), Weight: weight(r),
	}
	if m.Page != nil {
		s.Answer, s.Parts = m.Page(run)
		return s
	}
	if m.Parts != nil {
		s.Together = report.HoldTogether
		s.Answer, s.Parts = f.Found(run)
	}
	if m.More != nil {
		s.Parts = append(s.Parts, m.More(run)...)
	}
	if m.Advice != nil {
		s.Parts = append(s.Parts, advise.Part(m.Advice(run))...)
	}
	if len(judgements) > 0 {
		s.Parts = append(s.Parts, report.Judgements{Title: "What was published, and what is so here", Note: m.Note, Rows: report.JudgedClaims(judgements)})
	}
	return s
}

// Interim is the page of a run that is under way.
func (f Family) Interim(run record.Run) report.Sheet {
	m := f.of(run)
	s := report.Sheet{Title: m.Title + ", so far", Answer: "Nothing was measured yet."}
	answer, parts := f.Found(run)
	if answer != "" {
		s.Answer = answer
	}
	for _, p := range parts {
		if t, ok := p.(report.Table); ok {
			s.Parts = append(s.Parts, t)
		}
	}
	return s
}

// Found is what the member that a run is of reads in it: a sentence and tables, without
// advice. Empty where the run is of none.
func (f Family) Found(run record.Run) (answer string, parts []report.Part) {
	m := f.of(run)
	if m.Parts == nil {
		return "", nil
	}
	return m.Answer(run), m.Parts(run)
}

func (f Family) facts(r overhead.Reading) []string {
	var workloads []string
	place := ""
	for _, c := range r.Run.Conditions {
		if name, _, _ := strings.Cut(c.Workload, "["); !slices.Contains(workloads, name) {
			workloads = append(workloads, name)
		}
		if place == "" {
			place = c.Setting.CPUSet
		}
	}
	all := []string{"workload: " + strings.Join(workloads, ", "), report.BlocksFact(r), report.PlatformsFact(r.Run)}
	if place != "" {
		all = append(all, "place: the program on CPU "+place)
	}
	all = append(all, report.HostFact(r.Run.Host))
	if f.Facts != nil {
		all = append(all, f.Facts(r.Run)...)
	}
	if when := report.TimeFact(r.Run); when != "" {
		all = append(all, when)
	}
	return all
}

// LatenessP99 is the covariate of an open loop that says how late its generator sent.
const LatenessP99 = "lateness_p99_us"

// weight is what the instrument itself cost: its CPU time, and how late its generator sent
// what was due.
func weight(r overhead.Reading) (w report.Weight) {
	var own, late []float64
	for _, t := range r.Run.Trials {
		if t.Block == 0 || t.Error != "" {
			continue
		}
		if v := t.Covariates["tare_cpu_share"]; v > 0 {
			own = append(own, 100*v)
		}
		if v := t.Covariates[LatenessP99]; v > 0 {
			late = append(late, v)
		}
	}
	add := func(values []float64, what, unit string) {
		if len(values) > 0 {
			w = append(w, report.WeightItem{What: what, Unit: unit, Estimate: stats.GeometricMean(values, r.Report.Level, r.Run.Seed)})
		}
	}
	add(own, "tare itself, the load included, while a trial ran, used of one CPU", "%")
	add(late, "of an open loop, requests were sent late at the p99 by", "us")
	return w
}
