// Package overhead turns a run's trials into overheads: for each metric the
// effect of each condition against the baseline, paired within blocks, with an
// interval and a verdict against the smallest effect of interest.
//
// The arithmetic is package stats'; this package knows blocks, taint,
// replicates, metric directions and histograms. It prints nothing.
//
// [Analyse] makes a [Report] of a run, [Compare] sets two runs against each
// other, [NewHistory] many of one host, and [NewFleet] those of many hosts.
// [HalfWidth] and [SteinBlocks] tell a run when it has enough, and
// [NewDocument], [CSV] and [Benchfmt] give a run to other programs, after
// [Redact] where strangers will read it.
//
// Of rounds of slices (see package lab) each round gives two log ratios: the typical one of
// its slices, which leaves out what was disturbed, and that of totals. Rounds are the independent
// units, and take the place of blocks wherever a field says block. A round of a program that runs to
// its end is one strip; such rounds are estimated as blocks are.
//
// The other design is that of randomised complete blocks: every condition once in
// each block and the baseline twice, so that what disturbs a block disturbs all
// its conditions and cancels in their ratios. The baseline's two executions
// are used together for every effect, and against each other for A/A.
package overhead

import (
	"tare/stats"
	"tare/workload"
)

// Verdict is what an overhead means to its reader.
type Verdict string

// The verdicts. Worse and Better are in the metric's own direction: fewer
// requests a second is Worse.
const (
	Worse        Verdict = "worse"
	Better       Verdict = "better"
	Equivalent   Verdict = "equivalent" // the whole interval lies inside the smallest effect of interest
	Inconclusive Verdict = "inconclusive"
	Baseline     Verdict = "baseline"
)

// Report is the analysis of one run.
type Report struct {
	SmallestEffect float64
	Level          float64
	Groups         []Group // one a workload, in the order of the run
	Layers         []Layers
	Warnings       []string
	Threshold      Threshold // zero where the run has none
}

// Group is one workload: its conditions are compared with one another.
type Group struct {
	Workload string
	Metrics  []MetricReport // in the workload's order
	Blocks   int            // complete, untainted ones that the effects rest on
	Repeated int            // blocks of which something was repeated for taint
	Tainted  int            // blocks still tainted when the bound was reached
	Failed   int            // trials that yielded nothing
	// Rounds tells that its blocks are rounds of slices, in so many strips, of which so many
	// are left out as tainted. Effects are what within rounds moves the figures.
	Rounds                bool
	Strips, StripsTainted int
	Effects               []Effect
	// Pilot tells that there is no round but those of the pilot, which decide nothing.
	Pilot    bool
	Warnings []string // among them taint rates that differ across conditions, drift, warm-up
}

// MetricReport is one metric over all conditions of a workload.
type MetricReport struct {
	Name, Unit     string
	Primary        bool
	HigherIsBetter bool
	Rows           []Row
	// Comparisons is how many comparisons, of this and other metrics, are judged
	// together: the verdicts of Rows hold for all of them at Report.Level.
	Comparisons int
	// NoiseFloor is the smallest ratio-effect that this run could have
	// resolved with 80 % power, among as many comparisons (0.012 is 1.2 %), whichever condition had it: the
	// worst over the rows, by the spread of their blocks' log ratios. NaN where
	// it is unknown, as for counts with zeros.
	NoiseFloor float64
	// Quantile, Part and Figure are the metric's own: what it is the figure of.
	Quantile float64
	Part     string
	Figure   workload.Figure
	// Rounds tells that its blocks are rounds of slices.
	Rounds bool
	// AA is the baseline's second execution against its first.
	AA *stats.Estimate
}

// Row is one condition's figures for one metric.
type Row struct {
	Condition string // ID
	Label     string
	Platform  string
	Baseline  bool
	// Level of the metric itself: geometric mean over blocks (or the merged
	// histogram's quantile), with its interval.
	Value stats.Estimate
	// Ratio against the baseline; 1 is no effect. Zero for the baseline.
	Ratio stats.Estimate
	// RatioAll is the same with tainted blocks left in.
	RatioAll stats.Estimate
	// Typical and Total are the two effects that rounds of slices know: that of a typical
	// slice, stalls left out, and that of totals. Ratio is one of them. Stalls is by what
	// factor the total exceeds the typical one. All are zero elsewhere, and where a round is one strip.
	Typical, Total, Stalls stats.Estimate
	// StallsNotExcluded is the largest change by stalls that the interval leaves possible.
	StallsNotExcluded float64
	// LoadLevel is the load generator's own CPU time for an operation, in microseconds, and
	// Load its ratio to that under the baseline: of metrics of CPU time. Both are zero
	// where there is none.
	LoadLevel, Load stats.Estimate
	// Difference against the baseline, in the metric's unit.
	Difference stats.Estimate
	// Percent is the overhead in percent, positive where the condition is
	// worse: for a lower-is-better metric 100 (ratio-1), for a higher-is-better
	// one 100 (1-ratio), with the interval turned accordingly.
	Percent, PercentLow, PercentHigh float64
	// Verdict holds together with those of all comparisons of the metric's family.
	Verdict Verdict
	// Differs tells that the adjusted interval excludes no effect. An effect that is
	// Equivalent may differ: it is real, and within the smallest effect of interest.
	Differs bool
	// WithTainted is the verdict with all that is tainted left in, at the same level;
	// empty where nothing is.
	WithTainted Verdict
	// Alone is the verdict that Ratio would have by itself, were nothing else
	// compared.
	Alone Verdict
	// Adjusted is the ratio's interval at the level at which the family decided the
	// comparison, or left it undecided; AdjustedDifference is the difference's, and
	// AdjustedLow and AdjustedHigh are the ratio's as Percent. It never contradicts
	// Verdict, and is what a sentence says beside it.
	Adjusted, AdjustedDifference stats.Interval
	AdjustedLow, AdjustedHigh    float64
	// Status against the run's threshold: of metrics that carry the verdict, but for
	// the baseline. Withheld says why it is not passed though the interval is.
	Status   Status
	Withheld string
	// Needs says, where the verdict is inconclusive, what more it would take:
	// "about 34 blocks", and NeedsBlocks how many blocks or rounds that are; 0 where the
	// number is unknown.
	Needs             string
	NeedsBlocks       int
	NotRepresentative string
	// Blocks are the condition's blocks, tainted ones too, for plots of drift.
	Blocks []BlockPoint
}

// BlockPoint is one block's value, and its ratio to the baseline's in the same
// block: 1 for the baseline itself, NaN where the baseline was not measured.
type BlockPoint struct {
	Block   int
	Value   float64
	Ratio   float64
	Tainted bool
}
