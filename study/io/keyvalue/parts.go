package keyvalue

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/io/place"
)

// Answer is the sentence that the reader came for: what a container takes at the
// lowest and at the highest rate, and whether that is the network's.
func Answer(run record.Run) string {
	r := read(run)
	r = r.together(2*r.lossesRead() + len(engines(r.memory)))
	var told []string
	exception := ""
	for _, s := range spots(r.reference()) {
		g, ok := r.growth(s)
		if ok && g.against == claim.True && exception == "" {
			exception = "It does not go by the rate: " + side{g}.told() + "."
		}
		if ok && g.fastLoss.Known() && g.slowLoss.Known() && s.storage != string(platform.StorageTmpfs) {
			told = append(told, fmt.Sprintf("%s %s %% of %s and %s %% of %s", named(s, r.memory), report.Said(g.slowLoss, 100), thousands(r.rate(g.slow, g.slow.base).Value),
				report.Said(g.fastLoss, 100), thousands(r.rate(g.fast, g.fast.base).Value)))
		}
	}
	var text []string
	if len(told) > 0 {
		// The whole is in the table: the first on each kind of network says it.
		text = append(text, "Of bare metal's requests a second a container takes: "+strings.Join(r.firsts(told), "; ")+".")
	}
	if exception != "" {
		text = append(text, exception)
	}
	for _, engine := range engines(r.memory) {
		if s := accounted(r.separate(engine)); s != "" {
			text = append(text, s)
			break
		}
	}
	if s := r.stored(); s != "" {
		text = append(text, s)
	}
	if len(text) == 0 {
		return "What a container takes from Redis cannot be told yet: an interval takes three " + place.Repeats(run) + "."
	}
	return strings.Join(text, " ")
}

// firsts keeps an answer to two places; the others are in the table.
func (r reading) firsts(told []string) []string {
	const most = 2
	if len(told) <= most {
		return told
	}
	return append(slices.Clone(told[:most]), fmt.Sprintf("%d places more stand in the table", len(told)-most))
}

// Parts are the run's tables and charts.
func Parts(run record.Run) []report.Part {
	r := read(run)
	if len(r.memory)+len(r.persistent) == 0 {
		return nil
	}
	var parts []report.Part
	reference := r.reference()
	if len(reference) > 0 {
		parts = append(parts, r.losses("Requests a second, and what of them a place takes", reference))
	}
	for _, engine := range engines(r.memory) {
		parts = append(parts, r.separationPart(engine)...)
	}
	parts = append(parts, r.busyPart()...)
	parts = append(parts, r.costParts()...)
	parts = append(parts, r.byThreads()...)
	parts = append(parts, r.persistence()...)
	parts = append(parts, r.published()...)
	return append(parts, place.ControlPart(r.controls())...)
}

// losses is a table of cells by places.
func (r reading) losses(title string, cells []cell) report.Table {
	t := report.Table{
		Title:   title,
		Note:    "Bare metal's rate in 1000 requests a second, and what each place takes of it in percent (below nothing it is faster), paired by block where the run has blocks.",
		Columns: []report.Column{{Head: "request"}, {Head: "bare, 1000/s", Number: true}},
	}
	all := spots(cells)
	for i, s := range all {
		t.Columns = append(t.Columns, report.Column{Head: named(s, r.memory), Number: true, Optional: i > 0})
	}
	for _, c := range cells {
		row := []report.Cell{{Text: c.name()}, report.Estimated(r.rate(c, c.base), 1e-3)}
		for _, s := range all {
			p, ok := c.at(s)
			if !ok {
				row = append(row, report.Absent())
				continue
			}
			loss := r.loss(c, p)
			shown := report.Estimated(loss, 100)
			if !loss.ToldFrom(0) {
				shown.Tone = report.Faint
			}
			row = append(row, shown)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// byThreads are tables over the levels of io-threads and of the load's threads, at the
// fewest of the other.
func (r reading) byThreads() []report.Part {
	var parts []report.Part
	for _, by := range []struct {
		title     string
		of, other func(cell) int64
	}{{"By io-threads of the server", cell.ofIOThreads, cell.ofThreads}, {"By threads of the load", cell.ofThreads, cell.ofIOThreads}} {
		if len(r.memory) == 0 || len(levels(r.memory, by.of)) < 2 {
			continue
		}
		fewest := least(r.memory, by.other)
		// S5's two figures: the smallest values by GET and the largest by MSET, where they were
		// asked for at several levels.
		small, large := least(r.memory, cell.ofPayload), slices.Max(levels(r.memory, cell.ofPayload))
		several := r.ordered(func(c cell) bool {
			return by.other(c) == fewest && (c.payload == small && c.command == r.simplest() || c.payload == large && c.command == "mset") && slices.ContainsFunc(r.memory, func(o cell) bool {
				return o.command == c.command && o.payload == c.payload && o.pipeline == c.pipeline && by.other(o) == fewest && by.of(o) != by.of(c)
			})
		})
		slices.SortStableFunc(several, func(a, b cell) int {
			if s := strings.Compare(a.command, b.command); s != 0 {
				return s
			}
			for _, d := range []int64{a.payload - b.payload, a.pipeline - b.pipeline, by.of(a) - by.of(b)} {
				if d != 0 {
					return int(d)
				}
			}
			return 0
		})
		if len(several) > 0 {
			parts = append(parts, r.losses(by.title, several))
		}
	}
	return parts
}

// simplest is GET, or the first command of a run that has no GET.
func (r reading) simplest() string {
	if slices.ContainsFunc(r.memory, func(c cell) bool { return c.command == figureCommand }) {
		return figureCommand
	}
	return r.memory[0].command
}

// published sets the paper's figures beside ours.
func (r reading) published() []report.Part {
	judgements := r.judge()
	c, err := claim.Lookup(judged)
	if err != nil || len(judgements) == 0 {
		return nil
	}
	t := report.Table{
		Title: "S5's figures and those of this run",
		Note: "Published ranges are the paper's, changes those of its data, one run a cell: below nothing the container is slower there. Ours are on the host's network, or on one that is not told. " +
			"S5's load had threads, with which redis-benchmark ends on a tick of 250 ms: without a pipeline, more than nine tenths of its cells took a multiple of that, so that its smallest step there, of 4 to 7 s, is some 5 %.",
		Columns: []report.Column{{Head: "figure"}, {Head: "published", Number: true}, {Head: "this run", Number: true}},
	}
	for _, p := range c.Published {
		i := slices.IndexFunc(judgements[0].Figures, func(f claim.Figure) bool { return f.Name == p.Name })
		if i < 0 {
			continue
		}
		f := judgements[0].Figures[i]
		e := stats.Estimate{Value: f.Value, N: f.N, Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}
		if f.Interval() {
			e.Interval.Low, e.Interval.High = f.Low, f.High
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: p.Name}, {Text: p.Text()}, report.Estimated(e, 1)})
	}
	return report.Filled(t)
}
