package density

import (
	"fmt"
	"math"

	"tare/claim"
	"tare/report"
	"tare/stats"
)

// published is a figure of S3 (published study of density) and its counterpart in a run.
type published struct {
	name, of string // of is the published figure's, in words
	unit     string
	ours     func(r reading, a arm) stats.Estimate
	scale    float64
}

// figuresOfS3 are those that stand in the paper, the numbers of neighbours as memory asked
// for over the host's: its neighbours held 34 GiB each, of 256 GiB.
func figuresOfS3() []published {
	c, err := claim.Lookup(judged)
	if err != nil {
		return nil
	}
	value := func(name string) float64 { f, _ := c.Figure(name); return f.Value }
	times := func(name string) string {
		return fmt.Sprintf("%.1f", value(name)*value("a neighbour's memory")/value("host memory"))
	}
	text := func(name string) string { f, _ := c.Figure(name); return f.Text() }
	return []published{
		{"memory demand where throughput falls", times("neighbours until throughput falls"), "times", func(r reading, a arm) stats.Estimate { return r.throughputCliff(a).overcommit }, 1},
		{"memory demand where it thrashes", times("neighbours until it thrashes"), "times", func(r reading, a arm) stats.Estimate { return r.thrash(a) }, 1},
		{"greatest memory demand", times("neighbours at most"), "times", func(r reading, a arm) stats.Estimate { return r.overcommit(a, a.greatest()) }, 1},
		{"throughput lost", text("throughput lost"), "%", func(r reading, a arm) stats.Estimate { return r.lost(a) }, 100},
		{
			"mean latency",
			text("mean latency"),
			"times",
			func(r reading, a arm) stats.Estimate { return r.momentRatio(a, a.settled(), open, meanOf) },
			1,
		},
		{
			"greatest latency",
			text("greatest latency"),
			"times",
			func(r reading, a arm) stats.Estimate { return r.momentRatio(a, a.settled(), open, greatestOf) },
			1,
		},
	}
}

// thrash is the memory asked for over the box's at which sweeps ended.
func (r reading) thrash(a arm) stats.Estimate {
	var all []float64
	for _, h := range a.halts() {
		all = append(all, h.overcommit)
	}
	if len(all) < len(a.sweeps) {
		return stats.Absent(r.Report.Level) // where some went on, a mean of the others would say too little
	}
	return r.geometric(all)
}

// lost is the part of throughput that is lost at the greatest number that every sweep
// went through, against the least.
func (r reading) lost(a arm) stats.Estimate { return lossOf(r.throughputRatio(a, a.settled())) }

// lossOf is what a ratio leaves of 1.
func lossOf(ratio stats.Estimate) stats.Estimate {
	e := ratio
	e.Value, e.Interval.Low, e.Interval.High = 1-ratio.Value, 1-ratio.Interval.High, 1-ratio.Interval.Low
	return e
}

// publishedTable sets S3's figures beside those of this run.
func (r reading) publishedTable() []report.Part {
	t := report.Table{
		Title: "Published figures and those of this run",
		Note:  "S3 (published study of density) gives no intervals. A dash: not reached in this run.",
		Method: "Figures of S3 are those of its text. Its numbers of neighbours, of 34 GiB each on 256 GiB, are given as memory demand over the host's memory, which carries over to other hosts. " +
			"Lost throughput and latencies compare the greatest number of neighbours that every sweep completed with the least.",
		Columns: []report.Column{{Head: "figure"}, {Head: "S3", Number: true}},
	}
	var arms []arm
	for _, a := range r.arms {
		if a.measured() && plain(a) {
			arms = append(arms, a)
			t.Columns = append(t.Columns, report.Column{Head: r.name(a), Number: true, Optional: len(arms) > 2})
		}
	}
	if len(arms) == 0 {
		return nil
	}
	for _, f := range figuresOfS3() {
		row := []report.Cell{{Text: f.name + ", " + f.unit}, {Text: f.of}}
		for _, a := range arms {
			e := f.ours(r, a)
			if math.IsNaN(e.Value) {
				row = append(row, report.Absent())
				continue
			}
			row = append(row, report.Estimated(e, f.scale))
		}
		t.Rows = append(t.Rows, row)
	}
	return []report.Part{t}
}
