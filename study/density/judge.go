package density

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
)

// judged is the claim that stock policies decide.
const judged = "S3.1"

// Judge reaches a verdict on claim S3.1 (S3: published study of density). It takes a run that has the
// critical service beside neighbours without protection, on one swap device or on several. The rule
// and its thresholds are those of the claim (package claim). A run with and without a memory
// extension gives a verdict on S3.2, too.
func Judge(run record.Run) []claim.Judgement {
	r := read(run, nil)
	return append(r.judge(), r.judgeExtended()...)
}

// plain reports whether an arm is as in S3: pages may be swapped out, and nothing protects the service.
func plain(a arm) bool {
	swap := platform.SwapKind(a.factor(FactorSwap))
	return swap != platform.SwapNone &&
		slices.Contains(
			[]string{"", string(platform.ProtectNone)},
			a.factor(FactorProtect),
		) && slices.Contains([]string{"", "none"}, a.factor(FactorExtend))
}

// finding is the evidence of one arm on the claim.
type finding struct {
	arm    arm
	device string
	// fall is the first number from which throughput has lost what the claim asks for;
	// none where it is 0.
	fall           int
	overcommit     float64 // there
	loss           stats.Estimate
	tail, usual    stats.Estimate // p99 and p95 there, against the least number
	confirms       bool
	late           bool // it falls so, and only beyond what the claim allows
	refutes        bool
	alike          bool // the p95 grows as the p99 does, or more
	why            string
	representative string
}

func (r reading) judge() []claim.Judgement {
	var arms []arm
	for _, base := range r.bases() {
		// One of each device: that whose other factors are the base's.
		for _, a := range slices.Concat([]arm{base}, r.others(base)) {
			if a.measured() && plain(a) &&
				(a.base || a.policy == base.policy || differ(base, a, FactorSwap) || !plain(base)) {
				arms = append(arms, a)
			}
		}
	}
	// Each is judged by throughput, p99 and p95. That many numbers of neighbours are
	// tried until throughput has fallen is allowed for by asking for two in a row.
	r = r.together(3 * len(arms))
	var findings []finding
	for _, a := range arms {
		findings = append(findings, r.find(a))
	}
	if len(findings) == 0 {
		return nil
	}
	j := claim.Judgement{Claim: judged}
	var why []string
	j.Verdict, why = verdict(findings)
	for _, f := range findings {
		if f.representative != "" && !strings.Contains(j.NotRepresentative, f.representative) {
			j.NotRepresentative = strings.TrimPrefix(j.NotRepresentative+"; "+f.representative, "; ")
		}
	}
	if j.NotRepresentative != "" && j.Verdict != claim.Inconclusive {
		j.Verdict = claim.Inconclusive
		why = append(why, "figures of an emulated machine decide nothing")
	}
	var ours []string
	for _, f := range findings {
		ours = append(ours, r.describe(f, len(findings) > 1))
	}
	j.Ours, j.Figures = strings.Join(ours, "; "), r.judgedFigures(findings)
	a := findings[0].arm
	rests := []string{
		fmt.Sprintf(
			"%s beside %s, %s of %d to %d neighbours, %s",
			a.critical(),
			a.noise(),
			report.Counted(len(a.sweeps), "sweep"),
			a.first(),
			a.greatest(),
			a.order,
		),
	}
	if a.tainted > 0 {
		rests = append(rests, fmt.Sprintf("%d tainted ones left out", a.tainted))
	}
	if j.Verdict == claim.Inconclusive {
		if command := r.larger(findings); command != "" {
			why = append(why, command)
		}
	}
	j.Rests = strings.Join(append(rests, why...), "; ")
	return []claim.Judgement{j}
}

// find applies the claim's rule to one arm.
func (r reading) find(a arm) finding {
	absent := stats.Absent(r.Report.Level)
	f := finding{
		arm: a, device: a.factor(FactorSwap), representative: a.condition.NotRepresentative,
		loss: absent, tail: absent, usual: absent,
	}
	lost, smallest := claim.Threshold(judged, "throughput lost")/100, claim.Threshold(judged, "smallest effect")/100
	atFall, atEnd := claim.Threshold(judged, "overcommitted at the fall"), claim.Threshold(judged, "overcommitted at the end")
	if first := r.overcommit(a, a.first()).Value; !(first < 1) {
		f.why = fmt.Sprintf("memory demand is %.2f times the memory with fewest neighbours already: there is nothing to compare with", first)
		return f
	}
	if n, ok := r.falls(a, lost); ok {
		f.fall, f.overcommit = n, r.overcommit(a, n).Value
		f.loss = lossOf(r.throughputRatio(a, n))
		f.tail, f.usual = r.quantileRatio(a, n, open, 0.99), r.quantileRatio(a, n, open, 0.95)
		apart := f.tail.Known() && f.usual.Known() && f.tail.Interval.Low > f.usual.Interval.High
		f.alike = f.overcommit <= atFall && f.tail.Known() && f.usual.Known() &&
			f.usual.Interval.Low > f.tail.Interval.High
		// A significant loss at one number shows that it happened by then. That it did not happen sooner
		// requires a change whose whole interval lies beyond.
		place := r.throughputCliff(a)
		beyond := f.overcommit > atFall
		f.late = beyond && place.found() && place.overcommit.Interval.Low > atFall
		f.confirms = apart && !beyond
		switch {
		case beyond && !f.late:
			f.why = fmt.Sprintf("throughput has lost that much at %.2f times the memory; whether it has at %g is unknown", f.overcommit, atFall)
		case f.late:
			f.why = fmt.Sprintf("throughput loses that much only at %.2f times the memory, where the host of S3 had stopped working", f.overcommit)
		case f.alike:
			f.why = "throughput falls as claimed, but the p95 grows by more than the p99"
		case !apart:
			f.why = "throughput falls as claimed; whether the p99 grows by more than the p95 is undecided"
		}
		return f
	}
	end := r.overcommit(a, a.settled()).Value
	loss := lossOf(r.throughputRatio(a, a.settled()))
	f.overcommit, f.loss = end, loss
	f.tail, f.usual = r.quantileRatio(a, a.settled(), open, 0.99), r.quantileRatio(a, a.settled(), open, 0.95)
	switch {
	case len(a.halts()) > 0:
		f.why = fmt.Sprintf("%d of %d sweeps ended before throughput fell significantly", len(a.halts()), len(a.sweeps))
	case end < enough():
		f.why = fmt.Sprintf("throughput does not fall significantly by more than %g %%, and memory demand reached only %.2f times the memory, of %g", 100*lost, end, atEnd)
	case loss.Known() && loss.Interval.High < smallest:
		f.refutes, f.why = true, fmt.Sprintf("throughput loses less than %g %% at %.2f times the memory", 100*smallest, end)
	default:
		f.why = fmt.Sprintf("whether throughput falls by more than %g %% is undecided", 100*lost)
	}
	return f
}

// enough is the overcommitment from which S3's end counts as reached: the claim's, less
// what may be wanting of it.
func enough() float64 {
	return claim.Threshold(judged, "overcommitted at the end") * (1 - claim.Threshold(judged, "wanting at the end")/100)
}

// falls gives the first number of neighbours at which throughput has wholly lost more
// than a share, there and at the next, in the sweeps that have it. One step of two dozen
// is beyond its interval by chance more often than not; two in a row are not. Only the
// last that any sweep reached has none after it, and stands alone where a change was found.
func (r reading) falls(a arm, share float64) (int, bool) {
	lost := func(n int) bool {
		loss := lossOf(r.throughputRatio(a, n))
		return loss.Known() && loss.Interval.Low > share
	}
	for i, n := range a.numbers {
		if i == 0 || !lost(n) {
			continue
		}
		if i+1 < len(a.numbers) {
			if lost(a.numbers[i+1]) {
				return n, true
			}
			continue
		}
		if r.throughputCliff(a).found() {
			return n, true
		}
	}
	return 0, false
}

// verdict puts the devices' findings together.
func verdict(findings []finding) (claim.Verdict, []string) {
	all := func(of func(finding) bool) bool {
		return !slices.ContainsFunc(findings, func(f finding) bool { return !of(f) })
	}
	some := func(of func(finding) bool) bool { return slices.ContainsFunc(findings, of) }
	confirms := func(f finding) bool { return f.confirms }
	refutes := func(f finding) bool { return f.refutes }
	late := func(f finding) bool { return f.late }
	alike := func(f finding) bool { return f.alike }
	var why []string
	for _, f := range findings {
		if f.why == "" {
			continue
		}
		text := f.why
		if len(findings) > 1 {
			text = f.device + ": " + text
		}
		why = append(why, text)
	}
	switch {
	case all(confirms):
		return claim.Confirmed, append([]string{"throughput falls, and the p99 grows by more than the p95" + onEach(findings)}, why...)
	case all(refutes):
		return claim.Refuted, why
	case some(func(f finding) bool {
		return f.fall > 0 && f.overcommit <= claim.Threshold(judged, "overcommitted at the fall")
	}) && some(func(f finding) bool { return f.refutes || f.late }):
		return claim.Qualified, append([]string{"the swap device decides"}, why...)
	case all(late), all(func(f finding) bool { return f.alike || f.confirms || f.late }) && some(alike):
		return claim.Qualified, why
	}
	return claim.Inconclusive, why
}

func onEach(findings []finding) string {
	if len(findings) < 2 {
		return "; only one swap device was measured, so whether it matters is unknown"
	}
	return " on each swap device measured"
}

// describe is a finding in words.
func (r reading) describe(f finding, named bool) string {
	text := ""
	if named {
		text = f.arm.policy + ": "
	}
	if math.IsNaN(f.loss.Value) {
		return text + "no figures to compare"
	}
	text += fmt.Sprintf("throughput lost %s %% at %.2f times the memory", report.Said(f.loss, 100), f.overcommit)
	if !math.IsNaN(f.tail.Value) {
		text += fmt.Sprintf(", p95 %s times, p99 %s times", report.Said(f.usual, 1), report.Said(f.tail, 1))
	}
	if h := f.arm.halts(); len(h) > 0 {
		text += fmt.Sprintf(", %d of %d sweeps ended early", len(h), len(f.arm.sweeps))
	}
	return text
}

// judgedFigures are ours, under the published names where they are of the same thing; of
// the first device by those names, of others with the device's before them.
func (r reading) judgedFigures(findings []finding) []claim.Figure {
	var all []claim.Figure
	for i, f := range findings {
		prefix := ""
		if i > 0 {
			prefix = r.name(f.arm) + ", "
		}
		a := f.arm
		place := r.throughputCliff(a)
		if place.found() {
			before := place.At
			before.Value = place.Before
			before.Interval.Low = math.Min(before.Interval.Low, place.Before)
			before.Interval.High = math.Max(before.Interval.High, place.Before)
			all = append(all, claim.Ours(prefix+"neighbours until throughput falls", before, 1, ""),
				claim.Ours(prefix+"memory asked for, until throughput falls", place.overcommit, 1, "times"))
		}
		if tail := r.tailCliff(a); tail.found() {
			all = append(all, claim.Ours(prefix+"memory asked for, until the p99 rises", tail.overcommit, 1, "times"))
		}
		var stopped []float64
		for _, h := range a.halts() {
			stopped = append(stopped, float64(h.neighbours))
		}
		if len(stopped) == len(a.sweeps) {
			all = append(all, claim.Ours(prefix+"neighbours until it thrashes", r.mean(stopped), 1, ""),
				claim.Ours(prefix+"memory asked for, until it thrashes", r.thrash(a), 1, "times"))
		}
		all = append(all,
			claim.Figure{Name: prefix + "neighbours at most", Value: float64(a.greatest()), N: len(a.sweeps)},
			claim.Ours(prefix+"memory asked for, at most", r.overcommit(a, a.greatest()), 1, "times"),
			claim.Ours(prefix+"throughput lost", r.lost(a), 100, "%"),
			claim.Ours(prefix+"mean latency", r.momentRatio(a, a.settled(), open, meanOf), 1, "times"),
			claim.Ours(prefix+"greatest latency", r.momentRatio(a, a.settled(), open, greatestOf), 1, "times"),
			claim.Ours(prefix+"p95", f.usual, 1, "times"), claim.Ours(prefix+"p99", f.tail, 1, "times"))
	}
	return claim.Measured(all...)
}

// larger proposes a run that would decide, where this one could not.
func (r reading) larger(findings []finding) string {
	for _, f := range findings {
		a := f.arm
		switch {
		case f.representative != "":
			return "measure on a host with hardware virtualisation, or without a virtual machine: tare density"
		case len(a.sweeps) < fewestSweeps:
			return fmt.Sprintf("intervals are reliable from %d sweeps: tare density --blocks %d", fewestSweeps, fewestSweeps)
		case r.overcommit(a, a.greatest()).Value < enough() && len(a.halts()) == 0 && f.fall == 0:
			return "go to 6.5 times the memory, as S3 did: tare density --full"
		}
	}
	return fmt.Sprintf("measure more repeats: tare density --blocks %d", 2*len(findings[0].arm.sweeps))
}

// fewestSweeps are those from which the coverage of an interval has been shown.
const fewestSweeps = 5
