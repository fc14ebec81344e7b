package density

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/advise"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Advice is what a run recommends, with what it rests on. Each is given where the run
// shows that it pays here.
func Advice(run record.Run) []advise.Advice { return read(run, nil).advice() }

// worthIt is the factor by which the whole interval of the critical p99 must fall for a policy to be
// advised. harms is the factor by which the neighbours' own latency must rise, interval and all, to be
// reported beside it.
const (
	worthIt = 1.25
	harms   = 1.1
)

func (r reading) advice() []advise.Advice {
	var all []advise.Advice
	candidates := 0
	for _, base := range r.bases() {
		candidates += 1 + len(r.others(base))
	}
	r = r.together(candidates)
	for _, base := range r.bases() {
		if a, ok := r.stop(base); ok {
			all = append(all, a)
		}
		for _, other := range r.others(base) {
			for _, set := range settings {
				if !differ(base, other, set.factor) {
					continue
				}
				if a, ok := r.policy(base, other, set); ok {
					all = append(all, a)
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(a advise.Advice) bool { return !a.Holds() })
}

func (r reading) evidence(says, unit string, figure stats.Estimate, arms ...arm) advise.Evidence {
	e := advise.Evidence{Run: r.Run.ID, Says: says, Figure: figure, Unit: unit}
	for _, a := range arms {
		for _, c := range r.Run.Conditions {
			if c.Workload == a.group && c.Factors[FactorPolicy] == a.factor(FactorPolicy) &&
				!slices.Contains(e.Conditions, c.ID) {
				e.Conditions = append(e.Conditions, c.ID)
			}
		}
	}
	return e
}

// stop: beyond the first change neighbours are not free.
func (r reading) stop(a arm) (advise.Advice, bool) {
	if !plain(a) {
		return advise.Advice{}, false
	}
	// A change whose interval begins with the fewest neighbours may begin anywhere.
	known := func(c cliff) bool { return c.found() && c.At.Interval.Low > float64(a.numbers[0]) }
	first, what, then := r.throughputCliff(a), "memory demand where throughput falls", "throughput beyond, over that before"
	if tail := r.tailCliff(a); known(tail) && (!known(first) || tail.At.Interval.Low < first.At.Interval.Low) {
		first, what, then = tail, "memory demand where the p99 rises", "p99 beyond, over that before"
	}
	if !known(first) {
		return advise.Advice{}, false
	}
	safe := math.Floor(10*first.overcommit.Interval.Low) / 10
	return advise.Advice{
		Rule: "stop-before-the-cliff", Source: "S3",
		Set: fmt.Sprintf("keep the memory demand of all programs, idle ones included, below %g times the memory", safe),
		For: "hosts where a latency-critical service has neighbours with " + a.factor(FactorSwap) + " swap",
		Evidence: []advise.Evidence{
			r.evidence(what, "times the box", first.overcommit, a), r.evidence(then, "times", first.Times, a),
		},
	}, true
}

// setting is a knob whose levels policies differ in.
type setting struct {
	factor, rule string
	set          func(level string) string
	unless       string
	setting      func(level string) advise.Setting // nil where those who run containers have none
}

var settings = []setting{
	{FactorProtect, "protect", func(level string) string {
		switch platform.Protection(level) {
		case platform.ProtectSwappiness:
			return "keep the critical service in memory: memory.swappiness 0 on its group (cgroup v1), or memory.low above its memory (v2)"
		case platform.ProtectLimit:
			return "set one memory limit on the group of all idle neighbours"
		case platform.ProtectHeadroom:
			return "reclaim pages of the idle neighbours before memory runs out"
		}
		return "protect the critical service by " + level
	}, "", func(level string) advise.Setting {
		if platform.Protection(level) == platform.ProtectSwappiness {
			return advise.NoSwapping
		}
		return advise.Setting{}
	}},
	{FactorSwap, "swap-device", func(level string) string { return "swap to " + level }, "", nil},
	{FactorExtend, "extend", func(string) string {
		return "run annexd, with the service as critical and its idle neighbours as elastic (docs/annex/overview.md)"
	}, "swap cannot hold the evicted pages, or its device must not be written that much", nil},
	{FactorCluster, "page-cluster", func(level string) string { return "set vm.page-cluster to " + level }, "swap is on a disk, which reads best in order", nil},
}

// policy: what differs from the base in one knob, and lowers the critical p99 at the
// greatest number of neighbours that both have.
func (r reading) policy(base, other arm, of setting) (advise.Advice, bool) {
	both := shared(base, other)
	if len(both) < 2 {
		return advise.Advice{}, false
	}
	n := both[len(both)-1]
	tail := r.quantileAgainst(base, other, n, open, 0.99)
	if !tail.Known() || tail.Interval.High > 1/worthIt {
		return advise.Advice{}, false
	}
	at := fmt.Sprintf("at %.1f times the memory, compared with %s", r.overcommit(base, n).Value, base.policy)
	a := advise.Advice{
		Rule: of.rule, Source: "tare", Set: of.set(other.factor(of.factor)), Unless: of.unless,
		For:      "latency-critical services beside neighbours that may wait",
		Evidence: []advise.Evidence{r.evidence("p99 "+at, "times", tail, base, other)},
	}
	if of.setting != nil {
		a.Setting = of.setting(other.factor(of.factor))
	}
	for _, q := range []struct {
		q    float64
		name string
	}{{0.5, "p50"}, {0.99, "p99"}} {
		if idles := r.quantileAgainst(base, other, n, idle, q.q); idles.Known() && idles.Interval.Low > harms {
			a.Unless = strings.TrimPrefix(a.Unless+"; the latency of the neighbours matters: it rises", "; ")
			a.Evidence = append(a.Evidence, r.evidence(q.name+" of the neighbours", "times", idles, base, other))
			break
		}
	}
	return a, true
}

// untested lists the settings on which no advice can be given.
func (r reading) untested() []report.Part {
	if len(r.arms) == 0 {
		return nil
	}
	var left []string
	has := func(factor, level string) bool {
		return slices.ContainsFunc(r.arms, func(a arm) bool { return a.factor(factor) == level })
	}
	for _, p := range platform.Protections {
		if p != platform.ProtectNone && !has(FactorProtect, string(p)) {
			left = append(left, "--protect "+string(p))
		}
	}
	for _, s := range platform.SwapKinds {
		if s != platform.SwapNone && !has(FactorSwap, string(s)) {
			left = append(left, "--swap "+string(s))
		}
	}
	if !has(FactorExtend, ExtendAnnex) {
		left = append(left, "--extend "+ExtendAnnex)
	}
	if !slices.ContainsFunc(r.arms, func(a arm) bool { return a.order == Interleaved }) {
		left = append(left, "--order interleaved")
	}
	if len(left) == 0 {
		return nil
	}
	return []report.Part{report.Prose{Title: "Not tested", Text: "This run has no figures on: " + strings.Join(left, ", ") + "."}}
}
