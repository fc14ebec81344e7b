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

// peers is the difference, in percent, within which the program and fio must be equivalent
// on bare metal: both do nothing but write and read.
const peers = 5

// Answer is the headline: for up to three modes, where most of a rate is lost.
func Answer(run record.Run) string {
	r := readRun(run)
	compared := 0
	for _, m := range r.modes() {
		compared += len(metrics) * len(labels(r.of(m)))
	}
	r = r.together(compared) // of which the worst are named
	var text []string
	measured := false
	for _, m := range r.modes() {
		if m.cache == uneven {
			continue // it compares memory with a disk
		}
		cells := r.of(m)
		worst := loss{Estimate: stats.Absent(r.Report.Level)}
		for _, label := range labels(cells) {
			for _, metric := range metrics {
				e := r.loss(cells, bare, labelled(label), metric)
				measured = measured || known(e)
				worst = worst.or(loss{e, metric, label})
			}
		}
		if worst.Known() {
			text = append(text, kit.Sentence(m.text()+": "+worst.text()))
		}
		if len(text) == 3 {
			break // the others are in the tables
		}
	}
	switch {
	case len(text) == 0 && measured:
		return place.Unknown("What a container costs a checkpoint", run)
	case len(text) == 0:
		return "Nothing was measured."
	}
	return strings.Join(text, " ")
}

// loss is what a place loses of a rate, in percent.
type loss struct {
	stats.Estimate
	metric, label string
}

// significant is whether the whole interval is a loss.
func (l loss) significant() bool { return l.Known() && l.Interval.Low > 0 }

// or gives the worse of two losses: a significant one before another, and of two alike the
// larger.
func (l loss) or(m loss) loss {
	switch {
	case !m.Known():
		return l
	case !l.Known(), m.significant() && !l.significant(), m.significant() == l.significant() && m.Value > l.Value:
		return m
	}
	return l
}

func (l loss) text() string {
	percent := place.Percent(l.Estimate, 1)
	if l.significant() {
		return fmt.Sprintf("the largest loss is %s of bare metal's rate, for a %s in %s", percent, l.metric, l.label)
	}
	return fmt.Sprintf("no significant loss of rate; the largest estimate is %s, for a %s in %s", percent, l.metric, l.label)
}

func known(e stats.Estimate) bool { return e.Value == e.Value }

// Parts are the tables and charts of a run.
func Parts(run record.Run) []report.Part {
	r := readRun(run)
	first, more := r.charts()
	parts := first
	for _, part := range []func() []report.Part{r.summary, r.published, r.sizes, r.floors} {
		parts = append(parts, part()...)
	}
	if parts = append(parts, more...); len(parts) > 0 {
		parts = append(parts, r.about())
	}
	return parts
}

// summary is the loss over all cells of each mode.
func (r reading) summary() []report.Part {
	floored := r.floored()
	t := report.Table{
		Title:   "Loss of write and read rate, by place",
		Note:    "Losses are in percent of bare metal's rate; negative is faster.",
		Method:  "Geometric means over the cells of each row.",
		Columns: []report.Column{{Head: "place"}},
	}
	for _, metric := range metrics {
		t.Columns = append(t.Columns, report.Column{Head: metric + " loss, %", Number: true})
		if floored {
			t.Columns = append(t.Columns, report.Column{Head: metric + ", % of fio", Number: true})
		}
	}
	t.Columns = append(t.Columns, report.Column{Head: "cells", Number: true, Optional: true})
	if floored {
		t.Note += " Fio on the same file system shows what the disk gives."
		t.Method += " Fio writes and reads the same bytes with the same flags, in the same block."
	}
	if slices.ContainsFunc(r.cells, func(c measured) bool { return c.memory }) {
		t.Note += " The baseline of files in memory is files in memory on bare metal."
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

// floored is whether any cell has a floor.
func (r reading) floored() bool {
	return slices.ContainsFunc(r.cells, func(c measured) bool { return len(c.floors()) > 0 })
}

// published compares S5's figures with ours: over all cells of a mode, and at the size of
// S5's plots, which its text is on.
func (r reading) published() []report.Part {
	c, err := claim.Lookup(claimed)
	if err != nil {
		return nil
	}
	t := report.Table{
		Title: "Loss of rate, %: S5 and this run",
		Note: fmt.Sprintf("%s wrote %s particles per rank and read %s, from the page cache. "+
			"The last column is this run at those sizes; – where it has none.",
			place.Paper, millions(drawn[write].particles), millions(drawn[read].particles)),
		Method:  "S5's figures are means over its numbers of ranks (its figures 4 and 5).",
		Columns: []report.Column{{Head: "rate"}, {Head: "S5", Number: true}},
	}
	modes := r.judged()
	var shown []mode
	for _, m := range modes {
		if len(r.decisive(m)) > 0 {
			shown = append(shown, m)
			t.Columns = append(t.Columns, report.Column{Head: m.text(), Number: true})
		}
	}
	t.Columns = append(t.Columns, report.Column{Head: "at S5's size", Number: true})
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
			measured := false
			for _, m := range shown {
				e := r.loss(r.decisive(m), bare, on(of.storage), metric)
				measured = measured || known(e)
				row = append(row, report.Estimated(e, 1))
			}
			asDrawn := slices.DeleteFunc(r.decisive(modes[0]), ofSize(drawn[metric].particles))
			row = append(row, report.Estimated(r.loss(asDrawn, bare, on(of.storage), metric), 1))
			if measured {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return report.Filled(t)
}

// ofSize is true of the cells of another size.
func ofSize(particles int64) func(measured) bool {
	return func(c measured) bool { return c.particles != particles }
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
	return fmt.Sprintf(" Not on bare metal's disk: %s. Losses there include the disks' difference: read the share of fio instead.", report.Listed(names))
}

// sizes show every cell, a table a metric.
func (r reading) sizes() []report.Part {
	var parts []report.Part
	for _, metric := range metrics {
		t := report.Table{
			Title:   titled(metric) + " rate, by checkpoint and place",
			Note:    "Unless named, a checkpoint has POSIX calls, a file per rank, the page cache kept and no fsync, as S5's.",
			Method:  "Rate: bytes of all ranks over the time of the slowest rank, opening and closing included.",
			Columns: []report.Column{{Head: "checkpoint: place"}, {Head: "MB/s", Number: true}, {Head: "loss, %", Number: true}},
		}
		if r.floored() {
			t.Columns = append(t.Columns, report.Column{Head: "% of fio", Number: true})
		}
		t.Columns = append(t.Columns, report.Column{Head: "size", Optional: true})
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
					lost, share = report.Absent(), report.Cell{Text: "100", Tone: report.Faint}
				} else if f, ok := c.floorOf(of); ok {
					share = report.Estimated(r.Ratio(r.PerBlock(f, metric), r.PerBlock(of, metric)), 100)
				}
				row := []report.Cell{
					{Text: c.text() + ": " + labelOf(of)}, report.Estimated(value, perMega), lost,
				}
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

// floors show the rate and the scatter of each disk, and whether the program is as fast as
// fio on it.
func (r reading) floors() []report.Part {
	t := report.Table{
		Title: "Rate of the disk, by fio",
		Note:  "No platform causes the scatter of the disk. Effects smaller than the uncertainty of its rate decide nothing. " + r.equivalence(),
		Method: "Scatter: the standard deviation from block to block. " +
			"Program: its rate in percent of fio's, in the place where both run. That is bare metal, or an engine with a disk of its own.",
		Columns: []report.Column{{Head: "checkpoint"}},
	}
	for _, metric := range metrics {
		t.Columns = append(t.Columns, report.Column{Head: metric + ", MB/s", Number: true},
			report.Column{Head: metric + " scatter, %", Number: true}, report.Column{Head: metric + ", program % of fio", Number: true})
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

// equivalence compares the program with fio on bare metal. What the program loses by itself
// is no platform's loss.
func (r reading) equivalence() string {
	r = r.together(len(metrics) * len(r.modes()))
	var verdicts []string
	for _, m := range r.modes() {
		cells := having(r.of(m), below(bare))
		for _, metric := range metrics {
			ratio := r.ratio(cells, below(bare), bare, metric)
			if !ratio.Known() {
				continue
			}
			word := "undecided"
			switch {
			case stats.EquivalentWithin(ratio, peers/100.0):
				word = "equivalent"
			case ratio.Interval.High < 1/(1+peers/100.0):
				word = "slower"
			case ratio.Interval.Low > 1+peers/100.0:
				word = "faster"
			}
			verdicts = append(verdicts, fmt.Sprintf("%s, %s %s, %s of fio's rate", m.text(), metric, word, place.Percent(ratio, 100)))
		}
	}
	if len(verdicts) == 0 {
		return ""
	}
	return fmt.Sprintf("On bare metal the program should be equivalent to fio within %d %%: %s.", peers, strings.Join(verdicts, "; "))
}

// drawn are the particles per rank in S5's plots of a rate by ranks.
var drawn = map[string]struct {
	particles int64
	figure    string
}{write: {1_000_000, "S5's figure 4"}, read: {25_000_000, "S5's figure 5"}}

// charts are those of S5's figures 4 and 5, a rate by the number of ranks at one size, and
// a rate by size at one number of ranks. The first of each metric stand before all tables.
func (r reading) charts() (first, more []report.Part) {
	of := func(c measured) float64 { return float64(c.ranks) }
	size := func(c measured) float64 { return float64(c.particles) / 1e6 }
	for i, m := range r.modes() {
		for _, metric := range metrics {
			byRanks, bySize := r.chart(m, metric, ranks, of, size), r.chart(m, metric, "million particles per rank", size, of)
			if charts := report.Filled(byRanks, bySize); i == 0 && len(charts) > 0 {
				first, more = append(first, charts[0]), append(more, charts[1:]...)
			} else {
				more = append(more, charts...)
			}
		}
	}
	return first, more
}

// chart draws a metric over x at one level of the other factor: the level with the most
// values of x, and of several such the one in S5's plots, or the first. It is empty where
// no level has several.
func (r reading) chart(m mode, metric, axis string, x, other func(measured) float64) report.Chart {
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
		return report.Chart{}
	}
	slices.SortFunc(cells, func(a, b measured) int { return cmp.Compare(x(a), x(b)) })
	at := report.Counted(cells[0].ranks, "rank")
	if axis == ranks {
		at = millions(cells[0].particles) + " particles per rank"
	}
	chart := report.Chart{
		Title: fmt.Sprintf("%s rate, by %s: %s, %s", titled(metric), axis, at, m.text()),
		Note:  "Dashed: fio, which shows what the disk gives.",
		X:     report.Axis{Label: axis, Log: true}, Y: report.Axis{Label: metric, Unit: "MB/s"},
	}
	if axis == ranks && cells[0].particles == drawn[metric].particles {
		chart.Note += " The same plot is " + drawn[metric].figure + "."
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
	add("fio", true, below(bare))
	if len(chart.Series) < 2 || len(chart.Series[0].Points) < 2 {
		return report.Chart{}
	}
	return chart
}

// ranks is the axis of their number.
const ranks = "ranks"

// titled begins a word with a capital.
func titled(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func inOrderOf(m map[float64][]measured) []float64 {
	var keys []float64
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// about says whether rates are the disk's or the page cache's.
func (r reading) about() report.Prose {
	const title = "Page cache and disk"
	text := []string{"With the page cache kept, as in S5, a checkpoint measures memory. A write is then not yet on the disk when it ends, and a read does not come from the disk. " +
		"A write measures the disk where it bypasses the page cache or ends with fsync. A read measures the disk where the cache was bypassed or dropped. " +
		"The time of dropping it is in neither rate."}
	if r.imported() {
		text = append(text, "These figures were measured elsewhere. They do not say what became of the page cache, which counts as kept. They have no fio beside them, so the rate of the disk is unknown.")
		if from := r.fromMemory(); from != "" {
			text = append(text, kit.Sentence(from))
		}
		return report.Prose{Title: title, Text: strings.Join(text, "\n\n")}
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
	return report.Prose{Title: title, Text: strings.Join(text, "\n\n")}
}

// notDropped says how many pages were in memory although the page cache was dropped.
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
		return "Where the page cache was dropped, none of the files' pages was in memory when reading began (mincore). Those reads came from the disk."
	}
	return fmt.Sprintf("Where the page cache was dropped, up to %s %% of a file's pages were still in memory when reading began (mincore). They were not read from the disk.", report.Rounded(100*most, 2))
}

// muchLonger is the ratio of a write's span to its time above which the page says so.
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
	return fmt.Sprintf("The ranks wrote one after the other in: %s. From the first rank's start to the last one's end, a write took up to %s times as long as the slowest rank. "+
		"A user waits longer there than the rate says.", strings.Join(cells, "; "), report.Rounded(most, 2))
}

// before says how much was still to be written when trials began.
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
	return fmt.Sprintf("Before each trial, earlier writes were flushed to the disks, in %s s on average. That time is in no rate. "+
		"Afterwards at most %s of the host's page cache still had to be written, on average over a cell's trials.", report.Rounded(flush/n, 2), bytesText(int64(left)))
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
	text := fmt.Sprintf("The kernel lets %s of writes wait in memory before it slows writers down (vm.dirty_ratio). "+
		"From %s on it writes to the disk beside them (vm.dirty_background_ratio).", bytesText(int64(limit)), bytesText(int64(background)))
	switch {
	case len(held) > 0:
		text += " These wrote more than the first: " + strings.Join(held, "; ") + ". There a write ends at the rate of the disk, although the page cache is kept."
	case len(aside) > 0:
		text += " These wrote more than the second: " + strings.Join(aside, "; ") + ". There the disk is busy during the write."
	default:
		text += " No checkpoint of this run reaches either: with the page cache kept, no write waited for the disk."
	}
	return text
}
