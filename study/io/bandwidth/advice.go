package bandwidth

import (
	"slices"

	"tare/advise"
	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/study/kit"
)

// Advice is what a run recommends of memory bandwidth, with what it rests on.
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
		Rule: "memory-bound-in-containers", Source: "S5", Set: "run it in a container as it is; nothing is to be set for memory bandwidth, and no storage to be chosen",
		For: "programs that memory bandwidth bounds",
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
		Rule: "processes-for-bandwidth", Source: "tare", Set: "give it " + report.Counted(most.processes, "process") + " rather than " + report.Counted(one.processes, "process"), For: "programs that memory bandwidth bounds",
		Evidence: []advise.Evidence{kit.Evidence(r.Run, decider+", "+report.Counted(most.processes, "process")+" against "+report.Counted(one.processes, "process"), "times", ratio, one.base, most.base)},
	}, true
}

// apart: processes that take turns lose bandwidth.
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
		Rule: "no-more-ranks-than-cpus", Source: "tare", Set: "start no more MPI processes than the container has CPUs", For: "MPI programs",
		Evidence: []advise.Evidence{kit.Evidence(r.Run, decider+", "+report.Counted(fitting.processes, "process")+" against "+report.Counted(most.processes, "process"), "times", ratio, most.base, fitting.base)},
	}, true
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
