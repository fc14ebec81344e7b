package overhead

import (
	"math"
	"slices"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// A family is the comparisons whose verdicts hold together: the chance that any
// of them is false is that which a single comparison would have by itself. All
// comparisons of the metrics that carry a run's verdict form one, over all its
// workloads; all others form a second. The baseline against itself is in neither.
type family struct {
	opt     Options
	members []*comparison
}

// A comparison is a condition's row of a metric before its family has judged it.
type comparison struct {
	row    *Row
	metric workload.Metric
	pairs  pairs
	sd     float64 // of the log ratios
	// disturbed says that every block is tainted, so that nothing is decided; unjudged why
	// the design bears no verdict on what varies, empty where it does.
	disturbed bool
	unjudged  string
}

// decidable tells whether there is anything to decide: without an interval, and
// where nothing was measured undisturbed, there is no test that could be false.
func (c *comparison) decidable() bool {
	if c.pairs.rounds && len(c.pairs.blocks) < fewestBlocks {
		return false // an interval of so few rounds is shown, and decides nothing
	}
	return !c.disturbed && c.unjudged == "" && (c.row.Ratio.Known() || c.row.Difference.Known())
}

// rounded tells of equal values in all repetitions of a condition, enough for a verdict, of
// a metric that is not exact: they have too few digits to show how they vary.
func (c *comparison) rounded() bool {
	const equal = 1e-12 // in the spread of logarithms, but for rounding
	return len(c.pairs.blocks) >= fewestBlocks && !c.pairs.rounds && c.sd < equal && !c.row.Ratio.Known()
}

// size is the number of comparisons that are judged together.
func (f family) size() int {
	n := 0
	for _, c := range f.members {
		if c.decidable() {
			n++
		}
	}
	return n
}

// level is that at which one comparison would have to be decided were no other.
func (f family) level() float64 { return 1 - (1-f.opt.Level)/float64(max(1, f.size())) }

// judge gives each row its verdict, by intervals in the steps of Holm (1979): those
// that are decided at the level 1-alpha/k, where k are undecided, leave fewer, which
// the next step judges at a lower level. A comparison counts once, though it may
// turn out different or equivalent: at most one of the two can be false of it
// (Shaffer 1986).
func (f family) judge() {
	var open []*comparison
	for _, c := range f.members {
		c.row.Alone = Inconclusive
		if c.decidable() {
			c.row.Alone = judge(c.row.Ratio, c.row.Difference, c.metric.Better, f.opt.SmallestEffect)
			open = append(open, c)
		}
		c.settle(Inconclusive, c.row.Ratio, c.row.Difference)
	}
	alpha := 1 - f.opt.Level
	decided := stats.StepDown(len(open), alpha, func(i int, level float64) bool {
		c := open[i]
		if c.row.Alone == Inconclusive {
			return false // nor does a wider interval decide it
		}
		ratio, difference := c.at(level, f.opt)
		verdict := judge(ratio, difference, c.metric.Better, f.opt.SmallestEffect)
		if verdict != Inconclusive {
			c.settle(verdict, ratio, difference)
		}
		return verdict != Inconclusive
	})
	left := 0
	for _, is := range decided {
		if !is {
			left++
		}
	}
	at := f.opt
	at.Level = 1 - alpha/float64(max(1, left))
	for i, c := range open {
		if !decided[i] {
			ratio, difference := c.at(at.Level, f.opt)
			c.settle(Inconclusive, ratio, difference)
		}
	}
	for _, c := range f.members {
		switch {
		case c.disturbed:
			c.row.Needs = "a quieter host"
		case c.unjudged != "":
			c.row.Needs = bearsVerdict(c.unjudged)
		case c.row.Verdict == Inconclusive && c.pairs.withinProcesses():
			c.row.Needs = "five runs of the program, counted by --block"
		case c.row.Verdict == Inconclusive && c.rounded():
			c.row.Needs = "values with more digits"
		case c.row.Verdict == Inconclusive:
			unit := "blocks"
			switch {
			case c.pairs.rounds && c.row.RatioAll.N > c.row.Ratio.N:
				unit = "undisturbed rounds"
			case c.pairs.rounds:
				unit = "rounds"
			case c.pairs.unpaired:
				unit = "repetitions under each condition"
			}
			c.row.Needs, c.row.NeedsBlocks = needs(c.row.Ratio, c.sd, at, unit)
		}
	}
}

// bearsVerdict is the design that would, for a reason why one does not ([record.Import]).
func bearsVerdict(why string) string {
	switch why {
	case record.NotInterleaved:
		return "both measured in turn, several times"
	case record.DependentRepetitions:
		return "independent runs, counted by --block"
	}
	return "another design"
}

// at is a comparison at another level; the difference only where no ratio has an
// interval at it.
func (c *comparison) at(level float64, opt Options) (ratio, difference stats.Estimate) {
	if level == opt.Level {
		return c.row.Ratio, c.row.Difference
	}
	opt.Level = level
	ratio, difference = c.pairs.ratio(opt), absent(opt)
	if !ratio.Known() {
		difference = c.pairs.difference(opt)
	}
	return ratio, difference
}

func (c *comparison) settle(verdict Verdict, ratio, difference stats.Estimate) {
	row := c.row
	row.Verdict, row.Adjusted, row.AdjustedDifference = verdict, ratio.Interval, difference.Interval
	_, row.AdjustedLow, row.AdjustedHigh = percent(ratio, c.metric.Better)
	row.Differs = c.decidable() && differs(ratio.Interval, difference.Interval)
}

// Primaries are the metrics that carry a workload's verdict: those marked, or else
// the first.
func (g Group) Primaries() []MetricReport {
	var carrying []MetricReport
	for i, m := range g.Metrics {
		if g.carries(i) {
			carrying = append(carrying, m)
		}
	}
	return carrying
}

func (g Group) carries(i int) bool {
	return carries(g.Metrics, i, func(m MetricReport) bool { return m.Primary })
}

// carries tells whether a metric of a layout carries its workload's verdict.
func (l *layout) carries(name string) bool {
	i := slices.IndexFunc(l.metrics, func(m workload.Metric) bool { return m.Name == name })
	return i >= 0 && carries(l.metrics, i, func(m workload.Metric) bool { return m.Primary })
}

// carries tells whether the i-th metric of a workload carries its verdict: it is
// primary, or none is and it is the first. Verdicts, thresholds and stopping rest on
// the same metrics.
func carries[M any](metrics []M, i int, primary func(M) bool) bool {
	return primary(metrics[i]) || i == 0 && !slices.ContainsFunc(metrics, primary)
}

// Comparisons is how many comparisons of the metrics that carry the verdict are
// judged together.
func (r Report) Comparisons() int {
	n := 0
	for _, g := range r.Groups {
		for _, m := range g.Primaries() {
			n = max(n, m.Comparisons)
		}
	}
	return n
}

// Overruled tells whether a row's own interval decides otherwise than its family does.
func (r Row) Overruled() bool {
	return r.Alone != "" && r.Alone != r.Verdict && !r.Baseline
}

// floor is the smallest ratio-effect that a run could have resolved, for the worst of
// a metric's comparisons.
func floor(of []*comparison, level float64) float64 {
	// Of comparisons over as many blocks the noisiest resolves least.
	noisiest := map[int]float64{}
	for _, c := range of {
		n := len(c.pairs.blocks)
		noisiest[n] = max(noisiest[n], known(c.sd))
	}
	floor := math.NaN()
	for n, sd := range noisiest {
		floor = worst(floor, stats.DetectableEffect(sd, n, level, power))
	}
	return floor
}

// known is 0 for what is not.
func known(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
