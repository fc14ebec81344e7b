package platforms

import (
	"fmt"
	"slices"
	"strings"

	"tare/advise"
	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// Sheet composes a run's page. Attachments that cannot be read are told as a banner.
func Sheet(run record.Run, attachments kit.Attachments, judgements []claim.Judgement) report.Sheet {
	r := read(run)
	s := report.Sheet{
		Title: title(r), Answer: Answer(run), Together: report.HoldTogether, Facts: facts(r), Banners: banners(r),
		Parts: Parts(run), Weight: weight(r), Command: strings.Join(run.Command, " "),
	}
	flames, unreadable := r.flameParts(attachments)
	s.Parts = append(s.Parts, flames...)
	s.Banners = append(s.Banners, unreadable...)
	s.Parts = append(s.Parts, practicesPart(r)...)
	s.Parts = append(s.Parts, advise.Part(Advice(run))...)
	if len(judgements) > 0 {
		s.Parts = append(s.Parts, report.Judgements{
			Title: "What was published, and what is so here",
			Note:  "S2 had 112 CPUs and KVM, and gave bare metal its size by booting with fewer CPUs; here it is kept to them. Ratios are judged, not times.",
			Rows:  report.JudgedClaims(judgements),
		})
	}
	return s
}

// Interim is the page of a run that is under way.
func Interim(run record.Run) report.Sheet {
	s := report.Sheet{Title: title(read(run)) + ", so far", Answer: Answer(run)}
	for _, p := range Parts(run) {
		if t, ok := p.(report.Table); ok {
			s.Parts = append(s.Parts, t)
			break // the first says what each costs; the rest takes more blocks
		}
	}
	return s
}

// Next proposes what to run after a run.
func Next(run record.Run) string {
	r := read(run)
	if len(r.of(ofTasking, "")) == 0 && slices.Contains(r.names(matrix), computing[0]) {
		for _, p := range r.parted() {
			if p.kind() == CN && p.column.preset == Vanilla && (p.err != nil || p.sizeErr != nil) && len(p.points) > 0 {
				return larger(p.workload, "--cpus "+r.fourSizes())
			}
		}
		return larger(computing[0], "--tasks one,many")
	}
	return "tare claims S2"
}

func title(r reading) string {
	var names []string
	for _, s := range r.spots {
		if !slices.Contains(names, s.workload) {
			names = append(names, s.workload)
		}
	}
	if len(names) == 0 {
		return "tare platforms"
	}
	return "tare platforms: " + strings.Join(names, ", ")
}

func facts(r reading) []string {
	all := []string{report.BlocksFact(r.Reading), report.PlatformsFact(r.Run)}
	var sizes []string
	for _, s := range r.spots {
		if text := sizeOf(s); !slices.Contains(sizes, text) {
			sizes = append(sizes, text)
		}
	}
	all = append(all, "sizes: "+strings.Join(sizes, ", "), report.HostFact(r.Run.Host))
	if when := report.TimeFact(r.Run); when != "" {
		all = append(all, when)
	}
	return all
}

// banners say once what would else be said of each group.
func banners(r reading) []string {
	short := r
	short.Run.Conditions = nil
	seen := map[string]bool{}
	for _, c := range r.Run.Conditions {
		key := c.Platform + c.NotRepresentative
		if c.NotRepresentative != "" && !seen[key] {
			seen[key] = true
			c.Label = c.Platform
			short.Run.Conditions = append(short.Run.Conditions, c)
		}
	}
	return report.RunBanners(short.Reading)
}

// weight is what the instrument itself cost.
func weight(r reading) report.Weight {
	var own []float64
	for _, t := range r.Run.Trials {
		if v := t.Covariates["tare_cpu_share"]; v > 0 && t.Error == "" && t.Block > 0 {
			own = append(own, 100*v)
		}
	}
	var w report.Weight
	if len(own) > 0 {
		w = append(w, report.WeightItem{What: "tare itself, the load included, while a trial ran, used of one CPU", Unit: "%", Estimate: stats.GeometricMean(own, r.Report.Level, r.Run.Seed)})
	}
	if probe := r.watchedWeight(); len(probe) > 0 {
		w = append(w, report.WeightItem{What: "the probe, where it watched, of the program's CPU time", Unit: "%", Estimate: stats.GeometricMean(probe, r.Report.Level, r.Run.Seed)})
	}
	return w
}

// practicesPart is S2's five practices, each with what this run says of it.
func practicesPart(r reading) []report.Part {
	if len(r.of(matrix, "")) == 0 {
		return nil
	}
	t := report.Table{
		Title:   "S2's five practices, by this run's own evidence",
		Columns: []report.Column{{Head: "practice"}, {Head: "for"}, {Head: "here"}, {Head: "since"}},
	}
	for i, p := range r.practices() {
		here := report.Cell{Text: string(p.stand)}
		switch p.stand {
		case stands:
			here.Tone = report.Good
		case against:
			here.Tone = report.Bad
		default:
			here.Tone = report.Faint
		}
		since := p.why
		if p.stand != notShown || since == "" {
			var said []string
			for _, e := range p.evidence {
				said = append(said, fmt.Sprintf("%s: %s %s", e.Says, report.Said(e.Figure, 1), e.Unit))
			}
			since = strings.Join(said, "; ")
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: fmt.Sprintf("%d. %s", i+1, p.set)}, {Text: p.whom}, here, {Text: since}})
	}
	return []report.Part{t}
}
