package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"tare/stats"
)

// roundSizes are the numbers of rounds that the tables show.
var roundSizes = []int{5, 8, 10, 20}

// typicalOf is the typical log ratio of the second instance to the first, with its standard error.
func typicalOf(round []strip) (ratio, err float64) {
	ratios := make([]float64, len(round))
	for i, s := range round {
		ratios[i] = s.second - s.first
	}
	return stats.TrimmedMean(ratios, stats.Trim), stats.RoundError(ratios)
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
			"A strip keeps both instances; which of them is the baseline is drawn for each round, so that the true ratio is 1. " +
			"*Typical* is the mean of the strips' log ratios, trimmed by 40 % at either end. " +
			"*Mean* is the log ratio of their mean speeds, as totals of slices of equal length have it. " +
			"*Typical* weighs rounds by how quiet they were. The others weigh all alike, by Student's t.",
		rowName: "recording", columns: []string{"typical, equal", "typical", "mean"}, sizes: roundSizes, replications: 4000, kind: coverage,
	}
	for _, r := range all {
		t.rows = append(t.rows, row{r.name, func(rng *rand.Rand, n int) []float64 {
			drawn := r.draw(rng, n)
			return []float64{
				holds(stats.RoundMean(drawn.typical, nil, level), 1),
				holds(stats.RoundMean(drawn.typical, drawn.weights(), level), 1),
				holds(stats.RoundMean(drawn.mean, nil, level), 1),
			}
		}})
	}
	return t
}

// roundWidths shows what the weights are for.
func roundWidths(all []recording) *table {
	t := &table{
		title:   "What the weights of rounds gain",
		text:    "Rounds as above.",
		rowName: "recording", columns: []string{"typical"}, sizes: roundSizes, replications: 1000, kind: width,
	}
	for _, r := range all {
		t.rows = append(t.rows, row{r.name, func(rng *rand.Rand, n int) []float64 {
			drawn := r.draw(rng, n)
			weighted, equal := stats.RoundMean(drawn.typical, drawn.weights(), level),
				stats.RoundMean(drawn.typical, nil, level)
			return []float64{math.Log(widthOf(weighted) / widthOf(equal))}
		}})
	}
	return t
}

// widthOf is the width of an interval, on the log scale.
func widthOf(e stats.Estimate) float64 { return math.Log(e.Interval.High / e.Interval.Low) }

// drawnRounds are what some rounds found.
type drawnRounds struct{ typical, errors, mean []float64 }

func (d drawnRounds) weights() []float64 { return stats.RoundWeights(d.typical, d.errors) }

func (d *drawnRounds) add(round []strip) {
	typical, err := typicalOf(round)
	d.typical, d.errors, d.mean = append(d.typical, typical), append(d.errors, err), append(d.mean, meanOf(round))
}

func (r recording) draw(rng *rand.Rand, n int) (d drawnRounds) {
	for range n {
		d.add(r.round(rng))
	}
	return d
}

// roundStops shows what stopping by precision does to the interval, by the round from
// which it is checked.
func roundStops(all []recording) *table {
	const most = 100
	wanted := []int{8, 12}
	t := &table{
		title: "Rounds that stop by precision",
		text: "Typical ratios as above, weighted. A run goes on until its interval is as narrow as it is in the median after 8 or 12 rounds. n is the round " +
			"from which that is checked.",
		rowName: "recording", columns: []string{"as narrow as after 8", "as narrow as after 12"},
		sizes: []int{5, stats.StopFrom}, replications: 4000, kind: coverage,
	}
	for _, r := range all {
		goals := sync.OnceValue(func() (goals []float64) {
			const runs = 1000
			rng := rand.New(rand.NewPCG(streamOf("goals", r.name, runs), publishedSeed))
			for _, after := range wanted {
				var widths []float64
				for range runs {
					drawn := r.draw(rng, after)
					widths = append(widths, widthOf(stats.RoundMean(drawn.typical, drawn.weights(), level)))
				}
				slices.Sort(widths)
				goals = append(goals, widths[runs/2])
			}
			return goals
		})
		t.rows = append(t.rows, row{r.name, func(rng *rand.Rand, n int) []float64 {
			var held []float64
			for _, goal := range goals() {
				drawn := r.draw(rng, n)
				e := stats.RoundMean(drawn.typical, drawn.weights(), level)
				for widthOf(e) > goal && len(drawn.typical) < most {
					drawn.add(r.round(rng))
					e = stats.RoundMean(drawn.typical, drawn.weights(), level)
				}
				held = append(held, holds(e, 1))
			}
			return held
		}})
	}
	return t
}
