package overhead

import (
	"fmt"
	"math"
	"slices"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// Status is the outcome against the worsening that a user does not accept.
type Status string

// The statuses. The zero value is of what no threshold judges.
const (
	Passed    Status = "passed"       // surely not worse than the threshold
	Exceeded  Status = "exceeded"     // surely worse
	Undecided Status = "inconclusive" // the interval holds the threshold, or there is no interval
)

// Threshold is the worsening that a user does not accept (0.05 is 5 %), and how
// the whole run or comparison stands against it. The zero value asks nothing.
type Threshold struct {
	FailAbove float64
	Status    Status
}

// A judged row is what a threshold judges, and what may withhold that it passes.
type judged struct {
	change worsening
	// withTainted is the change with the tainted blocks left in; nil where there are none.
	withTainted worsening
	// withheld says why the row does not pass, whatever its change; empty where it may.
	withheld string
}

// An outcome is a row's status; withheld says why it is not passed though its interval
// lies at or below the threshold.
type outcome struct {
	status   Status
	withheld string
}

// worsening gives the interval of a change in percent at a level of confidence:
// positive is worse, NaN where there is no interval.
type worsening func(level float64) (low, high float64)

// judge gives the status of each row, and from them the whole's.
//
// A row exceeds where its whole interval lies above the threshold, at a level that
// Holm's steps adjust for the number of rows: the chance that any of them exceeds
// falsely is at most 1 - level. It passes where its whole interval at the level
// itself lies at or below the threshold. The whole passes where all rows do, which
// needs no adjustment: one true exceedance that is missed is one interval's error.
//
// The interval is of what could be measured undisturbed. A version that fails, or that
// disturbs itself, must not pass by the trials that are left: see [tally.withheld]. The
// interval with the tainted blocks left in must pass too.
func (t *Threshold) judge(rows []judged, level float64) []outcome {
	limit := 100 * t.FailAbove
	exceeded := stats.StepDown(len(rows), 1-level, func(i int, level float64) bool {
		low, _ := rows[i].change(level)
		return low > limit
	})
	all := make([]outcome, len(rows))
	t.Status = Passed
	if len(rows) == 0 {
		t.Status = Undecided
	}
	for i, row := range rows {
		if exceeded[i] {
			all[i].status, t.Status = Exceeded, Exceeded
			continue
		}
		passes := func(change worsening) bool {
			_, high := change(level)
			return high <= limit
		}
		if passes(row.change) {
			all[i] = outcome{Passed, row.withheld}
			if row.withheld == "" && row.withTainted != nil && !passes(row.withTainted) {
				all[i].withheld = "it passes only without the tainted blocks"
			}
			if all[i].withheld == "" {
				continue
			}
		}
		all[i].status = Undecided
		if t.Status == Passed {
			t.Status = Undecided
		}
	}
	return all
}

// A tally counts a condition's trials.
type tally struct {
	trials, failed int // failed: yielded no value of a metric
	// Of the trials made for one place in a block, which are one here.
	places, disturbed int
}

// tally counts the trials of a condition. Those that an interruption of the run cut
// short are no failures of what they ran.
func (l *layout) tally(m workload.Metric, condition string) tally {
	var n tally
	for _, t := range l.trials {
		if t.Condition != condition || t.Error == record.NotEnded {
			continue
		}
		n.trials++
		if t.Error != "" || !yielded(t, m) {
			n.failed++
		}
	}
	for at, disturbed := range l.disturbed() {
		if at.condition == condition {
			n.places++
			if disturbed {
				n.disturbed++
			}
		}
	}
	return n
}

// yielded tells whether a trial has a value of a metric.
func yielded(t *record.Trial, m workload.Metric) bool {
	if m.Figure != "" {
		return slices.ContainsFunc(t.Slices, func(s record.Slice) bool { return s.Control == "" && s.Part == m.Part })
	}
	if m.Quantile != 0 {
		return t.Histograms[m.Histogram] != ""
	}
	return slices.ContainsFunc(t.Samples, func(s record.Sample) bool { return s.Metric == m.Name })
}

// withheld says why a condition may not pass by the trials that are left of it: a larger
// share of them failed than of the reference's, or a significantly larger share was
// disturbed (Fisher's exact test). Trials that were made again hide the latter from the
// intervals. It is empty where neither is so.
func (n tally) withheld(of tally, reference string) string {
	if n.failed*of.trials > of.failed*n.trials {
		return fmt.Sprintf("%d of its %d trials yielded nothing, against %d of %d of %s", n.failed, n.trials, of.failed, of.trials, reference)
	}
	if n.disturbed*of.places > of.disturbed*n.places &&
		stats.FisherExact(n.disturbed, n.places-n.disturbed, of.disturbed, of.places-of.disturbed) < significance {
		return fmt.Sprintf("%d of its %d trials were disturbed, against %d of %d of %s, which may be its own effect", n.disturbed, n.places, of.disturbed, of.places, reference)
	}
	return ""
}

// judgeThreshold judges every metric that carries a verdict, of every condition, against
// the run's baseline: all were measured in the same blocks, so no drift lies between them.
func (r *Report) judgeThreshold(run record.Run, ls []*layout, opt Options) {
	r.Threshold.FailAbove = run.Plan.FailAbove
	if r.Threshold.FailAbove == 0 {
		return
	}
	var of []*Row
	var rows []judged
	for g, l := range ls {
		for i, m := range l.metrics {
			if !l.carries(m.Name) {
				continue
			}
			for j := range r.Groups[g].Metrics[i].Rows {
				if row := &r.Groups[g].Metrics[i].Rows[j]; !row.Baseline {
					of = append(of, row)
					rows = append(rows, l.judged(m, row.Condition, opt))
				}
			}
		}
	}
	for i, o := range r.Threshold.judge(rows, opt.Level) {
		of[i].Status, of[i].Withheld = o.status, o.withheld
	}
}

// judged is a condition against the baseline; not a number where every block is
// tainted or there is no baseline.
func (l *layout) judged(m workload.Metric, condition string, opt Options) judged {
	if l.baseline < 0 {
		return judged{change: func(float64) (low, high float64) { return math.NaN(), math.NaN() }}
	}
	change := func(all bool) worsening {
		return func(level float64) (low, high float64) {
			opt.Level = level
			_, low, high = percent(l.pair(m, condition, all).ratio(opt), m.Better)
			return low, high
		}
	}
	row := judged{change: change(false), withheld: l.tally(m, condition).withheld(l.tally(m, l.baselineID()), "the baseline")}
	if l.anyTainted() {
		row.withTainted = change(true)
	}
	return row
}

func (l *layout) anyTainted() bool {
	if l.rounds {
		_, tainted := l.strips()
		return tainted > 0
	}
	return slices.ContainsFunc(l.blocks, func(b block) bool { return b.tainted })
}
