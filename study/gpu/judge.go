package gpu

import (
	"fmt"
	"slices"
	"strings"

	"tare/claim"
	"tare/overhead"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Judge reaches verdicts on S1.13 to S1.15 from a run, as far as it holds what decides
// them. Rules and thresholds are the claims' own (package claim). Where no container could
// be set against bare metal they are inconclusive, with what was tried.
func Judge(run record.Run) []claim.Judgement {
	r := readRun(only(run, "wall", "total", "kernels", "module", "allocate", "to-device", "from-device",
		metricKernelShare, metricAPIShare, metricLoads))
	if len(r.subjects) == 0 || r.emulated() {
		return nil
	}
	containers := r.containers()
	if len(containers) == 0 {
		return r.undecided()
	}
	of := containers[0]
	var all []claim.Judgement
	for _, judge := range []func(string) (claim.Judgement, bool){r.kernels, r.endToEnd, r.compilation} {
		if j, ok := judge(of); ok {
			all = append(all, j)
		}
	}
	return all
}

// undecided says of every claim that the platforms could not be compared here.
func (r reading) undecided() []claim.Judgement {
	tried := slices.DeleteFunc(slices.Clone(r.Run.Plan.Notes), func(n string) bool {
		return !strings.Contains(n, "left out") && !strings.Contains(n, "cannot be had")
	})
	rests := "inconclusive here: no container ran beside " + r.base()
	if len(tried) > 0 {
		rests += "; tried: " + strings.Join(tried, "; ")
	}
	var all []claim.Judgement
	for _, id := range []string{"S1.13", "S1.14", "S1.15"} {
		all = append(all, claim.Judgement{
			Claim: id, Verdict: claim.Inconclusive, Ours: "no platform to compare", Rests: rests,
		})
	}
	return all
}

// few is why an estimate has no interval.
func few(e stats.Estimate) string {
	if e.N == 1 {
		return "1 block is too few for an interval"
	}
	return claim.TooFew(e.N)
}

// within reports whether the interval of a percentage lies wholly within most of no effect.
func within(e stats.Estimate, most float64) bool {
	// Of ratios: 1/(1+most) is as near below as 1+most is above.
	return e.Known() && e.Interval.High < most && e.Interval.Low > -100*most/(100+most)
}

// firstCell is the cell that a claim is judged in: code for the exact device, else what the
// run has first.
func (r reading) firstCell() (cell, bool) {
	cells := r.cells()
	if slices.Contains(cells, exact) {
		return exact, true
	}
	if len(cells) == 0 {
		return cell{}, false
	}
	return cells[0], true
}

// kernels judges S1.13: kernels have the same share of time in a container.
func (r reading) kernels(on string) (claim.Judgement, bool) {
	j := claim.Judgement{Claim: "S1.13"}
	c, ok := r.firstCell()
	timed := having(r.subjects, pick{platform: r.base(), cell: c}, pick{platform: on, cell: c})
	if !ok || len(timed) == 0 {
		return j, false
	}
	native, contained := pick{r.base(), c, true}, pick{on, c, true}
	subjects := having(timed, native, contained)
	r = r.together(1 + len(subjects)) // all, and each by itself
	moved := func(of []subject) stats.Estimate {
		return r.Mean(overhead.Difference(
			r.meanBlocks(of, native, metricKernelShare), r.meanBlocks(of, contained, metricKernelShare)))
	}
	points := claim.Threshold(j.Claim, "smallest effect")
	all := moved(subjects)
	var off []string
	for _, s := range subjects {
		e := moved([]subject{s})
		if claim.Inside(e, -points, points) == claim.False {
			off = append(off, s.name)
		}
		j.Figures = append(j.Figures, claim.Ours("kernels' share more than native, "+s.name, e, 1, "points"))
	}
	level := func(p pick, metric string) stats.Estimate { return r.Mean(r.meanBlocks(subjects, p, metric)) }
	time := r.slower(timed, on, c, "kernels")
	j.Figures = claim.Measured(append([]claim.Figure{
		claim.Ours("kernels, native", level(native, metricKernelShare), 1, "%"),
		claim.Ours("API, native", level(native, metricAPIShare), 1, "%"),
		claim.Ours("kernels, container", level(contained, metricKernelShare), 1, "%"),
		claim.Ours("API, container", level(contained, metricAPIShare), 1, "%"),
		claim.Ours("kernels' share more than native, all", all, 1, "points"),
		claim.Ours("kernels' time, all", time, 1, "%"),
	}, j.Figures...)...)
	alike := claim.Inside(all, -points, points)
	var why string
	j.Verdict, why = claim.Decide(
		claim.When(claim.Is(len(subjects) == 0), claim.Inconclusive, "the split between kernels and calls requires the activity probe, which was missing"),
		claim.When(claim.Is(!all.Known()), claim.Inconclusive, few(all)),
		claim.When(claim.Every(alike, claim.Is(len(off) == 0)), claim.Confirmed, ""),
		claim.When(alike, claim.Qualified, "but not for "+strings.Join(off, ", ")),
		claim.When(claim.Not(alike), claim.Refuted, fmt.Sprintf("the shares differ by more than %g points", points)),
		claim.When(claim.True, claim.Inconclusive, fmt.Sprintf("the interval of the difference includes %g points", points)))
	j.Ours = fmt.Sprintf("kernels' share of the time of kernels and calls is %s points more in %s; kernels take %s %% longer",
		report.Said(all, 1), on, report.Said(time, 1))
	j.Rests = fmt.Sprintf("%s of %s, built %s; shares are by the activity probe, kernel times from the device's events",
		report.Counted(all.N, "block"), listed(timed), c.text())
	if why != "" {
		j.Rests += ": " + why
	}
	return j, true
}

// endToEnd judges S1.14: the whole run takes a few percent longer.
func (r reading) endToEnd(on string) (claim.Judgement, bool) {
	j := claim.Judgement{Claim: "S1.14"}
	c, ok := r.firstCell()
	subjects := having(r.subjects, pick{platform: r.base(), cell: c}, pick{platform: on, cell: c})
	if !ok || len(subjects) == 0 {
		return j, false
	}
	published, err := claim.Lookup(j.Claim)
	if err != nil {
		return j, false
	}
	bounds, _ := published.Limit("slower, mean")
	least, most := bounds.Ends()
	all, inside := r.slower(subjects, on, c, "wall"), r.slower(subjects, on, c, "total")
	j.Figures = append(j.Figures, claim.Ours("slower, mean", all, 1, "%"), claim.Ours("slower, mean, from main on", inside, 1, "%"))
	for _, s := range subjects {
		name := "slower, " + s.name
		if s.name == programs.ParticleFilter {
			name = "slower, particle filter" // as S1 has it
		}
		j.Figures = append(j.Figures, claim.Ours(name, r.slower([]subject{s}, on, c, "wall"), 1, "%"))
	}
	why := ""
	switch {
	case !all.Known():
		j.Verdict, why = claim.Inconclusive, few(all)
	case all.Interval.Low > least && all.Interval.High < most:
		j.Verdict = claim.Confirmed
	case all.Interval.High < least:
		j.Verdict, why = claim.Refuted, fmt.Sprintf("the loss is below %g %%", least)
	case all.Interval.Low > most:
		j.Verdict, why = claim.Refuted, fmt.Sprintf("the loss is above %g %%", most)
	default:
		j.Verdict, why = claim.Inconclusive, fmt.Sprintf("the interval lies partly outside %s", bounds.Text())
	}
	j.Ours = fmt.Sprintf("%s %% longer in %s from launch to end; %s %% from main on",
		report.Said(all, 1), on, report.Said(inside, 1))
	j.Rests = fmt.Sprintf("%s of %s, built %s", report.Counted(all.N, "block"), listed(subjects), c.text())
	if why != "" {
		j.Rests += ": " + why
	}
	cold := r.slower(having(subjects, pick{platform: on, cell: ptxCold}), on, ptxCold, "wall")
	if known(cold) && c != ptxCold {
		j.Figures = append(j.Figures, claim.Ours("slower, mean, PTX and a cold cache", cold, 1, "%"))
		j.Rests += fmt.Sprintf("; with PTX and a cold cache %s %%", report.Said(cold, 1))
	}
	j.Rests += "; S1 does not say whether its time includes the container's start. Here it does; the time from main on does not"
	j.Figures = claim.Measured(j.Figures...)
	return j, true
}

// compilation judges S1.15: what is lost is lost while PTX is compiled.
func (r reading) compilation(on string) (claim.Judgement, bool) {
	j := claim.Judgement{Claim: "S1.15"}
	native := func(c cell) pick { return pick{platform: r.base(), cell: c} }
	contained := func(c cell) pick { return pick{platform: on, cell: c} }
	subjects := having(r.subjects, native(exact), contained(exact), native(ptxCold), contained(ptxCold))
	if len(subjects) == 0 {
		return j, false
	}
	r = r.together(3) // compiling, exact code, and what lies between it and PTX
	smallest := claim.Threshold(j.Claim, "smallest effect")
	code, cold := r.slower(subjects, on, exact, "wall"), r.slower(subjects, on, ptxCold, "wall")
	warm := r.slower(subjects, on, ptxWarm, "wall")
	compile := r.slower(subjects, on, ptxCold, "module")
	more := r.excess(subjects, on).PercentMore()
	j.Figures = append(j.Figures,
		claim.Ours("compilation, overhead, mean", compile, 1, "%"),
		claim.Ours("end to end, exact code", code, 1, "%"), claim.Ours("end to end, PTX, cold cache", cold, 1, "%"),
		claim.Ours("end to end, PTX, warm cache", warm, 1, "%"), claim.Ours("PTX with a cold cache over exact code", more, 1, "%"),
		claim.Ours("allocation, overhead", r.slower(subjects, on, exact, "allocate"), 1, "%"),
		claim.Ours("copy, overhead, mean", r.copies(subjects, on), 1, "%"))
	for name, program := range map[string]string{"LeNet": programs.LeNet, "stencil": programs.Stencil} {
		of := slices.DeleteFunc(slices.Clone(subjects), func(s subject) bool {
			return !strings.HasPrefix(s.name, program)
		})
		if len(of) > 0 {
			j.Figures = append(j.Figures, claim.Ours("compilation, overhead, "+name, r.slower(of, on, ptxCold, "module"), 1, "%"))
		}
	}
	if probed := r.probedSlower(subjects, on, ptxCold, metricLoads); known(probed) {
		j.Figures = append(j.Figures, claim.Ours("compilation by the probe, overhead, mean", probed, 1, "%"))
	}
	if part := r.part(subjects, contained(exact), "allocate"); known(part) {
		j.Figures = append(j.Figures, claim.Ours("allocation, of the run", part, 100, "%"))
	}
	why := ""
	switch {
	case !code.Known() || !cold.Known() || !compile.Known():
		j.Verdict, why = claim.Inconclusive, few(cold)
	case within(compile, smallest):
		j.Verdict, why = claim.Refuted, fmt.Sprintf("compilation takes the same time in the container, within %g %%", smallest)
	case more.Interval.Low > 0 && within(code, smallest):
		j.Verdict = claim.Confirmed
	case more.Interval.Low > 0:
		j.Verdict = claim.Qualified
		why = fmt.Sprintf("the loss grows with compilation, but exact code is not within %g %% of %s either", smallest, r.base())
	default:
		j.Verdict, why = claim.Inconclusive, "it is undecided whether the loss grows with compilation"
	}
	j.Ours = fmt.Sprintf("in %s compilation takes %s %% longer; from launch to end, exact code %s %%, PTX with a cold cache %s %%",
		on, report.Said(compile, 1), report.Said(code, 1), report.Said(cold, 1))
	if known(warm) {
		j.Ours += fmt.Sprintf(", with a warm cache %s %%", report.Said(warm, 1))
	}
	j.Rests = fmt.Sprintf("%s of %s; compilation is the time of loading all kernels, by the program's own clock",
		report.Counted(cold.N, "block"), listed(subjects))
	if why != "" {
		j.Rests += ": " + why
	}
	slices.SortStableFunc(j.Figures, func(a, b claim.Figure) int { return strings.Compare(a.Name, b.Name) })
	j.Figures = claim.Measured(j.Figures...)
	return j, true
}

// excess is by how much more a container costs PTX with a cold cache than exact code, as
// a ratio of ratios, block by block.
func (r reading) excess(subjects []subject, on string) stats.Estimate {
	over := func(c cell) map[int]float64 {
		base := r.blocks(subjects, pick{platform: r.base(), cell: c}, "wall")
		contained := r.blocks(subjects, pick{platform: on, cell: c}, "wall")
		all := map[int]float64{}
		for block, v := range contained {
			if b, ok := base[block]; ok && b > 0 {
				all[block] = v / b
			}
		}
		return all
	}
	return r.Ratio(over(exact), over(ptxCold))
}

// copies is how much longer copies take in the container, over both directions.
func (r reading) copies(subjects []subject, on string) stats.Estimate {
	both := func(p pick) map[int]float64 {
		to, from := r.blocks(subjects, p, "to-device"), r.blocks(subjects, p, "from-device")
		all := map[int]float64{}
		for block, v := range to {
			if f, ok := from[block]; ok {
				all[block] = v + f
			}
		}
		return all
	}
	return r.Ratio(both(pick{platform: r.base(), cell: exact}), both(pick{platform: on, cell: exact})).PercentMore()
}

// part is a phase's of the whole run.
func (r reading) part(subjects []subject, p pick, metric string) stats.Estimate {
	return r.Ratio(r.blocks(subjects, p, "wall"), r.blocks(subjects, p, metric))
}

func listed(subjects []subject) string {
	names := make([]string, len(subjects))
	for i, s := range subjects {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}
