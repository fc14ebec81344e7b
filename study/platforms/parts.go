package platforms

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"tare/model/size"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Answer is what a run shows, in a sentence or two: the greatest cost with an interval, and the least.
func Answer(run record.Run) string {
	r := read(run)
	r = r.together(len(r.cells())) // of which the greatest and the least are named
	cells := r.cells()
	bounded := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return !c.cost.Known() })
	// The cost of emulation stands for no platform.
	isEmulated := func(c cell) bool { return emulated(c.of) != "" }
	if real := slices.DeleteFunc(slices.Clone(bounded), isEmulated); len(real) > 0 {
		bounded = real
	}
	switch {
	case len(cells) == 0 && len(r.of(ofTasking, ""))+len(r.of(ofHosts, "")) > 0:
		return r.answerAsked()
	case len(cells) == 0 || !slices.ContainsFunc(cells, func(c cell) bool { return c.cost.Value > 0 }):
		return "Nothing was measured."
	case len(bounded) == 0:
		return "The costs are not known yet: an interval requires three blocks."
	}
	worst, best := bounded[0], bounded[len(bounded)-1]
	if !slices.ContainsFunc(bounded, func(c cell) bool { return r.verdict(c.cost) != overhead.Equivalent }) {
		return fmt.Sprintf("Every program stays within %g %% of bare metal's time on every platform. The highest is %s, of %s on %s.",
			100*r.smallest(), withUnit(worst.cost, " times"), worst.spot.workload, worst.placed())
	}
	text := fmt.Sprintf("The costliest is %s: %s takes %s bare metal's time",
		worst.placed(), worst.spot.workload, withUnit(worst.cost, " times"))
	if emulated(worst.of) != "" {
		text += " (emulated)"
	}
	if len(bounded) > 1 {
		text += fmt.Sprintf(". The cheapest is %s: %s takes %s",
			best.placed(), best.spot.workload, withUnit(best.cost, " times"))
	}
	return text + "."
}

// withUnit writes an estimate in a sentence: "2.2 times (2.1 to 2.3)".
func withUnit(e stats.Estimate, unit string) string {
	c := report.Estimated(e, 1)
	if c.Detail == "" {
		return c.Text + unit
	}
	return c.Text + unit + " (" + c.Detail + ")"
}

// answerAsked is the sentence of a run about the host's size or about tasks alone.
func (r reading) answerAsked() string {
	for _, t := range r.tasks() {
		if !t.more.Known() {
			continue
		}
		where := column{t.of.Platform, preset(t.of)}.label()
		if t.more.Interval.Low <= 0 && t.more.Interval.High >= 0 {
			return fmt.Sprintf("Whether splitting %s into %d processes adds overhead on %s is undecided: %s.",
				t.workload, t.tasks, where, withUnit(t.more, " percentage points"))
		}
		return fmt.Sprintf("Splitting %s into %d processes adds overhead on %s: %s.",
			t.workload, t.tasks, where, withUnit(t.more, " percentage points"))
	}
	for _, s := range r.of(ofHosts, "") {
		if all := r.hostCosts(s); len(all) > 1 {
			small, large := all[0], all[len(all)-1]
			if more := r.Ratio(small.vanilla, large.vanilla); more.Known() {
				return fmt.Sprintf("On a host with %s the overhead of %s in the same vanilla container is %s that on %s.",
					cpusText(float64(large.cpus)), s.workload, withUnit(more, " times"), cpusText(float64(small.cpus)))
			}
		}
	}
	return "The answer is not known yet: an interval requires three blocks."
}

// cell is a condition of a matrix with its cost.
type cell struct {
	spot spot
	of   record.Condition
	cost stats.Estimate
}

// cells are those of all matrices, the dearest first.
func (r reading) cells() (all []cell) {
	for _, s := range r.of(matrix, "") {
		for _, c := range s.others() {
			if cost := r.cost(s, c); cost.Value > 0 {
				all = append(all, cell{s, c, cost})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b cell) int { return cmp.Compare(b.cost.Value, a.cost.Value) })
	return all
}

// where names a cell's place in a table: "docker vanilla".
func (c cell) where() string {
	if same(c.of) {
		return c.of.Platform + " vanilla = pinned"
	}
	return c.of.Label
}

// placed names a cell's place in a sentence: "docker with a quota of 2 CPUs".
func (c cell) placed() string {
	grant := map[string]string{Vanilla: " with a quota of ", Pinned: " pinned to "}[preset(c.of)]
	if grant == "" || same(c.of) {
		grant = " with "
	}
	return c.of.Platform + grant + sizeOf(c.spot)
}

// verdictCell is the verdict on a cost.
func (r reading) verdictCell(cost stats.Estimate, c record.Condition) report.Cell {
	v := r.verdict(cost)
	cell := report.Cell{Text: string(v)}
	switch v {
	case overhead.Worse:
		cell.Tone = report.Bad
	case overhead.Better:
		cell.Tone = report.Good
	case overhead.Inconclusive:
		cell.Tone = report.Faint
	}
	if emulated(c) != "" {
		cell.Text, cell.Tone = "emulated", report.Faint
	}
	return cell
}

// Parts are the tables and plots of a run.
func Parts(run record.Run) []report.Part {
	r := read(run)
	var parts []report.Part
	for _, part := range []func() []report.Part{
		r.heatParts, r.matrixPart, r.pinningPart, r.hostPart, r.tasksPart, r.networkPart, r.partedPart, r.jointPart,
		r.residualPart, r.sharesPart, r.causesPart, r.correlationPart, r.explainedPart, r.machinesPart, r.againstItself,
	} {
		parts = append(parts, part()...)
	}
	return parts
}

func (r reading) matrixPart() []report.Part {
	t := report.Table{
		Title: "Time relative to bare metal, highest first",
		Note: "Bare metal has as many CPUs. Vanilla: a quota of CPU time, on any CPU. Pinned: a cpuset. " +
			"Vanilla = pinned: the program has every CPU there is for it, so the two are the same. " +
			"CHR: granted CPUs, as a share of the host's.",
		Method: "Ratios are paired within blocks. Verdicts hold for all rows together (Bonferroni). " +
			"A fraction of a CPU is compared with the ideal: bare metal's time on the next whole number of CPUs, " +
			"multiplied by the CPUs used there over the CPUs granted, if that is above 1. " +
			"The host's CPUs are those that the kernel below the program has online.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "size"}, {Head: "platform"}, {Head: "times bare metal", Number: true},
			{Head: "verdict"}, {Head: "CHR", Number: true, Optional: true},
		},
	}
	cells := r.cells()
	decides := r.together(len(cells))
	for _, c := range cells {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: c.spot.workload}, {Text: sizeOf(c.spot)}, {Text: c.where()}, report.Estimated(c.cost, 1),
			decides.verdictCell(decides.cost(c.spot, c.of), c.of), report.Measured(chr(c.of)),
		})
	}
	return report.Filled(t)
}

// heatParts are a matrix for each workload: platforms by sizes.
func (r reading) heatParts() (parts []report.Part) {
	for _, name := range r.names(matrix) {
		spots := r.of(matrix, name)
		h := report.Heat{
			Title: name + ": time relative to bare metal, by size", Corner: "platform", Band: r.smallest(),
			Note: "1: as long as on bare metal with as many CPUs.",
		}
		for _, s := range spots {
			h.Columns = append(h.Columns, sizeOf(s))
		}
		for _, col := range r.columns(matrix) {
			row := report.HeatRow{Name: col.label()}
			any := false
			for _, s := range spots {
				field := report.HeatField{Ratio: stats.Absent(r.Report.Level)}
				if c, ok := s.at(col); ok {
					field.Ratio, field.Faint = r.cost(s, c), emulated(c) != ""
					any = any || field.Ratio.Value > 0
				}
				row.Fields = append(row.Fields, field)
			}
			if any {
				h.Rows = append(h.Rows, row)
			}
		}
		if len(h.Rows) > 0 && len(h.Columns) > 1 {
			parts = append(parts, h)
		}
	}
	return parts
}

// pinningPart sets pinned against vanilla, or says where the two coincide.
func (r reading) pinningPart() []report.Part {
	t := report.Table{
		Title: "Time of pinned relative to vanilla",
		Note: "Below 1: pinning is faster. Same CPUs: the program has every CPU there is for it, " +
			"so this host cannot show what pinning changes.",
		Method: "Both run on the same platform. Ratios are paired within blocks. Verdicts hold for all rows together (Bonferroni).",
		Columns: []report.Column{
			{Head: "program"}, {Head: "size"}, {Head: "platform"}, {Head: "pinned / vanilla", Number: true}, {Head: "verdict"},
		},
	}
	pairs := 0
	for _, s := range r.of(matrix, "") {
		for _, col := range s.columns() {
			if col.preset == Pinned {
				pairs++
			}
		}
	}
	decides := r.together(pairs)
	for _, s := range r.of(matrix, "") {
		for _, col := range s.columns() {
			if col.preset != Vanilla || (Size{CPUs: s.size}).fractional() {
				continue
			}
			vanilla, _ := s.at(col)
			pinned, had := s.at(column{col.platform, Pinned})
			ratio, verdict := report.Absent(), report.Cell{Text: "same CPUs", Tone: report.Faint}
			switch {
			case had:
				e := r.against(s, vanilla, pinned)
				ratio = report.Estimated(e, 1)
				if !same(vanilla) {
					verdict = decides.verdictCell(decides.against(s, vanilla, pinned), pinned)
				}
			case !same(vanilla):
				continue
			}
			t.Rows = append(t.Rows, []report.Cell{
				{Text: s.workload}, {Text: sizeOf(s)}, {Text: col.platform}, ratio, verdict,
			})
		}
	}
	return report.Filled(t)
}

// partedPart is the cost of a platform's type, and of its size.
func (r reading) partedPart() []report.Part {
	t := report.Table{
		Title: "Cost of the platform's type and of its size",
		Note: "Type: the cost of a container that has the whole host, times bare metal. " +
			"Size: the additional factor at the smallest share measured. " +
			"–: not identifiable, which requires at least four sizes.",
		Method: "Type and size are PTO and PSO of S2 (published comparison of platforms), fitted by the model of model/size.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "platform"}, {Head: "sizes", Number: true, Optional: true},
			{Head: "type, times", Number: true}, {Head: "size, times", Number: true}, {Head: "form", Optional: true},
		},
	}
	for _, p := range r.parted() {
		row := []report.Cell{
			{Text: p.workload}, {Text: p.column.label()}, {Text: strconv.Itoa(len(p.points))},
			report.Absent(), report.Absent(), {},
		}
		if p.err == nil {
			row[3] = report.Estimated(size.Ratio(p.fit.Platform), 1)
		}
		if p.err == nil && p.sizeErr == nil {
			least := 1.0
			for _, at := range p.points {
				least = min(least, at.CHR())
			}
			if e, err := p.fit.SizeAt(least); err == nil {
				row[4], row[5] = report.Estimated(size.Ratio(e), 1), report.Cell{Text: string(p.fit.Form)}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	if !slices.ContainsFunc(r.parted(), func(p parted) bool { return p.err == nil && p.sizeErr == nil }) {
		t.Note += " Four sizes: tare platforms --cpus " + r.fourSizes() + "."
	}
	return []report.Part{t}
}

// residualPart is the model's residuals, and its predictions of sizes that were left out of the fit.
func (r reading) residualPart() []report.Part {
	t := report.Table{
		Title: "Residuals of the model of type and size",
		Note: "Predicted: from the other sizes alone, with the interval of a prediction. " +
			"Covered: whether that interval holds the measured time. –: the other sizes are too few.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "platform"}, {Head: "CPUs", Number: true}, {Head: "measured / fitted", Number: true},
			{Head: "predicted, times bare metal", Number: true}, {Head: "covered", Optional: true},
		},
	}
	for _, p := range r.parted() {
		if p.err != nil || p.sizeErr != nil {
			continue
		}
		left, err := size.LeaveOneOut(p.points, size.Options{Level: r.Report.Level})
		for i, res := range p.fit.Residuals {
			row := []report.Cell{{Text: p.workload}, {Text: p.column.label()}, {Text: formatNumber(res.Point.CPUs)},
				report.Measured(size.Ratio(stats.Estimate{Value: res.Residual}).Value), report.Absent(), {}}
			if err == nil && i < len(left) {
				row[4], row[5] = leftOut(left[i])
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return report.Filled(t)
}

// againstItself is bare metal's second execution against its first.
func (r reading) againstItself() []report.Part {
	t := report.Table{
		Title: "Bare metal against itself (A/A)",
		Note: "The second execution in a block against the first, between which nothing differs. " +
			"Noise floor: the smallest cost that these blocks could have found.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "second / first", Number: true},
			{Head: "noise floor, %", Number: true}, {Head: "blocks", Number: true},
		},
	}
	for _, g := range r.Report.Groups {
		i := slices.IndexFunc(r.spots, func(s spot) bool { return s.group == g.Workload })
		if i < 0 {
			continue
		}
		for _, m := range g.Metrics {
			if m.Name == r.spots[i].metric.Name && m.AA != nil {
				t.Rows = append(t.Rows, []report.Cell{
					{Text: g.Workload}, report.Estimated(*m.AA, 1), report.Measured(100 * m.NoiseFloor),
					{Text: strconv.Itoa(g.Blocks)},
				})
			}
		}
	}
	return report.Filled(t)
}

// hostPart is the same container on hosts of several sizes.
func (r reading) hostPart() []report.Part {
	t := report.Table{
		Title: "Overhead of the same container, by size of host",
		Note: "Relative to bare metal on the same host; in a virtual machine, to the program in that machine without a container. " +
			"CHR: granted CPUs, as a share of the host's.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "host"}, {Head: "CHR", Number: true}, {Head: "vanilla, times bare metal", Number: true},
			{Head: "pinned, times bare metal", Number: true}, {Head: "remark", Optional: true},
		},
	}
	for _, s := range r.of(ofHosts, "") {
		for _, at := range r.hostCosts(s) {
			row := []report.Cell{
				{Text: s.workload + " " + sizeOf(s)},
				{Text: cpusText(float64(at.cpus))},
				report.Measured(s.size / float64(at.cpus)),
				r.estimatedBlocks(at.vanilla),
				r.estimatedBlocks(at.pinned),
				{},
			}
			if at.emulated != "" {
				row[5] = report.Cell{Text: "emulated", Tone: report.Faint}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return report.Filled(t)
}

func (r reading) estimatedBlocks(blocks map[int]float64) report.Cell {
	if len(blocks) == 0 {
		return report.Absent()
	}
	return report.Estimated(r.geometric(blocks), 1)
}

// tasksPart is one process against many.
func (r reading) tasksPart() []report.Part {
	t := report.Table{
		Title: "Overhead of the same work by one process and by many",
		Note: "Relative to bare metal with as many processes. " +
			"Difference: percentage points by which the overhead of many processes is higher.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "platform"}, {Head: "one process, times", Number: true},
			{Head: "many processes, times", Number: true}, {Head: "difference, points", Number: true},
		},
	}
	for _, one := range r.tasks() {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: one.workload + " " + sizeOf(one.spot)},
			{Text: column{one.of.Platform, preset(one.of)}.label() + ", " + tasksText(one.tasks)},
			report.Estimated(one.one, 1), report.Estimated(one.many, 1), report.Estimated(one.more, 1),
		})
	}
	return report.Filled(t)
}
