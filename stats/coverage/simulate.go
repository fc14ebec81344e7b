package main

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
)

// kind is what a table's figures are.
type kind string

const (
	coverage kind = "Share of intervals that hold the true value, in percent, **bold** outside 93 to 97"
	share    kind = "Share, in percent"
	width    kind = "Geometric mean of the width, on the estimator's scale, over that of t"
)

// table is one simulation: rows (shapes of the data) by sizes by columns (methods).
type table struct {
	title, text  string
	rowName      string
	columns      []string
	plain        int // leading columns that are shares, whatever kind the rest is of
	rows         []row
	sizes        []int
	replications int
	kind         kind
}

// row is one shape of the data.
type row struct {
	name string
	// draw makes one data set of n blocks and gives for each column what is to
	// be averaged: 1 where the interval holds the true value, 0 elsewhere; or
	// the logarithm of a width. NaN takes no part in the average.
	draw func(rng *rand.Rand, n int) []float64
}

// result is one line of a table.
type result struct {
	row   row
	n     int
	means []float64 // one a column
}

// simulate runs the whole table.
func (t *table) simulate(seed uint64, workers int) []result {
	var results []result
	for _, r := range t.rows {
		for _, n := range t.sizes {
			results = append(results, t.simulateLine(r, n, seed, workers))
		}
	}
	return results
}

// simulateLine runs one line. Each replication has a random stream of its own,
// so that the figures do not depend on the number of workers.
func (t *table) simulateLine(r row, n int, seed uint64, workers int) result {
	outcomes := make([][]float64, t.replications)
	stream := streamOf(t.title, r.name, n) ^ seed
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < t.replications; i += workers {
				outcomes[i] = r.draw(rand.New(rand.NewPCG(stream, uint64(i))), n)
			}
		})
	}
	group.Wait()
	means := make([]float64, len(t.columns))
	for c := range means {
		var counted float64
		for _, outcome := range outcomes {
			if !math.IsNaN(outcome[c]) {
				means[c] += outcome[c]
				counted++
			}
		}
		means[c] /= counted
	}
	return result{r, n, means}
}

// streamOf gives each line of each table random numbers of its own.
func streamOf(title, name string, n int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(title + "\x00" + name + "\x00" + string(rune(n))))
	return h.Sum64()
}
