package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// FewestRuns is the least number of runs in a segment of a history: fewer are spikes.
const FewestRuns = 3

// Segment is a part of a history in which the effect stays the same.
type Segment struct {
	From, To int // runs, To excluded
	// P is the probability by chance of as great a change as the one that the segment begins
	// with; NaN of the first segment.
	P float64
}

// Segments divides a history, the same effect in successive runs, at its change points.
//
// Each effect is a ratio above 0. Where all have intervals, runs are weighed as rounds are
// ([RoundWeights]). Logs are winsorised at three robust standard deviations from their median,
// so that single runs that lie far off neither make nor hide a change. The change looked for is
// that of E-divisive (Matteson and James 2014): of all pairs of adjoining segments, the first
// from the beginning, the second ending anywhere, the pair whose weighted means differ most. A
// permutation test decides whether it is one: where nothing changes, the runs could have come in
// any order. What lies before and after a change is searched likewise. At last each change is
// placed where it explains most between its neighbours (Bai 1997).
//
// A part is tested at its share of alpha, by its number of runs. So the chance of any change
// point too many is at most alpha, whatever the distribution of runs and the number of true
// changes. Runs are taken for independent. The seed is that of the permutations. nil where an
// effect is no positive number.
func Segments(effects []Estimate, alpha float64, seed int64) []Segment {
	logs, weights, err := weighed(effects)
	if err != nil || len(logs) == 0 {
		return nil
	}
	if weights == nil {
		weights = slices.Repeat([]float64{1}, len(logs))
	}
	h := &history{logs: logs, weights: weights, alpha: alpha, rng: generator(seed)}
	h.search(0, len(logs))
	slices.SortFunc(h.segments, func(a, b Segment) int { return a.From - b.From })
	h.place()
	all := slices.Insert(h.segments, 0, Segment{P: math.NaN()})
	for i := range all {
		all[i].To = len(logs)
		if i+1 < len(all) {
			all[i].To = all[i+1].From
		}
	}
	return all
}

// Pooled is the effect in all runs of a segment: the mean of their logs, weighted as in
// [Segments], with an interval over runs. The place of the segment is taken as given. Effects that
// are exact and equal ([ExactRatio]) have an interval without width.
func Pooled(effects []Estimate, level float64) Estimate {
	logs, weights, err := weighed(effects)
	if err != nil {
		return undefined(len(effects), level, MethodT, "no effect: %v", err)
	}
	if len(effects) == 0 {
		return undefined(0, level, MethodT, "no runs: nothing to estimate from")
	}
	first := effects[0].Value
	varies := func(e Estimate) bool { return e.Value != first || e.Interval.Low != first || e.Interval.High != first }
	if len(effects) >= FewestRuns && !slices.ContainsFunc(effects, varies) {
		return exactly(first, len(effects), level)
	}
	return RoundMean(logs, weights, level)
}

// weighed gives the logs of effects, and their weights; nil where these are alike.
func weighed(effects []Estimate) (logs, weights []float64, err error) {
	var errors []float64
	for _, e := range effects {
		if err := positive(e.Value); err != nil {
			return nil, nil, err
		}
		logs = append(logs, math.Log(e.Value))
		errors = append(errors, logError(e))
	}
	return logs, RoundWeights(logs, errors), nil
}

// logError is the standard error of the logarithm of a ratio, from its interval taken for
// Student's t over its blocks.
func logError(e Estimate) float64 {
	half := math.Log(e.Interval.High/e.Interval.Low) / 2
	return half / tQuantile(1-(1-e.Interval.Level)/2, max(1, float64(e.N-1)))
}

// EnoughRuns is the least length of a history in which a change at its last [FewestRuns] runs
// can be found: in a shorter one as great a change comes by chance too often.
func EnoughRuns(alpha float64) int {
	n := 2 * FewestRuns
	const clearly = 0.8 // for orders are drawn
	for alpha > 0 && 2*math.Exp(-logChoose(n, FewestRuns)) > clearly*alpha {
		n++
	}
	return n
}

type history struct {
	logs, weights []float64
	alpha         float64
	rng           *rand.Rand
	segments      []Segment // all but the first, by their beginnings
}

// permutations is how many orders a test draws: the lower its level, the more.
func permutations(alpha float64) int {
	const few, least, most = 50, 999, 9999 // few are as great by chance, of a change that is barely one
	return int(min(max(few/alpha, least), most))
}

// search adds the changes between two runs.
func (h *history) search(from, to int) {
	runs := h.winsorised(from, to)
	at, most := runs.divided(false)
	if !(most > 0) {
		return
	}
	alpha := h.alpha * float64(to-from) / float64(len(h.logs))
	orders := permutations(alpha)
	atLeast, allowed := 0, alpha*float64(1+orders)-1
	shuffled := slices.Clone(runs)
	for range orders {
		h.rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if _, m := shuffled.divided(false); m >= most*(1-slack) {
			atLeast++
		}
		if float64(atLeast) > allowed {
			return
		}
	}
	h.segments = append(h.segments, Segment{From: from + at, P: float64(1+atLeast) / float64(1+orders)})
	h.search(from, from+at)
	h.search(from+at, to)
}

// slack is by what share two sums may differ that are equal but for their order.
const slack = 1e-9

// place puts each change where it explains most between its neighbours.
func (h *history) place() {
	for i := range h.segments {
		from, to := 0, len(h.logs)
		if i > 0 {
			from = h.segments[i-1].From
		}
		if i+1 < len(h.segments) {
			to = h.segments[i+1].From
		}
		if at, most := h.winsorised(from, to).divided(true); most > 0 {
			h.segments[i].From = from + at
		}
	}
}

// weighedRuns are deviations with their weights.
type weighedRuns []struct{ y, weight float64 }

// winsorised gives runs as deviations from their median, none farther than three robust standard
// deviations. Where more than half are equal, the deviation is a sign.
func (h *history) winsorised(from, to int) weighedRuns {
	const standard, farthest = 1.4826, 3 // the first makes a median deviation a standard deviation
	logs := h.logs[from:to]
	centre := middle(slices.Sorted(slices.Values(logs)))
	runs, deviations := make(weighedRuns, len(logs)), make([]float64, len(logs))
	for i, v := range logs {
		runs[i].y, runs[i].weight = v-centre, h.weights[from+i]
		deviations[i] = math.Abs(v - centre)
	}
	slices.Sort(deviations)
	bound := farthest * standard * middle(deviations)
	resolution := rounding * max(1, largest(logs))
	for i := range runs {
		switch y := runs[i].y; {
		case bound > resolution:
			runs[i].y = min(max(y, -bound), bound)
		case math.Abs(y) <= resolution:
			runs[i].y = 0
		default:
			runs[i].y = math.Copysign(1, y)
		}
	}
	return runs
}

// divided finds the adjoining segments whose means differ most: the first begins with the first
// run, the second, which begins at at, ends with the last where whole is set. most is the
// difference squared, in the weight that it has.
func (runs weighedRuns) divided(whole bool) (at int, most float64) {
	n := len(runs)
	weights, sums := make([]float64, n+1), make([]float64, n+1)
	for i, r := range runs {
		weights[i+1], sums[i+1] = weights[i]+r.weight, sums[i]+r.weight*r.y
	}
	for i := FewestRuns; i+FewestRuns <= n; i++ {
		end := i + FewestRuns
		if whole {
			end = n
		}
		for ; end <= n; end++ {
			before, after := weights[i], weights[end]-weights[i]
			apart := sums[i]*after - (sums[end]-sums[i])*before
			if d := apart * apart / (before * after * weights[end]); d > most {
				at, most = i, d
			}
		}
	}
	return at, most
}
