package cpu

import (
	"fmt"
	"math"
	"strings"

	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/study/latency/service"
)

// Answer is the sentence that the reader came for.
func Answer(run record.Run) string {
	r := read(run).together(4) // the median and the p99 with shares, the demand, and the p99 under a quota
	var told []string
	for _, g := range r.groups(Shares) {
		if len(g.conditions) < 2 {
			continue
		}
		c := g.conditions[1]
		if d := r.Row(c, service.P50).Difference; d.Known() {
			told = append(told, fmt.Sprintf("%s with shares alone answers %s us later at the median and %s at the p99 than bare metal",
				nameShort(g.name), report.Said(d, 1), report.Said(r.Row(c, service.P99).Difference, 1)))
			break
		}
	}
	for _, g := range append(r.groups(Quota), r.groups(Open)...) {
		if len(g.periods()) == 0 {
			continue
		}
		demand := r.Value(g.base, service.Share)
		worst, ok := r.lowest(g)
		if !ok || !r.measured(worst, service.P99) {
			continue
		}
		told = append(told, fmt.Sprintf("%s uses %s %% of its core, and a quota of %s makes its p99 %s ms", nameShort(g.name),
			report.Said(demand, 1), worst.Label, report.Said(r.Value(worst, service.P99), 1e-3)))
		break
	}
	if len(told) == 0 {
		told = r.others()
	}
	if len(told) == 0 {
		return "Nothing was measured to its end."
	}
	return strings.Join(told, "; ") + "."
}

// others answers for a run of the experiments that are asked for by themselves.
func (r reading) others() []string {
	said := 2 * len(r.groups(Neighbour)) // p99 and median
	for _, g := range r.groups(Burst) {
		said += len(g.conditions)
	}
	r = r.together(said)
	var told []string
	for _, g := range r.groups(Neighbour) {
		alone, ok := g.with(byShares, besideNothing, 0)
		shared, also := g.with(byShares, besideMatrix, 0)
		if !ok || !also || !r.measured(shared, service.P99) {
			continue
		}
		told = append(told, fmt.Sprintf("beside a neighbour of equal shares the p99 of %s is %s times what it is alone, its median %s times", nameShort(g.name),
			report.Said(r.Ratio(r.PerBlock(alone, service.P99), r.PerBlock(shared, service.P99)), 1), report.Said(r.Ratio(r.PerBlock(alone, service.P50), r.PerBlock(shared, service.P50)), 1)))
	}
	for _, g := range r.groups(Burst) {
		for _, b := range g.conditions {
			if burstOf(b) == 0 || !r.measured(b, service.P99) {
				continue
			}
			for _, c := range g.conditions {
				if burstOf(c) == 0 && quotaOf(c) == quotaOf(b) && r.measured(c, service.P99) {
					told = append(told, fmt.Sprintf("saving up %s makes the p99 %s times that under %s alone", short(burstOf(b)), report.Said(r.Ratio(r.PerBlock(c, service.P99), r.PerBlock(b, service.P99)), 1), c.Label))
				}
			}
		}
	}
	return told
}

// lowest is a group's least quota in its first period.
func (r reading) lowest(g group) (record.Condition, bool) {
	at := g.at(g.periods()[0])
	if len(at) == 0 {
		return record.Condition{}, false
	}
	return at[0], true
}

// Parts are the tables and pictures of a run.
func Parts(run record.Run) []report.Part {
	p := page{read(run)}
	var all []report.Part
	for _, parts := range []func() []report.Part{p.shares, p.sweeps, p.bursts, p.neighbours, p.cores} {
		all = append(all, parts()...)
	}
	return all
}

type page struct{ reading }

// shares is S4.1's table, with the distributions.
func (p page) shares() []report.Part {
	published, err := claim.Lookup("S4.1")
	if err != nil {
		panic(err) // the registry is part of the program
	}
	var all []report.Part
	for i, g := range p.groups(Shares) {
		t := report.Table{
			Title: nameShort(g.name) + ": bare metal, and a container with CPU shares",
			Note: "Latency in microseconds, closed loop of one connection unless the service's parameters say otherwise. The median and p99 are those of all blocks' requests together. " +
				"More: against bare metal, paired within blocks. Demand: CPU time of the service for each request.",
			Columns: []report.Column{{Head: ""}, {Head: "mean", Number: true}, {Head: "median", Number: true}, {Head: "more", Number: true}, {Head: "p99", Number: true}, {Head: "more", Number: true},
				{Head: "p99.9", Number: true, Optional: true}, {Head: "median, ratio", Number: true, Optional: true}, {Head: "demand", Number: true, Optional: true}},
		}
		var curves []report.Tail
		for _, c := range g.conditions {
			row := []report.Cell{{Text: c.Label}, report.Estimated(p.Value(c, service.Mean), 1), report.Estimated(p.Value(c, service.P50), 1), baselineOr(p.Row(c, service.P50)),
				report.Estimated(p.Value(c, service.P99), 1), baselineOr(p.Row(c, service.P99)), report.Estimated(p.Value(c, service.P999), 1), report.Estimated(p.Row(c, service.P50).Ratio, 1), report.Estimated(p.Value(c, service.Demand), 1)}
			t.Rows = append(t.Rows, row)
			if h, err := p.Merged(c, service.Latency); err == nil && h != nil {
				curves = append(curves, report.Tail{Name: c.Label, H: h})
			}
		}
		if i == 0 {
			for _, of := range []struct{ name, label string }{{"native", "S4: native"}, {"container", "S4: container"}} {
				t.Rows = append(t.Rows, []report.Cell{{Text: of.label, Tone: report.Faint}, theirs(published, "mean, "+of.name), theirs(published, "median, "+of.name), report.Absent(),
					theirs(published, "p99, "+of.name), report.Absent(), report.Absent(), report.Absent(), report.Absent()})
			}
		}
		all = append(all, t)
		if len(curves) > 0 {
			all = append(all, report.Tails(nameShort(g.name)+": the whole distribution", "Latency of all blocks together, up to the largest; each step to the right is ten times rarer.", curves))
		}
	}
	return all
}

func baselineOr(row overhead.Row) report.Cell {
	if row.Baseline {
		return report.Cell{Text: "baseline", Tone: report.Faint}
	}
	return report.Estimated(row.Difference, 1)
}

// theirs is a published figure in a table.
func theirs(c claim.Claim, name string) report.Cell {
	f, ok := c.Figure(name)
	if !ok {
		return report.Absent()
	}
	return report.Cell{Text: fmt.Sprintf("%g", f.Value), Tone: report.Faint}
}

// sweeps are the quotas' tables, a service and loop each.
func (p page) sweeps() []report.Part {
	var all []report.Part
	for i, g := range append(p.groups(Quota), p.groups(Open)...) {
		all = append(all, p.sweep(g, i == 0 && g.experiment == Quota)...)
	}
	return all
}

func (p page) sweep(g group, s4 bool) []report.Part {
	published, err := claim.Lookup("S4.2")
	if err != nil {
		panic(err)
	}
	t := report.Table{
		Title: nameShort(g.name) + ": quotas",
		Note: fmt.Sprintf("Latency in microseconds. The service used %s %% of its core without a quota, %s us of CPU time for each request. Over: requests above the stall threshold, of a million. Product: those times the quota in us, divided by 10^6; "+
			"where S4 is right it is the CPU time of a request. Throttled: periods in which the quota ran out, of those in which the service ran, and the time for which the kernel held it back, by the kernel's own count.",
			report.Said(p.Value(g.base, service.Share), 1), report.Said(p.Value(g.base, service.Demand), 1)),
		Columns: []report.Column{{Head: "quota/period"}, {Head: "mean", Number: true}, {Head: "median", Number: true}, {Head: "p99", Number: true}, {Head: "p99.9", Number: true, Optional: true},
			{Head: "over", Number: true}, {Head: "product", Number: true}, {Head: "periods throttled, %", Number: true, Optional: true}, {Head: "time held back, %", Number: true, Optional: true}, {Head: "CPU used, %", Number: true}},
	}
	row := func(c record.Condition) {
		product := report.Absent()
		if quotaOf(c) > 0 {
			product = report.Estimated(p.products(c), 1e-6)
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: c.Label}, report.Estimated(p.Value(c, service.Mean), 1), report.Estimated(p.Value(c, service.P50), 1), report.Estimated(p.Value(c, service.P99), 1),
			report.Estimated(p.Value(c, service.P999), 1), report.Estimated(p.Value(c, service.Stalled), 1), product,
			report.Estimated(p.Value(c, service.ThrottledShare), 1), report.Estimated(p.Value(c, service.ThrottledTime), 1), report.Estimated(p.Value(c, service.Share), 1)})
	}
	row(g.base)
	for _, period := range g.periods() {
		for _, c := range g.at(period) {
			row(c)
			if at := fmt.Sprintf(", quota %d us", quotaOf(c).Microseconds()); s4 && period == Period {
				if _, ok := published.Figure("mean" + at); ok {
					f, _ := published.Figure("over 1 ms" + at)
					t.Rows = append(t.Rows, []report.Cell{{Text: "S4", Tone: report.Faint}, theirs(published, "mean"+at), theirs(published, "median"+at), theirs(published, "p99"+at), report.Absent(),
						theirs(published, "over 1 ms"+at), {Text: fmt.Sprintf("%.3g", f.Value*float64(quotaOf(c).Microseconds())*1e-6), Tone: report.Faint}, report.Absent(), report.Absent(), report.Absent()})
				}
			}
		}
	}
	if len(t.Rows) < 2 {
		return nil
	}
	all := []report.Part{t}
	if tails := p.tails(g); len(tails) > 0 {
		all = append(all, report.Tails(nameShort(g.name)+": distributions under quotas", "Of all blocks together; each step to the right is ten times rarer.", tails))
	}
	return all
}

// mostTails is how many distributions a picture can hold and be read.
const mostTails = 6

// tails are the distributions without a quota and under some of the first period's.
func (p page) tails(g group) []report.Tail {
	var curves []report.Tail
	add := func(c record.Condition) {
		if h, err := p.Merged(c, service.Latency); err == nil && h != nil {
			curves = append(curves, report.Tail{Name: c.Label, H: h})
		}
	}
	add(g.base)
	at := g.at(g.periods()[0])
	step := max(1, int(math.Ceil(float64(len(at))/(mostTails-1))))
	for i := 0; i < len(at); i += step {
		add(at[i])
	}
	return curves
}

// bursts is what quota saved up does.
func (p page) bursts() []report.Part {
	var all []report.Part
	for _, g := range p.groups(Burst) {
		t := report.Table{
			Title: nameShort(g.name) + ": quota saved up",
			Note: fmt.Sprintf("Latency in microseconds, on %s: under a quota alone, and where as much again may be saved up of what was not used (cpu.cfs_burst_us, cpu.max.burst). The service used %s %% of its core without a quota.",
				g.base.Platform, report.Said(p.Value(g.base, service.Share), 1)),
			Columns: []report.Column{{Head: "quota/period"}, {Head: "p50", Number: true}, {Head: "p99", Number: true}, {Head: "p99.9", Number: true}, {Head: "over", Number: true}, {Head: "with burst: p99", Number: true}, {Head: "p99.9", Number: true}, {Head: "over", Number: true}, {Head: "p99, ratio", Number: true}},
		}
		for _, c := range g.conditions {
			if burstOf(c) > 0 || quotaOf(c) == 0 {
				continue
			}
			row := []report.Cell{{Text: c.Label}}
			for _, m := range []string{service.P50, service.P99, service.P999, service.Stalled} {
				row = append(row, report.Estimated(p.Value(c, m), 1))
			}
			saved := false
			for _, b := range g.conditions {
				if burstOf(b) > 0 && quotaOf(b) == quotaOf(c) && periodOf(b) == periodOf(c) {
					for _, m := range []string{service.P99, service.P999, service.Stalled} {
						row = append(row, report.Estimated(p.Value(b, m), 1))
					}
					row = append(row, report.Estimated(p.Ratio(p.PerBlock(c, service.P99), p.PerBlock(b, service.P99)), 1))
					saved = true
					break
				}
			}
			for !saved && len(row) < len(t.Columns) {
				row = append(row, report.Absent())
			}
			t.Rows = append(t.Rows, row)
		}
		all = append(all, report.Filled(t)...)
	}
	return all
}

// neighbours are the ways of sharing a core with a neighbour.
func (p page) neighbours() []report.Part {
	var all []report.Part
	for _, g := range p.groups(Neighbour) {
		t := report.Table{
			Title: nameShort(g.name) + ": a neighbour on the core that multiplies matrices",
			Note: "Service latency in microseconds, a multiplication in milliseconds; times: with the other, against alone under the same grant, paired within blocks. " +
				"Quotas share the period out: the neighbour has what the service has not. In a real-time class (SCHED_FIFO) the service goes before everything ordinary on its core.",
			Columns: []report.Column{{Head: "granted"}, {Head: "service alone: p50", Number: true, Optional: true}, {Head: "p99", Number: true}, {Head: "with the neighbour: p50", Number: true, Optional: true}, {Head: "p99", Number: true},
				{Head: "p50, times", Number: true}, {Head: "p99, times", Number: true}, {Head: "multiplication alone", Number: true, Optional: true}, {Head: "with the service", Number: true}, {Head: "times", Number: true}},
		}
		add := func(name string, alone, both, matrix record.Condition) {
			if !p.measured(both, service.P50) {
				return
			}
			t.Rows = append(t.Rows, []report.Cell{{Text: name},
				report.Estimated(p.Value(alone, service.P50), 1), report.Estimated(p.Value(alone, service.P99), 1),
				report.Estimated(p.Value(both, service.P50), 1), report.Estimated(p.Value(both, service.P99), 1),
				report.Estimated(p.Ratio(p.PerBlock(alone, service.P50), p.PerBlock(both, service.P50)), 1),
				report.Estimated(p.Ratio(p.PerBlock(alone, service.P99), p.PerBlock(both, service.P99)), 1),
				report.Estimated(p.Value(matrix, matrixTime), 1e-3), report.Estimated(p.Value(both, matrixTime), 1e-3),
				report.Estimated(p.Ratio(p.PerBlock(matrix, matrixTime), p.PerBlock(both, matrixTime)), 1)})
		}
		alone, _ := g.with(byShares, besideNothing, 0)
		matrix, _ := g.with(byShares, aloneMatrix, 0)
		for _, by := range []struct{ factor, name string }{{byShares, "equal shares"}, {byRealTime, "real-time class"}} {
			if both, ok := g.with(by.factor, besideMatrix, 0); ok {
				add(by.name, alone, both, matrix)
			}
		}
		for _, q := range g.quotas() {
			both, ok := g.with(byQuota, besideMatrix, q)
			alone, also := g.with(byQuota, besideNothing, q)
			matrix, third := g.with(byQuota, aloneMatrix, q)
			if ok && also && third {
				add(short(q)+" and "+short(periodOf(both)-q), alone, both, matrix)
			}
		}
		all = append(all, report.Filled(t)...)
	}
	return all
}

// cores says what could not be kept off the service's core.
func (p page) cores() []report.Part {
	var lines []string
	told := map[string]bool{}
	for _, c := range p.Run.Conditions {
		if told[c.Workload] || !c.Baseline {
			continue
		}
		told[c.Workload] = true
		irq, ok := p.covariate(c, interrupts)
		busy, also := p.covariate(c, coreBusy)
		if !ok || !also {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s on %s: %s interrupts a second; the kernel's tick found the core busy %s %% of the time, the service used %s %%", nameShort(c.Workload), c.Label,
			report.Said(irq, 1), report.Said(busy, 1), report.Said(p.Value(c, service.Share), 1)))
	}
	if len(lines) == 0 {
		return nil
	}
	return []report.Part{report.Prose{Title: "What could not be kept off the service's core", Text: strings.Join(lines, "\n\n")}}
}

// Demanded says what the services of a run use without a quota.
func Demanded(run record.Run) string {
	p := page{read(run)}
	var told []string
	for _, g := range append(p.groups(Quota), p.groups(Open)...) {
		if p.measured(g.base, service.Demand) {
			told = append(told, fmt.Sprintf("%s uses %s %% of its core without a quota", nameShort(g.name), report.Said(p.Value(g.base, service.Share), 1)))
		}
	}
	if len(told) == 0 {
		return "Nothing was measured yet."
	}
	return strings.Join(told, "; ") + "."
}

// Demands is the table of what services do without a quota.
func Demands(run record.Run) []report.Part {
	p := page{read(run)}
	t := report.Table{
		Title: "Without a quota",
		Note:  "What predictions rest on: latency in microseconds, CPU time of a request in microseconds, CPU time used in percent of one CPU.",
		Columns: []report.Column{{Head: "service"}, {Head: "requests/s", Number: true}, {Head: "mean", Number: true, Optional: true}, {Head: "p50", Number: true}, {Head: "p99", Number: true}, {Head: "p99.9", Number: true, Optional: true},
			{Head: "CPU time", Number: true}, {Head: "CPU used, %", Number: true}},
	}
	for _, g := range append(p.groups(Quota), p.groups(Open)...) {
		if !p.measured(g.base, service.Demand) {
			continue
		}
		row := []report.Cell{{Text: nameShort(g.name)}}
		for _, m := range []string{service.Throughput, service.Mean, service.P50, service.P99, service.P999, service.Demand, service.Share} {
			row = append(row, report.Estimated(p.Value(g.base, m), 1))
		}
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return append([]report.Part{t}, p.cores()...)
}
