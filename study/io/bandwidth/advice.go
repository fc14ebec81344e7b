package bandwidth

import (
	"slices"

	"tare/advise"
	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// Advice is what a run recommends for memory bandwidth, with its evidence.
func Advice(run record.Run) []advise.Advice {
	r := read(run).together(len(kernels) + 2) // each kernel in containers, and processes twice
	var all []advise.Advice
	for _, rule := range []func() (advise.Advice, bool){r.contain, r.spread, r.apart} {
		if a, ok := rule(); ok && a.Holds() {
			all = append(all, a)
		}
	}
	return all
}

// worthIt is the least that advice of processes must change.
const worthIt = 1.1

// decider is the kernel by which processes are compared.
const decider = "triad"

// contain: a container takes no bandwidth, wherever its data lie.
func (r reading) contain() (advise.Advice, bool) {
	a := advise.Advice{
		Rule: "memory-bound-in-containers", Source: "S5",
		Set: "run it in a container as it is; no setting and no storage changes its memory bandwidth",
		For: "programs that are limited by memory bandwidth",
	}
	percent := claim.Threshold(judged, "smallest effect")
	spots := r.decisive()
	for _, kernel := range kernels {
		ratio := r.pooled(spots, spot.contained, kernel)
		if !within(ratio, percent) {
			return advise.Advice{}, false
		}
		var conditions []record.Condition
		for _, s := range spots {
			conditions = append(append(conditions, s.base), s.contained()...)
		}
		a.Evidence = append(a.Evidence, kit.Evidence(r.Run, kernel+" against bare metal", "times", ratio, conditions...))
	}
	return a, len(a.Evidence) > 0
}

// spread: one process does not reach what the machine has.
func (r reading) spread() (advise.Advice, bool) {
	one, most, ok := r.ends(func(s spot) bool { return !r.crowded(s) })
	if !ok {
		return advise.Advice{}, false
	}
	ratio := r.against(one.base, most.base, decider)
	if !ratio.Known() || ratio.Interval.Low < worthIt {
		return advise.Advice{}, false
	}
	return advise.Advice{
		Rule: "processes-for-bandwidth", Source: "tare",
		Set:      "give it " + processes(most) + " rather than " + processes(one),
		For:      "programs that are limited by memory bandwidth",
		Evidence: []advise.Evidence{r.compared(one, most, ratio)},
	}, true
}

// apart: processes that share CPUs lose bandwidth.
func (r reading) apart() (advise.Advice, bool) {
	fitting, _, ok := r.ends(func(s spot) bool { return r.crowded(s) })
	_, most, had := r.ends(func(s spot) bool { return !r.crowded(s) })
	if !ok || !had || fitting.elements != most.elements {
		return advise.Advice{}, false
	}
	ratio := r.against(most.base, fitting.base, decider)
	if !ratio.Known() || ratio.Interval.High > 1/worthIt {
		return advise.Advice{}, false
	}
	return advise.Advice{
		Rule: "no-more-ranks-than-cpus", Source: "tare",
		Set: "start no more MPI processes than the container has CPUs", For: "MPI programs",
		Evidence: []advise.Evidence{r.compared(most, fitting, ratio)},
	}, true
}

func processes(s spot) string { return report.Counted(s.processes, "process") }

// compared is the ratio of one spot's bandwidth to another's, as evidence.
func (r reading) compared(base, with spot, ratio stats.Estimate) advise.Evidence {
	return kit.Evidence(r.Run, decider+", "+processes(with)+" against "+processes(base), "times", ratio, base.base, with.base)
}

// ends are the spots of the fewest and the most processes at the largest size,
// of those that are wanted.
func (r reading) ends(wanted func(spot) bool) (fewest, most spot, ok bool) {
	for _, s := range slices.Backward(r.spots) {
		if !s.beyond || !wanted(s) {
			continue
		}
		if !ok {
			most, ok = s, true
		}
		if s.elements == most.elements {
			fewest = s
		}
	}
	return fewest, most, ok
}
