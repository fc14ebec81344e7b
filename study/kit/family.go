package kit

import (
	"cmp"
	"slices"
	"strings"

	"tare/advise"
	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/terminal"
)

// Family is studies that have one name in the store: each is a command, and a run of its own.
type Family struct {
	Members []Member
	Of      func(record.Run) string // the name of the member that a run is of; nil where there is one alone
	// Title and Next are those of a run that is of no member.
	Title, Next string
	// Facts, where there are any, stand with those that every page has.
	Facts func(record.Run) []string
}

// Member is one study of a family: its results of a run of its own. They are given by Answer,
// Parts and Advice, each of which reads the run, or by Page, which reads it once.
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
	// Page, where there is one, is a finished page without verdicts, in the place of the
	// above. Where it leaves out the title, the answer or the facts, they are every page's.
	Page func(run record.Run, attached Attachments) report.Sheet
	// SoFar, where there is one, is the same of a run that is under way, of which only tables
	// are shown.
	SoFar  func(record.Run) report.Sheet
	Next   string                  // the command to run after it
	NextOf func(record.Run) string // where that depends on the run
	Note   string                  // how the published measurement differs
}

// Alone is a study that shares its name in the store with no other.
func Alone(m Member) Family { return Family{Members: []Member{m}} }

// NamedBy gives the study that a run is of where a factor of its conditions names it; empty
// where none does.
func NamedBy(factor string) func(record.Run) string {
	return func(run record.Run) string {
		for _, c := range run.Conditions {
			if name := c.Factors[factor]; name != "" {
				return name
			}
		}
		return ""
	}
}

func (f Family) of(run record.Run) Member {
	if f.Of == nil {
		return f.Members[0]
	}
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
func (f Family) NextOf(run record.Run) string {
	m := f.of(run)
	if m.NextOf != nil {
		return cmp.Or(m.NextOf(run), m.Next)
	}
	return m.Next
}

// Sheet composes a run's page. What attachments hold is missing without them.
func (f Family) Sheet(run record.Run, attached Attachments, judgements []claim.Judgement) report.Sheet {
	m := f.of(run)
	var s report.Sheet
	if m.Page != nil {
		s = m.Page(run, attached)
	} else {
		s = f.found(run, m)
	}
	s.Title, s.Answer = cmp.Or(s.Title, m.Title), cmp.Or(s.Answer, "Nothing was measured.")
	s.Command = terminal.Shell(run.Command...)
	if s.Facts == nil {
		r := overhead.Read(run)
		s.Facts = f.facts(r)
		if s.Banners == nil {
			s.Banners = report.RunBanners(r)
		}
		if s.Weight == nil {
			s.Weight = weight(r)
		}
	}
	if len(judgements) > 0 {
		s.Parts = append(s.Parts, report.Judgements{
			Title: "Published claims", Note: m.Note, Rows: report.JudgedClaims(judgements),
		})
	}
	return s
}

// found is what a member says that has no page of its own.
func (f Family) found(run record.Run, m Member) (s report.Sheet) {
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
	return s
}

// Interim is the page of a run that is under way.
func (f Family) Interim(run record.Run) report.Sheet {
	m := f.of(run)
	var s report.Sheet
	if m.SoFar != nil {
		s = m.SoFar(run)
	} else {
		s.Answer, s.Parts = f.Found(run)
	}
	s.Title, s.Answer = cmp.Or(s.Title, m.Title)+", so far", cmp.Or(s.Answer, "Nothing was measured yet.")
	s.Parts = slices.DeleteFunc(s.Parts, func(p report.Part) bool { _, table := p.(report.Table); return !table })
	return s
}

// Advice is what a run recommends.
func (f Family) Advice(run record.Run) []advise.Advice {
	if advice := f.of(run).Advice; advice != nil {
		return advice(run)
	}
	return nil
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
	var workloads, place, ofHost []string
	for _, c := range r.Run.Conditions {
		if name, _, _ := strings.Cut(c.Workload, "["); !slices.Contains(workloads, name) {
			workloads = append(workloads, name)
		}
		if place == nil && c.Setting.CPUSet != "" {
			place = []string{"place: the program on CPU " + c.Setting.CPUSet}
		}
	}
	if f.Facts != nil {
		ofHost = f.Facts(r.Run)
	}
	return facts(r, []string{"workload: " + strings.Join(workloads, ", ")}, place, ofHost)
}

// Facts are how a run was measured: ran says what did, own is what the study says besides.
// What is empty is left out.
func Facts(r overhead.Reading, ran string, own ...string) []string {
	return facts(r, []string{ran}, own, nil)
}

func facts(r overhead.Reading, ran, own, ofHost []string) []string {
	all := slices.Concat(
		ran, []string{report.BlocksFact(r), report.PlatformsFact(r.Run)}, own,
		[]string{report.HostFact(r.Run.Host)}, ofHost, []string{report.TimeFact(r.Run)},
	)
	return slices.DeleteFunc(all, func(fact string) bool { return fact == "" })
}

// LatenessP99 is the covariate of how late the generator of an open loop sent requests.
const LatenessP99 = "lateness_p99_us"

// weight is the cost of the instrument itself: its CPU time, and the lateness of its
// generator.
func weight(r overhead.Reading) report.Weight {
	return append(OwnTime(r, ", the load included"),
		Weigh(r, Covariates(r, LatenessP99, 1), "lateness of requests of an open loop, p99", "us")...)
}

// OwnTime is the CPU time that tare itself took; with says what that holds besides, after a
// comma.
func OwnTime(r overhead.Reading, with string) report.Weight {
	return Weigh(r, Covariates(r, "tare_cpu_share", 100), "CPU time of tare itself"+with+", during a trial, of one CPU", "%")
}

// Weigh is the mean of values as a page's weight; nothing where there are none.
func Weigh(r overhead.Reading, values []float64, what, unit string) report.Weight {
	if len(values) == 0 {
		return nil
	}
	return report.Weight{{What: what, Unit: unit, Estimate: stats.GeometricMean(values, r.Report.Level, r.Run.Seed)}}
}

// Covariates are the values above zero of a covariate, times scale, of the trials that count.
func Covariates(r overhead.Reading, name string, scale float64) []float64 {
	var values []float64
	for _, t := range r.Run.Trials {
		if v := t.Covariates[name]; v > 0 && t.Block > 0 && t.Error == "" {
			values = append(values, scale*v)
		}
	}
	return values
}
