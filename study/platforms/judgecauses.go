package platforms

import (
	"fmt"
	"strings"

	"tare/claim"
	"tare/overhead"
	"tare/report"
)

// judgeCauses is S2.9.
func (r reading) judgeCauses() (claim.Judgement, bool) {
	const id = "S2.9"
	r = r.together(3) // what is lost, what of it is explained, and the moves
	if len(r.of(ofCauses, "")) == 0 {
		return claim.Judgement{}, false
	}
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	var all []explanation
	for _, name := range r.names(ofCauses) {
		all = append(all, r.explain(name)...)
	}
	if len(all) == 0 {
		d.rests("no size with the probe on has different CPUs for vanilla and pinned containers: run %s", larger(computing[0], "--cpus 1,2,4"))
		return d.done()
	}
	e := all[0]
	explained := claim.Threshold(id, "explained") / 100
	d.Figures = claim.Measured(
		claim.Ours("lost by vanilla against pinned", e.lost, 1, "s"),
		claim.Ours("explained", e.part, 100, "%"),
		claim.Ours("moves more than pinned", e.moves, 1, ""),
	)
	if e.lost.Value == e.lost.Value {
		d.Ours = fmt.Sprintf("%s, %s: vanilla takes %s s longer than pinned", e.spot.workload, sizeOf(e.spot), report.Said(e.lost, 1))
		if e.part.Known() {
			d.Ours += fmt.Sprintf(", %s %% of it CPU time", report.Said(e.part, 100))
		}
		if e.moves.Known() {
			d.Ours += fmt.Sprintf(", with %s more migrations", report.Said(e.moves, 1))
		}
	}
	d.rests("%s on %s, with the probe on, %s", e.spot.workload, sizeOf(e.spot), report.Counted(e.lost.N, "block"))
	d.rests("the additional CPU time is what cold caches and accounting cost; the rest was spent waiting")
	switch {
	case !above(e.lost, 0):
		d.rests("vanilla takes no significantly longer than pinned here")
	case above(e.part, explained) && above(e.moves, 0):
		d.Verdict = claim.Confirmed
	case below(e.part, explained):
		d.Verdict = claim.Refuted
		d.rests("most of it was spent waiting: the cause is throttling, not its accounting")
	default:
		d.rests("the interval of the share in CPU time is inconclusive")
	}
	if why := emulated(e.vanilla, e.pinned); why != "" {
		d.Verdict, d.NotRepresentative = claim.Inconclusive, why
	}
	return d.done()
}

// judgeInterrupts is S2.9b.
func (r reading) judgeInterrupts() (claim.Judgement, bool) {
	const id = "S2.9b"
	name := serving[0]
	r = r.together(2 * len(r.of(ofCauses, name))) // interrupts and wakings elsewhere of each size
	spots := r.of(ofCauses, name)
	if len(spots) == 0 {
		return claim.Judgement{}, false
	}
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	least := claim.Threshold(id, "interrupts a web request")
	enough, more, notMore, grows := true, 0, 0, true
	var ours []string
	last := -1.0
	for _, s := range spots {
		vanilla, ok := s.one(CN, Vanilla)
		if !ok {
			continue
		}
		each := r.watchedFigure(vanilla, interruptsEach)
		if each.Value == each.Value {
			name := "interrupts a web request, " + sizeOf(s)
			d.Figures = append(d.Figures, claim.Measured(claim.Ours(name, each, 1, ""))...)
			ours = append(ours, fmt.Sprintf("%s: %s interrupts per request", sizeOf(s), report.Said(each, 1)))
		}
		pinned, had := s.one(CN, Pinned)
		if !had || same(vanilla) {
			continue
		}
		moved := r.meanOf(overhead.Difference(r.perTrial(pinned, elsewhereEach), r.perTrial(vanilla, elsewhereEach)))
		if !moved.Known() {
			continue
		}
		name := "wakings elsewhere more than pinned, a request, " + sizeOf(s)
		d.Figures = append(d.Figures, claim.Measured(claim.Ours(name, moved, 1, ""))...)
		ours = append(ours, fmt.Sprintf("vanilla has %s more wakings on another CPU per request than pinned", report.Said(moved, 1)))
		enough = enough && above(each, least)
		switch {
		case above(moved, 0):
			more++
		case moved.Interval.High <= 0:
			notMore++
		}
		grows = grows && (last < 0 || moved.Value <= last) // sizes rise, shares with them
		last = moved.Value
	}
	d.Ours = strings.Join(ours, "; ")
	d.rests("%s with the probe on, at %d sizes", name, len(spots))
	switch {
	case more+notMore == 0:
		d.rests("no size with the probe on has different CPUs for vanilla and pinned containers: on a host with more CPUs, run %s",
			larger(name, "--cpus 1,2,4 --causes on"))
	case notMore > 0 && more == 0:
		d.Verdict = claim.Refuted
		d.rests("the vanilla container does not change CPUs more often than the pinned one")
	case more > 0 && notMore == 0 && !enough:
		d.rests("the vanilla container changes CPUs more often, but interrupts per request are not significantly above %g", least)
	case more > 0 && notMore == 0:
		// Never outright: a watch begins with the program, so that the interrupts of the
		// service's own start and warm-up are counted among those of its requests. What
		// vanilla has more than pinned is free of that.
		d.Verdict = claim.Qualified
		d.rests("interrupts of the service's start and warm-up are counted too")
		if more > 1 && !grows {
			d.rests("the difference does not grow as the share falls")
		}
		if more == 1 {
			d.rests("one size shows nothing of shares")
		}
	default:
		d.rests("the sizes contradict one another")
	}
	return d.done()
}
