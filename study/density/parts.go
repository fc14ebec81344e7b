package density

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/platform"
	"tare/report"
	"tare/stats"
)

func (r reading) parts() []report.Part {
	var parts []report.Part
	for _, base := range r.bases() {
		parts = append(parts, r.panels(base)...)
		parts = append(parts, r.sweepTable(r.lead(base)))
	}
	if len(r.arms) > 0 {
		parts = append(parts, r.armTable())
	}
	for _, base := range r.bases() {
		lead := r.lead(base)
		parts = append(parts, r.latencyPanels(base)...)
		parts = append(parts, r.latencyTable(lead))
		faults, device := r.swapTables(lead)
		parts = append(parts, faults, device)
		for _, other := range r.others(base) {
			if base.measured() {
				parts = append(parts, r.againstTable(base, other))
			}
			if other.policy != lead.policy {
				faults, device := r.swapTables(other)
				parts = append(parts, report.Long{Part: faults}, report.Long{Part: device})
			}
		}
		parts = append(parts, r.idleTable(lead))
		if others := r.others(base); len(others) > 0 {
			parts = append(parts, r.idleByPolicyTable(append([]arm{lead}, others...)))
		}
	}
	parts = append(parts, r.extensionParts()...)
	parts = append(parts, r.deviceTable()...)
	parts = append(parts, r.agreementTable()...)
	return append(parts, r.publishedTable()...)
}

const (
	perMilli       = 1e-3 // microseconds to milliseconds
	neighboursHead = "neighbours"
)

// titled names a part, with the arm's name where a run has several.
func (r reading) titled(text string, a arm) string {
	if len(r.arms) > 1 {
		text += ": " + r.name(a)
	}
	return text
}

// brief is an estimate without its interval, for which a narrow table has no room.
func brief(e stats.Estimate, scale float64) report.Cell {
	c := report.Estimated(e, scale)
	c.Detail = ""
	return c
}

// overcommitCell is memory demand over the box's memory.
func overcommitCell(v float64) report.Cell {
	if math.IsNaN(v) {
		return report.Absent()
	}
	return report.Cell{Text: fmt.Sprintf("%.2f", v)}
}

// sweepTable has a row for each number of neighbours, rising.
func (r reading) sweepTable(a arm) report.Table {
	t := report.Table{
		Title: r.titled("Latency and throughput, by number of neighbours", a),
		Note: "Memory is the demand of all programs in the box, resident and swapped, over the memory of the box. Idle p99 is that of the neighbours. " +
			"A dash is a percentile that lies among failed requests, or a figure that was not measured.",
		Method: fmt.Sprintf("Throughput is that of clients that wait for each answer. Latency is that of a load by a schedule, from the intended start of each request, over %s merged. "+
			"A failed request counts as the slowest. All neighbours together receive the same number of requests per second, whatever their number. "+
			"A change stands beside the first number of neighbours at which it is significant.", report.Counted(len(a.sweeps), "sweep")),
		Columns: []report.Column{
			{Head: neighboursHead, Number: true}, {Head: "memory, times", Number: true}, {Head: "requests/s", Number: true},
			{Head: "mean, ms", Number: true, Optional: true}, {Head: "p50, ms", Number: true}, {Head: "p95, ms", Number: true},
			{Head: "p99, ms", Number: true}, {Head: "max, ms", Number: true, Optional: true},
			{Head: "idle p99, ms", Number: true, Optional: true}, {Head: "change"},
		},
	}
	marks := r.marks(a)
	for _, n := range a.numbers {
		marked := report.Cell{Text: strings.Join(marks[n], ", ")}
		if marked.Text != "" {
			marked.Tone = report.Bad
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: fmt.Sprint(n)}, overcommitCell(r.overcommit(a, n).Value), report.Estimated(r.throughput(a, n), 1),
			brief(r.moment(a, n, open, meanOf), perMilli), brief(r.quantile(a, n, open, 0.5), perMilli),
			brief(r.quantile(a, n, open, 0.95), perMilli),
			report.Estimated(r.quantile(a, n, open, 0.99), perMilli), report.Measured(r.extreme(a, n) * perMilli),
			brief(r.quantile(a, n, idle, 0.99), perMilli), marked,
		})
	}
	// Where sweeps ended while neighbours started there are no figures.
	for _, h := range a.halts() {
		if text := strings.Join(marks[h.neighbours], ", "); text != "" && !slices.Contains(a.numbers, h.neighbours) {
			row := []report.Cell{{Text: fmt.Sprint(h.neighbours)}, overcommitCell(h.overcommit)}
			for len(row) < len(t.Columns)-1 {
				row = append(row, report.Absent())
			}
			t.Rows = append(t.Rows, append(row, report.Cell{Text: text, Tone: report.Bad}))
			delete(marks, h.neighbours)
		}
	}
	return t
}

// extreme is the greatest latency of all sweeps.
func (r reading) extreme(a arm, n int) float64 {
	all, ok := answered(a.has(n), open)
	if !ok {
		return math.NaN()
	}
	greatest := 0.0
	for _, h := range all {
		greatest = math.Max(greatest, float64(h.Max()))
	}
	return greatest
}

// marks are the changes that stand beside a number of neighbours.
func (r reading) marks(a arm) map[int][]string {
	marks := map[int][]string{}
	if c := r.throughputCliff(a); c.found() {
		marks[int(c.After)] = append(marks[int(c.After)], "throughput falls")
	}
	if c := r.tailCliff(a); c.found() {
		marks[int(c.After)] = append(marks[int(c.After)], "p99 rises")
	}
	ended := map[int]int{}
	for _, h := range a.halts() {
		ended[h.neighbours]++
	}
	for n, count := range ended {
		marks[n] = append(marks[n], fmt.Sprintf("%d of %d ended", count, len(a.sweeps)))
	}
	return marks
}

// placeCell is where a change begins, as memory demand over the box's, with its interval.
func placeCell(c cliff) report.Cell {
	if !c.found() {
		return report.Absent()
	}
	return placed(c.overcommit)
}

// placed writes a place and its interval, as memory demand over the box's.
func placed(e stats.Estimate) report.Cell {
	cell := overcommitCell(e.Value)
	if e.Known() {
		cell.Detail = fmt.Sprintf("%.2f to %.2f", e.Interval.Low, e.Interval.High)
	}
	return cell
}

// armTable has a row for each policy.
func (r reading) armTable() report.Table {
	unsteady, warmUp := r.warmed()
	t := report.Table{
		Title: "Where throughput falls and latency rises, by policy",
		Note:  "Places are memory demand, in times the box's memory. Unharmed: up to there throughput, p90 and p95 stay as with fewest neighbours, p99 and maximum nearly so. A dash: no change was found." + unsteady,
		Method: "A fall or rise is a single change in the logarithm of throughput or of the p99, which a permutation test finds significant. Its interval is by resampling (docs/statistics.md). " +
			"Unharmed is by the limits of claim S3.2, each widened to the A/A spread of the step with fewest neighbours. Gained is unharmed memory over that of the first row, in the same blocks. Ended is where sweeps stopped before their last number of neighbours." + warmUp,
		Columns: []report.Column{
			{Head: "policy"}, {Head: "throughput falls at", Number: true}, {Head: "throughput, ratio", Number: true},
			{Head: "p99 rises at", Number: true}, {Head: "p99, ratio", Number: true},
			{Head: "sweeps ended at", Optional: true}, {Head: "unharmed up to", Number: true}, {Head: "gained, ratio", Number: true, Optional: true},
		},
	}
	densities := r.densities()
	for _, base := range r.bases() {
		for _, a := range slices.Concat([]arm{base}, r.others(base)) {
			if !a.measured() {
				row := []report.Cell{{Text: r.name(a)}}
				for len(row) < len(t.Columns) {
					row = append(row, report.Absent())
				}
				t.Rows = append(t.Rows, row)
				continue
			}
			throughput, tail := r.throughputCliff(a), r.tailCliff(a)
			d := densities[slices.IndexFunc(densities, func(d Density) bool {
				return d.Policy == a.policy && d.Order == a.order && d.Workload == a.group
			})]
			unharmed := placed(d.Overcommit)
			if d.Reached > 0 {
				unharmed = report.Cell{Text: "at least " + unharmed.Text} // no upper end is known
			}
			t.Rows = append(t.Rows, []report.Cell{
				{Text: r.name(a)}, placeCell(throughput), report.Estimated(throughput.Times, 1),
				placeCell(tail), report.Estimated(tail.Times, 1),
				haltCell(a), unharmed, report.Estimated(d.Gained, 1),
			})
		}
	}
	return t
}

// haltCell says where sweeps ended, and how many.
func haltCell(a arm) report.Cell {
	all := a.halts()
	if len(all) == 0 {
		return report.Cell{Text: "none", Tone: report.Faint}
	}
	text := report.Absent().Text
	if least, greatest, ok := span(all); ok {
		text = fmt.Sprintf("%.2f", least)
		if greatest-least >= 0.01 {
			text += fmt.Sprintf(" to %.2f", greatest)
		}
	}
	return report.Cell{Text: text, Detail: fmt.Sprintf("%d of %d sweeps", len(all), len(a.sweeps)), Tone: report.Bad}
}

// span is the range in which sweeps ended; false where it was not read.
func span(all []halt) (least, greatest float64, ok bool) {
	least = math.Inf(1)
	for _, h := range all {
		if !math.IsNaN(h.overcommit) {
			least, greatest, ok = math.Min(least, h.overcommit), math.Max(greatest, h.overcommit), true
		}
	}
	return least, greatest, ok
}

// swapTables are page faults, swap traffic and pressure, of the critical service and its neighbours
// apart, and the swap device's accounts.
func (r reading) swapTables(a arm) (faults, device report.Table) {
	faults = report.Table{
		Title: r.titled("Swap traffic, page faults and memory pressure", a),
		Note: "Pressure (PSI) is the share of time in which some, or all (full), tasks of the class waited for memory. " +
			"Critical is the service under test, idle are all neighbours. A dash: the kernel reports no such figure.",
		Columns: []report.Column{
			{Head: neighboursHead, Number: true}, {Head: "swapped in, pages/s", Number: true}, {Head: "swapped out, pages/s", Number: true},
			{Head: "major faults/s, critical", Number: true}, {Head: "major faults/s, idle", Number: true},
			{Head: "some, critical, %", Number: true}, {Head: "some, idle, %", Number: true},
			{Head: "full, critical, %", Number: true, Optional: true}, {Head: "full, idle, %", Number: true, Optional: true},
		},
	}
	device = report.Table{
		Title: r.titled("Swap device and memory limit of the box", a),
		Note: "Swap used, pool and limit are those at the end of a step. The pool is memory that compressed swap holds; it is taken from the box. " +
			"Keeper is the CPU time that tare itself used to maintain the box, in percent of one CPU.",
		Columns: []report.Column{
			{Head: neighboursHead, Number: true}, {Head: "written, MB/s", Number: true}, {Head: "read, MB/s", Number: true},
			{Head: "swap used, %", Number: true}, {Head: "pool, MiB", Number: true}, {Head: "critical swapped, MiB", Number: true},
			{Head: "limit, MiB", Number: true}, {Head: "keeper CPU, %", Number: true, Optional: true},
		},
	}
	of := func(c platform.Class, f func(ClassAccounts) float64) func(Step) float64 {
		return func(s Step) float64 { return f(s.Classes[c]) }
	}
	major := func(x ClassAccounts) float64 { return float64(x.MajorFaults) }
	some := func(x ClassAccounts) float64 { return x.Some.Seconds() }
	full := func(x ClassAccounts) float64 { return x.Full.Seconds() }
	for _, n := range a.numbers {
		rate := func(name string, of func(Step) float64, scale float64) report.Cell {
			return brief(r.perSecond(a, n, name, of), scale)
		}
		held := func(name string, of func(Step) float64) report.Cell {
			var all []float64
			for _, s := range a.has(n) {
				if !s.lacks(name) {
					all = append(all, of(s))
				}
			}
			return brief(r.mean(all), 1.0/(1<<20))
		}
		limit := func(steps []Step) report.Cell {
			if slices.ContainsFunc(steps, func(s Step) bool { return s.Limit <= 0 }) {
				return report.Absent() // a box without a limit
			}
			return held("limit_bytes", func(s Step) float64 { return float64(s.Limit) })
		}
		used := func(steps []Step) report.Cell {
			var all []float64
			for _, s := range steps {
				if s.SwapSize > 0 {
					all = append(all, float64(s.SwapUsed)/float64(s.SwapSize))
				}
			}
			return brief(r.mean(all), 100)
		}
		faults.Rows = append(faults.Rows, []report.Cell{
			{Text: fmt.Sprint(n)},
			rate("swap_in_pages", func(s Step) float64 { return float64(s.SwapIn) }, 1),
			rate("swap_out_pages", func(s Step) float64 { return float64(s.SwapOut) }, 1),
			rate("major_faults", of(platform.Critical, major), 1), rate("major_faults", of(platform.Idle, major), 1),
			rate("pressure_some_ns", of(platform.Critical, some), 100), rate("pressure_some_ns", of(platform.Idle, some), 100),
			rate("pressure_full_ns", of(platform.Critical, full), 100), rate("pressure_full_ns", of(platform.Idle, full), 100),
		})
		device.Rows = append(device.Rows, []report.Cell{
			{Text: fmt.Sprint(n)},
			rate("device_written_bytes", func(s Step) float64 { return float64(s.DeviceWritten) }, 1e-6),
			rate("device_read_bytes", func(s Step) float64 { return float64(s.DeviceRead) }, 1e-6),
			used(a.has(n)), held("pool_bytes", func(s Step) float64 { return float64(s.Pool) }),
			held("swapped_bytes", func(s Step) float64 { return float64(s.Classes[platform.Critical].Swapped) }),
			limit(a.has(n)), rate("keeper_ns", func(s Step) float64 { return s.Keeper.Seconds() }, 100),
		})
	}
	return faults, device
}

// percentiles are those that tables and the fourth panel have.
var percentiles = []struct {
	q    float64
	name string
}{{0.5, "p50"}, {0.9, "p90"}, {0.95, "p95"}, {0.99, "p99"}, {0.999, "p99.9"}}

// latencyTable has all figures of latency with their intervals.
func (r reading) latencyTable(a arm) report.Table {
	t := report.Table{
		Title: r.titled("Percentiles of latency, of "+a.critical(), a),
		Note:  "Ratios compare with the fewest neighbours. Faint ratios do not differ significantly from 1.",
		Method: "Latency counts from the intended start of a request. Percentiles are over the requests of all sweeps, merged. " +
			"Mean, min and max are geometric means over sweeps. Ratios are within the same sweeps.",
		Columns: []report.Column{
			{Head: neighboursHead, Number: true},
			{Head: "min, ms", Number: true, Optional: true},
			{Head: "mean, ms", Number: true, Optional: true},
		},
	}
	for i, p := range percentiles {
		t.Columns = append(t.Columns, report.Column{Head: p.name + ", ms", Number: true, Optional: i != 0 && p.q != 0.99})
	}
	t.Columns = append(t.Columns,
		report.Column{Head: "max, ms", Number: true, Optional: true},
		report.Column{Head: "p95, ratio", Number: true}, report.Column{Head: "p99, ratio", Number: true})
	for _, n := range a.numbers {
		row := []report.Cell{
			{Text: fmt.Sprint(n)},
			report.Estimated(r.moment(a, n, open, leastOf), perMilli),
			report.Estimated(r.moment(a, n, open, meanOf), perMilli),
		}
		for _, p := range percentiles {
			row = append(row, report.Estimated(r.quantile(a, n, open, p.q), perMilli))
		}
		row = append(row, report.Estimated(r.moment(a, n, open, greatestOf), perMilli))
		for _, q := range []float64{0.95, 0.99} {
			row = append(row, r.timesCell(a, n, r.quantileRatio(a, n, open, q)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// timesCell is a ratio to the first number, which has none itself.
func (r reading) timesCell(a arm, n int, e stats.Estimate) report.Cell {
	if n == a.first() {
		return report.Cell{Text: "1", Tone: report.Faint}
	}
	return report.Against(1, e)
}

// idleTable is the latency of the neighbours themselves.
func (r reading) idleTable(a arm) report.Table {
	t := report.Table{
		Title:  r.titled("Throughput and latency of the neighbours", a),
		Note:   "Figures are of all neighbours together. A dash under burst: a burst is one request.",
		Method: "A burst lasts from its intended start to its last answer. Failed requests are those of all sweeps.",
		Columns: []report.Column{
			{Head: neighboursHead, Number: true},
			{Head: "requests/s", Number: true},
			{Head: "p50, ms", Number: true},
			{Head: "p99, ms", Number: true},
			{Head: "burst p50, ms", Number: true},
			{Head: "failed", Number: true},
			{Head: "failed, critical", Number: true, Optional: true},
		},
	}
	quiet, all := 0, 0
	for _, n := range a.numbers {
		var failed, critical int64
		woken, _ := withTurns(idle, a.has(n), nil)
		quiet, all = quiet+len(a.has(n))-len(woken), all+len(a.has(n))
		for _, s := range a.has(n) {
			failed, critical = failed+s.Idle.Failed, critical+s.Open.Failed+s.Closed.Failed
		}
		count := func(v int64) report.Cell {
			c := report.Cell{Text: fmt.Sprint(v)}
			if v > 0 {
				c.Tone = report.Bad
			}
			return c
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: fmt.Sprint(n)},
			report.Estimated(r.geometric(values(a.has(n), func(s Step) float64 { return s.Idle.Rate })), 1),
			report.Estimated(r.quantile(a, n, idle, 0.5), perMilli),
			report.Estimated(r.quantile(a, n, idle, 0.99), perMilli),
			report.Estimated(r.quantile(a, n, bursts, 0.5), perMilli),
			count(failed),
			count(critical),
		})
	}
	if quiet > 0 && quiet < all {
		t.Note += fmt.Sprintf(" In %s no neighbour received a request while it was measured. Those steps are left out here.", report.Counted(quiet, "step"))
	}
	return t
}

// idleByPolicyTable is the same at the greatest number of neighbours of each policy.
func (r reading) idleByPolicyTable(arms []arm) report.Table {
	t := report.Table{
		Title:  "Latency of the neighbours, by policy",
		Note:   "At the greatest number of neighbours of each policy: what the idle neighbours pay for the protection of the critical service.",
		Method: "A burst lasts from its intended start to its last answer.",
		Columns: []report.Column{
			{Head: "policy"}, {Head: neighboursHead, Number: true}, {Head: "p50, ms", Number: true}, {Head: "p99, ms", Number: true},
			{Head: "burst p50, ms", Number: true}, {Head: "burst p99, ms", Number: true, Optional: true},
		},
	}
	for _, a := range arms {
		if len(a.numbers) == 0 {
			continue
		}
		n := a.greatest()
		t.Rows = append(t.Rows, []report.Cell{
			{Text: r.name(a)},
			{Text: fmt.Sprint(n)},
			report.Estimated(r.quantile(a, n, idle, 0.5), perMilli),
			report.Estimated(r.quantile(a, n, idle, 0.99), perMilli),
			report.Estimated(r.quantile(a, n, bursts, 0.5), perMilli),
			report.Estimated(r.quantile(a, n, bursts, 0.99), perMilli),
		})
	}
	return t
}

// againstTable compares another policy with the base at each number of neighbours.
func (r reading) againstTable(base, other arm) report.Table {
	t := report.Table{
		Title:  fmt.Sprintf("%s compared with %s", other.policy, base.policy),
		Note:   "Idle is the latency of the neighbours. Throughput above 1 and latencies below 1 are better. Faint ratios do not differ significantly from 1.",
		Method: "Ratios are at the same number of neighbours and in the same blocks.",
		Columns: []report.Column{
			{Head: neighboursHead, Number: true}, {Head: "memory, times", Number: true}, {Head: "throughput, ratio", Number: true},
			{Head: "p99, ratio", Number: true}, {Head: "p50, ratio", Number: true, Optional: true},
			{Head: "idle p50, ratio", Number: true}, {Head: "idle p99, ratio", Number: true, Optional: true},
		},
	}
	if bases := r.bases(); len(bases) > 1 {
		t.Title += " (" + base.group + ", " + base.order + ")"
	}
	for _, n := range shared(base, other) {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: fmt.Sprint(n)}, overcommitCell(r.overcommit(other, n).Value),
			report.Against(1, r.throughputAgainst(base, other, n)),
			report.Against(1, r.quantileAgainst(base, other, n, open, 0.99)),
			report.Against(1, r.quantileAgainst(base, other, n, open, 0.5)),
			report.Against(1, r.quantileAgainst(base, other, n, idle, 0.5)),
			report.Against(1, r.quantileAgainst(base, other, n, idle, 0.99)),
		})
	}
	return t
}

// compared are two arms that differ in their swap alone.
type compared struct{ base, other arm }

// devices are the pairs of arms that show whether the swap device matters.
func (r reading) devices() []compared {
	var all []compared
	for _, base := range r.bases() {
		for _, other := range r.others(base) {
			if differ(base, other, FactorSwap) {
				all = append(all, compared{base, other})
			}
		}
	}
	return all
}

// differ reports whether two arms differ in one factor, and no other.
func differ(a, b arm, factor string) bool {
	for _, f := range []string{FactorSwap, FactorProtect, FactorCluster, FactorExtend, FactorNoise, FactorBox} {
		if (a.factor(f) != b.factor(f)) != (f == factor) {
			return false
		}
	}
	return true
}

// deviceTable examines the remark of S3 (published study of density) that the swap device hardly matters.
func (r reading) deviceTable() []report.Part {
	t := report.Table{
		Title: "Effect of the swap device",
		Note: "Ratios compare two swap devices at the same number of neighbours. Faint ratios do not differ significantly from 1. " +
			"A dash: not known.",
		Method: "The first row is at the first number of neighbours at which throughput of the base is significantly lower, the last at the greatest that both have. Ratios are within blocks. " +
			"Significance holds for all rows together (Bonferroni). Places where throughput falls are memory demand over the box's; they differ where their intervals do not meet.",
		Columns: []report.Column{
			{Head: "swap"}, {Head: "memory, times", Number: true}, {Head: "throughput, ratio", Number: true}, {Head: "p99, ratio", Number: true},
			{Head: "significant"}, {Head: "falls at", Number: true, Optional: true}, {Head: "base falls at", Number: true, Optional: true},
		},
	}
	decides := r.together(2 * 2 * len(r.devices())) // throughput and p99, at two numbers of neighbours
	for _, d := range r.devices() {
		of, with := r.throughputCliff(d.base), r.throughputCliff(d.other)
		both := shared(d.base, d.other)
		if len(both) == 0 {
			continue
		}
		at := []int{both[len(both)-1]}
		if of.found() && slices.Contains(both, int(of.After)) && int(of.After) != at[0] {
			at = []int{int(of.After), at[0]}
		}
		for _, n := range at {
			rate, tail := r.throughputAgainst(d.base, d.other, n), r.quantileAgainst(d.base, d.other, n, open, 0.99)
			significant := matters(
				decides.throughputAgainst(d.base, d.other, n),
				decides.quantileAgainst(d.base, d.other, n, open, 0.99),
			)
			t.Rows = append(t.Rows, []report.Cell{
				{Text: d.other.factor(FactorSwap) + " / " + d.base.factor(FactorSwap)},
				overcommitCell(r.overcommit(d.base, n).Value),
				report.Against(1, rate),
				report.Against(1, tail),
				significant,
				placeCell(with),
				placeCell(of),
			})
		}
	}
	return report.Filled(t)
}

// matters names the ratios that differ significantly from 1.
func matters(rate, tail stats.Estimate) report.Cell {
	switch {
	case rate.DiffersFrom(1) && tail.DiffersFrom(1):
		return report.Cell{Text: "throughput, p99"}
	case rate.DiffersFrom(1):
		return report.Cell{Text: "throughput"}
	case tail.DiffersFrom(1):
		return report.Cell{Text: "p99"}
	case rate.Known() && tail.Known():
		return report.Cell{Text: "neither"}
	}
	return report.Absent()
}

// agreementTable counts the steps whose repeats agree.
func (r reading) agreementTable() []report.Part {
	t := report.Table{
		Title: "Agreement of repeats of the same step",
		Note: "Repeats agree where chance within a step explains how they differ. Spread is the greatest repeat over the least, at the number of neighbours where they differ most. " +
			"Where few agree, sweeps differ by more than chance: do not rely on a single sweep.",
		Method: "Repeats of a step agree where one value lies in the interval of every repeat. An interval rests on how much 16 spans of time within a load differ, because requests that wait behind one stall are slow together. " +
			"A p99 that has no upper bound in any repeat could not disagree, and is counted apart. Intervals in all other tables are over sweeps, and include how sweeps differ.",
		Columns: []report.Column{
			{Head: "policy"}, {Head: "sweeps", Number: true}, {Head: "throughput agrees", Number: true}, {Head: "spread, ratio", Number: true},
			{Head: "p99 agrees", Number: true}, {Head: "spread, ratio", Number: true},
		},
	}
	independent := false
	for _, a := range r.arms {
		throughput, tail := r.agreements(a)
		if throughput.compared()+tail.compared() == 0 {
			continue
		}
		independent = independent || throughput.independent+tail.independent > 0
		cell := func(g agreement) (report.Cell, report.Cell) {
			if g.compared() == 0 {
				return report.Absent(), report.Absent()
			}
			spread := report.Measured(g.widest)
			spread.Detail = fmt.Sprintf("at %d", g.at)
			agrees := report.Absent()
			if g.steps > 0 {
				agrees = report.Cell{Text: fmt.Sprintf("%d of %d", g.agree, g.steps)}
			}
			if g.unbounded > 0 {
				agrees.Detail = fmt.Sprintf("%d could not disagree", g.unbounded)
			}
			return agrees, spread
		}
		x, y := cell(throughput)
		v, w := cell(tail)
		t.Rows = append(t.Rows, []report.Cell{{Text: r.name(a)}, {Text: fmt.Sprint(len(a.sweeps))}, x, y, v, w})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	if independent {
		t.Note += " Some repeats have no spans of time: they are of an earlier version of tare, too short, or loaded by a program of their own. " +
			"Their intervals take requests for independent, and are too narrow."
	}
	return []report.Part{t}
}
