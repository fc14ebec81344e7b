package startup

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// reading is a run with its analysis, as the judge and the page read it.
type reading struct {
	run        record.Run
	analysis   overhead.Report
	conditions []record.Condition
	rows       map[string]map[string]overhead.Row // by condition and metric
}

func read(run record.Run) reading {
	r := reading{run: run, analysis: overhead.Analyse(run, overhead.Options{}), conditions: run.Conditions, rows: map[string]map[string]overhead.Row{}}
	for _, g := range r.analysis.Groups {
		for _, m := range g.Metrics {
			for _, row := range m.Rows {
				if r.rows[row.Condition] == nil {
					r.rows[row.Condition] = map[string]overhead.Row{}
				}
				r.rows[row.Condition][m.Name] = row
			}
		}
	}
	return r
}

// of gives the conditions of a kind, in the design's order.
func (r reading) of(kind string) []record.Condition {
	var of []record.Condition
	for _, c := range r.conditions {
		if c.Factors[factorKind] == kind {
			of = append(of, c)
		}
	}
	return of
}

// value is a condition's level of a metric; absent where it was not measured.
// Amounts and shares that may be zero have the mean over blocks with Student's
// t: what counts are given, a bootstrap, is wild for as few blocks as fit into a
// profile's time, and these are no counts.
func (r reading) value(c record.Condition, metric string) stats.Estimate {
	row, ok := r.rows[c.ID][metric]
	if !ok || len(row.Blocks) == 0 {
		return stats.Estimate{Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN(), Level: r.analysis.Level}}
	}
	for _, m := range c.Metrics {
		if m.Name == metric && m.Count {
			blocks := r.perBlock(c, metric)
			values := make([]float64, 0, len(blocks))
			for _, block := range sortedKeys(blocks) {
				values = append(values, blocks[block])
			}
			return stats.MeanBy(stats.MethodT, values, r.analysis.Level, r.run.Seed)
		}
	}
	return row.Value
}

// perBlock gives a condition's values by block; tainted blocks only where there
// are no others.
func (r reading) perBlock(c record.Condition, metric string) map[int]float64 {
	clean, all := map[int]float64{}, map[int]float64{}
	for _, p := range r.rows[c.ID][metric].Blocks {
		if math.IsNaN(p.Value) {
			continue
		}
		all[p.Block] = p.Value
		if !p.Tainted {
			clean[p.Block] = p.Value
		}
	}
	if len(clean) == 0 {
		return all
	}
	return clean
}

// ratio is b against a, paired by block.
func (r reading) ratio(a, b map[int]float64) stats.Estimate {
	var base, treatment []float64
	for _, block := range sortedKeys(a) {
		if v, ok := b[block]; ok && a[block] > 0 && v > 0 {
			base, treatment = append(base, a[block]), append(treatment, v)
		}
	}
	return stats.PairedRatio(base, treatment, r.analysis.Level, r.run.Seed)
}

func sortedKeys[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }

// rate is a condition's rate; 0 where it has none.
func rate(c record.Condition) float64 {
	v, err := strconv.ParseFloat(c.Factors[factorRate], 64)
	if err != nil {
		return 0
	}
	return v
}

// workloadOf is the workload's own name: "redis" of "redis[rate=4]".
func workloadOf(c record.Condition) string {
	name, _, _ := strings.Cut(c.Workload, "[")
	return name
}

// past tells whether a rate was not kept up with: its backlog grew.
func (r reading) past(c record.Condition) bool {
	return r.value(c, growth).Value > 100*kneeGrowth
}

// failing tells whether some starts failed.
func (r reading) failing(c record.Condition) bool { return r.value(c, failed).Value > 0 }

// unsure tells whether the blocks leave open on which side of the knee a rate
// lies.
func (r reading) unsure(c record.Condition) bool {
	g := r.value(c, growth)
	return g.N >= 3 && g.Interval.Low <= 100*kneeGrowth && g.Interval.High > 100*kneeGrowth
}

// knee is a platform's knee for a workload.
func (r reading) knee(workload, platform string) (e stats.Estimate, beyond bool) {
	for _, c := range r.of(kindKnee) {
		if workloadOf(c) != workload || c.Platform != platform {
			continue
		}
		for _, t := range r.trials(c) {
			if t.Covariates["knee_beyond"] == 1 {
				beyond = true
			}
		}
		return r.value(c, kneeRate), beyond
	}
	return stats.Estimate{Value: math.NaN()}, false
}

// workloads and platforms of the run, in the design's order.
func (r reading) workloads() []string {
	return distinct(r.conditions, workloadOf)
}

func (r reading) platforms() []string {
	return distinct(r.conditions, func(c record.Condition) string { return c.Platform })
}

func distinct[T any](all []T, by func(T) string) []string {
	var names []string
	for _, v := range all {
		if name := by(v); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// ramps gives a workload's ramps on a platform, by rate.
func (r reading) ramps(workload, platform string) []record.Condition {
	var of []record.Condition
	for _, c := range r.of(kindRamp) {
		if workloadOf(c) == workload && c.Platform == platform {
			of = append(of, c)
		}
	}
	slices.SortFunc(of, func(a, b record.Condition) int { return cmp.Compare(rate(a), rate(b)) })
	return of
}

// trials gives a condition's trials that count: valid, no warm-up, of the last
// attempt at their block.
func (r reading) trials(c record.Condition) []record.Trial {
	last := map[int]int{}
	for _, t := range r.run.Trials {
		if t.Condition == c.ID {
			last[t.Block] = max(last[t.Block], t.Attempt)
		}
	}
	var of []record.Trial
	for _, t := range r.run.Trials {
		if t.Condition == c.ID && t.Block > 0 && t.Error == "" && t.Attempt == last[t.Block] {
			of = append(of, t)
		}
	}
	return of
}
