package cpu

import (
	"fmt"
	"slices"
	"strings"

	"tare/claim"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/latency/service"
)

// Judge reaches verdicts on S4.1 to S4.3 from a run, as far as it holds what
// decides them: by the first service of each experiment, which is S4's unless
// the user named another. The rules and thresholds are the claims' own.
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	var all []claim.Judgement
	for _, judge := range []func(reading) (claim.Judgement, bool){judgeShares, judgeQuota, judgeNeighbour} {
		if j, ok := judge(r); ok {
			all = append(all, r.bounded(j))
		}
	}
	return all
}

// bounded limits a verdict that rests on another service than S4's.
func (r reading) bounded(j claim.Judgement) claim.Judgement {
	c := r.Run.Conditions[0] // a judgement rests on some
	name, _, _ := strings.Cut(c.Workload, "[")
	onHost := c.Setting.Network == "" || c.Setting.Network == platform.NetworkHost
	if name == "thrift" && c.Params["server"] == "python" && c.Params["client"] == "python" && onHost {
		return j
	}
	switch j.Verdict {
	case claim.Confirmed:
		j.Verdict = claim.Qualified
	case claim.Refuted:
		j.Verdict = claim.Inconclusive
	}
	j.Rests += "; measured with another service than S4's"
	return j
}

// judgeShares is S4.1: the container adds a constant, and the tail stays as it was.
func judgeShares(r reading) (claim.Judgement, bool) {
	const id = "S4.1"
	j := claim.Judgement{Claim: id}
	groups := r.groups(Shares)
	if len(groups) == 0 || len(groups[0].conditions) < 2 {
		return j, false
	}
	g := groups[0]
	bare, contained := g.base, g.conditions[1]
	for _, of := range []struct {
		name string
		c    record.Condition
	}{{"native", bare}, {"container", contained}} {
		j.Figures = append(j.Figures, claim.Measured(
			claim.Ours("mean, "+of.name, r.Value(of.c, service.Mean), 1, "us"),
			claim.Ours("median, "+of.name, r.Value(of.c, service.P50), 1, "us"),
			claim.Ours("p99, "+of.name, r.Value(of.c, service.P99), 1, "us"))...)
	}
	r = r.together(2) // the median's difference, and the tail's beyond it
	median, tail := r.Row(contained, service.P50).Difference, r.Row(contained, service.P99).Difference
	// How much more the tail loses than the median, paired within blocks.
	beyond := r.minus(
		overhead.Difference(r.PerBlock(bare, service.P99), r.PerBlock(contained, service.P99)),
		overhead.Difference(r.PerBlock(bare, service.P50), r.PerBlock(contained, service.P50)))
	nativeMedian, nativeTail := r.Value(bare, service.P50).Value, r.Value(bare, service.P99).Value
	if !median.Known() || !tail.Known() || !beyond.Known() {
		j.Verdict, j.Rests = claim.Inconclusive, claim.TooFew(median.N)
		return j, true
	}
	j.Ours = fmt.Sprintf(
		"%s on bare metal: median %s µs, p99 %s µs; container: median %s µs longer, p99 %s µs longer",
		nameShort(g.name),
		report.Said(r.Value(bare, service.P50), 1),
		report.Said(r.Value(bare, service.P99), 1),
		report.Said(median, 1),
		report.Said(tail, 1),
	)
	small, most := claim.Threshold(id, "smallest effect")/100, claim.Threshold(id, "overhead")/100
	j.Rests = fmt.Sprintf("%d blocks: the median's difference is %s %% of bare metal's median, and the p99's exceeds it by %s µs", median.N,
		report.Said(median, 100/nativeMedian), report.Said(beyond, 1))
	if claim.Inside(median, -small*nativeMedian, small*nativeMedian) == claim.True {
		j.Verdict = claim.Refuted
		j.Rests += "; no cost of the container was found"
		return j, true
	}
	j.Verdict, _ = claim.Decide(
		claim.When(claim.Any(
			claim.Above(median, most*nativeMedian), claim.Above(beyond, small*nativeTail),
		), claim.Refuted, ""),
		claim.When(claim.Every(
			claim.Inside(median, 0, most*nativeMedian), claim.Inside(beyond, -small*nativeTail, small*nativeTail),
		), claim.Confirmed, ""))
	return j, true
}

// judgeQuota is S4.2: stalled requests times quota are constant below the
// demand. Above the demand the tail is as without a quota.
func judgeQuota(r reading) (claim.Judgement, bool) {
	const id = "S4.2"
	j := claim.Judgement{Claim: id}
	groups := r.groups(Quota)
	if len(groups) == 0 || len(groups[0].periods()) == 0 {
		return j, false
	}
	g := groups[0]
	if !g.has(Period) {
		return j, false // S4's claim is of its period
	}
	if stall, want := factor(g.base, FactorStall), claim.Threshold(id, "stall"); stall != 0 && float64(stall)/1e6 != want {
		return j, false // and of its stall
	}
	conditions := g.at(Period)
	r = r.together(1 + len(conditions)) // the demand, and a product or a tail of each quota
	demand := r.Value(g.base, service.Share)
	each := r.Value(g.base, service.Demand)
	j.Figures = append(j.Figures, claim.Measured(claim.Ours("CPU demand", demand, 1, "%"))...)
	below, above := claim.Threshold(id, "below demand"), claim.Threshold(id, "above demand")
	var low, high []record.Condition
	for _, c := range conditions {
		at := ", quota " + fmt.Sprint(quotaOf(c).Microseconds()) + " µs"
		j.Figures = append(j.Figures, claim.Measured(
			claim.Ours("mean"+at, r.Value(c, service.Mean), 1, "us"),
			claim.Ours("median"+at, r.Value(c, service.P50), 1, "us"),
			claim.Ours("p99"+at, r.Value(c, service.P99), 1, "us"),
			claim.Ours("over 1 ms"+at, r.Value(c, service.Stalled), 1, "of 10^6"))...)
		switch {
		case !demand.Known() || !r.measured(c, service.Stalled):
		case share(c) < below*demand.Interval.Low:
			low = append(low, c)
		case share(c) > above*demand.Interval.High:
			high = append(high, c)
		}
	}
	if !demand.Known() {
		j.Verdict, j.Rests = claim.Inconclusive, claim.TooFew(demand.N)
		return j, true
	}
	var products []stats.Estimate
	sum := 0.
	for _, c := range low {
		p := r.products(c)
		products = append(products, p)
		sum += p.Value
	}
	mean := sum / float64(max(len(products), 1))
	if len(products) > 0 {
		j.Figures = append(j.Figures, claim.Figure{Name: "stalled times quota", Value: mean / 1e6, Unit: "s", N: len(products)})
	}
	bound := claim.Threshold(id, "constancy") / 100 * mean
	reasons := []string{
		fmt.Sprintf("the service's demand is %s %% of the core", report.Said(demand, 1)),
		fmt.Sprintf("%d quotas below %g times the demand, %d above %g times", len(low), below, len(high), above),
	}
	constant := claim.Needs(len(low) > 1)
	for i, p := range products {
		as := claim.Inside(p, mean-bound, mean+bound)
		if constant = claim.Every(constant, as); as == claim.False {
			reasons = append(reasons, fmt.Sprintf("at %s the product is %s s", low[i].Label, report.Said(p, 1e-6)))
		}
	}
	tailGone := claim.Needs(len(high) > 0)
	for _, c := range high {
		ratio := r.Row(c, service.P99).Ratio
		gone := claim.NotAbove(ratio, 1+claim.Threshold(id, "tail as without a quota")/100)
		if tailGone = claim.Every(tailGone, gone); gone == claim.False {
			reasons = append(reasons, fmt.Sprintf("at %s the p99 is %s times that without a quota", c.Label, report.Said(ratio, 1)))
		}
	}
	j.Ours = fmt.Sprintf("%s: demand %s %% of a core (%s µs per request)", nameShort(g.name), report.Said(demand, 1), report.Said(each, 1))
	if len(products) > 0 {
		j.Ours += fmt.Sprintf("; stalled times quota is %s s on average, over %d quotas below the demand", report.Rounded(mean/1e6, 3), len(products))
	}
	j.Verdict = claim.Every(constant, tailGone).Verdict()
	if j.Verdict == claim.Inconclusive && (len(low) < 2 || len(high) == 0) {
		reasons = append(reasons, "too few quotas to compare")
	}
	j.Rests = strings.Join(reasons, "; ")
	return j, true
}

// sharing is what one quota does to both sides of a core.
type sharing struct {
	c               record.Condition // of both together
	service, matrix stats.Estimate   // ratio of the time with the other to that alone
	tail            stats.Estimate   // of the service's p99
	rise            stats.Estimate   // of the clock, likewise
	clocked         bool
}

// sharings are a neighbour group's, one a quota.
func (r reading) sharings(g group) []sharing {
	var all []sharing
	for _, q := range g.quotas() {
		both, ok := g.with(byQuota, besideMatrix, q)
		alone, also := g.with(byQuota, besideNothing, q)
		matrix, third := g.with(byQuota, aloneMatrix, q)
		if !ok || !also || !third {
			continue
		}
		s := sharing{c: both,
			service: r.Ratio(r.PerBlock(alone, service.P50), r.PerBlock(both, service.P50)),
			tail:    r.Ratio(r.PerBlock(alone, service.P99), r.PerBlock(both, service.P99)),
			matrix:  r.Ratio(r.PerBlock(matrix, matrixTime), r.PerBlock(both, matrixTime)),
		}
		s.rise = r.Ratio(r.covariates(alone, clockMHz), r.covariates(both, clockMHz))
		s.clocked = s.rise.Value == s.rise.Value && s.rise.N > 0
		all = append(all, s)
	}
	return all
}

// judgeNeighbour is S4.3: a neighbour slows the service where the core is little
// used. Where the core is busy, a higher clock rate makes both faster.
func judgeNeighbour(r reading) (claim.Judgement, bool) {
	const id = "S4.3"
	j := claim.Judgement{Claim: id}
	groups := r.groups(Neighbour)
	if len(groups) == 0 {
		return j, false
	}
	r = r.together(3 * len(groups[0].quotas())) // either side's time, and the clock
	all := r.sharings(groups[0])
	if len(all) == 0 {
		return j, false
	}
	small := claim.Threshold(id, "smallest effect") / 100
	var times []string
	var loses, gains []side
	known, clocked, noneGains := true, true, true
	for i, s := range all {
		known = known && s.service.Known() && s.matrix.Known()
		clocked = clocked && s.clocked
		at := s.c.Factors[factorQuota]
		times = append(times, fmt.Sprintf("quota %s: service %s times as long as alone, multiplication %s times", at, report.Said(s.service, 1), report.Said(s.matrix, 1)))
		for name, e := range map[string]stats.Estimate{"service": s.service, "multiplication": s.matrix} {
			one := side{name: name + " at " + at, at: i, clock: s.rise}
			if e.Interval.Low > 1+small {
				loses = append(loses, one)
			}
			if e.Interval.High < 1-small {
				gains = append(gains, one)
			}
			noneGains = noneGains && e.Interval.Low >= 1-small
		}
		j.Figures = append(j.Figures, claim.Measured(
			claim.Ours("service against alone, "+at, s.service, 1, "times"),
			claim.Ours("multiplication against alone, "+at, s.matrix, 1, "times"))...)
		if s.clocked {
			j.Figures = append(j.Figures,
				claim.Measured(claim.Ours("clock with both against the service alone, "+at, s.rise, 1, "times"))...)
		}
	}
	j.Ours = strings.Join(times, "; ")
	sides := fmt.Sprintf("slower: %s; faster: %s", orNone(loses), orNone(gains))
	// Where a side is faster, the clock rate has to be higher. The other side has to
	// be slower at another quota.
	risen, apart, anyRise := false, false, false
	for _, s := range all {
		anyRise = anyRise || s.rise.Known() && s.rise.Interval.Low > 1+small
	}
	for _, g := range gains {
		if g.clock.Known() && g.clock.Interval.Low > 1 {
			risen = true
			apart = apart || slices.ContainsFunc(loses, func(l side) bool { return l.at != g.at })
		}
	}
	switch {
	case !known:
		j.Verdict, j.Rests = claim.Inconclusive, claim.TooFew(all[0].service.N)
	case !clocked:
		j.Verdict, j.Rests = claim.Inconclusive, "the clock rate of this host is unknown; "+sides
	case risen && apart:
		j.Verdict, j.Rests = claim.Confirmed, sides+"; the clock rate is higher where a side is faster"
	case noneGains && anyRise:
		j.Verdict, j.Rests = claim.Refuted, "the clock rate rises, and neither side is faster; "+sides
	default:
		j.Verdict, j.Rests = claim.Inconclusive, sides
	}
	return j, true
}

// side is one of the two containers at a quota.
type side struct {
	name  string
	at    int            // which quota
	clock stats.Estimate // with both against the service alone
}

func orNone(all []side) string {
	if len(all) == 0 {
		return "none"
	}
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// nameShort is a group's service with its parameters: "thrift (server=python)" of
// "thrift[quota,server=python]".
func nameShort(name string) string {
	head, rest, ok := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	if !ok {
		return name
	}
	_, params, ok := strings.Cut(rest, ",")
	if !ok {
		return head
	}
	return head + " (" + strings.ReplaceAll(params, ",", ", ") + ")"
}
