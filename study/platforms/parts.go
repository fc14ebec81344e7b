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

// Answer is what a run found, in a sentence: the worst that can be told, and the best.
func Answer(run record.Run) string {
	r := read(run)
	r = r.together(len(r.cells())) // of which the worst and the best are named
	cells := r.cells()
	told := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return !c.cost.Known() })
	// What was emulated tells of the emulation.
	if real := slices.DeleteFunc(slices.Clone(told), func(c cell) bool { return emulated(c.of) != "" }); len(real) > 0 {
		told = real
	}
	switch {
	case len(cells) == 0 && len(r.of(ofTasking, ""))+len(r.of(ofHosts, "")) > 0:
		return r.answerAsked()
	case len(cells) == 0 || !slices.ContainsFunc(cells, func(c cell) bool { return c.cost.Value > 0 }):
		return "Nothing was measured."
	case len(told) == 0:
		return "What these platforms cost cannot be told yet: an interval takes three blocks."
	}
	worst, best := told[0], told[len(told)-1]
	if !slices.ContainsFunc(told, func(c cell) bool { return r.verdict(c.cost) != overhead.Equivalent }) {
		return fmt.Sprintf("No platform costs any program more or less than %g %%: at most %s, %s.", 100*r.smallest(), timesText(worst.cost), worst.where())
	}
	text := fmt.Sprintf("At worst, %s takes %s bare metal's time: on %s", worst.spot.workload, timesText(worst.cost), worst.placed())
	if len(told) > 1 {
		text += fmt.Sprintf("; at best, %s takes %s: on %s", best.spot.workload, timesText(best.cost), best.placed())
	}
	if why := emulated(worst.of); why != "" {
		text += " (emulated)"
	}
	return text + "."
}

func timesText(e stats.Estimate) string {
	c := report.Estimated(e, 1)
	if c.Detail == "" {
		return c.Text + " times"
	}
	return c.Text + " times (" + c.Detail + ")"
}

// answerAsked is the sentence where only the host's size or tasks were asked.
func (r reading) answerAsked() string {
	for _, t := range r.tasks() {
		if t.more.Known() && t.more.Interval.Low <= 0 && t.more.Interval.High >= 0 {
			return fmt.Sprintf("Whether the same work costs %s more when it is cut into %d processes cannot be told: %s points of bare metal's time (%s).", column{t.of.Platform, preset(t.of)}.label(), t.tasks, report.Said(t.more, 1), t.workload)
		}
		if t.more.Known() {
			return fmt.Sprintf("Cut into %d processes, the same work costs %s %s points more of bare metal's time than by one process (%s).", t.tasks, column{t.of.Platform, preset(t.of)}.label(), report.Said(t.more, 1), t.workload)
		}
	}
	for _, s := range r.of(ofHosts, "") {
		if all := r.hostCosts(s); len(all) > 1 {
			small, large := all[0], all[len(all)-1]
			if more := r.Ratio(small.vanilla, large.vanilla); more.Known() {
				return fmt.Sprintf("On a host of %s the same vanilla container's overhead is %s that on %s (%s).", cpusText(float64(large.cpus)), timesText(more), cpusText(float64(small.cpus)), s.workload)
			}
		}
	}
	return "What was asked cannot be told yet: an interval takes three blocks."
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

// where names a cell's place: "docker vanilla".
func (c cell) where() string {
	if same(c.of) {
		return c.of.Platform + " vanilla = pinned"
	}
	return c.of.Label
}

func (c cell) placed() string { return c.where() + ", " + sizeOf(c.spot) }

// verdictCell is a cost in a word.
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

// Parts are the tables and drawings of a run.
func Parts(run record.Run) []report.Part {
	r := read(run)
	var parts []report.Part
	for _, part := range []func() []report.Part{
		r.matrixPart, r.heatParts, r.pinningPart, r.hostPart, r.tasksPart, r.partedPart, r.jointPart, r.residualPart, r.sharesPart, r.causesPart, r.correlationPart, r.explainedPart, r.machinesPart, r.againstItself,
	} {
		parts = append(parts, part()...)
	}
	return parts
}

func (r reading) matrixPart() []report.Part {
	t := report.Table{
		Title: "What each platform costs, the dearest first",
		Note: "Times bare metal's time on as many CPUs, paired within blocks, with intervals. Vanilla: a quota of the CPUs; pinned: a cpuset. " +
			"Vanilla = pinned: it is granted all CPUs that there are for it, so that the two coincide. Verdicts hold for all rows together (Bonferroni). With a part of a CPU: over the ideal, bare metal's time on the next whole number of CPUs, longer by what of the CPUs that it used there is not granted. CHR: granted CPUs over those that the kernel below has on line.",
		Columns: []report.Column{{Head: "program"}, {Head: "size"}, {Head: "where"}, {Head: "x bare", Number: true}, {Head: "verdict"}, {Head: "CHR", Number: true, Optional: true}},
	}
	cells := r.cells()
	decides := r.together(len(cells))
	for _, c := range cells {
		t.Rows = append(t.Rows, []report.Cell{{Text: c.spot.workload}, {Text: sizeOf(c.spot)}, {Text: c.where()}, report.Estimated(c.cost, 1), decides.verdictCell(decides.cost(c.spot, c.of), c.of), report.Measured(chr(c.of))})
	}
	return report.Filled(t)
}

// heatParts are a matrix a workload: platforms by sizes.
func (r reading) heatParts() (parts []report.Part) {
	for _, name := range r.names(matrix) {
		spots := r.of(matrix, name)
		h := report.Heat{Title: name + ": times bare metal, by size", Corner: "where", Band: r.smallest()}
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
		Title:   "What pinning changes",
		Note:    "Pinned against vanilla of the same platform, paired within blocks; below 1 pinning gains. Verdicts hold for all rows together (Bonferroni). Where the program is granted every CPU that there is for it, there is nothing to choose: that is inconclusive on this host, and no finding of equality.",
		Columns: []report.Column{{Head: "program"}, {Head: "size"}, {Head: "platform"}, {Head: "pinned / vanilla", Number: true}, {Head: "verdict"}},
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
			ratio, verdict := report.Absent(), report.Cell{Text: "inconclusive on this host", Tone: report.Faint}
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
			t.Rows = append(t.Rows, []report.Cell{{Text: s.workload}, {Text: sizeOf(s)}, {Text: col.platform}, ratio, verdict})
		}
	}
	return report.Filled(t)
}

// partedPart is what a platform's type costs, and what its size.
func (r reading) partedPart() []report.Part {
	t := report.Table{
		Title: "The cost of the platform's type, and of its size",
		Note: "S2's PTO and PSO, by the model of model/size: the platform's part is the cost of a container that has the whole host, times bare metal; the size's part is what it costs more at the smallest share measured. " +
			"Not identifiable: below four sizes nothing tells the two apart.",
		Columns: []report.Column{{Head: "program"}, {Head: "where"}, {Head: "sizes", Number: true, Optional: true}, {Head: "type, times", Number: true}, {Head: "size, times", Number: true}, {Head: "form", Optional: true}},
	}
	for _, p := range r.parted() {
		row := []report.Cell{{Text: p.workload}, {Text: p.column.label()}, {Text: strconv.Itoa(len(p.points))}, report.Absent(), {Text: "not identifiable", Tone: report.Faint}, {}}
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
		t.Note += " To have four: tare platforms --cpus " + r.fourSizes() + "."
	}
	return []report.Part{t}
}

// residualPart is what the model leaves, and what it would have predicted of sizes that it
// has not seen.
func (r reading) residualPart() []report.Part {
	t := report.Table{
		Title:   "What the model leaves",
		Note:    "Residual: measured over fitted. Left out: what the other sizes predict of this one, with the interval of a prediction.",
		Columns: []report.Column{{Head: "program"}, {Head: "where"}, {Head: "CPUs", Number: true}, {Head: "measured / fitted", Number: true}, {Head: "left out, times", Number: true}, {Head: "held it", Optional: true}},
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
		Title:   "Bare metal against itself",
		Note:    "Its second execution in a block against its first: what the procedure finds where there is no difference. Noise floor: the smallest cost that these blocks could have found.",
		Columns: []report.Column{{Head: "program"}, {Head: "second / first", Number: true}, {Head: "noise floor, %", Number: true}, {Head: "blocks", Number: true}},
	}
	for _, g := range r.Report.Groups {
		i := slices.IndexFunc(r.spots, func(s spot) bool { return s.group == g.Workload })
		if i < 0 {
			continue
		}
		for _, m := range g.Metrics {
			if m.Name == r.spots[i].metric.Name && m.AA != nil {
				t.Rows = append(t.Rows, []report.Cell{{Text: g.Workload}, report.Estimated(*m.AA, 1), report.Measured(100 * m.NoiseFloor), {Text: strconv.Itoa(g.Blocks)}})
			}
		}
	}
	return report.Filled(t)
}

// hostPart is the same container on hosts of several sizes.
func (r reading) hostPart() []report.Part {
	t := report.Table{
		Title:   "The same container on hosts of several sizes",
		Note:    "Over bare metal, or a program in the machine itself, on the same host; CHR as above.",
		Columns: []report.Column{{Head: "program"}, {Head: "host"}, {Head: "CHR", Number: true}, {Head: "vanilla, times", Number: true}, {Head: "pinned, times", Number: true}, {Head: "remark", Optional: true}},
	}
	for _, s := range r.of(ofHosts, "") {
		for _, at := range r.hostCosts(s) {
			row := []report.Cell{{Text: s.workload + " " + sizeOf(s)}, {Text: cpusText(float64(at.cpus))}, report.Measured(s.size / float64(at.cpus)), r.estimatedBlocks(at.vanilla), r.estimatedBlocks(at.pinned), {}}
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
		Title:   "The same work by one process and by many",
		Note:    "Times bare metal's time by as many processes; points: by how much the overhead of the many is the greater.",
		Columns: []report.Column{{Head: "program"}, {Head: "where"}, {Head: "one, times", Number: true}, {Head: "many, times", Number: true}, {Head: "points more", Number: true}},
	}
	for _, one := range r.tasks() {
		t.Rows = append(t.Rows, []report.Cell{{Text: one.workload + " " + sizeOf(one.spot)}, {Text: column{one.of.Platform, preset(one.of)}.label() + ", " + tasksText(one.tasks)},
			report.Estimated(one.one, 1), report.Estimated(one.many, 1), report.Estimated(one.more, 1)})
	}
	return report.Filled(t)
}
