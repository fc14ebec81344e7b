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

// Parts are the run's tables and charts.
func Parts(run record.Run) []report.Part { return read(run, nil).parts() }

func (r reading) parts() []report.Part {
	var parts []report.Part
	for _, base := range r.bases() {
		parts = append(parts, r.sweepTable(r.lead(base)))
	}
	if len(r.arms) > 0 {
		parts = append(parts, r.armTable())
	}
	for _, base := range r.bases() {
		lead := r.lead(base)
		faults, device := r.swapTables(lead)
		parts = append(parts, faults, device)
		parts = append(parts, r.panels(base)...)
		for _, other := range r.others(base) {
			if base.measured() {
				parts = append(parts, r.againstTable(base, other))
			}
			if other.policy != lead.policy {
				faults, device := r.swapTables(other)
				parts = append(parts, faults, device)
			}
		}
		parts = append(parts, r.latencyTable(lead), r.idleTable(lead))
		if others := r.others(base); len(others) > 0 {
			parts = append(parts, r.idleByPolicyTable(append([]arm{lead}, others...)))
		}
	}
	parts = append(parts, r.extensionParts()...)
	parts = append(parts, r.deviceTable()...)
	parts = append(parts, r.agreementTable()...)
	return append(parts, r.publishedTable()...)
}

const perMilli = 1e-3 // microseconds to milliseconds

// unharmedWithin is claim S3.2's.
func unharmedWithin() float64 { return claim.Threshold("S3.2", "unharmed") / 100 }

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

// overcommitCell is a memory asked for over the box's.
func overcommitCell(v float64) report.Cell {
	if math.IsNaN(v) {
		return report.Absent()
	}
	return report.Cell{Text: fmt.Sprintf("%.2f", v)}
}

// sweepTable has a row a number of neighbours, rising.
func (r reading) sweepTable(a arm) report.Table {
	t := report.Table{
		Title: r.titled("What so many idle neighbours do", a),
		Note: fmt.Sprintf("Memory is what everything in the box asks for, resident and swapped, over the box's. Throughput is of clients that wait for their answers; latency is from the intended start, under a schedule, in milliseconds, over %s merged. "+
			"A request that failed counts as the slowest: a percentile that lies among those is a dash. "+
			"All neighbours together are asked for the same at every number. A change is marked at the first number that it is told for.", report.Counted(len(a.sweeps), "sweep")),
		Columns: []report.Column{
			{Head: "idle", Number: true}, {Head: "memory, times", Number: true}, {Head: "per second", Number: true}, {Head: "mean", Number: true, Optional: true}, {Head: "p50", Number: true},
			{Head: "p95", Number: true}, {Head: "p99, ms", Number: true}, {Head: "max", Number: true, Optional: true}, {Head: "idle p99", Number: true, Optional: true}, {Head: ""},
		},
	}
	marks := r.marks(a)
	for _, n := range a.numbers {
		marked := report.Cell{Text: strings.Join(marks[n], ", ")}
		if marked.Text != "" {
			marked.Tone = report.Bad
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: fmt.Sprint(n)}, overcommitCell(r.overcommit(a, n).Value), report.Estimated(r.throughput(a, n), 1), brief(r.moment(a, n, open, meanOf), perMilli), brief(r.quantile(a, n, open, 0.5), perMilli),
			brief(r.quantile(a, n, open, 0.95), perMilli), report.Estimated(r.quantile(a, n, open, 0.99), perMilli), report.Measured(r.extreme(a, n) * perMilli), brief(r.quantile(a, n, idle, 0.99), perMilli), marked,
		})
	}
	// Where sweeps ended as neighbours came there is nothing but that.
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

// marks are what is said beside a number of neighbours.
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

// placeCell is a cliff's place as memory asked for over the box's, with its interval.
func placeCell(c cliff) report.Cell {
	if !c.found() {
		return report.Cell{Text: "not told", Tone: report.Faint}
	}
	return placed(c.overcommit)
}

// placed writes a place and its interval in memory asked for over the box's.
func placed(e stats.Estimate) report.Cell {
	cell := overcommitCell(e.Value)
	if e.Known() {
		cell.Detail = fmt.Sprintf("%.2f to %.2f", e.Interval.Low, e.Interval.High)
	}
	return cell
}

// armTable has a row a policy.
func (r reading) armTable() report.Table {
	within := unharmedWithin()
	t := report.Table{
		Title: "By policy: where it begins, and what it comes to",
		Note: fmt.Sprintf("All places are memory asked for over the box's. A fall is a single change in the logarithm of throughput, or of the p99, that a permutation test tells from chance; its interval is by resampling (docs/statistics.md). "+
			"Unharmed is the greatest at which throughput and p99 are within %g %% of those with fewest neighbours; gained is that over the first row's, in the same blocks. Ended is where sweeps stopped before their last number.", 100*within) + r.warmed(),
		Columns: []report.Column{
			{Head: "policy"}, {Head: "throughput falls", Number: true}, {Head: "times", Number: true}, {Head: "p99 rises", Number: true}, {Head: "times", Number: true},
			{Head: "ended", Optional: true}, {Head: "unharmed", Number: true}, {Head: "gained", Number: true, Optional: true},
		},
	}
	densities := r.densities(within)
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
			gained := report.Estimated(d.Gained, 1)
			t.Rows = append(t.Rows, []report.Cell{{Text: r.name(a)}, placeCell(throughput), report.Estimated(throughput.Times, 1), placeCell(tail), report.Estimated(tail.Times, 1), haltCell(a), unharmed, gained})
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

// span is from where to where sweeps ended; false where no reading tells.
func span(all []halt) (least, greatest float64, ok bool) {
	least = math.Inf(1)
	for _, h := range all {
		if !math.IsNaN(h.overcommit) {
			least, greatest, ok = math.Min(least, h.overcommit), math.Max(greatest, h.overcommit), true
		}
	}
	return least, greatest, ok
}

// swapTables are what memory's shortage did, of the critical service and its neighbours
// apart, and what went to the device for it.
func (r reading) swapTables(a arm) (faults, device report.Table) {
	faults = report.Table{
		Title: r.titled("What the kernel did meanwhile", a),
		Note:  "Pages a second read back and written out; major faults a second; pressure is the share of time in which some task of the class waited for memory (PSI), in percent, and full that in which all did. A dash is what the kernel does not tell.",
		Columns: []report.Column{
			{Head: "idle", Number: true}, {Head: "swap in/s", Number: true}, {Head: "out/s", Number: true}, {Head: "faults/s critical", Number: true}, {Head: "idle's", Number: true},
			{Head: "some critical, %", Number: true}, {Head: "idle's", Number: true}, {Head: "full critical, %", Number: true, Optional: true}, {Head: "idle's", Number: true, Optional: true},
		},
	}
	device = report.Table{
		Title: r.titled("What went to the device, and what kept the box", a),
		Note:  "Written and read are of the device below the swap area, and used is how full that was at the end; pool is memory that compressed swap holds, and is taken from the box, whose limit at the end is beside it. Keeper is what tare itself used of one CPU to keep the box.",
		Columns: []report.Column{
			{Head: "idle", Number: true}, {Head: "written, MB/s", Number: true}, {Head: "read, MB/s", Number: true}, {Head: "used, %", Number: true}, {Head: "pool, MiB", Number: true},
			{Head: "critical swapped, MiB", Number: true}, {Head: "limit, MiB", Number: true}, {Head: "keeper, %", Number: true, Optional: true},
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
			rate("swap_in_pages", func(s Step) float64 { return float64(s.SwapIn) }, 1), rate("swap_out_pages", func(s Step) float64 { return float64(s.SwapOut) }, 1),
			rate("major_faults", of(platform.Critical, major), 1), rate("major_faults", of(platform.Idle, major), 1),
			rate("pressure_some_ns", of(platform.Critical, some), 100), rate("pressure_some_ns", of(platform.Idle, some), 100),
			rate("pressure_full_ns", of(platform.Critical, full), 100), rate("pressure_full_ns", of(platform.Idle, full), 100),
		})
		device.Rows = append(device.Rows, []report.Cell{
			{Text: fmt.Sprint(n)},
			rate("device_written_bytes", func(s Step) float64 { return float64(s.DeviceWritten) }, 1e-6), rate("device_read_bytes", func(s Step) float64 { return float64(s.DeviceRead) }, 1e-6),
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

// latencyTable has every figure of latency with its interval.
func (r reading) latencyTable(a arm) report.Table {
	t := report.Table{
		Title: r.titled("The critical service's latency, whole", a),
		Note: "Milliseconds from the intended start. Percentiles are of all sweeps' requests merged; mean, least and greatest are geometric means of the sweeps' own. " +
			"The last two columns are against fewest neighbours, in the same sweeps.",
		Columns: []report.Column{{Head: "idle", Number: true}, {Head: "min", Number: true, Optional: true}, {Head: "mean", Number: true, Optional: true}},
	}
	for i, p := range percentiles {
		t.Columns = append(t.Columns, report.Column{Head: p.name, Number: true, Optional: i != 0 && p.q != 0.99})
	}
	t.Columns = append(t.Columns, report.Column{Head: "max", Number: true, Optional: true}, report.Column{Head: "p95, times", Number: true}, report.Column{Head: "p99, times", Number: true})
	for _, n := range a.numbers {
		row := []report.Cell{{Text: fmt.Sprint(n)}, report.Estimated(r.moment(a, n, open, leastOf), perMilli), report.Estimated(r.moment(a, n, open, meanOf), perMilli)}
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

// timesCell is a ratio against the first number, which has none.
func (r reading) timesCell(a arm, n int, e stats.Estimate) report.Cell {
	if n == a.first() {
		return report.Cell{Text: "1", Tone: report.Faint}
	}
	return report.ToldFrom(1, e)
}

// idleTable is how the neighbours themselves answered.
func (r reading) idleTable(a arm) report.Table {
	t := report.Table{
		Title:   r.titled("How the neighbours answered", a),
		Note:    "All neighbours together. A burst is from its intended start to its last answer; a dash where a burst is one request. Failed requests are of all sweeps.",
		Columns: []report.Column{{Head: "idle", Number: true}, {Head: "per second", Number: true}, {Head: "p50, ms", Number: true}, {Head: "p99, ms", Number: true}, {Head: "burst p50, ms", Number: true}, {Head: "failed", Number: true}, {Head: "critical failed", Number: true, Optional: true}},
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
			{Text: fmt.Sprint(n)}, report.Estimated(r.geometric(values(a.has(n), func(s Step) float64 { return s.Idle.Rate })), 1),
			report.Estimated(r.quantile(a, n, idle, 0.5), perMilli), report.Estimated(r.quantile(a, n, idle, 0.99), perMilli), report.Estimated(r.quantile(a, n, bursts, 0.5), perMilli), count(failed), count(critical),
		})
	}
	if quiet > 0 && quiet < all {
		t.Note += fmt.Sprintf(" In %s no neighbour had its turn while it was measured: that counts for nothing here.", report.Counted(quiet, "step"))
	}
	return t
}

// idleByPolicyTable is the same at the greatest number of neighbours of each policy.
func (r reading) idleByPolicyTable(arms []arm) report.Table {
	t := report.Table{
		Title:   "How the neighbours answered, by policy",
		Note:    "At each policy's greatest number of neighbours: what protecting the critical service leaves to those who lie idle. A burst is from its intended start to its last answer.",
		Columns: []report.Column{{Head: "policy"}, {Head: "idle", Number: true}, {Head: "p50, ms", Number: true}, {Head: "p99, ms", Number: true}, {Head: "burst p50, ms", Number: true}, {Head: "burst p99, ms", Number: true, Optional: true}},
	}
	for _, a := range arms {
		if len(a.numbers) == 0 {
			continue
		}
		n := a.greatest()
		t.Rows = append(t.Rows, []report.Cell{
			{Text: r.name(a)}, {Text: fmt.Sprint(n)},
			report.Estimated(r.quantile(a, n, idle, 0.5), perMilli), report.Estimated(r.quantile(a, n, idle, 0.99), perMilli),
			report.Estimated(r.quantile(a, n, bursts, 0.5), perMilli), report.Estimated(r.quantile(a, n, bursts, 0.99), perMilli),
		})
	}
	return t
}

// againstTable sets another policy against the base at each number of neighbours.
func (r reading) againstTable(base, other arm) report.Table {
	t := report.Table{
		Title:   fmt.Sprintf("%s, against %s", other.policy, base.policy),
		Note:    "In times, at the same number of neighbours and in the same blocks: throughput above 1 and latencies below 1 are better. Faint is what is not told from 1.",
		Columns: []report.Column{{Head: "idle", Number: true}, {Head: "memory, times", Number: true}, {Head: "throughput", Number: true}, {Head: "p99", Number: true}, {Head: "p50", Number: true, Optional: true}, {Head: "idle p50", Number: true}, {Head: "idle p99", Number: true, Optional: true}},
	}
	if bases := r.bases(); len(bases) > 1 {
		t.Title += " (" + base.group + ", " + base.order + ")"
	}
	for _, n := range shared(base, other) {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: fmt.Sprint(n)}, overcommitCell(r.overcommit(other, n).Value), report.ToldFrom(1, r.throughputAgainst(base, other, n)),
			report.ToldFrom(1, r.quantileAgainst(base, other, n, open, 0.99)), report.ToldFrom(1, r.quantileAgainst(base, other, n, open, 0.5)),
			report.ToldFrom(1, r.quantileAgainst(base, other, n, idle, 0.5)), report.ToldFrom(1, r.quantileAgainst(base, other, n, idle, 0.99)),
		})
	}
	return t
}

// compared are two arms that differ in their swap alone.
type compared struct{ base, other arm }

// devices are the pairs of arms by which it is told whether the swap device matters.
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

// differ tells whether two arms differ in one factor, and no other.
func differ(a, b arm, factor string) bool {
	for _, f := range []string{FactorSwap, FactorProtect, FactorCluster, FactorExtend, FactorNoise, FactorBox} {
		if (a.factor(f) != b.factor(f)) != (f == factor) {
			return false
		}
	}
	return true
}

// deviceTable answers S3's remark that the swap device hardly matters.
func (r reading) deviceTable() []report.Part {
	t := report.Table{
		Title: "Does the swap device matter?",
		Note: "Ratios at the same number of neighbours and in the same blocks: at the first number for which the base's throughput is told to fall, and at the greatest that both have. " +
			"What differs is judged for all rows together (Bonferroni). Falls at is the memory asked for, in times the box's, where throughput begins to fall, of each by itself: places whose intervals do not meet differ.",
		Columns: []report.Column{{Head: "swap"}, {Head: "memory, times", Number: true}, {Head: "throughput", Number: true}, {Head: "p99", Number: true}, {Head: "what differs"}, {Head: "falls at", Number: true, Optional: true}, {Head: "the other", Number: true, Optional: true}},
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
			t.Rows = append(t.Rows, []report.Cell{{Text: d.other.factor(FactorSwap) + " against " + d.base.factor(FactorSwap)}, overcommitCell(r.overcommit(d.base, n).Value), report.ToldFrom(1, rate), report.ToldFrom(1, tail), {Text: matters(decides.throughputAgainst(d.base, d.other, n), decides.quantileAgainst(d.base, d.other, n, open, 0.99))}, placeCell(with), placeCell(of)})
		}
	}
	return report.Filled(t)
}

// matters says in a word whether two ratios are told from 1.
func matters(rate, tail stats.Estimate) string {
	switch {
	case rate.ToldFrom(1) && tail.ToldFrom(1):
		return "both"
	case rate.ToldFrom(1):
		return "throughput"
	case tail.ToldFrom(1):
		return "the p99"
	case rate.Known() && tail.Known():
		return "nothing that is told"
	}
	return "not known"
}

// agreementTable tells whether repeats of the same step say the same.
func (r reading) agreementTable() []report.Part {
	t := report.Table{
		Title: "Do repeats of the same step agree?",
		Note: "Steps of which some value lies in the interval of every repeat's own requests: that chance within a repeat accounts for their differing. Requests that wait behind one stall are slow together, which these intervals count: they are from how much spans of time within a load differ. " +
			"A p99 without an upper end in any repeat, which so few or so clustered requests do not bound, could not disagree, and is counted apart. Spread is the greatest repeat over the least, where they differ most. " +
			"Where few agree, what differs between sweeps (what was evicted, and when) is more than a step can tell; intervals in the other tables are over sweeps, and have it in them.",
		Columns: []report.Column{{Head: "policy"}, {Head: "sweeps", Number: true}, {Head: "throughput agrees", Number: true}, {Head: "spread, times", Number: true}, {Head: "p99 agrees", Number: true}, {Head: "spread, times", Number: true}},
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
		t.Note += " Some repeats are not told in spans: they were kept before tare did that, or are too short, or loaded by a program of their own. Their requests are taken for independent, which makes their intervals too narrow."
	}
	return []report.Part{t}
}
