package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tare/overhead"
	"tare/record"
)

// An outcome is one row as a threshold judged it.
type outcome struct {
	name   string // "docker on redis's get rate"
	status overhead.Status
	// The change in percent with its interval, and that interval as it was judged.
	percent, low, high    float64
	judgedLow, judgedHigh float64
	why                   string // there is no interval
	withheld              string // it does not pass though its interval does
}

// statusTone gives a status the tone of the verdict that is like it.
var statusTone = map[overhead.Status]Tone{overhead.Passed: Good, overhead.Exceeded: Bad, overhead.Undecided: Unsure}

// worseFirst orders outcomes by their change; those without a figure come last.
func worseFirst(a, b float64) int {
	switch {
	case finite(a) && finite(b):
		return cmp.Compare(b, a)
	case finite(a):
		return -1
	case finite(b):
		return 1
	}
	return 0
}

// thresholdAnswer says in a sentence how rows stand against a threshold. allowance,
// where it is not empty, says what their intervals were widened by.
func thresholdAnswer(t overhead.Threshold, rows []outcome, allowance string) string {
	slices.SortStableFunc(rows, func(a, b outcome) int { return worseFirst(a.percent, b.percent) })
	of := func(status overhead.Status) []outcome {
		return slices.DeleteFunc(slices.Clone(rows), func(o outcome) bool { return o.status != status })
	}
	allowed, with := "worse by more than the "+ratioText(t.FailAbove)+" % allowed", ""
	if allowance != "" {
		with = "with " + allowance + ", "
	}
	exceeded, undecided, passed := of(overhead.Exceeded), of(overhead.Undecided), of(overhead.Passed)
	switch {
	case len(exceeded) > 0:
		o := exceeded[0]
		text := o.name + " is " + allowed + ": by " + percentText(o.percent, o.low, o.high) + " % (" + plainSpan(o.low, o.high) + ")"
		if with != "" {
			text += ", and " + with + "by " + plainSpan(o.judgedLow, o.judgedHigh) + " %"
		}
		return text + more(len(exceeded)-1, "exceeded it too") + "."
	case len(undecided) > 0:
		o := undecided[0]
		text := "Whether " + o.name + " is " + allowed + " is inconclusive: "
		switch {
		case o.withheld != "":
			text += clean(o.withheld)
		case o.judgedLow > 100*t.FailAbove:
			text += fmt.Sprintf("it exceeds by itself, but not surely as one of %d rows (Holm)", len(rows))
		case bounded(o.percent, o.judgedLow, o.judgedHigh):
			text += with + "it is " + worseText(o.judgedLow, o.judgedHigh)
		default:
			text += o.why
		}
		return text + more(len(undecided)-1, "inconclusive too") + "."
	case len(passed) > 0:
		o := passed[0]
		return "Nothing is " + allowed + ". The nearest to it is " + o.name + ": " + with + worseText(o.judgedLow, o.judgedHigh) + "."
	}
	return "No primary metric was measured: the threshold of " + ratioText(t.FailAbove) + " % cannot be judged."
}

// RunThresholdAnswer says how a run stands against its threshold; it is empty where
// the run has none.
func RunThresholdAnswer(run record.Run, rep overhead.Report) string {
	if rep.Threshold.FailAbove == 0 {
		return ""
	}
	var rows []outcome
	for _, g := range rep.Groups {
		for _, m := range g.Metrics {
			for _, r := range m.Rows {
				if r.Status == "" {
					continue
				}
				o := outcome{
					name:       label(r) + " on " + possessive(clean(g.Workload)) + " " + quantity(m),
					status:     r.Status,
					percent:    r.Percent,
					low:        r.PercentLow,
					high:       r.PercentHigh,
					judgedLow:  r.PercentLow,
					judgedHigh: r.PercentHigh,
					why:        reason(r, run),
					withheld:   r.Withheld,
				}
				if g.Blocks == 0 && g.Tainted > 0 {
					o.judgedLow, o.judgedHigh, o.why = math.NaN(), math.NaN(), "every block was disturbed from outside"
				}
				rows = append(rows, o)
			}
		}
	}
	return thresholdAnswer(rep.Threshold, rows, "")
}
