package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies gives blocks of latencies around 1000 us, with what each block adds.
func latencies(rng *rand.Rand, blocks, values int, factor float64) []*hdrhistogram.Histogram {
	histograms := make([]*hdrhistogram.Histogram, blocks)
	for b := range histograms {
		h := hdrhistogram.New(1, 10_000_000, 3)
		level := 1000 * factor * math.Exp(0.1*rng.NormFloat64())
		for range values {
			if err := h.RecordValue(int64(level*math.Exp(0.4*rng.NormFloat64()) + 0.5)); err != nil {
				panic(err)
			}
		}
		histograms[b] = h
	}
	return histograms
}

func BenchmarkQuantileRatio(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	base, treatment := latencies(rng, 50, 20000, 1), latencies(rng, 50, 20000, 1.1)
	for _, method := range []Method{MethodJackknifeT, MethodBlockBootstrap, MethodBootstrapT} {
		b.Run(string(method), func(b *testing.B) {
			for b.Loop() {
				QuantileRatioBy(method, base, treatment, 0.99, 0.95, 1)
			}
		})
	}
}
