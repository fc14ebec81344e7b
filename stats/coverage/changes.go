package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"tare/stats"
)

// sweepKind is how y changes over a sweep of 0 to 1, and by how much readings scatter.
type sweepKind struct {
	name    string
	shape   stats.ChangeShape
	times   float64 // at its end
	scatter float64 // log sd of a reading
	broken  bool    // sweeps break off soon after the change
	differs float64 // sd of the place, over sweeps
	follows float64 // correlation of a reading with the one before it
}

// A reading that scatters by a factor of three lies, for 95 of 100, within it either way.
var scatterOfThree = math.Log(3) / 1.96

// sweepKinds are what a service's tail and throughput do as neighbours are added.
var sweepKinds = []sweepKind{
	{name: "nothing, readings scatter by 10 %", shape: stats.NoChange, times: 1, scatter: 0.1},
	{name: "nothing, by a factor of 3", shape: stats.NoChange, times: 1, scatter: scatterOfThree},
	{name: "nothing, by a factor of 3, each reading half as the one before", shape: stats.NoChange, times: 1, scatter: scatterOfThree, follows: 0.5},
	{name: "step to 0.8, readings scatter by 10 %", shape: stats.StepChange, times: 0.8, scatter: 0.1},
	{name: "step to twice, by a factor of 3", shape: stats.StepChange, times: 2, scatter: scatterOfThree},
	{name: "step to ten times, by a factor of 3", shape: stats.StepChange, times: 10, scatter: scatterOfThree},
	{name: "step to ten times, by a factor of 3, sweeps break off early", shape: stats.StepChange, times: 10, scatter: scatterOfThree, broken: true},
	{name: "step to ten times, by a factor of 3, the place differs by 0.08", shape: stats.StepChange, times: 10, scatter: scatterOfThree, differs: 0.08},
	{name: "ramp to a half, readings scatter by 10 %", shape: stats.RampChange, times: 0.5, scatter: 0.1},
	{name: "ramp to a hundred times, by a factor of 3", shape: stats.RampChange, times: 100, scatter: scatterOfThree},
}

// placeOfChange lies between readings, as a real one would.
const placeOfChange = 0.46

// at is the logarithm of y at x, where it changes from place on.
func (k sweepKind) at(x, place float64) float64 {
	switch {
	case x < place || k.shape == stats.NoChange:
		return 0
	case k.shape == stats.StepChange:
		return math.Log(k.times)
	}
	return math.Log(k.times) * (x - place) / (1 - place)
}

// draw makes sweeps whose levels differ by 10 %. Those that break off have one, two or
// three readings after the change.
func (k sweepKind) draw(rng *rand.Rand, n, steps int) []stats.Sweep {
	sweeps := make([]stats.Sweep, n)
	for i := range sweeps {
		level, after := 0.1*rng.NormFloat64(), 1+rng.IntN(3)
		place := placeOfChange + k.differs*rng.NormFloat64()
		off := rng.NormFloat64()
		for j := range steps {
			x := float64(j) / float64(steps-1)
			if k.broken && x > place {
				if after == 0 {
					break
				}
				after--
			}
			sweeps[i].X = append(sweeps[i].X, x)
			sweeps[i].Y = append(sweeps[i].Y, math.Exp(level+k.at(x, place)+k.scatter*off))
			off = k.follows*off + math.Sqrt(1-k.follows*k.follows)*rng.NormFloat64()
		}
	}
	return sweeps
}

// changePoints shows whether changes are found, and held.
func changePoints() *table {
	t := &table{
		title: "Where a series changes",
		text: fmt.Sprintf("Sweeps of 13 or 25 readings. Each sweep has a level of its own (log sd 10 %%). The change lies at %g of the way, between two readings. "+
			"*Found*: a change is found at all, at 5 %%. For *nothing* that is the rate of false alarms. *Holds*: the interval of the place, where one is found. "+
			"*Right shape*: of those found. *Width* is the mean width of the interval, as a share of what was swept. It is never below a gap between two readings, so it holds more than 95 %% where the place is plain.", placeOfChange),
		rowName: "sweeps", columns: []string{"found", "right shape", "width, of the whole", "holds, where found"}, plain: 3,
		sizes: []int{3, 5, 10}, replications: 500, kind: coverage,
	}
	for _, k := range sweepKinds {
		for _, steps := range []int{13, 25} {
			t.rows = append(t.rows, row{fmt.Sprintf("%s, %d steps", k.name, steps), func(rng *rand.Rand, n int) []float64 {
				sweeps := k.draw(rng, n, steps)
				c := stats.ChangePoint(sweeps, k.times >= 1, level, rng.Int64())
				if c.Shape == stats.NoChange {
					return []float64{0, math.NaN(), math.NaN(), math.NaN()}
				}
				right, held := math.NaN(), math.NaN()
				if k.shape != stats.NoChange {
					right, held = 0, holds(c.At, placeOfChange)
				}
				if c.Shape == k.shape {
					right = 1
				}
				return []float64{1, right, c.At.Interval.High - c.At.Interval.Low, held}
			}})
		}
	}
	return t
}
