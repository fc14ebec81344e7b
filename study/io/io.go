// Package io puts together the studies of input and output, S5's (Measuring the IO
// Overhead of Container Technology): memory bandwidth (package bandwidth),
// checkpoints on storage (package checkpoint), and Redis over storage and network
// (package keyvalue). Each is a command and a run of its own; what they share of a
// page and of the claims is here.
package io

import (
	"slices"
	"strings"

	"tare/advise"
	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/io/bandwidth"
	"tare/study/io/checkpoint"
	"tare/study/io/keyvalue"
	"tare/study/io/place"
)

// Name is the studies', in the store.
const Name = place.Study

// kind is what one of the studies has to say of a run of its own.
type kind struct {
	name   string
	title  string // the command
	judge  func(record.Run) []claim.Judgement
	answer func(record.Run) string
	parts  func(record.Run) []report.Part
	advice func(record.Run) []advise.Advice
	next   string // the command to run after it
	note   string // what differs from what was published
}

var kinds = []kind{
	{
		name: place.Stream, title: "tare io stream", judge: bandwidth.Judge, answer: bandwidth.Answer, parts: bandwidth.Parts, advice: bandwidth.Advice, next: "tare io haccio",
		note: "S5 had six cores, and measured the places one after the other; ratios are judged, not rates.",
	},
	{
		name: place.Haccio, title: "tare io haccio", judge: checkpoint.Judge, answer: checkpoint.Answer, parts: checkpoint.Parts, advice: checkpoint.Advice, next: "tare io redis",
		note: "S5 had an NVMe disk of 3.5 and 3.3 GB/s, and read from the page cache; ratios are judged, not rates.",
	},
	{
		name: place.Redis, title: "tare io redis", judge: keyvalue.Judge, answer: keyvalue.Answer, parts: keyvalue.Parts, advice: keyvalue.Advice, next: "tare claims S5",
		note: "S5 had six cores, Redis 6, 512 clients by several threads and one run a cell.",
	},
}

// of gives the study that a run is of; the zero kind where it is of none.
func of(run record.Run) kind {
	name := place.Of(run)
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name }); i >= 0 {
		return kinds[i]
	}
	return kind{title: "tare io", next: "tare claims S5"}
}

// Judge reaches verdicts on S5.1 to S5.3 from a run, as far as it holds what
// decides them. The run may be one that was measured elsewhere.
func Judge(run record.Run) []claim.Judgement {
	if judge := of(run).judge; judge != nil {
		return judge(run)
	}
	return nil
}

// Next proposes what to run after a run.
func Next(run record.Run) string { return of(run).next }

// Sheet composes a run's page.
func Sheet(run record.Run, judgements []claim.Judgement) report.Sheet {
	k, r := of(run), overhead.Read(run)
	s := report.Sheet{
		Title: k.title, Answer: "Nothing was measured.", Facts: facts(r),
		Banners: report.RunBanners(r), Command: strings.Join(run.Command, " "), Weight: weight(r),
	}
	if k.parts != nil {
		s.Answer, s.Together, s.Parts = k.answer(run), report.HoldTogether, k.parts(run)
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
	all := []string{"workload: " + strings.Join(programs(r.Run), ", "), report.BlocksFact(r), report.PlatformsFact(r.Run)}
	for _, c := range r.Run.Conditions {
		if c.Setting.CPUSet != "" {
			all = append(all, "place: the program on CPU "+c.Setting.CPUSet)
			break
		}
	}
	all = append(all, report.HostFact(r.Run.Host))
	if fs := r.Run.Host.FS; fs != "" {
		all = append(all, "file system: "+fs)
	}
	if when := report.TimeFact(r.Run); when != "" {
		all = append(all, when)
	}
	return all
}

// programs names the workloads of a run, without their parameters.
func programs(run record.Run) []string {
	var names []string
	for _, c := range run.Conditions {
		if name, _, _ := strings.Cut(c.Workload, "["); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// weight is what the instrument itself cost: its CPU time, its load's included.
func weight(r overhead.Reading) report.Weight {
	var own []float64
	for _, t := range r.Run.Trials {
		if v := t.Covariates["tare_cpu_share"]; v > 0 && t.Error == "" && t.Block > 0 {
			own = append(own, 100*v)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return report.Weight{{What: "tare itself, the load included, while a trial ran, used of one CPU", Unit: "%", Estimate: stats.GeometricMean(own, r.Report.Level, r.Run.Seed)}}
}
