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
	Judge: Judge, Page: page, SoFar: soFar, NextOf: next,
	Note: "S2 had 112 CPUs and KVM, and gave bare metal its size by booting with fewer CPUs; here it is kept to them. Ratios are judged, not times.",
})

// page says of attachments that cannot be read as a banner.
func page(run record.Run, attached kit.Attachments) report.Sheet {
	r := read(run)
	flames, unreadable := r.flameParts(attached)
	return report.Sheet{
		Title: title(r), Answer: Answer(run), Together: report.HoldTogether, Facts: facts(r), Banners: append(banners(r), unreadable...),
		Parts: slices.Concat(Parts(run), flames, practicesPart(r), advise.Part(Advice(run))), Weight: weight(r),
	}
}

// soFar has the first table, which says what each platform costs; the rest takes more blocks.
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
	return append(kit.OwnTime(r.Reading, ", the load included"), kit.Weigh(r.Reading, r.watchedWeight(), "the probe, where it watched, of the program's CPU time", "%")...)
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
