package cpu

import (
	"fmt"
	"slices"

	"tare/advise"
	"tare/record"
	"tare/study/latency/service"
)

// Advice is what a run recommends, with its evidence.
func Advice(run record.Run) []advise.Advice {
	r := read(run)
	r = r.together(r.compared())
	var all []advise.Advice
	for _, rule := range []func() []advise.Advice{r.sharesNotQuota, r.quotaAboveDemand, r.shortPeriods, r.ownCore,
		r.saveUp} {
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

// sharesNotQuota is S4's first advice: a quota below the demand makes the tail
// longer, and shares hardly do.
func (r reading) sharesNotQuota() []advise.Advice {
	shares := r.groups(Shares)
	for _, g := range r.groups(Quota) {
		if len(g.periods()) == 0 || len(shares) == 0 || len(shares[0].conditions) < 2 {
			continue
		}
		worst, ok := r.lowest(g)
		tail := r.Row(worst, service.P99).Ratio
		contained := r.Row(shares[0].conditions[1], service.P99).Ratio
		if !ok || !tail.Known() || tail.Interval.Low < 2 || !contained.Known() ||
			contained.Interval.High > tail.Interval.Low {
			continue
		}
		a := advise.Advice{
			Rule: "shares-not-quota", Source: "S4", Set: "set CPU shares (--cpu-shares) and no quota (--cpus)",
			For: "interactive services", Unless: "the container must not use idle CPU time beyond its share",
			Setting: advise.CPUShares,
		}
		e := r.evidence("p99 under a quota of "+worst.Label+" against no quota", g.base, worst)
		e.Figure, e.Unit = tail, "times"
		f := r.evidence("p99 with shares against bare metal", shares[0].conditions[:2]...)
		f.Figure, f.Unit = contained, "times"
		a.Evidence = []advise.Evidence{e, f}
		return []advise.Advice{a}
	}
	return nil
}

// quotaAboveDemand names the smallest quota under which the tail is as without one.
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
			e := r.evidence(fmt.Sprintf("p99 of %s under a quota of %s against no quota", nameShort(g.name), c.Label), g.base, c)
			e.Figure, e.Unit = ratio, "times"
			d := r.evidence("CPU demand without a quota", g.base)
			d.Figure, d.Unit = r.Value(g.base, service.Share), "% of a CPU"
			return []advise.Advice{{
				Rule: "quota-above-demand", Source: "S4", For: "this service at this load",
				Set:      fmt.Sprintf("if you need a quota, set at least %s (`tare predict quota SERVICE --p99 TIME` finds the quota for another load)", c.Label),
				Setting:  quotaSetting(c),
				Evidence: []advise.Evidence{e, d},
			}}
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
		a, b := slices.Min(periods), slices.Max(periods)
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
				return []advise.Advice{{
					Rule: "short-periods", Source: "S4, further work", For: "interactive services under a quota",
					Set:      "shorten the quota's period (--cpu-period, and --cpu-quota for the same share)",
					Setting:  quotaSetting(short),
					Evidence: []advise.Evidence{e},
				}}
			}
		}
	}
	return nil
}

// ownCore is for services that lose to a neighbour on their core: a core of their
// own, or a real-time class.
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
		a := []advise.Advice{{
			Rule: "own-core", Source: "S4, further work", For: "services that share a core with CPU-bound work",
			Set:      "give the service CPUs of its own (--cpuset-cpus; `tare place` proposes them)",
			Setting:  advise.OwnCPUs,
			Evidence: []advise.Evidence{e},
		}}
		if rt, ok := g.with(byRealTime, besideMatrix, 0); ok {
			gain := r.Ratio(r.PerBlock(shared, service.P99), r.PerBlock(rt, service.P99))
			if gain.Known() && gain.Interval.High < 0.8 {
				e := r.evidence("p99 beside that neighbour, in a real-time class against the default class", shared, rt)
				e.Figure, e.Unit = gain, "times"
				a = append(a, advise.Advice{
					Rule: "real-time", Source: "S4, further work", For: "services that must share a core",
					Set:    "or set a real-time class (SCHED_FIFO, with cpu.rt_runtime_us where the kernel requires it)",
					Unless: "the service might never yield the core", Evidence: []advise.Evidence{e},
				})
			}
		}
		return a
	}
	return nil
}

func quotaSetting(c record.Condition) advise.Setting {
	return advise.CPUQuota(quotaOf(c).Microseconds(), periodOf(c).Microseconds())
}

// saveUp is for quotas under which a burst made the tail shorter.
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
				return []advise.Advice{{
					Rule: "burst", Source: "kernel documentation, sched-bwc", For: "services under a quota whose requests come in bursts",
					Set:      "allow a burst: unused quota is saved up (cpu.max.burst, cpu.cfs_burst_us)",
					Evidence: []advise.Evidence{e},
				}}
			}
		}
	}
	return nil
}
