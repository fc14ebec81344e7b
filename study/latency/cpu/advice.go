package cpu

import (
	"fmt"

	"tare/advise"
	"tare/record"
	"tare/study/latency/service"
)

// Advice is what a run recommends, with what it rests on.
func Advice(run record.Run) []advise.Advice {
	r := read(run)
	r = r.together(r.compared())
	var all []advise.Advice
	for _, rule := range []func() []advise.Advice{r.sharesNotQuota, r.quotaAboveDemand, r.shortPeriods, r.ownCore, r.saveUp} {
		all = append(all, rule()...)
	}
	return all
}

func (r reading) evidence(says string, conditions ...record.Condition) advise.Evidence {
	e := advise.Evidence{Run: r.Run.ID, Says: says}
	for _, c := range conditions {
		e.Conditions = append(e.Conditions, c.ID)
	}
	return e
}

// sharesNotQuota is S4's first: a quota below the demand costs the tail, shares
// cost next to nothing.
func (r reading) sharesNotQuota() []advise.Advice {
	shares := r.groups(Shares)
	for _, g := range r.groups(Quota) {
		if len(g.periods()) == 0 || len(shares) == 0 || len(shares[0].conditions) < 2 {
			continue
		}
		worst, ok := r.lowest(g)
		tail := r.Row(worst, service.P99).Ratio
		contained := r.Row(shares[0].conditions[1], service.P99).Ratio
		if !ok || !tail.Known() || tail.Interval.Low < 2 || !contained.Known() || contained.Interval.High > tail.Interval.Low {
			continue
		}
		a := advise.Advice{Rule: "shares-not-quota", Source: "S4", Set: "grant shares (--cpu-shares) and no quota (--cpus)",
			For: "services that somebody waits for", Unless: "more than its share must not be used even where the CPU is idle"}
		e := r.evidence("p99 under "+worst.Label+" against none", g.base, worst)
		e.Figure, e.Unit = tail, "times"
		f := r.evidence("p99 with shares against bare metal", shares[0].conditions[:2]...)
		f.Figure, f.Unit = contained, "times"
		a.Evidence = []advise.Evidence{e, f}
		return []advise.Advice{a}
	}
	return nil
}

// quotaAboveDemand names the least quota that left the tail as it was.
func (r reading) quotaAboveDemand() []advise.Advice {
	for _, g := range append(r.groups(Open), r.groups(Quota)...) {
		if len(g.periods()) == 0 {
			continue
		}
		for _, c := range g.at(g.periods()[0]) {
			ratio := r.Row(c, service.P99).Ratio
			if !ratio.Known() || ratio.Interval.High > 1.1 {
				continue
			}
			e := r.evidence(fmt.Sprintf("p99 of %s under %s against none", nameShort(g.name), c.Label), g.base, c)
			e.Figure, e.Unit = ratio, "times"
			d := r.evidence("its demand", g.base)
			d.Figure, d.Unit = r.Value(g.base, service.Share), "% of a CPU"
			return []advise.Advice{{Rule: "quota-above-demand", Source: "S4", Set: fmt.Sprintf("where a quota must be, set no less than %s (`tare predict quota --p99 ...` finds it for a rate of yours)", c.Label),
				For: "this service at this load", Evidence: []advise.Evidence{e, d}}}
		}
	}
	return nil
}

// shortPeriods compares the same share in the shortest and the longest period.
func (r reading) shortPeriods() []advise.Advice {
	for _, g := range append(r.groups(Quota), r.groups(Open)...) {
		periods := g.periods()
		if len(periods) < 2 {
			continue
		}
		a, b := periods[0], periods[len(periods)-1]
		if a > b {
			a, b = b, a
		}
		for _, short := range g.at(a) {
			for _, long := range g.at(b) {
				if share(short) != share(long) {
					continue
				}
				ratio := r.Ratio(r.PerBlock(long, service.P99), r.PerBlock(short, service.P99))
				if !ratio.Known() || ratio.Interval.High > 0.5 {
					continue
				}
				e := r.evidence(fmt.Sprintf("p99 under %s against %s", short.Label, long.Label), long, short)
				e.Figure, e.Unit = ratio, "times"
				return []advise.Advice{{Rule: "short-periods", Source: "S4, further work", Set: "shorten the quota's period (--cpu-period, --cpu-quota with the same share)",
					For: "services that somebody waits for, under a quota", Evidence: []advise.Evidence{e}}}
			}
		}
	}
	return nil
}

// ownCore says what a neighbour on the core does, and what a real-time class
// does against it.
func (r reading) ownCore() []advise.Advice {
	for _, g := range r.groups(Neighbour) {
		alone, ok := g.with(byShares, besideNothing, 0)
		shared, also := g.with(byShares, besideMatrix, 0)
		if !ok || !also {
			continue
		}
		cost := r.Ratio(r.PerBlock(alone, service.P99), r.PerBlock(shared, service.P99))
		if !cost.Known() || cost.Interval.Low < 1.2 {
			continue
		}
		e := r.evidence("p99 beside a CPU-bound neighbour with equal shares against alone", alone, shared)
		e.Figure, e.Unit = cost, "times"
		a := []advise.Advice{{Rule: "own-core", Source: "S4, further work", Set: "give it CPUs of its own (--cpuset-cpus; `tare place` proposes them)", For: "services that share a core with work that computes", Evidence: []advise.Evidence{e}}}
		if rt, ok := g.with(byRealTime, besideMatrix, 0); ok {
			gain := r.Ratio(r.PerBlock(shared, service.P99), r.PerBlock(rt, service.P99))
			if gain.Known() && gain.Interval.High < 0.8 {
				e := r.evidence("p99 beside that neighbour in a real-time class against the ordinary one", shared, rt)
				e.Figure, e.Unit = gain, "times"
				a = append(a, advise.Advice{Rule: "real-time", Source: "S4, further work", Set: "or a real-time class (SCHED_FIFO, with cpu.rt_runtime_us where the kernel asks for it)",
					For: "services that must share a core", Unless: "it could run away with the core", Evidence: []advise.Evidence{e}})
			}
		}
		return a
	}
	return nil
}

// saveUp says whether quota saved up helped.
func (r reading) saveUp() []advise.Advice {
	for _, g := range r.groups(Burst) {
		for _, b := range g.conditions {
			if burstOf(b) == 0 {
				continue
			}
			for _, c := range g.conditions {
				if burstOf(c) != 0 || quotaOf(c) != quotaOf(b) {
					continue
				}
				ratio := r.Ratio(r.PerBlock(c, service.P99), r.PerBlock(b, service.P99))
				if !ratio.Known() || ratio.Interval.High > 0.8 {
					continue
				}
				e := r.evidence(fmt.Sprintf("p99 under %s against %s", b.Label, c.Label), c, b)
				e.Figure, e.Unit = ratio, "times"
				return []advise.Advice{{Rule: "burst", Source: "kernel documentation, sched-bwc", Set: "let unused quota be saved up (cpu.max.burst, cpu.cfs_burst_us)", For: "services under a quota whose requests come in bursts", Evidence: []advise.Evidence{e}}}
			}
		}
	}
	return nil
}
