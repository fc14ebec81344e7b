package density

import (
	"math"
	"slices"

	"tare/claim"
)

// judgedLatencies are the figures of latency that S3.2 speaks of, each with the claim's limit: the p90 and
// the p95 are as before, the p99 and the maximum a little higher.
var judgedLatencies = []struct {
	name, limit string
	quantile    float64 // 1 is the maximum
}{
	{"p90", "as before", 0.9}, {"p95", "as before", 0.95},
	{"p99", "p99, a little higher", 0.99}, {"maximum", "maximum, a little higher", 1},
}

// harm is by what factors a step may be worse than that with fewest neighbours before it counts as
// harmed: of throughput, and of each of judgedLatencies.
type harm struct {
	throughput float64
	latency    []float64
}

// times is a limit of S3.2 as a factor.
func times(limit string) float64 {
	c, err := claim.Lookup(judgedExtended)
	if err != nil {
		panic(err) // the registry is part of the program
	}
	f, ok := c.Limit(limit)
	if !ok {
		panic(judgedExtended + " has no limit " + limit)
	}
	if f.Unit == "%" {
		return 1 + f.Value/100
	}
	return f.Value
}

// harm is S3.2's, widened to what the same steps of the run differ by where nothing differs: the
// base's two executions of the step with fewest neighbours in each block (A/A).
func (r reading) harm(of arm) harm {
	var pairs [][2]Step
	for _, a := range r.arms {
		if a.group == of.group && a.order == of.order {
			pairs = append(pairs, a.twice...)
		}
	}
	h := harm{throughput: max(times("as before"), spread(pairs, func(s Step) float64 { return s.Closed.Rate }))}
	for _, l := range judgedLatencies {
		h.latency = append(h.latency, max(times(l.limit), spread(pairs, func(s Step) float64 {
			v, _ := ownQuantile(s.Open.whole(), l.quantile)
			return v
		})))
	}
	return h
}

// spread is the greatest ratio within pairs; 1 of none.
func spread(pairs [][2]Step, of func(Step) float64) float64 {
	widest := 1.0
	for _, p := range pairs {
		if x, y := of(p[0]), of(p[1]); x > 0 && y > 0 {
			widest = max(widest, x/y, y/x)
		}
	}
	return widest
}

// unharmed is the last step of a sweep before harm, which requests that fail are, too,
// those of clients that wait as those of a schedule; -1 where its first has no figures to
// compare with.
func (s sweep) unharmed(within harm) int {
	if len(s.steps) == 0 {
		return -1
	}
	first := s.steps[0]
	if _, ok := ownQuantile(first.Open.whole(), 1); !ok || !(first.Closed.Rate > 0) {
		return -1
	}
	wrong := 0 // of a cut before all steps: those that are unharmed
	harmed := make([]bool, len(s.steps))
	for i, step := range s.steps {
		harmed[i] = within.is(first, step)
		if !harmed[i] {
			wrong++
		}
	}
	best, least := 0, math.MaxInt
	for i, h := range harmed {
		if h {
			wrong++
		} else {
			wrong--
		}
		if wrong < least {
			best, least = i, wrong
		}
	}
	return best
}

// is reports whether a step is harmed against that with fewest neighbours.
func (h harm) is(first, step Step) bool {
	if step.Open.Failed > first.Open.Failed || step.Closed.Failed > first.Closed.Failed ||
		step.Closed.Rate*h.throughput < first.Closed.Rate {
		return true
	}
	for i, l := range judgedLatencies {
		was, _ := ownQuantile(first.Open.whole(), l.quantile)
		own, ok := ownQuantile(step.Open.whole(), l.quantile)
		if !ok || own > was*h.latency[i] {
			return true
		}
	}
	return false
}

// pairUp keeps the first steps of a continuous arm that were executed twice in one block.
func (a *arm) pairUp() {
	for i, s := range a.sweeps {
		before := slices.IndexFunc(a.sweeps[:i], func(o sweep) bool { return o.block == s.block })
		if before < 0 || len(s.steps) == 0 || len(a.sweeps[before].steps) == 0 {
			continue
		}
		if x, y := a.sweeps[before].steps[0], s.steps[0]; x.Neighbours == y.Neighbours {
			a.twice = append(a.twice, [2]Step{x, y})
		}
	}
}
