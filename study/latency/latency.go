// Package latency puts together the studies of a service's latency in a
// container, S4's (The Impact of Docker Containers on Service Latency): what CPU
// time it is granted (package cpu), the path of its network (package network),
// and the files of its image (package files). Each is a command and a run of its
// own; what they share of a page and of the claims is here.
package latency

import (
	"slices"
	"strings"

	"tare/advise"
	"tare/claim"
	"tare/lab"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/latency/cpu"
	"tare/study/latency/files"
	"tare/study/latency/network"
	"tare/study/latency/service"
)

// Name is the studies', in the store.
const Name = service.Study

// factorOf names the study of a run, in its conditions' factors.
const factorOf = "latency"

// The studies.
const (
	CPU     = "cpu"
	Network = "network"
	Files   = "files"
	Predict = "predict"
)

// kind is what one of the studies has to say of a run of its own.
type kind struct {
	name   string
	title  string // the command
	judge  func(record.Run) []claim.Judgement
	answer func(record.Run) string
	parts  func(record.Run) []report.Part
	// more, where there is any, takes seconds to compute and stands in a finished page
	// alone.
	more   func(record.Run) []report.Part
	advice func(record.Run) []advise.Advice
	next   string // the command to run after it
	note   string // what differs from what was published
}

var kinds = []kind{
	{
		name: CPU, title: "tare latency cpu", judge: cpu.Judge, answer: cpu.Answer, parts: cpu.Parts, more: predictedParts, advice: cpu.Advice, next: "tare latency network",
		note: "S4 had the client on a second machine, Docker of 2016 and a service of some 240 us a round trip: what is judged is ratios and shapes, not microseconds.",
	},
	{
		name: Network, title: "tare latency network", judge: network.Judge, answer: network.Answer, parts: network.Parts, advice: network.Advice, next: "tare latency files",
		note: "S4 had the client on a second machine, behind a wire, and Docker of 2016; what a way adds is judged, not how long a trip takes.",
	},
	{
		name: Files, title: "tare latency files", judge: files.Judge, answer: files.Answer, parts: files.Parts, advice: files.Advice, next: "tare claims S4",
		note: "S4 had AUFS and Docker of 2016; times are of operations inside the container, on a warm page cache.",
	},
	{
		name: Predict, title: "tare predict quota", answer: measuredDemand, parts: cpu.Demands, next: "tare claims S4.2",
	},
}

// of gives the study that a run is of; the zero kind where it is of none.
func of(run record.Run) kind {
	for _, c := range run.Conditions {
		for _, k := range kinds {
			if k.name == c.Factors[factorOf] {
				return k
			}
		}
	}
	return kind{title: "tare latency", next: "tare claims S4"}
}

// Of marks a design as one of these studies'.
func Of(name string, d lab.Design) lab.Design {
	d.Study = Name
	for i := range d.Groups {
		for j := range d.Groups[i].Conditions {
			c := &d.Groups[i].Conditions[j]
			if c.Factors == nil {
				c.Factors = map[string]string{}
			}
			c.Factors[factorOf] = name
		}
	}
	return d
}

// Judge reaches verdicts on S4.1 to S4.8 from a run, as far as it holds what
// decides them.
func Judge(run record.Run) []claim.Judgement {
	if judge := of(run).judge; judge != nil {
		return judge(run)
	}
	return nil
}

// Next proposes what to run after a run: of a prediction, the same again with the
// quotas measured.
func Next(run record.Run) string {
	k := of(run)
	if k.name == Predict && len(run.Command) > 1 && !slices.Contains(run.Command, "--validate") {
		return "tare " + strings.Join(append(withoutHome(run.Command[1:]), "--validate"), " ")
	}
	return k.next
}

// withoutHome leaves out the state directory, which whoever shows the command adds.
func withoutHome(args []string) []string {
	var rest []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--home":
			i++ // and its value
		case strings.HasPrefix(args[i], "--home="):
		default:
			rest = append(rest, args[i])
		}
	}
	return rest
}

// Sheet composes a run's page.
func Sheet(run record.Run, judgements []claim.Judgement) report.Sheet {
	k, r := of(run), overhead.Read(run)
	s := report.Sheet{
		Title: k.title, Answer: "Nothing was measured.", Facts: facts(r),
		Banners: report.RunBanners(r), Command: strings.Join(run.Command, " "), Weight: weight(r),
	}
	if k.name == Predict {
		s.Answer, s.Parts = predictedPage(run)
		return s
	}
	if k.parts != nil {
		s.Answer, s.Together, s.Parts = k.answer(run), report.HoldTogether, k.parts(run)
	}
	if k.more != nil {
		s.Parts = append(s.Parts, k.more(run)...)
	}
	if k.advice != nil {
		s.Parts = append(s.Parts, advise.Part(k.advice(run))...)
	}
	if len(judgements) > 0 {
		s.Parts = append(s.Parts, report.Judgements{Title: "What was published, and what is so here", Note: k.note, Rows: report.JudgedClaims(judgements)})
	}
	return s
}

// Interim is the page of a run that is under way.
func Interim(run record.Run) report.Sheet {
	k := of(run)
	s := report.Sheet{Title: k.title + ", so far", Answer: "Nothing was measured yet."}
	if k.parts == nil {
		return s
	}
	s.Answer = k.answer(run)
	for _, p := range k.parts(run) {
		if t, ok := p.(report.Table); ok {
			s.Parts = append(s.Parts, t)
		}
	}
	return s
}

func facts(r overhead.Reading) []string {
	var workloads []string
	place := ""
	for _, c := range r.Run.Conditions {
		name, _, _ := strings.Cut(c.Workload, "[")
		if !slices.Contains(workloads, name) {
			workloads = append(workloads, name)
		}
		if c.Setting.CPUSet != "" {
			place = c.Setting.CPUSet
		}
	}
	all := []string{"workload: " + strings.Join(workloads, ", "), report.BlocksFact(r), report.PlatformsFact(r.Run)}
	if place != "" {
		all = append(all, "place: the program on CPU "+place)
	}
	all = append(all, report.HostFact(r.Run.Host))
	if when := report.TimeFact(r.Run); when != "" {
		all = append(all, when)
	}
	return all
}

// weight is what the instrument itself cost: its CPU time, and how late the
// generator sent what was due.
func weight(r overhead.Reading) report.Weight {
	var own, late []float64
	for _, t := range r.Run.Trials {
		if t.Block == 0 || t.Error != "" {
			continue
		}
		if v := t.Covariates["tare_cpu_share"]; v > 0 {
			own = append(own, 100*v)
		}
		if v := t.Covariates[service.LatenessP99]; v > 0 {
			late = append(late, v)
		}
	}
	var w report.Weight
	if len(own) > 0 {
		w = append(w, report.WeightItem{What: "tare itself, the load included, while a trial ran, used of one CPU", Unit: "%", Estimate: stats.GeometricMean(own, r.Report.Level, r.Run.Seed)})
	}
	if len(late) > 0 {
		w = append(w, report.WeightItem{What: "of an open loop, requests were sent late at the p99 by", Unit: "us", Estimate: stats.GeometricMean(late, r.Report.Level, r.Run.Seed)})
	}
	return w
}
