package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// generator gives the random numbers of one interval. Seeds that differ by one
// give unrelated streams: PCG mixes both words.
func generator(seed int64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), 0x9e3779b97f4a7c15))
}

// bootstrapT is the interval of Efron (1982), analysed by Hall (1988): the
// quantiles of the t statistic come from resamples instead of from the normal
// theory. A resample without spread has an infinite t statistic; where so many
// have none that the wanted quantile is infinite, so is the interval.
func (s *sample) bootstrapT(level float64, seed int64) (low, high float64) {
	n := len(s.x)
	rng := generator(seed)
	root := math.Sqrt(float64(n))
	statistics := make([]float64, resamples)
	for r := range statistics {
		var sum, squares float64
		for range n {
			v := s.x[rng.IntN(n)] - s.mean
			sum += v
			squares += v * v
		}
		mean := sum / float64(n)
		variance := (squares - sum*mean) / float64(n-1)
		// What is left of the difference where all drawn are equal is rounding.
		if variance <= 1e-14*s.sd*s.sd {
			statistics[r] = math.Inf(sign(mean))
			continue
		}
		statistics[r] = mean * root / math.Sqrt(variance)
	}
	slices.Sort(statistics)
	alpha := (1 - level) / 2
	se := s.sd / root
	return s.mean - ranked(statistics, 1-alpha)*se, s.mean - ranked(statistics, alpha)*se
}

// bca is the interval of Efron (1987): percentiles of the resampled means,
// shifted for bias and for a spread that changes with the mean (acceleration).
func (s *sample) bca(level float64, seed int64) (low, high float64) {
	n := len(s.x)
	rng := generator(seed)
	means := make([]float64, resamples)
	var below float64
	for r := range means {
		var sum float64
		for range n {
			sum += s.x[rng.IntN(n)]
		}
		means[r] = sum / float64(n)
		// A resample with every value once has the mean of the sample, but for
		// rounding, which must not decide the side.
		switch difference := means[r] - s.mean; {
		case math.Abs(difference) <= 1e-9*s.sd:
			below += 0.5
		case difference < 0:
			below++
		}
	}
	slices.Sort(means)

	var squares, cubes float64
	for _, v := range s.x {
		d := v - s.mean
		squares += d * d
		cubes += d * d * d
	}
	acceleration := cubes / (6 * math.Pow(squares, 1.5))
	bias := distuv.UnitNormal.Quantile(below / resamples)
	shifted := func(p float64) float64 {
		z := bias + distuv.UnitNormal.Quantile(p)
		return distuv.UnitNormal.CDF(bias + z/(1-acceleration*z))
	}
	alpha := (1 - level) / 2
	return ranked(means, shifted(alpha)), ranked(means, shifted(1-alpha))
}

// ranked is the p-quantile of sorted resampled values: the one of rank p(B+1),
// between two by interpolation.
func ranked(sorted []float64, p float64) float64 {
	rank := p*float64(len(sorted)+1) - 1
	switch {
	case math.IsNaN(rank):
		return math.NaN()
	case rank <= 0:
		return sorted[0]
	case rank >= float64(len(sorted)-1):
		return sorted[len(sorted)-1]
	}
	i := int(rank)
	fraction := rank - float64(i)
	if fraction == 0 || sorted[i] == sorted[i+1] {
		return sorted[i]
	}
	return sorted[i] + fraction*(sorted[i+1]-sorted[i])
}

func sign(v float64) int {
	if v < 0 {
		return -1
	}
	return 1
}
