package platforms

import (
	"fmt"
	"slices"
	"strings"

	"tare/advise"
	"tare/record"
	"tare/report"
	"tare/study/kit"
)

// Study is what the command and the page need of it.
var Study = kit.Alone(kit.Member{
	Judge: Judge, Advice: Advice, Page: page, SoFar: soFar, NextOf: next,
	Note: "S2 (published comparison of platforms) had 112 CPUs and KVM. It gave bare metal its size by booting with fewer CPUs; " +
		"here bare metal is confined to them. Verdicts rest on ratios, not on times.",
})

// page is a run's page. A banner names each attachment that cannot be read.
func page(run record.Run, attached kit.Attachments) report.Sheet {
	r := read(run)
	flames, unreadable := r.flameParts(attached)
	return report.Sheet{
		Title: title(r), Answer: Answer(run), Together: report.HoldTogether, Facts: facts(r),
		Banners: append(banners(r), unreadable...), Weight: weight(r),
		Parts: slices.Concat(Parts(run), flames, practicesPart(r), advise.Part(Advice(run))),
	}
}

// soFar has the table of what each platform costs; the rest requires more blocks.
func soFar(run record.Run) report.Sheet {
	s := report.Sheet{Title: title(read(run)), Answer: Answer(run)}
	parts := Parts(run)
	if i := slices.IndexFunc(parts, func(p report.Part) bool { _, table := p.(report.Table); return table }); i >= 0 {
		s.Parts = parts[i : i+1]
	}
	return s
}

// next proposes what to run after a run.
func next(run record.Run) string {
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
		names = append(names, s.workload)
	}
	if len(names) == 0 {
		return "tare platforms"
	}
	return "tare platforms: " + strings.Join(kit.Once(names), ", ")
}

func facts(r reading) []string {
	var sizes []string
	for _, s := range r.spots {
		sizes = append(sizes, sizeOf(s))
	}
	return kit.Facts(r.Reading, "", "sizes: "+strings.Join(kit.Once(sizes), ", "))
}

// banners are those of a run, without repeating one for each group.
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
	probe := kit.Weigh(r.Reading, r.watchedWeight(), "CPU time of the probe, where it was on, relative to the program's", "%")
	return append(kit.OwnTime(r.Reading, ", the load included"), probe...)
}

// practicesPart is S2's five practices, each with this run's evidence.
func practicesPart(r reading) []report.Part {
	if len(r.of(matrix, "")) == 0 {
		return nil
	}
	t := report.Table{
		Title:   "Practices recommended by S2, and evidence of this run",
		Columns: []report.Column{{Head: "practice"}, {Head: "for"}, {Head: "here"}, {Head: "evidence"}},
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
			var figures []string
			for _, e := range p.evidence {
				figures = append(figures, fmt.Sprintf("%s: %s %s", e.Says, report.Said(e.Figure, 1), e.Unit))
			}
			since = strings.Join(figures, "; ")
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: fmt.Sprintf("%d. %s", i+1, p.set)}, {Text: p.whom}, here, {Text: since}})
	}
	return []report.Part{t}
}
