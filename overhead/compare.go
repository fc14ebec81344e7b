package overhead

import (
	"fmt"
	"strings"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// CompareOptions are what a comparison of two runs may decide.
type CompareOptions struct {
	Options // zero fields are the new run's
	// FailAbove is the worsening that a pipeline does not accept, as a
	// ratio-effect: 0.05 is 5 %. nil asks nothing.
	FailAbove *float64
	// Raw judges the values themselves instead of the overheads.
	Raw bool
}

// Comparison is a new run against an old one.
//
// The two were measured at different times, so nothing pairs their blocks: all
// that changed on the host between them is in the difference. By default each
// condition's overhead against the baseline of its own run is compared, in
// which what slows both alike cancels. Comparing the values themselves is
// weaker, and is shown beside it.
type Comparison struct {
	Old, New              string // run ids
	SmallestEffect, Level float64
	FailAbove             *float64
	Rows                  []ComparisonRow // in the new run's order
	Warnings              []string        // what else differs between the runs, first of all
	Status                Status
}

// ComparisonRow is one metric of one condition that both runs have.
type ComparisonRow struct {
	Workload, Condition, Label, Platform string
	Metric, Unit                         string
	Primary, HigherIsBetter, Baseline    bool
	// The value of the metric in each run.
	OldValue, NewValue stats.Estimate
	// The overhead (ratio to the own baseline) in each run; zero for the baseline.
	OldOverhead, NewOverhead stats.Estimate
	// Value is the factor from the old value to the new, Overhead that from
	// the old overhead to the new (zero for the baseline).
	Value, Overhead stats.Estimate
	// Basis says which of the two is judged, and stands behind what follows.
	Basis Basis
	// Percent is the change in percent, positive where the new run is worse.
	Percent, PercentLow, PercentHigh float64
	Verdict                          Verdict
	// Judged rows make the comparison's Status: the primary metrics of the
	// conditions that the comparison is about.
	Judged bool
	Status Status
}

// Basis is what of two runs is compared.
type Basis string

// The bases.
const (
	ByOverhead Basis = "overhead" // each against its own baseline
	ByValue    Basis = "value"    // as measured, the host's drift included
)

// Status is the outcome against CompareOptions.FailAbove; its number is the
// exit code that stands for it everywhere in tare.
type Status int

// The statuses.
const (
	Passed    Status = 0 // no threshold, or surely not worse than it
	Exceeded  Status = 4 // surely worse than the threshold
	Undecided Status = 5 // the interval holds the threshold
)

// NothingInCommon says that two runs cannot be compared.
type NothingInCommon struct{ Old, New record.Run }

func (e *NothingInCommon) Error() string {
	list := func(r record.Run) string {
		var ids []string
		for _, c := range r.Conditions {
			ids = append(ids, c.ID)
		}
		const few = 3
		switch {
		case len(ids) == 0:
			return "nothing"
		case len(ids) > few:
			return fmt.Sprintf("%d conditions such as %s", len(ids), ids[0])
		}
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("the runs have no condition with a metric in common: %s weighed %s; %s weighed %s", e.Old.ID, list(e.Old), e.New.ID, list(e.New))
}

// Compare compares two runs, condition by condition (by ID, or by the levels of
// their factors where one was measured elsewhere) and metric by metric (by name). Its error is a *NothingInCommon.
func Compare(was, is record.Run, opt CompareOptions) (Comparison, error) {
	opt.Options = opt.Options.from(is)
	c := Comparison{Old: was.ID, New: is.ID, SmallestEffect: opt.SmallestEffect, Level: opt.Level, FailAbove: opt.FailAbove}
	warn := func(all ...string) { c.Warnings = append(c.Warnings, all...) }
	alone := warn // what is in one of the runs alone
	var left []string
	if was.Status == record.Imported || is.Status == record.Imported {
		alone = func(all ...string) { left = append(left, all...) }
		var unclear []string
		was, is, unclear = aligned(was, is)
		c.Warnings = append(importedNotes(was, is), unclear...)
	} else {
		c.Warnings = hostDifferences(was.Host, is.Host)
		if was.Version != is.Version {
			c.Warnings = append(c.Warnings, changed("tare", was.Version, is.Version))
		}
	}
	before := map[string]*layout{}
	for _, l := range layouts(was, opt.Options) {
		before[l.workload] = l
	}
	for _, now := range layouts(is, opt.Options) {
		then := before[now.workload]
		if then == nil {
			alone(fmt.Sprintf("%s was not weighed in %s", now.workload, was.ID))
			continue
		}
		delete(before, now.workload)
		c.Rows = append(c.Rows, compareWorkload(then, now, was.ID, is.ID, opt, warn, alone)...)
	}
	for _, l := range layouts(was, opt.Options) { // in order
		if before[l.workload] != nil {
			alone(fmt.Sprintf("%s was not weighed in %s", l.workload, is.ID))
		}
	}
	warn(summed(left)...)
	if len(c.Rows) == 0 {
		return c, &NothingInCommon{Old: was, New: is}
	}
	c.judge()
	return c, nil
}

// summed tells of many things that one of two runs has alone by their number: who
// measured elsewhere measured other things too.
func summed(left []string) []string {
	const few = 3
	if len(left) <= few {
		return left
	}
	return []string{fmt.Sprintf("%d cells, conditions and metrics are in one of the runs alone, and are left out: %s, and others", len(left), left[0])}
}

func compareWorkload(then, now *layout, was, is string, opt CompareOptions, warn, alone func(...string)) (rows []ComparisonRow) {
	for _, side := range []struct {
		run    string
		layout *layout
	}{{was, then}, {is, now}} {
		if side.layout.allTainted() {
			warn(fmt.Sprintf("%s: every block of %s was disturbed from outside: nothing of it can be compared; measure it again on a quieter host", now.workload, side.run))
		}
	}
	overheads := !opt.Raw
	if a, b := then.baselineID(), now.baselineID(); overheads && (a == "" || a != b) {
		overheads = false
		warn(fmt.Sprintf("%s: the runs have different baselines (%s, %s): values are compared instead of overheads", now.workload, orNone(a), orNone(b)))
	}
	// A workload of which only the baseline is in both runs has no overhead
	// to compare.
	onlyBaseline := true
	for _, c := range now.conditions {
		if !now.isBaseline(c.ID) && then.condition(c.ID) != nil {
			onlyBaseline = false
		}
	}
	if overheads && onlyBaseline && then.condition(now.baselineID()) != nil {
		overheads = false
		warn(fmt.Sprintf("%s: only the baseline is in both runs: its values are compared, which carry all that changed on the host", now.workload))
	}
	for i := range now.conditions {
		condition := &now.conditions[i]
		old := then.condition(condition.ID)
		if old == nil {
			alone(fmt.Sprintf("%s is not in %s", condition.ID, was))
			continue
		}
		if !then.imported && !now.imported {
			warn(conditionDifferences(old, condition)...)
		}
		for _, m := range condition.Metrics {
			if !hasMetric(old, m) {
				alone(fmt.Sprintf("%s of %s is not in %s", m.Name, condition.ID, was))
				continue
			}
			rows = append(rows, compareMetric(then, now, condition, m, overheads, opt))
		}
	}
	for i := range then.conditions {
		if now.condition(then.conditions[i].ID) == nil {
			alone(fmt.Sprintf("%s is not in %s", then.conditions[i].ID, is))
		}
	}
	return rows
}

func compareMetric(then, now *layout, c *record.Condition, m workload.Metric, overheads bool, opt CompareOptions) ComparisonRow {
	row := ComparisonRow{
		Workload: now.workload, Condition: c.ID, Label: label(*c), Platform: c.Platform,
		Metric: m.Name, Unit: m.Unit, Primary: m.Primary, HigherIsBetter: m.Better == workload.Higher,
		Baseline: now.isBaseline(c.ID),
	}
	before, after := then.untainted(m, c.ID), now.untainted(m, c.ID)
	row.OldValue, row.NewValue = level(m, before, opt.Options), level(m, after, opt.Options)
	if logarithmic(m) && positive(before) && positive(after) {
		row.Value = stats.UnpairedRatio(values(before), values(after), opt.Level)
	} else {
		row.Value = mover(row.OldValue, row.NewValue, opt.Level)
	}
	if !row.Baseline && then.baseline >= 0 && now.baseline >= 0 && !then.isBaseline(c.ID) {
		a, b := then.pair(m, c.ID, false), now.pair(m, c.ID, false)
		row.OldOverhead, row.NewOverhead = a.ratio(opt.Options), b.ratio(opt.Options)
		if logarithmic(m) && a.positive() && b.positive() && !a.unpaired && !b.unpaired {
			row.Overhead = stats.UnpairedRatio(a.ratios(), b.ratios(), opt.Level)
		} else {
			row.Overhead = mover(row.OldOverhead, row.NewOverhead, opt.Level)
		}
	}
	change := row.Value
	row.Basis = ByValue
	if overheads && !row.Baseline {
		row.Basis, change = ByOverhead, row.Overhead
	}
	row.Judged = m.Primary && (row.Basis == ByOverhead || !overheads)
	row.Percent, row.PercentLow, row.PercentHigh = percent(change, m.Better)
	row.Verdict = judge(change, absent(opt.Options), m.Better, opt.SmallestEffect)
	return row
}

// judge gives each judged row, and from them the whole, its status: one row
// surely beyond the threshold is enough, and short of that one row that might be.
func (c *Comparison) judge() {
	if c.FailAbove == nil {
		return
	}
	judged := 0
	for i := range c.Rows {
		row := &c.Rows[i]
		if !row.Judged {
			continue
		}
		judged++
		row.Status = Undecided
		switch limit := 100 * *c.FailAbove; {
		case row.PercentLow > limit:
			row.Status = Exceeded
		case row.PercentHigh <= limit:
			row.Status = Passed
		}
		switch {
		case row.Status == Exceeded:
			c.Status = Exceeded
		case row.Status == Undecided && c.Status == Passed:
			c.Status = Undecided
		}
	}
	if judged == 0 {
		c.Status = Undecided
		c.Warnings = append(c.Warnings, "no primary metric is in both runs: the threshold cannot be judged")
	}
}

// logarithmic tells whether a metric has a log value in each block: quantiles
// are those of merged histograms, and counts may be zero.
func logarithmic(m workload.Metric) bool { return m.Quantile == 0 && !m.Count }

func hasMetric(c *record.Condition, m workload.Metric) bool {
	for _, o := range c.Metrics {
		if o.Name == m.Name {
			return o.Unit == m.Unit && o.Better == m.Better
		}
	}
	return false
}

func (l *layout) condition(id string) *record.Condition {
	for i := range l.conditions {
		if l.conditions[i].ID == id {
			return &l.conditions[i]
		}
	}
	return nil
}

func (l *layout) baselineID() string {
	if l.baseline < 0 {
		return ""
	}
	return l.conditions[l.baseline].ID
}

// untainted gives a condition's figures in the untainted blocks.
func (l *layout) untainted(m workload.Metric, condition string) []figure {
	var figures []figure
	for i := range l.blocks {
		if b := &l.blocks[i]; !b.tainted {
			if f, ok := b.figure(condition, m); ok {
				figures = append(figures, f)
			}
		}
	}
	return figures
}

func (p pairs) positive() bool { return positive(p.base) && positive(p.treatment) }

// ratios are those of the blocks.
func (p pairs) ratios() []float64 {
	ratios := make([]float64, len(p.base))
	for i := range ratios {
		ratios[i] = p.treatment[i].value / p.base[i].value
	}
	return ratios
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
