package main

import (
	"math"
	"math/rand/v2"
	"sync"

	"tare/stats"
)

// roundSizes are the numbers of rounds that the tables show.
var roundSizes = []int{5, 8, 10, 20}

// typicalOf is the typical log ratio of the second instance to the first.
func typicalOf(round []strip) float64 {
	ratios := make([]float64, len(round))
	for i, s := range round {
		ratios[i] = s.second - s.first
	}
	return stats.TrimmedMean(ratios, stats.Trim)
}

// meanOf is the log ratio of their mean speeds, which is that of totals where all slices
// last equally long.
func meanOf(round []strip) float64 {
	var first, second float64
	for _, s := range round {
		first += math.Exp(s.first)
		second += math.Exp(s.second)
	}
	return math.Log(second / first)
}

// roundMeans shows whether the interval over rounds holds, on noise that was recorded.
func roundMeans(all []recording) *table {
	t := &table{
		title: "Means over rounds of slices",
		text: "Rounds are drawn from recordings of the baseline against itself, and within a round blocks of ten consecutive strips. " +
			"A strip keeps both instances. *Typical* is the mean of the strips' log ratios, trimmed by 40 % at either end. " +
			"*Mean* is the log ratio of their mean speeds, as totals of slices of equal length have it. " +
			"The true value is the mean over all rounds that can be drawn.",
		rowName: "recording", columns: []string{"typical", "mean"}, sizes: roundSizes, replications: 4000, kind: coverage,
	}
	for _, r := range all {
		typical := sync.OnceValue(func() float64 { return math.Exp(r.expected(typicalOf)) })
		mean := sync.OnceValue(func() float64 { return math.Exp(r.expected(meanOf)) })
		t.rows = append(t.rows, row{r.name, func(rng *rand.Rand, n int) []float64 {
			ofTypical, ofMean := make([]float64, n), make([]float64, n)
			for i := range n {
				round := r.round(rng)
				ofTypical[i], ofMean[i] = typicalOf(round), meanOf(round)
			}
			return []float64{holds(stats.RoundMean(ofTypical, level), typical()), holds(stats.RoundMean(ofMean, level), mean())}
		}})
	}
	return t
}

// roundStops shows what stopping by precision does to the interval, by the round from
// which it is checked.
func roundStops(all []recording) *table {
	const most = 100
	wanted := []int{8, 12}
	t := &table{
		title: "Rounds that stop by precision",
		text: "Typical ratios as above. A run goes on until its interval is as narrow as it is in the mean after 8 or 12 rounds; n is the round " +
			"from which that is checked.",
		rowName: "recording", columns: []string{"as narrow as after 8", "as narrow as after 12"},
		sizes: []int{5, stats.StopFrom}, replications: 4000, kind: coverage,
	}
	for _, r := range all {
		truth := sync.OnceValue(func() float64 { return math.Exp(r.expected(typicalOf)) })
		spread := sync.OnceValue(func() float64 {
			center := math.Log(truth())
			return r.expected(func(round []strip) float64 { return math.Pow(typicalOf(round)-center, 2) })
		})
		t.rows = append(t.rows, row{r.name, func(rng *rand.Rand, n int) []float64 {
			var held []float64
			for _, after := range wanted {
				halfWidth := stats.HalfWidthExpected(0, spread(), 1, after, level)
				var found []float64
				for len(found) < n {
					found = append(found, typicalOf(r.round(rng)))
				}
				e := stats.RoundMean(found, level)
				for e.Interval.High/e.Interval.Low > (1+halfWidth)*(1+halfWidth) && len(found) < most {
					found = append(found, typicalOf(r.round(rng)))
					e = stats.RoundMean(found, level)
				}
				held = append(held, holds(e, truth()))
			}
			return held
		}})
	}
	return t
}
