package main

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"tare/stats"
)

// binomialTail is the probability of k or more of n where each has the probability p.
func binomialTail(k, n int, p float64) float64 {
	if k <= 0 {
		return 1
	}
	return 1 - distuv.Binomial{N: float64(n), P: p}.CDF(float64(k-1))
}

// varianceRatio is the variance of estimates over the mean of their squared standard
// errors, 1 where these are right. low and high are its interval at the level for normal
// estimates, the standard errors taken as known. NaN for fewer than two.
func varianceRatio(estimates, errors []float64) (ratio, low, high float64) {
	n := len(estimates)
	if n < 2 || len(errors) != n {
		return math.NaN(), math.NaN(), math.NaN()
	}
	var squares float64
	for _, se := range errors {
		squares += se * se / float64(n)
	}
	ratio = stat.Variance(estimates, nil) / squares
	chi := distuv.ChiSquared{K: float64(n - 1)}
	return ratio, ratio * chi.K / chi.Quantile(0.5+level/2), ratio * chi.K / chi.Quantile(0.5-level/2)
}

// doseResponse fits estimates = intercept + slope · truths, each with its standard error.
func doseResponse(truths, estimates, errors []float64) (intercept, slope stats.Estimate, err error) {
	design := make([][]float64, len(truths))
	for i, x := range truths {
		design[i] = []float64{1, x}
	}
	r, err := stats.Regress(design, estimates, errors, level)
	if err != nil {
		return intercept, slope, fmt.Errorf("dose-response: %w", err)
	}
	return r.Coefficients[0], r.Coefficients[1], nil
}

// holds tells whether an estimate's interval holds a value.
func holds(e stats.Estimate, v float64) bool { return e.Interval.Low <= v && v <= e.Interval.High }
