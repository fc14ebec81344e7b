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

// Answer is the headline: what a container loses at the highest rate, and how much of that is
// the network's.
func Answer(run record.Run) string {
	r := read(run)
	r = r.together(2*r.lossesRead() + len(engines(r.memory)))
	var shown side // the first place on each kind of network; the table has the others
	exception := ""
	for _, s := range spots(r.reference()) {
		g, ok := r.growth(s)
		if ok && g.against == claim.True && exception == "" {
			exception = "The loss does not follow the rate: " + side{g}.exception() + "."
		}
		if ok && g.fastLoss.Known() && g.slowLoss.Known() && s.storage != string(platform.StorageTmpfs) &&
			!slices.ContainsFunc(shown, func(o growth) bool { return o.spot.bridged() == s.bridged() }) {
			shown = append(shown, g)
		}
	}
	var text []string
	if len(shown) > 0 {
		text = append(text, r.atHighest(shown))
	}
	if exception != "" {
		text = append(text, exception)
	}
	for _, engine := range engines(r.memory) {
		if s := networkPart(r.separate(engine)); s != "" {
			text = append(text, s)
			break
		}
	}
	if s := r.stored(); s != "" {
		text = append(text, s)
	}
	if len(text) == 0 {
		return place.Unknown("What a container costs Redis", run)
	}
	return strings.Join(text, " ")
}

// atHighest says what places lose at their highest rates: those that lose significantly, and apart
// from them the others.
func (r reading) atHighest(places side) string {
	var lose, rest []string
	for _, g := range places {
		text := fmt.Sprintf("%s %s at %s requests/s", named(g.spot, r.memory), place.Percent(g.fastLoss, 100),
			thousands(r.rate(g.fast, g.fast.base).Value))
		if g.fastLoss.Interval.Low > 0 {
			lose = append(lose, text)
		} else {
			rest = append(rest, text)
		}
	}
	var sentences []string
	if len(lose) > 0 {
		sentences = append(sentences, "Redis loses throughput in a container: "+strings.Join(lose, "; ")+".")
	}
	if len(rest) > 0 {
		sentences = append(sentences, "No significant loss was found: "+strings.Join(rest, "; ")+".")
	}
	return strings.Join(sentences, " ")
}

// losing says what a place loses at the lowest and at the highest rate.
func (r reading) losing(g growth) string {
	return fmt.Sprintf("%s %s at %s requests/s and %s at %s", named(g.spot, r.memory),
		place.Percent(g.slowLoss, 100), thousands(r.rate(g.slow, g.slow.base).Value),
		place.Percent(g.fastLoss, 100), thousands(r.rate(g.fast, g.fast.base).Value))
}

// Parts are the run's tables and charts.
func Parts(run record.Run) []report.Part {
	r := read(run)
	if len(r.memory)+len(r.persistent) == 0 {
		return nil
	}
	parts, models := r.costParts()
	reference := r.reference()
	if len(reference) > 0 {
		parts = append(parts, r.losses("Throughput on bare metal, and loss by place in %", reference))
	}
	for _, engine := range engines(r.memory) {
		parts = append(parts, r.separationPart(engine)...)
	}
	parts = append(parts, r.busyPart()...)
	parts = append(parts, models...)
	parts = append(parts, r.byThreads()...)
	parts = append(parts, r.persistence()...)
	parts = append(parts, r.published()...)
	return append(parts, place.ControlPart(r.controls())...)
}

// losses is a table of cells by places.
func (r reading) losses(title string, cells []cell) report.Table {
	t := report.Table{
		Title:   title,
		Note:    "A negative loss means more requests per second than on bare metal.",
		Method:  "Losses are paired by block where the run has blocks.",
		Columns: []report.Column{{Head: "request"}, {Head: "bare, 1000/s", Number: true}},
	}
	all := spots(cells)
	t.Columns = append(t.Columns, r.columns(all)...)
	for _, c := range cells {
		row := []report.Cell{{Text: c.name()}, report.Estimated(r.rate(c, c.base), 1e-3)}
		for _, s := range all {
			if p, ok := c.at(s); ok {
				row = append(row, effect(r.loss(c, p), 100))
			} else {
				row = append(row, report.Absent())
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// columns are one for each place. A narrow screen keeps the first on each kind of network.
func (r reading) columns(places []spot) (all []report.Column) {
	for i, s := range places {
		optional := slices.ContainsFunc(places[:i], func(o spot) bool { return o.bridged() == s.bridged() })
		all = append(all, report.Column{Head: named(s, r.memory), Number: true, Optional: optional})
	}
	return all
}

// effect is the cell of an effect, faint where it does not differ significantly from zero.
func effect(e stats.Estimate, scale float64) report.Cell {
	c := report.Estimated(e, scale)
	if !e.DiffersFrom(0) {
		c.Tone = report.Faint
	}
	return c
}

// byThreads are tables over the levels of io-threads, under the threads of the load by which those are
// compared, and of the load's threads, at the fewest io-threads.
func (r reading) byThreads() []report.Part {
	var parts []report.Part
	for _, by := range []struct {
		title     string
		of, other func(cell) int64
		at        int64 // of the other
	}{
		{"Loss by io-threads of the server, %", cell.ofIOThreads, cell.ofThreads, r.underThreads()},
		{"Loss by threads of the load generator, %", cell.ofThreads, cell.ofIOThreads, least(r.memory, cell.ofIOThreads)},
	} {
		if len(r.memory) == 0 || len(levels(r.memory, by.of)) < 2 {
			continue
		}
		// S5's two figures: the smallest values by GET and the largest by MSET, where they were
		// asked for at several levels.
		small, large := least(r.memory, cell.ofPayload), slices.Max(levels(r.memory, cell.ofPayload))
		several := r.ordered(func(c cell) bool {
			if by.other(c) != by.at ||
				!(c.payload == small && c.command == r.simplest() || c.payload == large && c.command == "mset") {
				return false
			}
			return slices.ContainsFunc(r.memory, func(o cell) bool {
				return o.command == c.command && o.payload == c.payload && o.pipeline == c.pipeline &&
					by.other(o) == by.at && by.of(o) != by.of(c)
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

// published compares the paper's figures with ours.
func (r reading) published() []report.Part {
	judgements := r.judge()
	c, err := claim.Lookup(judged)
	if err != nil || len(judgements) == 0 {
		return nil
	}
	t := report.Table{
		Title: "S5's figures and this run's",
		Note: place.Paper + " has one run per cell. An overhead is a loss. A negative change is a slower container. " +
			"This run's figures are on the host's network, or on one that is not named.",
		Method: "Ranges are from the paper's text, changes from its data. S5's load had threads, with which redis-benchmark ends on a tick of 250 ms. " +
			"Without a pipeline, over 90 % of its cells took a multiple of that. A step of one tick there is some 5 % of a cell of 4 to 7 s.",
		Columns: []report.Column{{Head: "figure"}, {Head: "S5", Number: true}, {Head: "this run", Number: true}},
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
		t.Rows = append(t.Rows, []report.Cell{
			{Text: p.Name + ", " + p.Unit}, {Text: strings.TrimSuffix(p.Text(), " "+p.Unit)}, report.Estimated(e, 1),
		})
	}
	return report.Filled(t)
}
