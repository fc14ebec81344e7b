package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// The estimators of the variance between nodes.
const (
	// MethodREML is restricted maximum likelihood.
	MethodREML Method = "REML"
	// MethodDerSimonianLaird is the method of moments that stands in where that does not
	// converge.
	MethodDerSimonianLaird Method = "DerSimonian-Laird"
)

// RandomEffects is an effect over several nodes, on each of which it is another:
//
//	log effect measured on node i = mean + node(i) + error(i)
//
// node(i) has one variance for all nodes, and error(i) the variance that the node's own
// blocks tell.
type RandomEffects struct {
	// Mean is the geometric mean of effects over all nodes that there could be.
	Mean Estimate
	// New is the same figure with the interval in which the true effect of another node lies.
	New Estimate
	// Variance is that of node(i), tau squared, by REML; its interval is the Q-profile.
	Variance Estimate
	// Q is Cochran's (1954). P is the p-value of nodes that do not differ, which allows for errors
	// that are estimates: small where nodes differ by more than their errors allow.
	Q, P float64
	// Share, I squared, is which part of the scatter of the measured effects is no error of
	// measurement: 0 to 1.
	Share float64
	// Residuals, one a node, are its distance from all other nodes in standard errors,
	// externally studentised, and ResidualP their p-values, not adjusted.
	Residuals, ResidualP []float64
	Warnings             []string

	logs, errors []float64
	level        float64
}

// Explained is which part of the variance between nodes goes with a label of theirs.
type Explained struct {
	Labels []string   // in order
	Means  []Estimate // effect of the nodes with each label, as [RandomEffects.Mean]
	// Variance is what is left within labels, and Share by which part that is less than the
	// whole: 0 to 1. It is not a number where nothing is to be explained.
	Variance, Share float64
	P               float64 // small where labels differ by more than nodes do within them
	Warnings        []string
}

// fewToExplain is the number of nodes below which the share that a label explains is wild.
const fewToExplain = 10

// RandomEffectsOf pools an effect over nodes: ratios above 0, each with an interval over its own
// blocks, at least 3 of them.
//
//   - Errors are read from the intervals. The variances of few blocks are estimates; they are
//     drawn together ([ShrinkVariances]), so that a node whose blocks agree by chance does not
//     count for too much.
//   - Variance is the REML estimate (Viechtbauer, Journal of Educational and Behavioral
//     Statistics 30, 2005) by average information (Gilmour, Thompson and Cullis, Biometrics 51,
//     1995), or that of DerSimonian and Laird (Controlled Clinical Trials 7, 1986). Its interval
//     is Viechtbauer's (Statistics in Medicine 26, 2007).
//   - Mean has weights 1/(error² + variance) and the interval of Hartung and Knapp (Statistics in
//     Medicine 20, 2001) with k - 1 degrees of freedom, never narrower than that without their
//     factor, and so never narrower than that of a fixed effect.
//   - New is as [Regression.Prediction].
//   - Share is variance / (variance + typical error²) of Higgins and Thompson (Statistics in
//     Medicine 21, 2002), with the typical error² of their equation 9.
//   - Residuals are those of Viechtbauer and Cheung (Research Synthesis Methods 1, 2010): each
//     node against the model of all others. Student's t with the factor of Hartung and Knapp in
//     the variance, and k - 2 degrees of freedom or fewer, where the node's own error is less sure.
func RandomEffectsOf(effects []Estimate, level float64) RandomEffects {
	k := len(effects)
	refuse := func(format string, args ...any) RandomEffects { return noRandomEffects(k, level, format, args...) }
	if k < fewest {
		return refuse("need at least %d nodes, have %d", fewest, k)
	}
	logs, variances, freedom := make([]float64, k), make([]float64, k), make([]int, k)
	for i, e := range effects {
		se := logError(e)
		if positive(e.Value) != nil || positive(se) != nil || e.N < 2 {
			return refuse("node %d of %d has no ratio above 0 with an interval that has a width", i+1, k)
		}
		logs[i], variances[i], freedom[i] = math.Log(e.Value), se*se*float64(e.N), e.N-1
	}
	s, err := shrinkVariances(variances, freedom)
	if err != nil {
		return refuse("%v", err)
	}
	errors := make([]float64, k)
	for i, v := range s.variances {
		errors[i] = math.Sqrt(v / float64(effects[i].N))
	}
	return randomEffects(logs, errors, &s, level)
}

func noRandomEffects(k int, level float64, format string, args ...any) RandomEffects {
	nothing := unknown(k, level, MethodRandomEffects)
	return RandomEffects{
		Mean: nothing, New: nothing, Variance: unknown(k, level, MethodREML),
		Q: math.NaN(), P: math.NaN(), Share: math.NaN(),
		Residuals: slices.Repeat([]float64{math.NaN()}, k), ResidualP: slices.Repeat([]float64{math.NaN()}, k),
		Warnings: []string{"nodes are not pooled: " + fmt.Sprintf(format, args...)},
	}
}

// randomEffects is [RandomEffectsOf] with errors that were estimated so; nil where they are known.
func randomEffects(logs, errors []float64, estimated *shrunk, level float64) RandomEffects {
	k := len(logs)
	r := RandomEffects{logs: logs, errors: errors, level: level}
	by := MethodREML
	fitted, err := regress(ones(k), logs, errors, level, func(m *weighted) (between float64, err error) {
		between, by, err = m.restrictedOrMoments(0, mostSteps)
		return between, err
	})
	if err != nil {
		return noRandomEffects(k, level, "%v", err)
	}
	r.Mean, r.New = exponential(fitted.Coefficients[0]), exponential(fitted.Prediction([]float64{1}, 0))
	if r.Q, r.P = fitted.Excess*float64(fitted.Freedom), fitted.Agree; estimated != nil {
		r.P = homogeneity(logs, errors, *estimated)
	}
	r.Variance = unknown(k, level, by)
	r.Variance.Value = fitted.Between
	if by != MethodREML {
		r.Warnings = append(r.Warnings, "REML did not converge: the variance between nodes is that of DerSimonian and Laird")
	}
	m := fitted.problem.again()
	chi := distuv.ChiSquared{K: float64(fitted.Freedom)}
	low, lowErr := m.between(chi.Quantile(1 - (1-level)/2))
	high, highErr := m.between(chi.Quantile((1 - level) / 2))
	if lowErr == nil && highErr == nil {
		r.Variance.Interval.Low, r.Variance.Interval.High = low, high
	}
	if err := m.solve(0); err == nil {
		trace, _ := m.derivatives()
		r.Share = fitted.Between / (fitted.Between + float64(fitted.Freedom)/trace)
	}
	for i, se := range errors {
		residual, variance, scale, degrees := fitted.problem.deleted(i)
		if estimated != nil { // Satterthwaite's (Biometrics Bulletin 2, 1946), of the node's own error and all else
			own, rest := se*se, variance-se*se
			degrees = min(degrees, variance*variance/(own*own/estimated.freedom[i]+rest*rest/degrees))
		}
		t := residual / math.Sqrt(variance*scale)
		r.Residuals = append(r.Residuals, t)
		r.ResidualP = append(r.ResidualP, 2*distuv.StudentsT{Mu: 0, Sigma: 1, Nu: degrees}.Survival(math.Abs(t)))
	}
	return r
}

// homogeneity is the p-value of nodes that do not differ, where the errors are estimates. Against
// chi-squared Cochran's Q, and against F the test of Welch (Biometrika 38, 1951), reject too often:
// the more nodes and the fewer blocks, the more so (Krishnamoorthy, Lu and Mathew, Computational
// Statistics & Data Analysis 51, 2007). This test is our own; stats/coverage has its level.
//
//   - A node's distance from the mean in its standard errors is Student's t (Smyth 2004, as
//     [ShrinkVariances]). The normal deviate of the same probability stands for it in Q.
//   - What the variances have in common is an estimate, too, that of one variance with some degrees
//     of freedom. So the mean square is F.
func homogeneity(logs, errors []float64, estimated shrunk) float64 {
	var weights, mean, share float64
	for i, se := range errors {
		weights += 1 / (se * se)
		mean += logs[i] / (se * se)
	}
	mean /= weights
	var q float64
	for i, se := range errors {
		drawn := 1.0 // how much of its variance is what all have in common
		z := math.Abs(logs[i]-mean) / se
		if rest := 1 - 1/(se*se)/weights; !math.IsInf(estimated.common, 1) && rest > 0 {
			own := float64(estimated.own[i])
			drawn = estimated.common / (estimated.common + own)
			t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: estimated.common + own}.Survival(z / math.Sqrt(rest))
			z = math.Sqrt(rest) * distuv.UnitNormal.Quantile(max(t, math.SmallestNonzeroFloat64))
		}
		q += z * z
		share += drawn / float64(len(errors))
	}
	freedom := float64(len(errors) - 1)
	return distuv.F{D1: freedom, D2: 2 * inverseTrigamma(estimated.unsure*share*share)}.Survival(q / freedom)
}

// By finds what part of the variance between nodes goes with a label of each: a
// meta-regression on a categorical covariate. Each label has a mean, and the variance
// left is REML's. Share is the fall of the variance, at least 0 (Raudenbush, in The
// Handbook of Research Synthesis and Meta-Analysis, 2009, chapter 16). P is that of the F test of
// Knapp and Hartung (Statistics in Medicine 22, 2003). Labels tell what goes together, and not what
// causes it.
func (r RandomEffects) By(labels []string) Explained {
	k := len(r.logs)
	x := Explained{Variance: math.NaN(), Share: math.NaN(), P: math.NaN()}
	warn := func(format string, args ...any) { x.Warnings = append(x.Warnings, fmt.Sprintf(format, args...)) }
	if len(labels) != k || k == 0 {
		warn("%d labels for %d nodes that are pooled", len(labels), k)
		return x
	}
	x.Labels = slices.Compact(slices.Sorted(slices.Values(labels)))
	groups := len(x.Labels)
	switch left := k - groups; {
	case groups == 1:
		warn("all nodes are alike in it")
		return x
	case left < fewest-1:
		warn("%d nodes have %d labels: need at least %d nodes more than labels", k, groups, fewest-1)
		return x
	case k < fewToExplain:
		warn("need at least %d nodes for a share that can be trusted, have %d", fewToExplain, k)
	}
	design := make([][]float64, k)
	for i, label := range labels {
		at, _ := slices.BinarySearch(x.Labels, label)
		design[i] = make([]float64, groups)
		design[i][at] = 1
	}
	fitted, err := regress(design, r.logs, r.errors, r.level, func(m *weighted) (between float64, err error) {
		between, _, err = m.restrictedOrMoments(0, mostSteps)
		return between, err
	})
	if err != nil {
		warn("%v", err)
		return x
	}
	var weights, mean float64 // of the labels' means, which are independent
	for j, value := range fitted.values {
		w := 1 / fitted.covariance.At(j, j)
		weights += w
		mean += w * value
		x.Means = append(x.Means, exponential(fitted.Coefficients[j]))
	}
	mean /= weights
	var squares float64
	for j, value := range fitted.values {
		squares += (value - mean) * (value - mean) / fitted.covariance.At(j, j)
	}
	between := float64(groups - 1)
	x.P = distuv.F{D1: between, D2: float64(fitted.Freedom)}.Survival(squares / between)
	if x.Variance = fitted.Between; r.Variance.Value > 0 {
		x.Share = max(0, 1-x.Variance/r.Variance.Value)
	}
	return x
}

// exponential gives an estimate of a logarithm as a ratio.
func exponential(e Estimate) Estimate {
	e.Value, e.Interval.Low, e.Interval.High = math.Exp(e.Value), math.Exp(e.Interval.Low), math.Exp(e.Interval.High)
	return e
}

// ones is the design of a mean.
func ones(n int) [][]float64 {
	return slices.Repeat([][]float64{{1}}, n)
}

// mostSteps is after how many steps REML counts as not converging; it takes about ten.
const mostSteps = 100

// restrictedOrMoments estimates the variance between points by REML or, where that takes more
// than so many steps, by moments, and leaves the fit at it. The search starts near a value that
// is known to be close; 0 for none.
func (m *weighted) restrictedOrMoments(near float64, steps int) (variance float64, by Method, err error) {
	moments, err := m.moments()
	if err != nil {
		return 0, "", err
	}
	variance, converged, err := m.restricted(cmp.Or(near, moments), steps)
	if err != nil || converged {
		return variance, MethodREML, err
	}
	return moments, MethodDerSimonianLaird, m.solve(moments)
}

// moments is the variance of DerSimonian and Laird (1986): (Q - (n-p)) / trace(P), at least 0,
// where Q and P are those of no variance between points. With covariates it is Raudenbush's (2009).
func (m *weighted) moments() (float64, error) {
	if err := m.solve(0); err != nil {
		return 0, err
	}
	trace, _ := m.derivatives()
	return max(0, (m.squares-float64(m.n-m.p))/trace), nil
}

// restricted finds the variance of the greatest restricted likelihood, and leaves the fit at
// it. A step is (y'PPy - trace(P)) / y'PPPy, with P = W - WX (X'WX)^-1 X'W and the weights W at
// the variance so far: the score by the average of the observed and the expected information
// (Gilmour, Thompson and Cullis 1995). Steps by the expected information alone, Fisher's scoring
// (Viechtbauer 2005), may take hundreds. A step is halved until the likelihood does not fall.
func (m *weighted) restricted(start float64, steps int) (variance float64, converged bool, err error) {
	const precision = 1e-8
	var own float64 // what counts as nothing is measured by the smallest errors
	for _, v := range m.se2 {
		own += 1 / v / float64(m.n)
	}
	variance = start
	if err := m.solve(variance); err != nil {
		return 0, false, err
	}
	likelihood := m.likelihood()
	for range steps {
		trace, information := m.derivatives()
		for step := (m.steepness - trace) / information; ; step /= 2 {
			next := max(0, variance+step)
			if math.Abs(next-variance) <= precision*(variance+1/own) {
				return variance, true, m.solve(variance)
			}
			if err := m.solve(next); err != nil {
				return 0, false, err
			}
			if l := m.likelihood(); l >= likelihood {
				variance, likelihood = next, l
				break
			}
		}
	}
	return variance, false, nil
}

// likelihood is the logarithm of the restricted likelihood of the last fit, but for a
// constant (Patterson and Thompson, Biometrika 58, 1971).
func (m *weighted) likelihood() float64 {
	sum := m.squares
	for _, v := range m.se2 {
		sum += math.Log(v + m.variance)
	}
	for _, size := range m.sizes { // with R below, the determinant of X'WX
		sum += 2 * math.Log(size)
	}
	if m.p > 1 {
		var r mat.Dense
		m.qr.RTo(&r)
		for j := range m.p {
			sum += 2 * math.Log(math.Abs(r.At(j, j)))
		}
	}
	return -sum / 2
}

// derivatives are trace(P) and y'PPPy (see restricted) of the last fit.
func (m *weighted) derivatives() (trace, information float64) {
	c := m.covariance()
	sums := make([]float64, m.p)
	for i, row := range m.design {
		w := 1 / (m.se2[i] + m.variance)
		of := w * m.residuals[i]
		trace += w - w*w*quadratic(c, row)
		information += w * of * of
		for j, v := range row {
			sums[j] += w * of * v
		}
	}
	return trace, information - quadratic(c, sums)
}

// deleted gives the residual of a point from the model of all others (Viechtbauer and Cheung
// 2010), its variance without the factor of Knapp and Hartung (2003), that factor, and the degrees
// of freedom of the others.
func (m *weighted) deleted(i int) (residual, variance, scale, freedom float64) {
	rest := *m
	rest.n, rest.design, rest.y, rest.se2 = m.n-1, dropped(m.design, i), dropped(m.y, i), dropped(m.se2, i)
	others := rest.again()
	between, _, err := others.restrictedOrMoments(m.variance, mostSteps) // one point moves it little
	if err != nil {
		return math.NaN(), math.NaN(), math.NaN(), math.NaN()
	}
	residual = m.y[i]
	for j, v := range m.design[i] {
		residual -= v * others.coefficients[j]
	}
	variance = m.se2[i] + between + quadratic(others.covariance(), m.design[i])
	return residual, variance, others.scale(), float64(others.n - others.p)
}

func dropped[T any](x []T, i int) []T { return slices.Delete(slices.Clone(x), i, i+1) }
