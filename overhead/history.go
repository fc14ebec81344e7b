package overhead

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// History is what many runs of the same conditions on one host found, the oldest first: at
// which runs an effect changed, and what else changed there.
//
// The effect is that of a condition against the baseline of its own run. What changes on the
// host between two runs changes both alike, but for what it changes in the condition's cost.
type History struct {
	Runs      []HistoryRun
	Level     float64
	Threshold Threshold
	Series    []Series
	Changes   []HistoryChange // by the run
	// Imported says that the runs are the repetitions of one run that was measured elsewhere.
	Imported bool
	// Unjudged says why no threshold can rest on these runs; empty where one can.
	Unjudged string
	// Enough is how many runs it takes to find a change at the newest [stats.FewestRuns].
	Enough   int
	Warnings []string
}

// HistoryRun is one run of a history.
type HistoryRun struct {
	ID      string
	Started time.Time
}

// Series is one primary metric of one condition through a history.
type Series struct {
	Workload, Condition, Label, Platform string
	Metric, Unit                         string
	HigherIsBetter                       bool
	// Against is the label of the baseline; empty where a run compares nothing. Effects are
	// then the levels of the metric themselves.
	Against  string
	Points   []HistoryPoint // of the runs that measured it
	Segments []HistorySegment
	// Percent is by how much the newest segment is worse than the oldest, in percent. Without a
	// change it is the newest [stats.FewestRuns] against all before.
	Percent, PercentLow, PercentHigh float64
	Status                           Status
	Withheld                         string // why the status is not passed though the interval is

	baseline string // ID
	tallies  []tally
}

// HistoryPoint is what one run found.
type HistoryPoint struct {
	Run              int            // in History.Runs
	Effect           stats.Estimate // ratio to the baseline, or the level
	Level, BaseLevel float64        // of the metric; BaseLevel is not a number where nothing is compared
}

// HistorySegment is successive runs among which the effect does not change.
type HistorySegment struct {
	First, Last      int // in History.Runs
	Runs             int // that measured it
	Effect           stats.Estimate
	Level, BaseLevel float64 // geometric means over runs
	// Change is the factor from the Effect of the segment before, P the probability of as great
	// a change by chance. Neither is a number for the first segment.
	Change stats.Estimate
	P      float64
	// Percent is Change in percent, positive where the segment is worse.
	Percent, PercentLow, PercentHigh float64
}

// HistoryChange is two successive runs between which effects changed.
type HistoryChange struct {
	Before, After int   // in History.Runs
	Series        []int // that changed
	// Differences are what the store knows to differ between the two runs.
	Differences []string
}

// Past is what a history keeps of a run.
type Past struct {
	run        record.Run // without its trials
	repetition int        // of a run that was measured elsewhere; else 0
	series     []Series   // with one point each, or none
}

// NewPast reads a run for a history.
func NewPast(run record.Run) Past {
	opt := Options{}.from(run)
	p := Past{run: run}
	p.run.Trials = nil
	for _, l := range layouts(run, opt) {
		if _, explains := run.Plan.Layers[l.workload]; explains {
			continue
		}
		for _, s := range l.series() {
			m := *metricOf(l, s)
			s.tallies = []tally{l.tally(m, s.Condition)}
			point := HistoryPoint{BaseLevel: math.NaN()}
			own := level(m, l.figures(m, s.Condition, false), opt)
			if point.Effect, point.Level = own, own.Value; s.Against != "" {
				point.Effect = l.pair(m, s.Condition, false).ratio(opt)
				point.BaseLevel = level(m, l.figures(m, s.baseline, false), opt).Value
			}
			if point.Effect.Known() && point.Effect.Value > 0 {
				s.Points = []HistoryPoint{point}
			}
			p.series = append(p.series, s)
		}
	}
	return p
}

// Repetitions reads a run that was measured elsewhere as a history: each repetition is a run of
// its own.
func Repetitions(run record.Run) []Past {
	at := map[int]*Past{}
	var numbers []int
	for _, l := range layouts(run, Options{}.from(run)) {
		for _, s := range l.series() {
			m := *metricOf(l, s)
			base := l.points(m, s.baseline)
			for _, b := range l.points(m, s.Condition) {
				p := at[b.Block]
				if p == nil {
					p = &Past{run: run, repetition: b.Block}
					p.run.Trials = nil
					at[b.Block], numbers = p, append(numbers, b.Block)
				}
				point := HistoryPoint{
					Effect:    stats.Absent(Options{}.from(run).Level),
					Level:     b.Value,
					BaseLevel: math.NaN(),
				}
				if point.Effect.Value = b.Value; s.Against != "" {
					point.Effect.Value = b.Ratio
					if i := slices.IndexFunc(base, func(o BlockPoint) bool { return o.Block == b.Block }); i >= 0 {
						point.BaseLevel = base[i].Value
					}
				}
				one := s
				if point.Effect.Value > 0 && !b.Tainted {
					one.Points = []HistoryPoint{point}
				}
				p.series = append(p.series, one)
			}
		}
	}
	slices.Sort(numbers)
	var all []Past
	for _, n := range numbers {
		all = append(all, *at[n])
	}
	return all
}

func (p Past) name() string {
	if p.repetition > 0 {
		return strconv.Itoa(p.repetition)
	}
	return p.run.ID
}

// series are a workload's primary metrics under each condition that is compared, or under each
// where none is.
func (l *layout) series() (all []Series) {
	for _, m := range l.metrics {
		if !l.carries(m.Name) {
			continue
		}
		for _, c := range l.conditions {
			s := Series{Workload: l.workload, Condition: c.ID, Label: label(c), Platform: c.Platform, Metric: m.Name,
				Unit: m.Unit, HigherIsBetter: m.Better == workload.Higher}
			compares := l.baseline >= 0 && !l.unpaired && len(l.conditions) > 1
			if compares && l.isBaseline(c.ID) {
				continue
			}
			if compares {
				s.baseline, s.Against = l.baselineID(), label(l.conditions[l.baseline])
			}
			all = append(all, s)
		}
	}
	return all
}

func metricOf(l *layout, s Series) *workload.Metric {
	i := slices.IndexFunc(l.metrics, func(m workload.Metric) bool { return m.Name == s.Metric })
	return &l.metrics[i]
}

// key says what a series is of.
func (s Series) key() string {
	return strings.Join([]string{s.Condition, s.Metric, s.Unit, strconv.FormatBool(s.HigherIsBetter), s.baseline}, "\x00")
}

// Related tells whether two runs are of one study, with a condition in common. Trials are not
// needed.
func Related(run, with record.Run) bool {
	return run.Study == with.Study && slices.ContainsFunc(run.Conditions, func(c record.Condition) bool {
		return slices.ContainsFunc(with.Conditions, func(o record.Condition) bool { return o.ID == c.ID })
	})
}

// Incomparable says why a run is no part of the history of another; empty where it is. Trials
// are not needed.
func Incomparable(run, with record.Run) string {
	if run.Study != with.Study {
		return fmt.Sprintf("it is a run of %s, and %s of %s", run.Study, with.ID, with.Study)
	}
	if run.Status != record.Complete && run.Status != record.Imported {
		return "it is " + string(run.Status)
	}
	if why, _ := unjudged(run, with); why != "" {
		return why
	}
	has, wants := subjects(run), subjects(with)
	for _, key := range slices.Sorted(maps.Keys(wants)) {
		if _, ok := has[key]; !ok {
			return fmt.Sprintf("it has not %s, as %s has", wants[key], with.ID)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(has)) {
		if _, ok := wants[key]; !ok {
			return fmt.Sprintf("it has %s, and %s has not", has[key], with.ID)
		}
	}
	return ""
}

// subjects name what each series of a run is of, by its key.
func subjects(run record.Run) map[string]string {
	run.Trials = nil
	all := map[string]string{}
	for _, l := range layouts(run, Options{}.from(run)) {
		if _, explains := run.Plan.Layers[l.workload]; explains {
			continue
		}
		for _, s := range l.series() {
			all[s.key()] = s.Metric + " of " + s.Condition
			if s.Against != "" {
				all[s.key()] += " against " + s.Against
			}
		}
	}
	return all
}

// NewHistory finds the changes in runs that are comparable, in any order. A failAbove of 0 asks
// nothing. The error says that a run is not comparable with the newest.
func NewHistory(all []Past, failAbove float64) (History, error) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Past) int {
		return a.run.Started.Compare(b.run.Started)
	})
	h := History{Threshold: Threshold{FailAbove: failAbove}}
	if len(all) == 0 {
		return h, nil
	}
	newest := all[len(all)-1]
	h.Imported, h.Level = newest.run.Status == record.Imported, Options{}.from(newest.run).Level
	for i, p := range all {
		if why := Incomparable(p.run, newest.run); why != "" && !h.Imported {
			return h, fmt.Errorf("%s is not comparable with %s: %s", p.run.ID, newest.run.ID, why)
		}
		h.Runs = append(h.Runs, HistoryRun{ID: p.name(), Started: p.run.Started})
		h.add(i, p)
	}
	alpha := (1 - h.Level) / float64(max(1, len(h.Series))) // Bonferroni
	h.Enough = stats.EnoughRuns(alpha)
	for i := range h.Series {
		h.segment(i, alpha)
	}
	h.differences(all)
	switch levels := slices.ContainsFunc(h.Series, func(s Series) bool { return s.Against == "" }); {
	case h.Imported:
		h.Unjudged = newest.run.ID + " was measured elsewhere: measure the runs by tare weigh"
	case levels:
		h.Unjudged = "nothing is compared within a run, and levels change with the host: weigh a baseline beside"
	case failAbove > 0:
		h.judge()
	}
	return h, nil
}

// add enters the points of one run.
func (h *History) add(run int, p Past) {
	for _, s := range p.series {
		i := slices.IndexFunc(h.Series, func(o Series) bool { return o.key() == s.key() })
		if i < 0 {
			i = len(h.Series)
			h.Series = append(h.Series, s)
			h.Series[i].Points, h.Series[i].tallies = nil, nil
		}
		of := &h.Series[i]
		of.tallies = append(of.tallies, s.tallies...)
		if len(s.Points) == 0 {
			h.Warnings = append(h.Warnings, fmt.Sprintf(
				"%s: %s of %s has no interval or was disturbed throughout: left out there", p.name(), s.Metric, s.Label))
			continue
		}
		point := s.Points[0]
		point.Run = run
		of.Points = append(of.Points, point)
	}
}

// segment finds the changes of one series.
func (h *History) segment(i int, alpha float64) {
	const seed = 1 // the same runs give the same answer
	s := &h.Series[i]
	for _, found := range stats.Segments(s.effects(), alpha, seed) {
		points := s.Points[found.From:found.To]
		one := HistorySegment{
			First: points[0].Run, Last: points[len(points)-1].Run, Runs: len(points), P: found.P,
			Effect: stats.Pooled(s.effects()[found.From:found.To], h.Level), Change: stats.Absent(h.Level),
			Level:     geometric(points, func(p HistoryPoint) float64 { return p.Level }),
			BaseLevel: geometric(points, func(p HistoryPoint) float64 { return p.BaseLevel }),
		}
		if n := len(s.Segments); n > 0 {
			before := s.Segments[n-1]
			one.Change = mover(before.Effect, one.Effect, h.Level)
			one.Percent, one.PercentLow, one.PercentHigh = percent(one.Change, s.better())
			h.change(before.Last, one.First, i)
		}
		s.Segments = append(s.Segments, one)
	}
	s.Percent, s.PercentLow, s.PercentHigh = percent(s.now(h.Level), s.better())
}

func (s Series) better() workload.Better {
	if s.HigherIsBetter {
		return workload.Higher
	}
	return workload.Lower
}

func (s Series) effects() []stats.Estimate {
	all := make([]stats.Estimate, len(s.Points))
	for i, p := range s.Points {
		all[i] = p.Effect
	}
	return all
}

// now is the factor from the oldest segment to the newest, or from all but the newest runs to
// these.
func (s Series) now(level float64) stats.Estimate {
	effects := s.effects()
	oldest, newest := len(effects)-stats.FewestRuns, len(effects)-stats.FewestRuns
	if n := len(s.Segments); n > 1 {
		oldest, newest = s.Segments[0].Runs, len(effects)-s.Segments[n-1].Runs
	}
	if oldest <= 0 {
		return stats.Absent(level)
	}
	return mover(stats.Pooled(effects[:oldest], level), stats.Pooled(effects[newest:], level), level)
}

func geometric(points []HistoryPoint, of func(HistoryPoint) float64) float64 {
	var sum float64
	for _, p := range points {
		sum += math.Log(of(p))
	}
	return math.Exp(sum / float64(len(points)))
}

func (h *History) change(before, after, series int) {
	i := slices.IndexFunc(h.Changes, func(c HistoryChange) bool { return c.Before == before && c.After == after })
	if i < 0 {
		i = len(h.Changes)
		h.Changes = append(h.Changes, HistoryChange{Before: before, After: after})
	}
	h.Changes[i].Series = append(h.Changes[i].Series, series)
}

// differences names what differs between the runs of each change.
func (h *History) differences(all []Past) {
	slices.SortFunc(h.Changes, func(a, b HistoryChange) int { return cmp.Or(a.After-b.After, a.Before-b.Before) })
	for i := range h.Changes {
		c := &h.Changes[i]
		was, is := all[c.Before].run, all[c.After].run
		c.Differences = hostDifferences(was.Host, is.Host)
		if was.Version != is.Version {
			c.Differences = append(c.Differences, changed("tare", was.Version, is.Version))
		}
		for _, series := range c.Series {
			for _, id := range []string{h.Series[series].baseline, h.Series[series].Condition} {
				then, now := conditionOf(was, id), conditionOf(is, id)
				if then == nil || now == nil {
					continue
				}
				for _, d := range conditionDifferences(then, now) {
					if !slices.Contains(c.Differences, d) {
						c.Differences = append(c.Differences, d)
					}
				}
			}
		}
	}
}

func conditionOf(run record.Run, id string) *record.Condition {
	i := slices.IndexFunc(run.Conditions, func(c record.Condition) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &run.Conditions[i]
}

// judge gives each series its status: the newest segment against the oldest. Only a change point
// exceeds: without one, the newest runs may pass or be inconclusive.
func (h *History) judge() {
	rows := make([]judged, len(h.Series))
	for i := range h.Series {
		s := &h.Series[i]
		rows[i].change = func(level float64) (low, high float64) {
			_, low, high = percent(s.now(level), s.better())
			if len(s.Segments) < 2 {
				low = math.Inf(-1)
			}
			return low, high
		}
		newest := len(h.Runs) - 1
		if n := len(s.Points); n == 0 || s.Points[n-1].Run != newest {
			rows[i].withheld = "the newest run has no figure of it"
		} else if n := len(s.tallies); n > 1 {
			rows[i].withheld = s.tallies[n-1].withheld(s.tallies[0], "the oldest run")
		}
	}
	for i, o := range h.Threshold.judge(rows, h.Level) {
		h.Series[i].Status, h.Series[i].Withheld = o.status, o.withheld
	}
}
