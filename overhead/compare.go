package overhead

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// CompareOptions are what a comparison of two runs may decide.
type CompareOptions struct {
	FailAbove float64 // worsening that a pipeline does not accept: 0.05 is 5 %; 0 asks nothing
	Drift     float64 // change of the host between the runs that is allowed for; 0 is DefaultDrift
}

// DefaultDrift is the change of the host between two runs that is allowed for
// where the user does not know it better.
const DefaultDrift = 0.10

// Comparison is a new run against an old one, value against value.
//
// The two were measured at different times. What changed on the host in between is
// in every difference, the intervals know nothing of it, and nothing in the two runs
// measures it. So each interval is widened by a bound on that drift before it is
// judged.
type Comparison struct {
	Old, New     string // run ids
	Level, Drift float64
	Threshold    Threshold
	Rows         []ComparisonRow // in the new run's order
	// Missing names what carries a verdict and is in one of the runs alone: no
	// threshold is kept with it.
	Missing []string
	// Unjudged says why these runs bear no verdict; empty where they do.
	Unjudged string
	Warnings []string // what else differs between the runs, first of all
}

// ComparisonRow is one metric of one condition that both runs have.
type ComparisonRow struct {
	Workload, Condition, Label, Platform string
	Metric, Unit                         string
	HigherIsBetter                       bool
	// The value of the metric in each run, and the factor from the old to the new.
	OldValue, NewValue, Change stats.Estimate
	// Overhead is the factor from the old overhead to the new, each against the
	// baseline of its own run: drift that strikes both alike cancels in it. It is not a
	// number for a baseline, decides nothing and is there to be read.
	Overhead stats.Estimate
	// Percent is the change in percent, positive where the new run is worse, with its
	// interval; DriftLow and DriftHigh are that interval widened by the drift.
	Percent, PercentLow, PercentHigh, DriftLow, DriftHigh float64
	// OverheadPercent is Overhead's change, likewise.
	OverheadPercent, OverheadLow, OverheadHigh float64
	// Judged rows, those of metrics that carry a verdict in either run, have a Verdict,
	// against no change, and a Status against the threshold, where there is one. Withheld
	// says why that is not passed though the interval is.
	Judged   bool
	Verdict  Verdict
	Status   Status
	Withheld string
}

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
	if opt.Drift == 0 {
		opt.Drift = DefaultDrift
	}
	analysis := Options{}.from(is)
	c := Comparison{
		Old:       was.ID,
		New:       is.ID,
		Level:     analysis.Level,
		Drift:     opt.Drift,
		Threshold: Threshold{FailAbove: opt.FailAbove},
	}
	if why, instead := unjudged(was, is); why != "" {
		c.Unjudged = why + ": " + instead
	}
	if was.Status == record.Imported || is.Status == record.Imported {
		var unclear []string
		was, is, unclear = aligned(was, is)
		c.Warnings = append(importedNotes(was, is), unclear...)
	} else {
		c.Warnings = hostDifferences(was.Host, is.Host)
		if was.Version != is.Version {
			c.Warnings = append(c.Warnings, changed("tare", was.Version, is.Version))
		}
		if was.Started.After(is.Started) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s, the old run, was measured after %s, the new one", was.ID, is.ID))
		}
	}
	before, old := map[string]*layout{}, layouts(was, analysis)
	for _, l := range old {
		before[l.workload] = l
	}
	var rows []judged
	for _, now := range layouts(is, analysis) {
		then := before[now.workload]
		if then == nil {
			c.missing("%s was not weighed in %s", now.workload, was.ID)
			continue
		}
		delete(before, now.workload)
		rows = append(rows, c.compareWorkload(then, now, analysis)...)
	}
	for _, l := range old {
		if before[l.workload] != nil {
			c.missing("%s was not weighed in %s", l.workload, is.ID)
		}
	}
	if len(c.Rows) == 0 {
		return c, &NothingInCommon{Old: was, New: is}
	}
	if c.Unjudged == "" {
		c.judge(rows)
	}
	return c, nil
}

func (c *Comparison) missing(format string, args ...any) {
	c.Missing = append(c.Missing, fmt.Sprintf(format, args...))
}

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// unjudged says why no verdict can rest on two runs, and what to do instead; both are empty where
// one can.
func unjudged(was, is record.Run) (why, instead string) {
	const elsewhere = "measure both on one host by tare weigh"
	for _, run := range []record.Run{was, is} {
		if run.Status == record.Imported {
			return run.ID + " was measured elsewhere, and nothing says that its figures are independent repetitions", elsewhere
		}
	}
	for _, d := range []struct{ what, was, is string }{
		{"host name", was.Host.Hostname, is.Host.Hostname},
		{"machine ID", cmp.Or(was.Host.Machine, is.Host.Machine), cmp.Or(is.Host.Machine, was.Host.Machine)},
		{"CPU", was.Host.CPUModel, is.Host.CPUModel},
		{"number of CPUs", fmt.Sprint(was.Host.CPUs), fmt.Sprint(is.Host.CPUs)},
		{"architecture", was.Host.Arch, is.Host.Arch},
	} {
		if d.was != d.is {
			return fmt.Sprintf("the runs are of different hosts (%s), which no bound on drift covers", changed(d.what, d.was, d.is)), elsewhere
		}
	}
	return differentWork(was, is)
}

// differentWork says why the figures of two runs are not of the same work, and what to do instead;
// both are empty where they are.
func differentWork(was, is record.Run) (why, instead string) {
	const same = "measure both with the same"
	for _, now := range is.Conditions {
		for _, then := range was.Conditions {
			if then.ID != now.ID {
				continue
			}
			if d := differences(then.Params, now.Params, nil); len(d) > 0 {
				return fmt.Sprintf("the runs did different work (%s: parameter %s)", now.ID, d[0]), same + " parameters"
			}
		}
	}
	for _, now := range is.Conditions {
		for _, then := range was.Conditions {
			if d := [2]string{
				designOf(was, then.Workload),
				designOf(is, now.Workload),
			}; then.Workload == now.Workload &&
				d[0] != d[1] {
				return fmt.Sprintf("%s was measured in %s in %s, and in %s in %s", now.Workload, d[0], was.ID, d[1], is.ID),
					"measure both by the same design (--design)"
			}
		}
	}
	if then, now := program(was), program(is); then != now {
		return fmt.Sprintf("the runs did different work (%s)", changed("command", then, now)), same + " command"
	}
	return "", ""
}

// designOf is by what design a workload of a run was measured.
func designOf(run record.Run, workload string) string {
	if run.Plan.InRounds(workload) {
		return record.DesignRounds
	}
	return record.DesignBlocks
}

// program is what a run's command line weighs by a command of its own.
func program(run record.Run) string {
	if at := slices.Index(run.Command, "--"); at >= 0 {
		return strings.Join(run.Command[at+1:], " ")
	}
	return ""
}

// compareWorkload adds a workload's rows, and gives what is judged of them.
func (c *Comparison) compareWorkload(then, now *layout, opt Options) (rows []judged) {
	for _, side := range []struct {
		run    string
		layout *layout
	}{{c.Old, then}, {c.New, now}} {
		if side.layout.allTainted() {
			c.warn("%s: %s of %s was disturbed from outside: nothing of it can be compared; measure it again on a quieter host", now.workload, side.layout.everything(), side.run)
		}
		for _, text := range side.layout.failures() {
			c.warn("%s: %s", side.run, text)
		}
	}
	for i := range now.conditions {
		condition := &now.conditions[i]
		old := then.condition(condition.ID)
		if old == nil {
			c.missing("%s is not in %s", condition.ID, c.Old)
			continue
		}
		if !then.imported && !now.imported {
			c.Warnings = append(c.Warnings, conditionDifferences(old, condition)...)
		}
		for _, m := range condition.Metrics {
			if !hasMetric(old, m) {
				c.alone(condition.ID, m, now, c.Old)
				continue
			}
			row, at := compareMetric(then, now, condition, m, opt, c.Drift)
			if c.Rows = append(c.Rows, row); row.Judged {
				rows = append(rows, at)
			}
		}
		for _, m := range old.Metrics {
			if !hasMetric(condition, m) {
				c.alone(condition.ID, m, then, c.New)
			}
		}
	}
	for i := range then.conditions {
		if now.condition(then.conditions[i].ID) == nil {
			c.missing("%s is not in %s", then.conditions[i].ID, c.New)
		}
	}
	return rows
}

// alone tells of a metric that one of the runs has not, and the other in a layout.
func (c *Comparison) alone(condition string, m workload.Metric, in *layout, absent string) {
	tell := c.warn
	if in.carries(m.Name) {
		tell = c.missing
	}
	tell("%s of %s is not in %s", m.Name, condition, absent)
}

// compareMetric makes a row, and gives it as it is judged: its change is widened by the drift.
func compareMetric(
	then, now *layout,
	c *record.Condition,
	m workload.Metric,
	opt Options,
	drift float64,
) (ComparisonRow, judged) {
	before, after := then.figures(m, c.ID, false), now.figures(m, c.ID, false)
	change := func(before, after []figure, at float64) stats.Estimate {
		p := pairs{metric: m, base: before, treatment: after}
		p.fewProcesses = slices.Contains(then.fewProcesses, c.ID) || slices.Contains(now.fewProcesses, c.ID)
		if p.exact() && positive(before) && positive(after) {
			return stats.ExactRatio(values(before), values(after), at)
		}
		if logarithmic(m) && positive(before) && positive(after) {
			return stats.UnpairedRatio(values(before), values(after), at)
		}
		leveled := opt
		leveled.Level = at
		return mover(level(m, before, leveled), level(m, after, leveled), at)
	}
	widened := func(before, after []figure) worsening {
		return func(at float64) (low, high float64) {
			e := change(before, after, at)
			e.Interval.Low /= 1 + drift
			e.Interval.High *= 1 + drift
			_, low, high = percent(e, m.Better)
			return low, high
		}
	}
	at := judged{change: widened(before, after), withheld: now.tally(m, c.ID).withheld(then.tally(m, c.ID), "the old run")}
	if then.anyTainted() || now.anyTainted() {
		at.withTainted = widened(then.figures(m, c.ID, true), now.figures(m, c.ID, true))
	}
	row := ComparisonRow{
		Workload:       now.workload,
		Condition:      c.ID,
		Label:          label(*c),
		Platform:       c.Platform,
		Metric:         m.Name,
		Unit:           m.Unit,
		HigherIsBetter: m.Better == workload.Higher,
		Judged:         then.carries(m.Name) || now.carries(m.Name),
		OldValue:       level(m, before, opt),
		NewValue:       level(m, after, opt),
		Change:         change(before, after, opt.Level),
	}
	row.Percent, row.PercentLow, row.PercentHigh = percent(row.Change, m.Better)
	row.DriftLow, row.DriftHigh = at.change(opt.Level)
	row.Overhead = absent(opt)
	if then.hasOverhead(c.ID) && now.hasOverhead(c.ID) && then.baselineID() == now.baselineID() {
		a, b := then.pair(m, c.ID, false), now.pair(m, c.ID, false)
		if logarithmic(m) && a.positive() && b.positive() {
			row.Overhead = stats.UnpairedRatio(a.ratios(), b.ratios(), opt.Level)
		} else {
			row.Overhead = mover(a.ratio(opt), b.ratio(opt), opt.Level)
		}
	}
	row.OverheadPercent, row.OverheadLow, row.OverheadHigh = percent(row.Overhead, m.Better)
	return row, at
}

// judge gives the judged rows their verdicts and, where there is a threshold, them and
// the whole their status.
func (c *Comparison) judge(judged []judged) {
	var rows []*ComparisonRow
	for i := range c.Rows {
		if c.Rows[i].Judged {
			rows = append(rows, &c.Rows[i])
		}
	}
	for i, changed := range stats.StepDown(len(judged), 1-c.Level, func(i int, level float64) bool {
		low, high := judged[i].change(level)
		return low > 0 || high < 0
	}) {
		switch {
		case !changed:
			rows[i].Verdict = Inconclusive
		case rows[i].Percent > 0:
			rows[i].Verdict = Worse
		default:
			rows[i].Verdict = Better
		}
	}
	if c.Threshold.FailAbove == 0 {
		return
	}
	for i, o := range c.Threshold.judge(judged, c.Level) {
		rows[i].Status, rows[i].Withheld = o.status, o.withheld
	}
	if len(c.Missing) > 0 && c.Threshold.Status == Passed {
		c.Threshold.Status = Undecided
	}
}

// logarithmic tells whether a metric has a log value in each block: quantiles
// are those of merged histograms, and counts may be zero.
func logarithmic(m workload.Metric) bool { return m.Quantile == 0 && !m.Count }

// hasMetric tells whether a condition has the metric m: by name, unit and direction.
func hasMetric(c *record.Condition, m workload.Metric) bool {
	return slices.ContainsFunc(c.Metrics, func(o workload.Metric) bool {
		return o.Name == m.Name && o.Unit == m.Unit && o.Better == m.Better
	})
}

// hasOverhead tells whether a condition's trials are paired with a baseline's.
func (l *layout) hasOverhead(condition string) bool {
	return l.baseline >= 0 && !l.unpaired && !l.isBaseline(condition)
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

// figures gives a condition's figures in the untainted blocks, or in all.
func (l *layout) figures(m workload.Metric, condition string, all bool) []figure {
	var figures []figure
	for i := range l.blocks {
		if b := &l.blocks[i]; all || !b.tainted {
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
