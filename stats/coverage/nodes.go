package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"tare/stats"
)

// nodeSizes are the numbers of nodes that the table shows.
var nodeSizes = []int{3, 5, 10, 20, 50}

// overNodes shows what the random-effects model claims of nodes whose truth is known.
func overNodes() *table {
	t := &table{
		title: "An effect over nodes",
		text: "n nodes of 5 or 20 blocks. The log ratios of a block are normal. Errors are *alike*, sd 3 %, or *unlike*: the sd of each node is drawn with a log sd of 0.5. " +
			"True effects of nodes are normal around 1.1; how they differ is stated in standard errors of a typical node. " +
			"*Odd*: a node is named, by Holm at 5 %, though none is. *Label*: one of two labels that mean nothing explains something, p below 5 %. " +
			"*Differ*: p of nodes alike below 5 %, which is a false alarm where nodes do not differ. " +
			"*Mean*: the interval holds the true mean. *New*: the interval of another node holds its true effect.",
		rowName: "nodes", columns: []string{"odd", "label", "differ", "mean", "new"}, plain: 3,
		sizes: nodeSizes, replications: 1000, kind: coverage,
	}
	for _, differ := range []struct {
		name    string
		between float64
	}{
		{"do not differ", 0}, {"differ by half of it", 0.5}, {"differ by as much", 1}, {"differ by three times as much", 3},
	} {
		for _, c := range []struct {
			name    string
			blocks  int
			scatter float64
		}{{"5 blocks, alike", 5, 0}, {"5 blocks, unlike", 5, 0.5}, {"20 blocks, unlike", 20, 0.5}} {
			t.rows = append(t.rows, row{differ.name + ", " + c.name, func(rng *rand.Rand, n int) []float64 {
				return drawnNodes(rng, n, c.blocks, c.scatter, differ.between)
			}})
		}
	}
	return t
}

// drawnNodes gives what is claimed of one fleet.
func drawnNodes(rng *rand.Rand, nodes, blocks int, scatter, between float64) []float64 {
	const sd = 0.03
	differ := between * sd / math.Sqrt(float64(blocks))
	effects, labels := make([]stats.Estimate, nodes), make([]string, nodes)
	for i := range effects {
		own := trueRatio * math.Exp(differ*rng.NormFloat64())
		noise := sd * math.Exp(scatter*rng.NormFloat64())
		base, treatment := make([]float64, blocks), make([]float64, blocks)
		for j := range base {
			base[j], treatment[j] = 1, own*math.Exp(noise*rng.NormFloat64())
		}
		effects[i] = stats.PairedRatio(base, treatment, level, 0)
		labels[i] = []string{"a", "b"}[i%2]
	}
	r := stats.RandomEffectsOf(effects, level)
	claimed := func(p float64) float64 {
		switch {
		case math.IsNaN(p):
			return p
		case p < 1-level:
			return 1
		}
		return 0
	}
	return []float64{
		claimed(slices.Min(stats.Holm(r.ResidualP))), claimed(r.By(labels).P), claimed(r.P),
		holds(r.Mean, trueRatio), holds(r.New, trueRatio*math.Exp(differ*rng.NormFloat64())),
	}
}
