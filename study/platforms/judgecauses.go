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
		d.rests("no size was watched at which vanilla and pinned containers can differ: %s", larger(computing[0], "--cpus 1,2,4"))
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
		d.Ours = fmt.Sprintf("%s, %s: vanilla takes %s s more than pinned", e.spot.workload, sizeOf(e.spot), report.Said(e.lost, 1))
		if e.part.Known() {
			d.Ours += fmt.Sprintf(", %s %% of it CPU time", report.Said(e.part, 100))
		}
		if e.moves.Known() {
			d.Ours += fmt.Sprintf(", with %s moves more", report.Said(e.moves, 1))
		}
	}
	d.rests("%s on %s, watched, %s: what is lost in CPU time holds cold caches after moves, and accounting; the rest was waited for", e.spot.workload, sizeOf(e.spot), report.Counted(e.lost.N, "block"))
	switch {
	case !above(e.lost, 0):
		d.rests("vanilla loses nothing against pinned here that could be explained")
	case above(e.part, explained) && above(e.moves, 0):
		d.Verdict = claim.Confirmed
	case below(e.part, explained):
		d.Verdict = claim.Refuted
		d.rests("most of it was waited for: throttling, not its accounting")
	default:
		d.rests("the interval of what is explained does not decide")
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
			d.Figures = append(d.Figures, claim.Measured(claim.Ours("interrupts a web request, "+sizeOf(s), each, 1, ""))...)
			ours = append(ours, fmt.Sprintf("%s: %s interrupts a request", sizeOf(s), report.Said(each, 1)))
		}
		pinned, had := s.one(CN, Pinned)
		if !had || same(vanilla) {
			continue
		}
		moved := r.meanOf(overhead.Difference(r.perTrial(pinned, elsewhereEach), r.perTrial(vanilla, elsewhereEach)))
		if !moved.Known() {
			continue
		}
		d.Figures = append(d.Figures, claim.Measured(claim.Ours("wakings elsewhere more than pinned, a request, "+sizeOf(s), moved, 1, ""))...)
		ours = append(ours, fmt.Sprintf("vanilla goes on elsewhere %s times a request more than pinned", report.Said(moved, 1)))
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
	d.rests("%s, watched, at %d sizes", name, len(spots))
	switch {
	case more+notMore == 0:
		d.rests("no size was watched at which vanilla and pinned containers can differ: on a host of more CPUs, %s", larger(name, "--cpus 1,2,4 --causes on"))
	case notMore > 0 && more == 0:
		d.Verdict = claim.Refuted
		d.rests("the vanilla container does not change CPUs more often")
	case more > 0 && notMore == 0 && !enough:
		d.rests("the vanilla container changes CPUs more often, but interrupts a request are not wholly %g or more", least)
	case more > 0 && notMore == 0:
		// Never outright: a watch begins with the program, so that the interrupts of the
		// service's own start and warm-up are counted among those of its requests. What
		// vanilla has more than pinned is free of that.
		d.Verdict = claim.Qualified
		d.rests("interrupts of the service's start and warm-up are among those counted")
		if more > 1 && !grows {
			d.rests("the difference does not grow as the share shrinks")
		}
		if more == 1 {
			d.rests("one size tells nothing of shares")
		}
	default:
		d.rests("sizes tell otherwise of one another")
	}
	return d.done()
}
