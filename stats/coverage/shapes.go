package main

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// shape is a distribution of one value.
type shape struct {
	name string
	mean float64
	draw func(rng *rand.Rand) float64
	// meanLog is the mean of the logarithm, for shapes of positive values.
	meanLog float64
}

// Outliers are a tenth of the values, on the right, and ten times as large as
// normal ones.
const wildShare, wildReach = 0.1, 10.0

// Shapes of noise, on whatever scale a table puts them.
var (
	normal       = shape{name: "normal", draw: func(rng *rand.Rand) float64 { return rng.NormFloat64() }}
	skewed       = lognormal(0.5)
	verySkew     = lognormal(1)
	contaminated = shape{
		name: "contaminated: 10 % outliers, 10 sd, one-sided",
		mean: wildShare * wildReach * math.Sqrt(2/math.Pi),
		draw: func(rng *rand.Rand) float64 {
			if rng.Float64() < wildShare {
				return wildReach * math.Abs(rng.NormFloat64())
			}
			return rng.NormFloat64()
		},
	}
)

// lognormal has the given standard deviation of the logarithm and median 1.
func lognormal(sd float64) shape {
	return shape{
		name: fmt.Sprintf("lognormal, sd of the logarithm %g", sd),
		mean: math.Exp(sd * sd / 2),
		draw: func(rng *rand.Rand) float64 { return math.Exp(sd * rng.NormFloat64()) },
	}
}

// trials are positive values of single trials around 1, as a benchmark yields them.
var trials = []shape{
	{
		name: "normal, sd 10 %", mean: 1,
		draw:    func(rng *rand.Rand) float64 { return trial(rng.NormFloat64()) },
		meanLog: expectation(func(z float64) float64 { return math.Log(trial(z)) }),
	},
	skewed,
	{
		name: "contaminated: normal, sd 10 %, 10 % outliers, 10 sd, one-sided",
		mean: 1 + trialSD*contaminated.mean,
		draw: func(rng *rand.Rand) float64 { return trial(contaminated.draw(rng)) },
		meanLog: expectation(func(z float64) float64 {
			return (1-wildShare)*math.Log(trial(z)) + wildShare*math.Log(trial(wildReach*math.Abs(z)))
		}),
	},
}

const trialSD = 0.1

// trial is a value of a trial with noise z. The bound, nine standard deviations
// down, keeps it positive and is not met in earnest.
func trial(z float64) float64 { return max(0.1, 1+trialSD*z) }

// expectation is the mean of f over a standard normal, by the trapezoidal rule.
func expectation(f func(z float64) float64) float64 {
	const reach, steps = 8.0, 4000
	var total float64
	for i := range steps + 1 {
		z := reach * (2*float64(i)/steps - 1)
		total += f(z) * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
	}
	return total * 2 * reach / steps
}

// poisson draws a count.
func poisson(rng *rand.Rand, mean float64) float64 {
	if mean > 30 { // the sum of two is Poisson too
		return poisson(rng, mean/2) + poisson(rng, mean/2)
	}
	limit, product, count := math.Exp(-mean), rng.Float64(), 0.0
	for product > limit {
		product *= rng.Float64()
		count++
	}
	return count
}
