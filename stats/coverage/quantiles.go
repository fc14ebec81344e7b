package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/gonum/stat/distuv"

	"tare/stats"
)

// service is how latencies of a service are distributed: lognormal around a
// level that moves from block to block and from trial to trial, and a share of
// requests, different in every trial, that a pause makes four times as long.
type service struct {
	name         string
	block, trial float64 // log sd of the level over blocks (shared by both sides), over trials
	request      float64 // log sd of requests
	pauses       float64 // mean share of requests that meet a pause
	pausesDiffer float64 // log sd of that share over trials
}

var services = []service{
	{"steady", 0.05, 0.03, 0.3, 0, 0},
	{"blocks differ", 0.2, 0.1, 0.5, 0, 0},
	{"pauses", 0.05, 0.03, 0.3, 0.02, 0.5},
}

const (
	typical     = 1000.0 // microseconds
	pauseFactor = 4
	requests    = 500 // in a trial
)

// histogram draws one trial.
func (s service) histogram(rng *rand.Rand, block, factor float64) *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, 1<<17, 3)
	level := typical * factor * math.Exp(block+s.trial*rng.NormFloat64())
	share := s.pauseShare(rng.NormFloat64())
	for range requests {
		v := level * math.Exp(s.request*rng.NormFloat64())
		if rng.Float64() < share {
			v *= pauseFactor
		}
		// What lies beyond the histogram's range would be a mistake of the
		// shapes above; the largest possible value keeps it visible.
		if h.RecordValue(int64(v+0.5)) != nil {
			_ = h.RecordValue(1 << 17)
		}
	}
	return h
}

func (s service) pauseShare(z float64) float64 {
	return s.pauses * math.Exp(s.pausesDiffer*z-s.pausesDiffer*s.pausesDiffer/2)
}

// quantile is the true q-quantile of requests over all blocks and trials, by
// bisection of the distribution function: a mixture of two normals on the log
// scale, since the mean share of pauses is all that is left of their differing.
func (s service) quantile(q float64) float64 {
	spread := math.Sqrt(s.block*s.block + s.trial*s.trial + s.request*s.request)
	below := func(x float64) float64 {
		return (1-s.pauses)*distuv.UnitNormal.CDF(x/spread) +
			s.pauses*distuv.UnitNormal.CDF((x-math.Log(pauseFactor))/spread)
	}
	low, high := -10.0, 10.0
	for range 80 {
		middle := (low + high) / 2
		if below(middle) < q {
			low = middle
		} else {
			high = middle
		}
	}
	return typical * math.Exp(low)
}

func quantileTable(title, text string, draw func(s service, q float64, rng *rand.Rand, n int) []float64) *table {
	t := &table{
		title: title, text: text,
		rowName: "service", columns: names(quantileMethods), sizes: blockSizes, replications: 600, kind: coverage,
	}
	for _, s := range services {
		for _, q := range []float64{0.5, 0.99} {
			t.rows = append(t.rows, row{fmt.Sprintf("%s, p%g", s.name, 100*q), func(rng *rand.Rand, n int) []float64 {
				return draw(s, q, rng, n)
			}})
		}
	}
	return t
}

func quantileRatios() *table {
	return quantileTable("Ratio of quantiles of merged histograms",
		"Latencies of 500 requests a trial, lognormal. *Steady*: blocks differ by 5 %, trials by 3 %, requests by 30 % (log sd). "+
			"*Blocks differ*: 20, 10 and 50 %. *Pauses*: as steady, and a share of requests takes four times as long. The share is 2 % in the mean, but different in every trial (log sd 0.5). "+
			"True ratio 1.1.",
		func(s service, q float64, rng *rand.Rand, n int) []float64 {
			base, treatment := make([]*hdrhistogram.Histogram, n), make([]*hdrhistogram.Histogram, n)
			for i := range base {
				block := s.block * rng.NormFloat64()
				base[i], treatment[i] = s.histogram(rng, block, 1), s.histogram(rng, block, trueRatio)
			}
			return covered(quantileMethods, trueRatio, rng.Int64(), func(m stats.Method, seed int64) stats.Estimate {
				return stats.QuantileRatioBy(m, base, treatment, q, level, seed)
			})
		})
}

func quantileLevels() *table {
	return quantileTable("Level of a quantile of merged histograms",
		"The same services. The true value is the quantile over all blocks that there could be. A few blocks seldom reach it: the outer quantile lies where the rare slow blocks are.",
		func(s service, q float64, rng *rand.Rand, n int) []float64 {
			blocks := make([]*hdrhistogram.Histogram, n)
			for i := range blocks {
				blocks[i] = s.histogram(rng, s.block*rng.NormFloat64(), 1)
			}
			return covered(
				quantileMethods,
				s.quantile(q),
				rng.Int64(),
				func(m stats.Method, seed int64) stats.Estimate {
					return stats.QuantileBy(m, blocks, q, level, seed)
				},
			)
		})
}
