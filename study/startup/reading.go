package startup

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// reading is a run as the judge and the page of this study read it.
type reading struct{ overhead.Reading }

func read(run record.Run) reading { return reading{overhead.Read(run)} }

// together is the reading by n intervals that hold together.
func (r reading) together(n int) reading { return reading{r.Reading.Together(n)} }

// of gives the conditions of a kind, in the design's order.
func (r reading) of(kind string) []record.Condition {
	var of []record.Condition
	for _, c := range r.Run.Conditions {
		if c.Factors[factorKind] == kind {
			of = append(of, c)
		}
	}
	return of
}

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

// past reports whether a rate was not sustained: its backlog grew.
func (r reading) past(c record.Condition) bool {
	return r.Value(c, growth).Value > 100*kneeGrowth
}

// failing reports whether some starts failed.
func (r reading) failing(c record.Condition) bool { return r.Value(c, failed).Value > 0 }

// unsure reports whether the blocks leave open on which side of the knee a rate
// lies.
func (r reading) unsure(c record.Condition) bool {
	g := r.Value(c, growth)
	return g.N >= 3 && g.Interval.Low <= 100*kneeGrowth && g.Interval.High > 100*kneeGrowth
}

// knee is a platform's knee for a workload.
func (r reading) knee(workload, platform string) (e stats.Estimate, beyond bool) {
	for _, c := range r.of(kindKnee) {
		if workloadOf(c) != workload || c.Platform != platform {
			continue
		}
		for _, t := range r.Trials(c) {
			if t.Covariates["knee_beyond"] == 1 {
				beyond = true
			}
		}
		return r.Value(c, kneeRate), beyond
	}
	return stats.Estimate{Value: math.NaN()}, false
}

// workloads and platforms of the run, in the design's order.
func (r reading) workloads() []string {
	return distinct(r.Run.Conditions, workloadOf)
}

func (r reading) platforms() []string {
	return distinct(r.Run.Conditions, func(c record.Condition) string { return c.Platform })
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
