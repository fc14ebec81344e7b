package checkpoint

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/io/place"
	"tare/study/kit"
)

const perMega = 1e-6 // bytes a second to MB/s

// peers is within what share, in percent, the program and fio have to be equivalent
// on bare metal: both do nothing but write and read.
const peers = 5

// Answer is what a run found, in a sentence.
func Answer(run record.Run) string {
	r := readRun(run)
	compared := 0
	for _, m := range r.modes() {
		compared += len(metrics) * len(labels(r.of(m)))
	}
	r = r.together(compared) // of which the worst are named
	var told []string
	measured := false
	for _, m := range r.modes() {
		if m.cache == uneven {
			continue // it compares memory with a disk
		}
		cells := r.of(m)
		worst := loss{Estimate: untold}
		for _, label := range labels(cells) {
			for _, metric := range metrics {
				e := r.loss(cells, bare, labelled(label), metric)
				measured = measured || known(e)
				worst = worst.or(loss{e, metric, label})
			}
		}
		if worst.Known() {
			told = append(told, m.text()+", "+worst.text())
		}
		if len(told) == 3 {
			break // the others stand in the tables
		}
	}
	switch {
	case len(told) == 0 && measured:
		return "What a container takes of a checkpoint's rates cannot be told yet: an interval takes three " + place.Repeats(run) + "."
	case len(told) == 0:
		return "Nothing was measured."
	}
	text := strings.Join(told, "; ") + "."
	return strings.ToUpper(text[:1]) + text[1:]
}

// loss is what a place takes of a rate, in percent.
type loss struct {
	stats.Estimate
	metric, label string
}

// untold is the estimate of nothing.
var untold = stats.Estimate{Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}

// told tells whether the loss is one, and not perhaps a gain.
func (l loss) told() bool { return l.Known() && l.Interval.Low > 0 }

// or gives the worse of two losses: one that is told before one that is not, and of
// two alike the larger.
func (l loss) or(m loss) loss {
	switch {
	case !m.Known():
		return l
	case !l.Known(), m.told() && !l.told(), m.told() == l.told() && m.Value > l.Value:
		return m
	}
	return l
}

func (l loss) text() string {
	if l.told() {
		return fmt.Sprintf("a %s in %s loses most of bare metal's rate, %s %%", l.metric, l.label, report.Said(l.Estimate, 1))
	}
	return fmt.Sprintf("no place loses what could be told of bare metal's rate, the largest being %s %% of a %s in %s", report.Said(l.Estimate, 1), l.metric, l.label)
}

func known(e stats.Estimate) bool { return e.Value == e.Value }

// Parts are the tables and charts of a run.
func Parts(run record.Run) []report.Part {
	r := readRun(run)
	var parts []report.Part
	for _, part := range []func() []report.Part{r.summary, r.published, r.sizes, r.floors, r.charts} {
		parts = append(parts, part()...)
	}
	if len(parts) > 0 {
		parts = append(parts, r.about())
	}
	return parts
}

// summary puts the cells of each mode together.
func (r reading) summary() []report.Part {
	floored := r.floored()
	t := report.Table{
		Title:   "What is lost of bare metal's rate, %",
		Note:    "Geometric means over the cells of each row; negative is faster.",
		Columns: []report.Column{{Head: "where"}},
	}
	for _, metric := range metrics {
		t.Columns = append(t.Columns, report.Column{Head: metric, Number: true})
		if floored {
			t.Columns = append(t.Columns, report.Column{Head: "of the floor, %", Number: true})
		}
	}
	t.Columns = append(t.Columns, report.Column{Head: "cells", Number: true, Optional: true})
	if floored {
		t.Note += " Of the floor: what the place reaches of what fio does on the same file system, with the same flags, in the same block."
	}
	if slices.ContainsFunc(r.cells, func(c measured) bool { return c.memory }) {
		t.Note += " Files in memory have bare metal's files in memory for a baseline: no disk is compared with them."
	}
	t.Note += r.otherDisks()
	for _, m := range r.modes() {
		cells := r.of(m)
		for _, label := range append([]string{""}, labels(cells)...) {
			at, name := labelled(label), label
			if label == "" {
				at, name = bare, labelOf(cells[0].base)
			}
			of := having(cells, at)
			row := []report.Cell{{Text: m.text() + ": " + name}}
			measured := false
			for _, metric := range metrics {
				lost := report.Cell{Text: "baseline", Tone: report.Faint}
				if label != "" {
					e := r.loss(of, bare, at, metric)
					measured = measured || known(e)
					lost = report.Estimated(e, 1)
				}
				row = append(row, lost)
				if floored {
					share := r.ratio(of, below(at), at, metric)
					measured = measured || known(share)
					row = append(row, report.Estimated(share, 100))
				}
			}
			if measured {
				t.Rows = append(t.Rows, append(row, report.Cell{Text: fmt.Sprint(len(of))}))
			}
		}
	}
	return report.Filled(t)
}

// floored tells whether there is a floor below any cell.
func (r reading) floored() bool {
	return slices.ContainsFunc(r.cells, func(c measured) bool { return len(c.floors()) > 0 })
}

// published sets ours beside S5's figures: over all cells of a mode, and at the size that S5
// has drawn, which its text tells of.
func (r reading) published() []report.Part {
	c, err := claim.Lookup(claimed)
	if err != nil {
		return nil
	}
	t := report.Table{
		Title:   "S5's figures, and this run's: lost of bare metal's rate, %",
		Note:    fmt.Sprintf("S5's figures are of writes of %s particles a rank and reads of %s (its figures 4 and 5), over its ranks, read from the page cache. As drawn: this run at that size; absent where it has none.", millions(drawn[write].particles), millions(drawn[read].particles)),
		Columns: []report.Column{{Head: "of"}, {Head: "published", Number: true}},
	}
	modes := r.judged()
	var shown []mode
	for _, m := range modes {
		if len(r.decisive(m)) > 0 {
			shown = append(shown, m)
			t.Columns = append(t.Columns, report.Column{Head: m.text(), Number: true})
		}
	}
	t.Columns = append(t.Columns, report.Column{Head: "as drawn", Number: true})
	for _, metric := range []string{read, write} {
		for _, of := range []struct {
			name    string
			storage platform.Storage
		}{{"volume", platform.StorageVolume}, {"bind mount", platform.StorageBind}} {
			name := metric + ", " + of.name
			row := []report.Cell{{Text: name}, report.Absent()}
			if f, ok := c.Figure("overhead, " + name); ok {
				row[1] = report.Cell{Text: strings.TrimSuffix(f.Text(), " %")}
			}
			told := false
			for _, m := range shown {
				e := r.loss(r.decisive(m), bare, on(of.storage), metric)
				told = told || known(e)
				row = append(row, report.Estimated(e, 1))
			}
			asDrawn := slices.DeleteFunc(r.decisive(modes[0]), func(at measured) bool { return at.particles != drawn[metric].particles })
			row = append(row, report.Estimated(r.loss(asDrawn, bare, on(of.storage), metric), 1))
			if told {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return report.Filled(t)
}

// otherDisks names the places whose disk is not bare metal's.
func (r reading) otherDisks() string {
	var names []string
	for _, c := range r.cells {
		for _, of := range c.contained() {
			if elsewhere(c.base, of) && !slices.Contains(names, labelOf(of)) {
				names = append(names, labelOf(of))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" Not on bare metal's disk: %s; what is lost there is the disks' difference too, and the share of the own floor is to be read.", report.Listed(names))
}

// sizes show every cell, a table a metric.
func (r reading) sizes() []report.Part {
	var parts []report.Part
	for _, metric := range metrics {
		t := report.Table{
			Title:   strings.ToUpper(metric[:1]) + metric[1:] + "s, by size and manner",
			Note:    "Bytes of all ranks over the time of the slowest, opening and closing included. What is not said of a cell is as S5 had it: POSIX calls, a file a rank, page cache kept, no fsync.",
			Columns: []report.Column{{Head: "checkpoint, and where"}, {Head: "MB/s", Number: true}, {Head: "lost against bare, %", Number: true}},
		}
		if r.floored() {
			t.Columns = append(t.Columns, report.Column{Head: "of the floor, %", Number: true})
		}
		t.Columns = append(t.Columns, report.Column{Head: "bytes", Optional: true})
		for _, c := range r.cells {
			for _, of := range c.All {
				value := r.Value(of, metric)
				if !known(value) {
					continue
				}
				lost, share := report.Cell{Text: "baseline", Tone: report.Faint}, report.Absent()
				if of.ID != c.base.ID {
					lost = report.Estimated(lostOf(r, c, of, metric), 1)
				}
				if of.Factors[place.FactorFloor] != "" {
					lost, share = report.Cell{Text: "floor", Tone: report.Faint}, report.Cell{Text: "100", Tone: report.Faint}
				} else if f, ok := c.floorOf(of); ok {
					share = report.Estimated(r.Ratio(r.PerBlock(f, metric), r.PerBlock(of, metric)), 100)
				}
				row := []report.Cell{{Text: c.text() + ": " + labelOf(of)}, report.Estimated(value, perMega), lost}
				if r.floored() {
					row = append(row, share)
				}
				t.Rows = append(t.Rows, append(row, report.Cell{Text: bytesText(c.bytes())}))
			}
		}
		parts = append(parts, report.Filled(t)...)
	}
	return parts
}

// lostOf is what a condition loses of its cell's baseline, in percent.
func lostOf(r reading, c measured, of record.Condition, metric string) stats.Estimate {
	return lost(r.Ratio(r.PerBlock(c.base, metric), r.PerBlock(of, metric)))
}

// floors show what the disks give, how steadily, and whether the program is as fast as
// fio there.
func (r reading) floors() []report.Part {
	t := report.Table{
		Title: "The floor: what the disk gives, by fio",
		Note: "Scatter: the standard deviation from block to block, which no platform causes; an effect below what it leaves uncertain of the floor's own level is not believed. " +
			"Program: its rate in the floor's, in the place where both run (on bare metal, but for an engine with a disk of its own). " + r.equivalence(),
		Columns: []report.Column{{Head: "cell"}, {Head: "write, MB/s", Number: true}, {Head: "scatter, %", Number: true}, {Head: "program, %", Number: true},
			{Head: "read, MB/s", Number: true}, {Head: "scatter, %", Number: true}, {Head: "program, %", Number: true}},
	}
	for _, c := range r.cells {
		for _, f := range c.floors() {
			if !known(r.Value(f, write)) && !known(r.Value(f, read)) {
				continue
			}
			name := c.text()
			if len(c.floors()) > 1 {
				name += ": " + strings.TrimSuffix(labelOf(f), ", fio floor")
			}
			row := []report.Cell{{Text: name}}
			for _, metric := range metrics {
				moves := deviationOf(overhead.InOrder(r.PerBlock(f, metric)))
				beside := report.Absent()
				if of, ok := c.beside(f); ok {
					beside = report.Estimated(r.Ratio(r.PerBlock(f, metric), r.PerBlock(of, metric)), 100)
				}
				row = append(row, report.Estimated(r.Value(f, metric), perMega), report.Measured(moves), beside)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return report.Filled(t)
}

// beside finds the program's condition in a floor's own place.
func (c measured) beside(f record.Condition) (record.Condition, bool) {
	i := slices.IndexFunc(c.All, func(of record.Condition) bool {
		return of.Factors[place.FactorFloor] == "" && of.Platform == f.Platform && of.Setting == f.Setting
	})
	if i < 0 {
		return record.Condition{}, false
	}
	return c.All[i], true
}

// equivalence judges the program against fio on bare metal, which the quality of the
// program rests on: what it loses itself, no platform can be said to.
func (r reading) equivalence() string {
	r = r.together(len(metrics) * len(r.modes()))
	var told []string
	for _, m := range r.modes() {
		cells := having(r.of(m), below(bare))
		for _, metric := range metrics {
			ratio := r.ratio(cells, below(bare), bare, metric)
			if !ratio.Known() {
				continue
			}
			word := "is not told"
			switch {
			case stats.EquivalentWithin(ratio, peers/100.0):
				word = "is equivalent"
			case ratio.Interval.High < 1/(1+peers/100.0):
				word = "is slower"
			case ratio.Interval.Low > 1+peers/100.0:
				word = "is faster"
			}
			told = append(told, fmt.Sprintf("%s, its %s %s (%s %%)", m.text(), metric, word, report.Said(ratio, 100)))
		}
	}
	if len(told) == 0 {
		return ""
	}
	return fmt.Sprintf("On bare metal the program is wanted equivalent to fio within %d %%: %s.", peers, strings.Join(told, "; "))
}

// drawn are the particles of a rank in S5's figures of a rate over the ranks.
var drawn = map[string]struct {
	particles int64
	figure    string
}{write: {1_000_000, "S5's figure 4"}, read: {25_000_000, "S5's figure 5"}}

// charts are those of S5's figures 4 and 5: a rate over the number of ranks, at one size;
// and besides over the size, at one number of ranks.
func (r reading) charts() []report.Part {
	var parts []report.Part
	for _, m := range r.modes() {
		for _, metric := range metrics {
			if c, ok := r.chart(m, metric, ranks, func(c measured) float64 { return float64(c.ranks) }, func(c measured) float64 { return float64(c.particles) }); ok {
				parts = append(parts, c)
			}
			if c, ok := r.chart(m, metric, "million particles a rank", func(c measured) float64 { return float64(c.particles) / 1e6 }, func(c measured) float64 { return float64(c.ranks) }); ok {
				parts = append(parts, c)
			}
		}
	}
	return parts
}

// chart draws a metric over x, where at a level of the other factor there are several x:
// the level that has most of them, of several such that which S5 has drawn, or the first.
func (r reading) chart(m mode, metric, axis string, x, other func(measured) float64) (report.Chart, bool) {
	by := map[float64][]measured{}
	for _, c := range r.of(m) {
		if first := r.of(m)[0]; c.api == first.api && c.layout == first.layout && c.cache == first.cache {
			by[other(c)] = append(by[other(c)], c)
		}
	}
	var cells []measured
	for _, level := range inOrderOf(by) {
		asDrawn := axis == ranks && by[level][0].particles == drawn[metric].particles
		if len(by[level]) > len(cells) || asDrawn && len(by[level]) == len(cells) {
			cells = by[level]
		}
	}
	if len(cells) < 2 {
		return report.Chart{}, false
	}
	slices.SortFunc(cells, func(a, b measured) int { return cmp.Compare(x(a), x(b)) })
	at := report.Counted(cells[0].ranks, "rank")
	if axis == ranks {
		at = millions(cells[0].particles) + " particles a rank"
	}
	chart := report.Chart{
		Title: fmt.Sprintf("%s against %s: %s, %s", strings.ToUpper(metric[:1])+metric[1:], axis, at, m.text()),
		X:     report.Axis{Label: axis, Log: true}, Y: report.Axis{Label: metric, Unit: "MB/s"},
	}
	if axis == ranks && cells[0].particles == drawn[metric].particles {
		chart.Note = "As " + drawn[metric].figure + " has it."
	}
	for _, c := range cells {
		chart.X.Ticks = append(chart.X.Ticks, x(c))
	}
	add := func(name string, dashed bool, at pick) {
		s := report.Series{Name: name, Group: name, Dashed: dashed}
		for _, c := range having(cells, at) {
			of, _ := at(c)
			if v := r.Value(of, metric); known(v) {
				s.Points = append(s.Points, report.At(x(c), v, perMega))
			}
		}
		if len(s.Points) > 0 {
			chart.Series = append(chart.Series, s)
		}
	}
	add(labelOf(cells[0].base), false, bare)
	for _, label := range labels(cells) {
		add(label, false, labelled(label))
	}
	add("fio, the floor", true, below(bare))
	return chart, len(chart.Series) > 1 && len(chart.Series[0].Points) > 1
}

// ranks is the axis of their number.
const ranks = "ranks"

func inOrderOf(m map[float64][]measured) []float64 {
	var keys []float64
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// about says what the figures are of.
func (r reading) about() report.Prose {
	text := []string{"A checkpoint that the page cache takes is not on a disk when its write ends, and one that is still there when it is read does not come from one. With the page cache kept, as S5 had it, memory is measured. A write is the disk's where the page cache is bypassed or fsync ends it, a read where the cache was bypassed or dropped; dropping lies between the two, and outside of their times."}
	if r.imported() {
		text = append(text, "These figures were measured elsewhere. They tell nothing of the page cache, which is taken as kept, and there is no floor beside them: what the disk gave in the same minutes is not known.")
		if from := r.fromMemory(); from != "" {
			text = append(text, strings.ToUpper(from[:1])+from[1:]+".")
		}
		return report.Prose{Title: "What is measured", Text: strings.Join(text, "\n\n")}
	}
	for _, more := range []string{r.notDropped(), kit.Sentence(r.inVain()), kit.Sentence(r.leftOut()), r.spans()} {
		if more != "" {
			text = append(text, more)
		}
	}
	if before := r.before(); before != "" {
		text = append(text, before)
	}
	if waits := r.waits(); waits != "" {
		text = append(text, waits)
	}
	return report.Prose{Title: "What is measured", Text: strings.Join(text, "\n\n")}
}

// notDropped says how much of what was dropped was in memory all the same.
func (r reading) notDropped() string {
	most, any := 0.0, false
	for _, c := range r.cells {
		if c.cache != Dropped {
			continue
		}
		for _, of := range c.All {
			for _, t := range r.Trials(of) {
				for _, s := range t.Samples {
					if s.Metric == cached {
						most, any = max(most, s.Value), true
					}
				}
			}
		}
	}
	switch {
	case !any:
		return ""
	case most == 0:
		return "Where the page cache was dropped, none of the files' pages was in memory when reading began (mincore): what was read came from the disk, or from what stands behind it."
	}
	return fmt.Sprintf("Where the page cache was dropped, up to %.2g %% of a file's pages were in memory all the same when reading began (mincore), and were not read from the disk.", 100*most)
}

// muchLonger is how many times a write's time its span is to be for saying so.
const muchLonger = 1.5

// spans says where ranks did not write side by side.
func (r reading) spans() string {
	var cells []string
	most := 0.0
	for _, c := range r.cells {
		longest := 0.0
		for _, of := range c.All {
			if ratio := r.Value(of, writeSpan).Value / r.Value(of, writeTime).Value; ratio > longest {
				longest = ratio
			}
		}
		if longest > muchLonger {
			cells, most = append(cells, c.text()), max(most, longest)
		}
	}
	if len(cells) == 0 {
		return ""
	}
	return fmt.Sprintf("From the first rank's beginning to the last one's end a write took up to %.2g times as long as the slowest rank by itself in: %s. There the ranks wrote one after the other, and a rate by the slowest one's time is above what a user waits for.", most, strings.Join(cells, "; "))
}

// before says what state the trials began in.
func (r reading) before() string {
	flush, left, n := 0.0, 0.0, 0.0
	for _, c := range r.cells {
		f, d := r.covariate(c, flushSeconds), r.covariate(c, dirtyBefore)
		if math.IsNaN(f) || math.IsNaN(d) {
			continue
		}
		flush, left, n = flush+f, max(left, d), n+1
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Before each trial, and outside of its figures, what earlier ones and others had written was brought to the disks, in %.2g s on average; after that at most %s of the host's page cache were not yet on a disk, in the mean of a cell's trials.", flush/n, bytesText(int64(left)))
}

// waits says which writes the kernel held back.
func (r reading) waits() string {
	var held, aside []string
	limit, background := math.NaN(), math.NaN()
	for _, c := range r.cells {
		l, b := r.covariate(c, dirtyLimit), r.covariate(c, dirtyBackground)
		if c.cache != Kept || c.memory || math.IsNaN(l) || math.IsNaN(b) {
			continue
		}
		limit, background = l, b
		switch bytes := float64(c.bytes()); {
		case bytes > l:
			held = append(held, c.text())
		case bytes > b:
			aside = append(aside, c.text())
		}
	}
	if math.IsNaN(limit) {
		return ""
	}
	text := fmt.Sprintf("The kernel lets %s wait in memory before it holds writers back (vm.dirty_ratio), and brings them to the disk beside the writers from %s on (vm.dirty_background_ratio).", bytesText(int64(limit)), bytesText(int64(background)))
	switch {
	case len(held) > 0:
		text += " More than the former was written in: " + strings.Join(held, "; ") + ": there a write ends at the pace of the disk, though the page cache is kept."
	case len(aside) > 0:
		text += " More than the latter was written in: " + strings.Join(aside, "; ") + ": there the disk is at work during the write."
	default:
		text += " No checkpoint of this run reaches either: with the page cache kept no write waited for the disk."
	}
	return text
}
