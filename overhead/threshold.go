package overhead

import (
	"math"

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
func (t *Threshold) judge(rows []worsening, level float64) []Status {
	limit := 100 * t.FailAbove
	exceeded := stats.StepDown(len(rows), 1-level, func(i int, level float64) bool {
		low, _ := rows[i](level)
		return low > limit
	})
	all := make([]Status, len(rows))
	t.Status = Passed
	if len(rows) == 0 {
		t.Status = Undecided
	}
	for i, row := range rows {
		_, high := row(level)
		switch {
		case exceeded[i]:
			all[i], t.Status = Exceeded, Exceeded
			continue
		case high <= limit:
			all[i] = Passed
			continue
		}
		all[i] = Undecided
		if t.Status == Passed {
			t.Status = Undecided
		}
	}
	return all
}

// judgeThreshold judges every primary metric of every condition against the run's
// baseline: all were measured in the same blocks, so no drift lies between them.
func (r *Report) judgeThreshold(run record.Run, ls []*layout, opt Options) {
	r.Threshold.FailAbove = run.Plan.FailAbove
	if r.Threshold.FailAbove == 0 {
		return
	}
	var judged []*Row
	var rows []worsening
	for g, l := range ls {
		for i, m := range l.metrics {
			if !m.Primary {
				continue
			}
			for j := range r.Groups[g].Metrics[i].Rows {
				if row := &r.Groups[g].Metrics[i].Rows[j]; !row.Baseline {
					judged = append(judged, row)
					rows = append(rows, l.worsening(m, row.Condition, opt))
				}
			}
		}
	}
	for i, status := range r.Threshold.judge(rows, opt.Level) {
		judged[i].Status = status
	}
}

// worsening of a condition against the baseline; not a number where every block is
// tainted or there is no baseline.
func (l *layout) worsening(m workload.Metric, condition string, opt Options) worsening {
	return func(level float64) (low, high float64) {
		if l.baseline < 0 {
			return math.NaN(), math.NaN()
		}
		opt.Level = level
		_, low, high = percent(l.pair(m, condition, false).ratio(opt), m.Better)
		return low, high
	}
}
