package main

import (
	"math"
	"math/rand/v2"
	"strings"

	"tare/stats"
)

const (
	publishedSeed = 20260101
	level         = 0.95
)

// blockSizes are the numbers of blocks that the tables show.
var blockSizes = []int{5, 10, 20, 30, 50}

// meanMethods are the columns of the tables of means; the last is the default's.
var meanMethods = []stats.Method{
	stats.MethodT, stats.MethodBootstrapT, stats.MethodBCa, stats.MethodHodgesLehmann, stats.MethodDefault,
}

// quantileMethods are the columns of the tables of quantiles.
var quantileMethods = []stats.Method{
	stats.MethodJackknifeT, stats.MethodBootstrapT, stats.MethodBlockBootstrap, stats.MethodDefault,
}

func tables() ([]*table, error) {
	noise, err := recordings(recorded)
	if err != nil {
		return nil, err
	}
	return []*table{
		pairedRatioByTrial(meanMethods), pairedRatioByRatio(meanMethods), widths(),
		differences(meanMethods), geometricMeans(meanMethods), means(meanMethods),
		warned(), counts(), countRatios(), quantileRatios(), quantileLevels(), changePoints(), stein(), overNodes(),
		roundMeans(noise), roundWidths(noise), roundStops(noise),
	}, nil
}

// trueRatio is the effect that the simulated blocks have.
const trueRatio = 1.1

// pairedTrials draws blocks: a level that both sides share, and each side's noise.
func pairedTrials(rng *rand.Rand, n int, noise shape, ratio float64) (base, treatment []float64) {
	base, treatment = make([]float64, n), make([]float64, n)
	for i := range base {
		block := 100 * math.Exp(0.2*rng.NormFloat64())
		base[i] = block * noise.draw(rng)
		treatment[i] = block * ratio * noise.draw(rng)
	}
	return base, treatment
}

func pairedRatioByTrial(methods []stats.Method) *table {
	t := &table{
		title: "Paired ratio, by the shape of single trials",
		text: "Each block has a level of its own (log sd 0.2) that both sides share; each trial has noise of the shape named. " +
			"Outliers strike either side alike, as the host's noise does. True ratio 1.1.",
		rowName: "trials", columns: names(methods), sizes: blockSizes, replications: 10000, kind: coverage,
	}
	for _, noise := range trials {
		t.rows = append(t.rows, row{noise.name, func(rng *rand.Rand, n int) []float64 {
			base, treatment := pairedTrials(rng, n, noise, trueRatio)
			return covered(methods, trueRatio, rng.Int64(), func(m stats.Method, seed int64) stats.Estimate {
				return stats.PairedRatioBy(m, base, treatment, level, seed)
			})
		}})
	}
	return t
}

// drawnRatios gives sides whose log ratios have the shape named, at a tenth of
// its scale.
func drawnRatios(rng *rand.Rand, n int, noise shape) (base, treatment []float64) {
	base, treatment = make([]float64, n), make([]float64, n)
	for i := range base {
		base[i] = 100
		treatment[i] = 100 * math.Exp(0.1*noise.draw(rng))
	}
	return base, treatment
}

func pairedRatioByRatio(methods []stats.Method) *table {
	t := &table{
		title: "Paired ratio, by the shape of the log ratios themselves",
		text: "Harder than the table before: skew and outliers sit in the effect, on one side, where pairing cannot cancel them. " +
			"The true value is the mean log ratio, outliers included; in the last rows it is the centre that the ratios have without the outliers.",
		rowName: "log ratios", columns: names(methods), sizes: blockSizes, replications: 4000, kind: coverage,
	}
	add := func(name string, noise shape, truth float64) {
		t.rows = append(t.rows, row{name, func(rng *rand.Rand, n int) []float64 {
			base, treatment := drawnRatios(rng, n, noise)
			return covered(methods, math.Exp(0.1*truth), rng.Int64(), func(m stats.Method, seed int64) stats.Estimate {
				return stats.PairedRatioBy(m, base, treatment, level, seed)
			})
		}})
	}
	for _, noise := range []shape{normal, skewed, verySkew, contaminated} {
		add(noise.name, noise, noise.mean)
	}
	add(contaminated.name+"; true value: the centre", contaminated, 0)
	return t
}

func widths() *table {
	methods := []stats.Method{stats.MethodT, stats.MethodBootstrapT, stats.MethodBCa, stats.MethodHodgesLehmann}
	t := &table{
		title:   "What a method's coverage costs in width",
		text:    "Paired ratio, as in the first table.",
		rowName: "trials", columns: names(methods), sizes: blockSizes, replications: 1000, kind: width,
	}
	for _, noise := range trials {
		t.rows = append(t.rows, row{noise.name, func(rng *rand.Rand, n int) []float64 {
			base, treatment := pairedTrials(rng, n, noise, trueRatio)
			logWidth := func(m stats.Method) float64 {
				e := stats.PairedRatioBy(m, base, treatment, level, rng.Int64())
				return math.Log(math.Log(e.Interval.High / e.Interval.Low))
			}
			byT := logWidth(stats.MethodT)
			values := make([]float64, len(methods))
			for i, m := range methods {
				values[i] = logWidth(m) - byT
			}
			return values
		}})
	}
	return t
}

func differences(methods []stats.Method) *table {
	t := &table{
		title:   "Paired difference",
		text:    "Trials as in the first table, treatment half as much again as the baseline, so that its noise is larger too.",
		rowName: "trials", columns: names(methods), sizes: blockSizes, replications: 4000, kind: coverage,
	}
	for _, noise := range trials {
		t.rows = append(t.rows, row{noise.name, func(rng *rand.Rand, n int) []float64 {
			base, treatment := make([]float64, n), make([]float64, n)
			for i := range base {
				base[i] = 100 + 20*rng.NormFloat64()
				treatment[i] = base[i] + 150*noise.draw(rng)
				base[i] += 100 * noise.draw(rng)
			}
			return covered(methods, 50*noise.mean, rng.Int64(), func(m stats.Method, seed int64) stats.Estimate {
				return stats.PairedDifferenceBy(m, base, treatment, level, seed)
			})
		}})
	}
	return t
}

func geometricMeans(methods []stats.Method) *table {
	t := &table{
		title:   "Geometric mean",
		text:    "Trials as in the first table, without blocks. The true value is the geometric mean of the distribution, outliers included.",
		rowName: "trials", columns: names(methods), sizes: blockSizes, replications: 4000, kind: coverage,
	}
	for _, noise := range trials {
		t.rows = append(t.rows, row{noise.name, func(rng *rand.Rand, n int) []float64 {
			values := make([]float64, n)
			for i := range values {
				values[i] = noise.draw(rng)
			}
			return covered(
				methods,
				math.Exp(noise.meanLog),
				rng.Int64(),
				func(m stats.Method, seed int64) stats.Estimate {
					return stats.GeometricMeanBy(m, values, level, seed)
				},
			)
		}})
	}
	return t
}

func means(methods []stats.Method) *table {
	t := &table{
		title:   "Mean of values that neither a logarithm nor a pairing tames",
		text:    "The true value is the mean of the distribution, outliers included.",
		rowName: "values", columns: names(methods), sizes: blockSizes, replications: 4000, kind: coverage,
	}
	for _, noise := range []shape{normal, skewed, verySkew, contaminated} {
		t.rows = append(t.rows, row{noise.name, func(rng *rand.Rand, n int) []float64 {
			values := make([]float64, n)
			for i := range values {
				values[i] = noise.draw(rng)
			}
			return covered(methods, noise.mean, rng.Int64(), func(m stats.Method, seed int64) stats.Estimate {
				return stats.MeanBy(m, values, level, seed)
			})
		}})
	}
	return t
}

func warned() *table {
	t := &table{
		title: "How often the warning of outlying blocks is given",
		text: "A warning is of use where it comes with the trouble and stays away without it. Log ratios as in the second table, " +
			"and those of contaminated trials as in the first.",
		rowName: "log ratios", columns: []string{"warned", "holds", "holds, where warned", "holds, where not warned"},
		sizes: []int{10, 20, 30, 50}, replications: 4000, kind: share,
	}
	add := func(name string, truth float64, draw func(rng *rand.Rand, n int) (base, treatment []float64)) {
		t.rows = append(t.rows, row{name, func(rng *rand.Rand, n int) []float64 {
			base, treatment := draw(rng, n)
			e := stats.PairedRatio(base, treatment, level, rng.Int64())
			held := holds(e, truth)
			for _, w := range e.Warnings {
				if strings.Contains(w, "outlying") {
					return []float64{1, held, held, math.NaN()}
				}
			}
			return []float64{0, held, math.NaN(), held}
		}})
	}
	for _, noise := range []shape{normal, skewed, verySkew, contaminated} {
		add(noise.name, math.Exp(0.1*noise.mean), func(rng *rand.Rand, n int) (base, treatment []float64) {
			return drawnRatios(rng, n, noise)
		})
	}
	wild := trials[len(trials)-1]
	add("of trials "+wild.name, trueRatio, func(rng *rand.Rand, n int) (base, treatment []float64) {
		return pairedTrials(rng, n, wild, trueRatio)
	})
	return t
}

// events are kinds of counts: a mean a block, and by how much blocks differ.
var events = []struct {
	name   string
	mean   float64
	spread float64 // log sd of the rate over blocks, shared by both sides
}{
	{"Poisson, 0.5 a block", 0.5, 0},
	{"Poisson, 2 a block", 2, 0},
	{"Poisson, 20 a block", 20, 0},
	{"2 a block, rate of blocks with log sd 0.5", 2, 0.5},
	{"20 a block, rate of blocks with log sd 0.5", 20, 0.5},
}

// countTable makes a table over the kinds of counts.
func countTable(
	title, text string,
	truth func(mean float64) float64,
	estimate func(base, treatment []float64, seed int64) stats.Estimate,
) *table {
	t := &table{
		title: title, text: text,
		rowName: "events", columns: []string{"given", "holds, where given"}, plain: 1,
		sizes: blockSizes, replications: 10000, kind: coverage,
	}
	for _, kind := range events {
		t.rows = append(t.rows, row{kind.name, func(rng *rand.Rand, n int) []float64 {
			base, treatment := make([]float64, n), make([]float64, n)
			for i := range base {
				rate := kind.mean * math.Exp(kind.spread*rng.NormFloat64()-kind.spread*kind.spread/2)
				base[i], treatment[i] = poisson(rng, rate), poisson(rng, 1.5*rate)
			}
			e := estimate(base, treatment, rng.Int64())
			if math.IsNaN(e.Interval.Low) {
				return []float64{0, math.NaN()}
			}
			return []float64{1, holds(e, truth(kind.mean))}
		}})
	}
	return t
}

func counts() *table {
	return countTable("Difference of counts",
		"Treatment has half as many events again. No interval is given, but a warning, where all differences are equal.",
		func(mean float64) float64 { return 0.5 * mean },
		func(base, treatment []float64, seed int64) stats.Estimate {
			return stats.CountDifference(base, treatment, level, seed)
		})
}

func countRatios() *table {
	return countTable("Ratio of counts",
		"The same events. No interval is given, but a warning, where the baseline does not differ significantly from zero.",
		func(float64) float64 { return 1.5 },
		func(base, treatment []float64, seed int64) stats.Estimate {
			return stats.CountRatio(base, treatment, level, seed)
		})
}

// stein is the whole two-stage procedure: a pilot, the number of blocks it asks
// for, and the interval over all of them.
func stein() *table {
	const halfWidth, sd = 0.02, 0.03
	t := &table{
		title: "Stein's two stages",
		text: "Log ratios normal with sd 3 %, wanted half-width 2 %. n is the pilot's size. The interval is Stein's own, the wanted half-width around the geometric mean " +
			"of all blocks. Beside it stands the t interval over all blocks as an estimate prints it, and how often that one is no wider than wanted.",
		rowName: "log ratios", columns: []string{"Stein's interval holds", "t interval holds", "t interval as narrow as wanted"},
		sizes: []int{5, 8, 10, 20}, replications: 10000, kind: share,
	}
	t.rows = []row{{"normal", func(rng *rand.Rand, n int) []float64 {
		var base, treatment []float64
		add := func() {
			base = append(base, 100)
			treatment = append(treatment, 100*math.Exp(sd*rng.NormFloat64()))
		}
		for range n {
			add()
		}
		total := stats.SteinBlocks(stats.LogSD(base, treatment), n, halfWidth, level)
		for len(base) < total {
			add()
		}
		e := stats.PairedRatioBy(stats.MethodT, base, treatment, level, 0)
		var fixed, narrow float64
		if math.Abs(math.Log(e.Value)) <= math.Log1p(halfWidth) {
			fixed = 1
		}
		if e.Interval.High/e.Value <= 1+halfWidth {
			narrow = 1
		}
		return []float64{fixed, holds(e, 1), narrow}
	}}}
	return t
}

func holds(e stats.Estimate, truth float64) float64 {
	if e.Interval.Low <= truth && truth <= e.Interval.High {
		return 1
	}
	return 0
}

// covered tells for each method whether its interval holds the true value. The
// default is one of the others: it is not computed twice.
func covered(methods []stats.Method, truth float64, seed int64, by func(stats.Method, int64) stats.Estimate) []float64 {
	chosen := by(stats.MethodDefault, seed)
	values := make([]float64, len(methods))
	for i, m := range methods {
		if m == stats.MethodDefault || string(m) == chosen.Method {
			values[i] = holds(chosen, truth)
			continue
		}
		values[i] = holds(by(m, seed), truth)
	}
	return values
}

func names(methods []stats.Method) []string {
	columns := make([]string, len(methods))
	for i, m := range methods {
		columns[i] = string(m)
		if m == stats.MethodDefault {
			columns[i] = "default"
		}
	}
	return columns
}
