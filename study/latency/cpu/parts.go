package cpu

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/latency/service"
)

// Answer is the headline.
func Answer(run record.Run) string {
	r := read(run).together(4) // the median and the p99 with shares, the demand, and the p99 under a quota
	var sentences []string
	var named string
	for _, g := range r.groups(Shares) {
		if len(g.conditions) < 2 {
			continue
		}
		c := g.conditions[1]
		if d := r.Row(c, service.P50).Difference; d.Known() {
			named = nameShort(g.name)
			sentences = append(sentences, fmt.Sprintf(
				"In a container with CPU shares, %s answers %s at the median than on bare metal. At the p99 it answers %s.",
				named, later(d), later(r.Row(c, service.P99).Difference)))
			break
		}
	}
	for _, g := range append(r.groups(Quota), r.groups(Open)...) {
		if len(g.periods()) == 0 {
			continue
		}
		worst, ok := r.lowest(g)
		if !ok || !r.measured(worst, service.P99) {
			continue
		}
		subject := nameShort(g.name)
		if subject == named {
			subject = "It"
		}
		sentences = append(sentences, fmt.Sprintf(
			"%s uses %s %% of its core without a quota. Under a quota of %s its p99 is %s ms.",
			subject,
			report.Said(r.Value(g.base, service.Share), 1),
			worst.Label,
			report.Said(r.Value(worst, service.P99), 1e-3),
		))
		break
	}
	if len(sentences) == 0 {
		sentences = r.others()
	}
	if len(sentences) == 0 {
		return "No trial was completed."
	}
	return strings.Join(sentences, " ")
}

// later writes a difference of latency in microseconds.
func later(d stats.Estimate) string {
	if d.Known() && !d.DiffersFrom(0) {
		return "not significantly later (" + report.Estimated(d, 1).Detail + " µs)"
	}
	if d.Value < 0 {
		d.Value, d.Interval.Low, d.Interval.High = -d.Value, -d.Interval.High, -d.Interval.Low
		return report.Said(d, 1) + " µs earlier"
	}
	return report.Said(d, 1) + " µs later"
}

// others answers for a run of the experiments that are asked for by themselves.
func (r reading) others() []string {
	compared := 2 * len(r.groups(Neighbour)) // p99 and median
	for _, g := range r.groups(Burst) {
		compared += len(g.conditions)
	}
	r = r.together(compared)
	var sentences []string
	for _, g := range r.groups(Neighbour) {
		alone, ok := g.with(byShares, besideNothing, 0)
		shared, also := g.with(byShares, besideMatrix, 0)
		if !ok || !also || !r.measured(shared, service.P99) {
			continue
		}
		sentences = append(sentences, fmt.Sprintf(
			"Beside a neighbour of equal shares on its core, %s has a p99 %s times as long as alone, and a median %s times as long.", nameShort(g.name),
			report.Said(r.Ratio(r.PerBlock(alone, service.P99), r.PerBlock(shared, service.P99)), 1),
			report.Said(r.Ratio(r.PerBlock(alone, service.P50), r.PerBlock(shared, service.P50)), 1)))
	}
	for _, g := range r.groups(Burst) {
		for _, b := range g.conditions {
			if burstOf(b) == 0 || !r.measured(b, service.P99) {
				continue
			}
			for _, c := range g.conditions {
				if burstOf(c) == 0 && quotaOf(c) == quotaOf(b) && r.measured(c, service.P99) {
					sentences = append(sentences, fmt.Sprintf("Under a quota of %s, a burst of %s makes the p99 %s times as long.", c.Label, burstOf(b),
						report.Said(r.Ratio(r.PerBlock(c, service.P99), r.PerBlock(b, service.P99)), 1)))
				}
			}
		}
	}
	return sentences
}

// lowest is a group's least quota in its first period.
func (r reading) lowest(g group) (record.Condition, bool) {
	at := g.at(g.periods()[0])
	if len(at) == 0 {
		return record.Condition{}, false
	}
	return at[0], true
}

// Parts are the tables and charts of a run.
func Parts(run record.Run) []report.Part {
	p := page{read(run)}
	var all []report.Part
	for _, parts := range []func() []report.Part{p.shares, p.sweeps, p.bursts, p.neighbours, p.cores} {
		all = append(all, parts()...)
	}
	return all
}

type page struct{ reading }

// steps is how an axis of percentiles is read.
const steps = "Each step to the right is ten times rarer."

// shares are the distributions and the table of S4.1.
func (p page) shares() []report.Part {
	published, err := claim.Lookup("S4.1")
	if err != nil {
		panic(err) // the registry is part of the program
	}
	var all []report.Part
	for i, g := range p.groups(Shares) {
		t := report.Table{
			Title:  nameShort(g.name) + ": latency with CPU shares and on bare metal",
			Note:   "Change: the difference from bare metal.",
			Method: "Median and percentiles are those of all blocks' requests together. Changes and ratios are paired within blocks. CPU time is the service's, user and system.",
			Columns: []report.Column{
				{Head: "condition"}, {Head: "mean, µs", Number: true}, {Head: "median, µs", Number: true},
				{Head: "median change, µs", Number: true}, {Head: "p99, µs", Number: true}, {Head: "p99 change, µs", Number: true},
				{Head: "p99.9, µs", Number: true, Optional: true}, {Head: "median, ratio", Number: true, Optional: true},
				{Head: "CPU time per request, µs", Number: true, Optional: true},
			},
		}
		var curves []report.Tail
		for _, c := range g.conditions {
			t.Rows = append(t.Rows, []report.Cell{
				{Text: c.Label}, p.cell(c, service.Mean), p.cell(c, service.P50), baselineOr(p.Row(c, service.P50)),
				p.cell(c, service.P99), baselineOr(p.Row(c, service.P99)), p.cell(c, service.P999),
				report.Estimated(p.Row(c, service.P50).Ratio, 1), p.cell(c, service.Demand),
			})
			if h, err := p.Merged(c, service.Latency); err == nil && h != nil {
				curves = append(curves, report.Tail{Name: c.Label, H: h})
			}
		}
		if i == 0 {
			t.Note += " S4 (published study of service latency) had the client on a second machine."
			for _, of := range []string{"native", "container"} {
				t.Rows = append(t.Rows, []report.Cell{
					{Text: "S4, " + of, Tone: report.Faint},
					theirs(published, "mean, "+of), theirs(published, "median, "+of), report.Absent(),
					theirs(published, "p99, "+of), report.Absent(), report.Absent(), report.Absent(), report.Absent(),
				})
			}
		}
		if len(curves) > 0 {
			all = append(all, report.Tails(nameShort(g.name)+": distribution of latency", steps, curves))
		}
		all = append(all, t)
	}
	return all
}

// cell is a condition's metric.
func (p page) cell(c record.Condition, metric string) report.Cell {
	return report.Estimated(p.Value(c, metric), 1)
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
	stall := cmp.Or(factor(g.base, FactorStall), service.DefaultStall)
	t := report.Table{
		Title: nameShort(g.name) + ": latency by CPU quota",
		Note: fmt.Sprintf("Without a quota the service used %s %% of its core, and %s µs of CPU time per request. Stalled: requests that took longer than %s.",
			report.Said(p.Value(g.base, service.Share), 1), report.Said(p.Value(g.base, service.Demand), 1), stall),
		Method: "Stalled × quota: stalled requests per million, times the quota in us, divided by 10^6. S4 expects the CPU time of a request there. " +
			"Throttled: the kernel's own count of periods in which the quota ran out, of those in which the service ran, and the share of time that it held the service back.",
		Columns: []report.Column{
			{Head: "quota/period"}, {Head: "mean, µs", Number: true, Optional: true}, {Head: "median, µs", Number: true},
			{Head: "p99, µs", Number: true}, {Head: "p99.9, µs", Number: true, Optional: true},
			{Head: "stalled, per million", Number: true}, {Head: "stalled × quota, µs", Number: true, Optional: true},
			{Head: "periods throttled, %", Number: true, Optional: true},
			{Head: "time throttled, %", Number: true, Optional: true}, {Head: "CPU used, %", Number: true},
		},
	}
	row := func(c record.Condition) {
		product := report.Absent()
		if quotaOf(c) > 0 {
			product = report.Estimated(p.products(c), 1e-6)
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: c.Label},
			p.cell(c, service.Mean),
			p.cell(c, service.P50),
			p.cell(c, service.P99),
			p.cell(c, service.P999),
			p.cell(c, service.Stalled),
			product,
			p.cell(c, service.ThrottledShare),
			p.cell(c, service.ThrottledTime),
			p.cell(c, service.Share),
		})
	}
	row(g.base)
	for _, period := range g.periods() {
		for _, c := range g.at(period) {
			row(c)
			at := fmt.Sprintf(", quota %d µs", quotaOf(c).Microseconds())
			if _, ok := published.Figure("mean" + at); !ok || !s4 || period != Period {
				continue
			}
			f, _ := published.Figure("over 1 ms" + at)
			t.Rows = append(t.Rows, []report.Cell{
				{Text: "S4", Tone: report.Faint},
				theirs(published, "mean"+at), theirs(published, "median"+at), theirs(published, "p99"+at),
				report.Absent(), theirs(published, "over 1 ms"+at),
				{Text: report.Rounded(f.Value*float64(quotaOf(c).Microseconds())*1e-6, 3), Tone: report.Faint},
				report.Absent(), report.Absent(), report.Absent(),
			})
		}
	}
	if len(t.Rows) < 2 {
		return nil
	}
	var all []report.Part
	if tails := p.tails(g); len(tails) > 0 {
		all = append(all, report.Tails(nameShort(g.name)+": distribution of latency by CPU quota", steps, tails))
	}
	return append(all, t)
}

// mostTails is how many distributions one chart shows at most.
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

// bursts sets quotas with a burst beside those without.
func (p page) bursts() []report.Part {
	var all []report.Part
	for _, g := range p.groups(Burst) {
		t := report.Table{
			Title: nameShort(g.name) + ": latency by CPU quota, with and without a burst",
			Note: fmt.Sprintf("On %s. With a burst, unused quota is saved up, at most as much as the quota (cpu.cfs_burst_us, cpu.max.burst). Without a quota the service used %s %% of its core.",
				g.base.Platform, report.Said(p.Value(g.base, service.Share), 1)),
			Columns: []report.Column{
				{Head: "quota/period"}, {Head: "p50, µs", Number: true, Optional: true}, {Head: "p99, µs", Number: true},
				{Head: "p99.9, µs", Number: true, Optional: true}, {Head: "stalled, per million", Number: true},
				{Head: "with burst: p99, µs", Number: true}, {Head: "with burst: p99.9, µs", Number: true, Optional: true},
				{Head: "with burst: stalled, per million", Number: true},
				{Head: "p99, ratio", Number: true},
			},
		}
		for _, c := range g.conditions {
			if burstOf(c) > 0 || quotaOf(c) == 0 {
				continue
			}
			row := []report.Cell{{Text: c.Label}}
			for _, m := range []string{service.P50, service.P99, service.P999, service.Stalled} {
				row = append(row, p.cell(c, m))
			}
			saved := false
			for _, b := range g.conditions {
				if burstOf(b) > 0 && quotaOf(b) == quotaOf(c) && periodOf(b) == periodOf(c) {
					for _, m := range []string{service.P99, service.P999, service.Stalled} {
						row = append(row, p.cell(b, m))
					}
					row = append(
						row,
						report.Estimated(p.Ratio(p.PerBlock(c, service.P99), p.PerBlock(b, service.P99)), 1),
					)
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
			Title: nameShort(g.name) + ": latency beside a neighbour on its core",
			Note:  "The neighbour multiplies matrices. Ratio: shared, against alone. Of two quotas the first is the service's, the second the neighbour's.",
			Method: "Ratios are paired within blocks; alone has the same share of the core. " +
				"In the real-time class (SCHED_FIFO) the service runs before all ordinary threads of its core.",
			Columns: []report.Column{
				{Head: "core shared by"}, {Head: "alone: p50, µs", Number: true, Optional: true}, {Head: "alone: p99, µs", Number: true},
				{Head: "shared: p50, µs", Number: true, Optional: true}, {Head: "shared: p99, µs", Number: true},
				{Head: "p50, ratio", Number: true}, {Head: "p99, ratio", Number: true},
				{Head: "matrix alone, ms", Number: true, Optional: true}, {Head: "matrix shared, ms", Number: true, Optional: true},
				{Head: "matrix, ratio", Number: true},
			},
		}
		add := func(name string, alone, both, matrix record.Condition) {
			if !p.measured(both, service.P50) {
				return
			}
			ratio := func(alone record.Condition, metric string) report.Cell {
				return report.Estimated(p.Ratio(p.PerBlock(alone, metric), p.PerBlock(both, metric)), 1)
			}
			t.Rows = append(t.Rows, []report.Cell{
				{Text: name}, p.cell(alone, service.P50), p.cell(alone, service.P99),
				p.cell(both, service.P50), p.cell(both, service.P99),
				ratio(alone, service.P50), ratio(alone, service.P99),
				report.Estimated(p.Value(matrix, matrixTime), 1e-3), report.Estimated(p.Value(both, matrixTime), 1e-3),
				ratio(matrix, matrixTime),
			})
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
				add("quotas "+q.String()+" and "+(periodOf(both)-q).String(), alone, both, matrix)
			}
		}
		all = append(all, report.Filled(t)...)
	}
	return all
}

// cores says what else ran on the service's core.
func (p page) cores() []report.Part {
	var lines []string
	seen := map[string]bool{}
	for _, c := range p.Run.Conditions {
		if seen[c.Workload] || !c.Baseline {
			continue
		}
		seen[c.Workload] = true
		irq, ok := p.covariate(c, interrupts)
		busy, also := p.covariate(c, coreBusy)
		if !ok || !also {
			continue
		}
		lines = append(lines, fmt.Sprintf(
			"%s, %s: %s interrupts per second. The core was busy for %s %% of the time; the service used %s %%.",
			nameShort(c.Workload),
			c.Label,
			report.Said(irq, 1),
			report.Said(busy, 1),
			report.Said(p.Value(c, service.Share), 1),
		))
	}
	if len(lines) == 0 {
		return nil
	}
	return []report.Part{report.Prose{Title: "Other activity on the service's core", Text: strings.Join(lines, "\n\n")}}
}

// Demanded is the headline of a run that measured services without a quota.
func Demanded(run record.Run) string {
	p := page{read(run)}
	var sentences []string
	for _, g := range append(p.groups(Quota), p.groups(Open)...) {
		if p.measured(g.base, service.Demand) {
			sentences = append(sentences, fmt.Sprintf("Without a quota %s uses %s %% of its core.",
				nameShort(g.name), report.Said(p.Value(g.base, service.Share), 1)))
		}
	}
	if len(sentences) == 0 {
		return "Nothing was measured yet."
	}
	return strings.Join(sentences, " ")
}

// Demands is the table of services without a quota.
func Demands(run record.Run) []report.Part {
	p := page{read(run)}
	t := report.Table{
		Title: "Latency and CPU time without a quota",
		Note:  "The predictions rest on these figures.",
		Columns: []report.Column{
			{Head: "service"}, {Head: "requests/s", Number: true}, {Head: "mean, µs", Number: true, Optional: true},
			{Head: "p50, µs", Number: true}, {Head: "p99, µs", Number: true}, {Head: "p99.9, µs", Number: true, Optional: true},
			{Head: "CPU time per request, µs", Number: true}, {Head: "CPU used, %", Number: true},
		},
	}
	for _, g := range append(p.groups(Quota), p.groups(Open)...) {
		if !p.measured(g.base, service.Demand) {
			continue
		}
		row := []report.Cell{{Text: nameShort(g.name)}}
		metrics := []string{
			service.Throughput, service.Mean, service.P50, service.P99, service.P999, service.Demand, service.Share,
		}
		for _, m := range metrics {
			row = append(row, p.cell(g.base, m))
		}
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return append([]report.Part{t}, p.cores()...)
}
