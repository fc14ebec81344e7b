package platforms

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// kindsOfWork are those of S2.7, in its order.
var kindsOfWork = []struct{ workload, name string }{
	{"ffmpeg", "computing"}, {"wordpress", "input and output"}, {"cassandra", "much input and output"},
}

// bracket holds the least share of the host at which a vanilla container is close to
// bare metal, by the ratios that were measured, and by nothing between them.
type bracket struct {
	workload string
	// over is the largest share that costs wholly more, 0 where none does; below is that
	// from which on every one costs wholly less, NaN where none does.
	over, below     float64
	atOver, atBelow shareCost
	shares          []float64 // that were measured
}

// shareCost is what a container costs at one of them.
type shareCost struct {
	cost stats.Estimate
	of   record.Condition
	base record.Condition
}

// answers reports whether something bounds the least share.
func (b bracket) answers() bool { return b.over > 0 || b.below > 0 }

// before reports whether b's least share lies wholly at or below c's.
func (b bracket) before(c bracket) bool { return b.below > 0 && c.over > 0 && b.below <= c.over }

func (b bracket) String() string {
	switch {
	case b.over > 0 && b.below > 0:
		return fmt.Sprintf("between %s and %s", report.Rounded(b.over, 2), report.Rounded(b.below, 2))
	case b.over > 0:
		return fmt.Sprintf("above %s", report.Rounded(b.over, 2))
	case b.below > 0:
		return fmt.Sprintf("%s or less", report.Rounded(b.below, 2))
	}
	return "unknown"
}

// bracketed brackets the share of a column at which it costs no more than a fraction
// above bare metal; false where it was not measured at all.
func (r reading) bracketed(name string, fraction float64, pick func(spot) (record.Condition, bool)) (bracket, bool) {
	b := bracket{workload: name, below: math.NaN()}
	var all []shareCost
	for _, s := range r.of(matrix, name) {
		c, ok := pick(s)
		if !ok {
			continue
		}
		if cost := r.cost(s, c); cost.Value > 0 {
			all = append(all, shareCost{cost, c, s.base})
		}
	}
	slices.SortStableFunc(all, func(a, b shareCost) int {
		switch x, y := chr(a.of), chr(b.of); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	for _, at := range all {
		b.shares = append(b.shares, chr(at.of))
		if above(at.cost, 1+fraction) {
			b.over, b.atOver = chr(at.of), at
		}
	}
	for _, at := range slices.Backward(all) {
		if !below(at.cost, 1+fraction) {
			break
		}
		b.below, b.atBelow = chr(at.of), at
	}
	return b, len(all) > 0
}

// vanillaContainer is a spot's vanilla container by which claims are judged.
func vanillaContainer(s spot) (record.Condition, bool) { return s.one(CN, Vanilla) }

// kindBrackets are those of S2.7's kinds of work, in its order.
func (r reading) kindBrackets() (all []bracket) {
	vanished := claim.Threshold("S2.7", "vanished") / 100
	for _, k := range kindsOfWork {
		if b, ok := r.bracketed(k.workload, vanished, vanillaContainer); ok {
			all = append(all, b)
		}
	}
	return all
}

func kindName(workload string) string {
	for _, k := range kindsOfWork {
		if k.workload == workload {
			return k.name
		}
	}
	return workload
}

// byTerm is the share that the size term gives, without its interval: in the
// simulator it held the truth in as few as none of the runs (docs/platforms-model.md).
func (r reading) byTerm(workload string, fraction float64) float64 {
	for _, p := range r.deciding(r.parted()) {
		if p.workload == workload && p.kind() == CN && p.column.preset == Vanilla {
			if e, err := p.least(fraction); err == nil {
				return e.Value
			}
		}
	}
	return math.NaN()
}

// judgeShares is S2.7.
func (r reading) judgeShares() (claim.Judgement, bool) {
	const id = "S2.7"
	tried := 0
	for _, k := range kindsOfWork {
		tried += len(r.of(matrix, k.workload))
	}
	r = r.together(tried)
	all := r.kindBrackets()
	if len(all) == 0 {
		return claim.Judgement{}, false
	}
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	vanished, cores := claim.Threshold(id, "vanished")/100, claim.Threshold(id, "cores")
	var ours []string
	answered := slices.DeleteFunc(slices.Clone(all), func(b bracket) bool { return !b.answers() })
	for _, b := range all {
		text := kindName(b.workload) + " " + b.String()
		d.Figures = append(d.Figures, claim.Measured(
			claim.Figure{Name: kindName(b.workload) + ", below 10 % from", Value: b.below, Unit: "of the cores"},
			claim.Figure{
				Name: kindName(b.workload) + ", by the size term", Value: r.byTerm(b.workload, vanished), Unit: "of the cores",
			},
		)...)
		if term := r.byTerm(b.workload, vanished); term == term {
			text += fmt.Sprintf(" (%s by the size term)", report.Measured(term).Text)
		}
		ours = append(ours, text)
	}
	d.Ours = strings.Join(ours, "; ")
	if n := r.hostCPUs(); float64(n) < cores {
		d.rests("this host has %s: on one with %g or more, run tare platforms --cpus 1,2,4,8", cpusText(float64(n)), cores)
		return d.done()
	}
	d.rests("shares at which the whole interval of a vanilla container's cost lies above, or below, %g %%", 100*vanished)
	d.rests("the estimate by the size term decides nothing: its interval seldom holds the truth")
	ordered, otherwise := len(answered) == len(kindsOfWork), false
	for i, b := range answered {
		for _, earlier := range answered[:i] {
			otherwise = otherwise || b.before(earlier)
		}
		ordered = ordered && (i == 0 || answered[i-1].before(b))
	}
	switch {
	case otherwise:
		d.Verdict = claim.Refuted
		d.rests("the order differs from the published one")
	case len(answered) < len(kindsOfWork):
		d.rests("%d of %d kinds of work have a known share", len(answered), len(kindsOfWork))
	case ordered:
		d.Verdict = claim.Qualified
		d.rests("the order is as published; whether each lies in its band is unknown from the shares measured")
	default:
		d.rests("the order is unknown from the shares measured")
	}
	return d.done()
}

// sharesPart is the least share of the host at which the cost of size vanishes.
func (r reading) sharesPart() []report.Part {
	const fraction = 0.1
	t := report.Table{
		Title: "Smallest share of the host at a cost of at most 10 %",
		Note: "A share is the container's CPUs over the host's (CHR). Between: at the lower share the container costs more than 10 %, " +
			"from the higher one on less. Size term: the share by the model, a hint only. –: not identifiable.",
		Method: "More and less mean the whole interval. The interval of the size term is left out, since it seldom holds the truth. " +
			"S2 (published comparison of platforms) gives, for a host with 112 CPUs: computing 0.07 to 0.14, " +
			"input and output 0.14 to 0.28, very much of it 0.28 to 0.57.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "platform"}, {Head: "shares measured"}, {Head: "smallest share"},
			{Head: "size term", Number: true},
		},
	}
	for _, name := range r.names(matrix) {
		for _, col := range r.columns(matrix) {
			if KindOf(col.platform) != CN || col.preset != Vanilla {
				continue
			}
			b, ok := r.bracketed(name, fraction, func(s spot) (record.Condition, bool) { return s.at(col) })
			if !ok || len(b.shares) < 2 {
				continue
			}
			var tried []string
			for _, share := range b.shares {
				tried = append(tried, report.Measured(share).Text)
			}
			term, least := report.Absent(), report.Absent()
			if b.answers() {
				least = report.Cell{Text: b.String()}
			}
			for _, p := range r.parted() {
				if p.workload == name && p.column == col {
					if e, err := p.least(fraction); err == nil {
						term = report.Measured(e.Value)
					}
				}
			}
			t.Rows = append(t.Rows, []report.Cell{
				{Text: name}, {Text: col.label()}, {Text: strings.Join(tried, ", ")}, least, term,
			})
		}
	}
	return report.Filled(t)
}
