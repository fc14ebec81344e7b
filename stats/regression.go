package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// MethodRandomEffects is a regression whose points have errors of their own, known
// beforehand, and a spread beyond these that is estimated.
const MethodRandomEffects Method = "random-effects regression, t"

// ErrCollinear says that the points do not tell two columns of a design apart.
var ErrCollinear = errors.New("the points do not tell the terms apart")

// TooFewPoints says that nothing would be left to contradict a regression.
type TooFewPoints struct{ Have, Want int }

func (e *TooFewPoints) Error() string {
	return fmt.Sprintf("%d points: the regression takes %d or more", e.Have, e.Want)
}

// Regression is a linear model of points that each have a standard error.
type Regression struct {
	Coefficients []Estimate
	// Between is the variance of the points beyond their own errors: what the model
	// leaves open. 0 where the errors explain all.
	Between float64
	// Excess is the weighted sum of squared residuals by degree of freedom where the
	// points' own errors are all there is (Cochran's Q over its freedom; the reduced
	// chi-square): 1 is expected of a model that holds.
	Excess float64
	// Agree is the p-value of that: small where the points lie farther from the
	// model than their errors allow.
	Agree float64
	// Fitted and Residuals are by point.
	Fitted, Residuals []float64
	Freedom           int

	problem           *weighted
	values            []float64
	covariance, fixed *mat.Dense // of the coefficients, and with nothing between
	level             float64
}

// unsure is the chance that the spread between points is no more than what a
// prediction allows for. From few points it is often estimated as nothing where there
// is some, which a mean forgives and a prediction does not: it gets the upper end of an
// interval (Viechtbauer 2007) instead. Chosen by the coverage in regression_test.go.
const unsure = 0.75

// worstCondition is that of a design above which its columns count as not told
// apart.
const worstCondition = 1e8

// Regress fits y = design · coefficients by least squares with the weights
// 1/(se² + between). The variance between is Paule and Mandel's (1982): that by which
// the weighted squares of the residuals come to their degrees of freedom. (The
// estimate of DerSimonian and Laird is its first step; Veroniki et al., Research
// Synthesis Methods 7 (2016), recommend it over that.) Intervals are Student's t with
// n - p degrees of freedom, with the modification of Knapp and Hartung (2003) by which an
// interval is never narrower than the points' own errors make it: with this
// variance its factor is 1. Where nothing lies between, they hold more often than
// they claim, and the fewer points, the more so.
//
// Rows of design belong to elements of y. The error is a *TooFewPoints, ErrCollinear, or
// says what is no number.
func Regress(design [][]float64, y, se []float64, level float64) (Regression, error) {
	return regress(design, y, se, level, func(m *weighted) (float64, error) { return m.between(float64(m.n - m.p)) })
}

// regress fits with the variance between points that estimate finds.
func regress(
	design [][]float64,
	y, se []float64,
	level float64,
	estimate func(*weighted) (between float64, err error),
) (Regression, error) {
	m, err := newWeighted(design, y, se)
	if err != nil {
		return Regression{}, fmt.Errorf("regression: %w", err)
	}
	if !(level > 0 && level < 1) {
		return Regression{}, fmt.Errorf("regression: level %v is not between 0 and 1", level)
	}
	r := Regression{Freedom: m.n - m.p, level: level}
	if err := m.solve(0); err != nil {
		return Regression{}, fmt.Errorf("regression: %w", err)
	}
	freedom := float64(r.Freedom)
	r.fixed = m.covariance()
	r.Excess = m.squares / freedom
	r.Agree = distuv.ChiSquared{K: freedom}.Survival(m.squares)
	if r.Between, err = estimate(m); err != nil {
		return Regression{}, fmt.Errorf("regression: %w", err)
	}
	r.problem, r.values, r.covariance = m, m.coefficients, m.covariance()
	r.covariance.Scale(m.scale(), r.covariance)
	r.Fitted, r.Residuals = m.fitted, m.residuals
	for j := range r.values {
		one := make([]float64, m.p)
		one[j] = 1
		r.Coefficients = append(r.Coefficients, r.Combination(one))
	}
	return r, nil
}

// Combination estimates a sum of the coefficients, each times a factor: the model's
// line where the factors are a row of a design.
func (r Regression) Combination(factors []float64) Estimate {
	return r.estimate(factors, 0)
}

// Prediction is of a point that was not fitted: its interval holds, besides what the
// line leaves open, the spread between points, and the new one's own error.
func (r Regression) Prediction(row []float64, se float64) Estimate {
	wide := r.Between
	if r.problem != nil {
		freedom := float64(r.Freedom)
		again := r.problem.again()
		if v, err := again.between(distuv.ChiSquared{K: freedom}.Quantile(1 - unsure)); err == nil {
			wide = max(wide, v)
		}
	}
	return r.estimate(row, wide+se*se)
}

// FixedVariance is the variance of a combination where the points' own errors are all
// there is.
func (r Regression) FixedVariance(factors []float64) float64 {
	return quadratic(r.fixed, factors)
}

func quadratic(m *mat.Dense, factors []float64) (sum float64) {
	for i, f := range factors {
		for j, g := range factors {
			sum += f * g * m.At(i, j)
		}
	}
	return max(sum, 0)
}

func (r Regression) estimate(factors []float64, more float64) Estimate {
	n := len(r.Fitted)
	if len(factors) != len(r.values) {
		return undefined(n, r.level, MethodRandomEffects, "%d factors for %d coefficients", len(factors), len(r.values))
	}
	e := unknown(n, r.level, MethodRandomEffects)
	var value float64
	for i, f := range factors {
		value += f * r.values[i]
	}
	half := tQuantile(1-(1-r.level)/2, float64(r.Freedom)) * math.Sqrt(quadratic(r.covariance, factors)+more)
	if math.IsNaN(value) || math.IsInf(value, 0) || math.IsNaN(half) || math.IsInf(half, 0) {
		e.warn("the sum is beyond what can be computed")
		return e
	}
	e.Value, e.Interval.Low, e.Interval.High = value, value-half, value+half
	return e
}

// weighted is a least-squares problem under changing weights.
type weighted struct {
	n, p   int
	design [][]float64
	y, se2 []float64
	sizes  []float64 // of the weighted columns, by which they are divided

	variance           float64 // between points, of the last fit
	coefficients       []float64
	fitted, residuals  []float64
	squares, steepness float64 // the weighted squares of the residuals, and how fast they fall with the variance
	qr                 mat.QR
}

func newWeighted(design [][]float64, y, se []float64) (*weighted, error) {
	m := &weighted{n: len(y), y: slices.Clone(y)}
	if len(design) != m.n || len(se) != m.n {
		return nil, fmt.Errorf("%d rows, %d values and %d errors: want as many of each", len(design), m.n, len(se))
	}
	if m.n > 0 {
		m.p = len(design[0])
	}
	if m.p == 0 || m.n <= m.p {
		return nil, &TooFewPoints{Have: m.n, Want: m.p + 1}
	}
	m.sizes = make([]float64, m.p)
	m.coefficients, m.fitted, m.residuals = make([]float64, m.p), make([]float64, m.n), make([]float64, m.n)
	for i, row := range design {
		if len(row) != m.p {
			return nil, fmt.Errorf("row %d has %d columns, the first has %d", i, len(row), m.p)
		}
		if s := se[i]; !(s > 0) || math.IsInf(s, 0) || finite(y[i]) != nil {
			return nil, fmt.Errorf("point %d is %v with an error of %v: want a number, and an error above 0", i, y[i], s)
		}
		m.se2 = append(m.se2, se[i]*se[i])
		m.design = append(m.design, slices.Clone(row))
		for j, v := range row {
			if finite(v) != nil {
				return nil, fmt.Errorf("row %d has %v in column %d: want a number", i, v, j)
			}
		}
	}
	return m, nil
}

// again is the same problem, to be solved otherwise.
func (m *weighted) again() *weighted {
	return &weighted{
		n: m.n, p: m.p, design: m.design, y: m.y, se2: m.se2, sizes: make([]float64, m.p),
		coefficients: make([]float64, m.p), fitted: make([]float64, m.n), residuals: make([]float64, m.n),
	}
}

// between finds the variance by which the weighted squares come to a value, and leaves
// the fit at that. They fall with the variance and are convex in it, so that Newton's
// steps from 0 never go too far (DerSimonian and Kacker 2007).
func (m *weighted) between(squares float64) (variance float64, err error) {
	if err := m.solve(0); err != nil {
		return 0, err
	}
	for range 200 {
		over := m.squares - squares
		if over <= 1e-9*squares || m.steepness == 0 {
			break
		}
		variance += over / m.steepness
		if err := m.solve(variance); err != nil {
			return 0, err
		}
	}
	return variance, nil
}

// spreadBetween is the variance of points around their mean beyond their own errors.
func spreadBetween(y, se []float64) (float64, error) {
	m, err := newWeighted(ones(len(y)), y, se)
	if err != nil {
		return 0, err
	}
	return m.between(float64(m.n - m.p))
}

// solve fits with a variance beside the points' own.
func (m *weighted) solve(between float64) error {
	if err := m.factorize(between); err != nil {
		return err
	}
	m.variance, m.squares, m.steepness = between, 0, 0
	for i, row := range m.design {
		m.fitted[i] = 0
		for j, v := range row {
			m.fitted[i] += v * m.coefficients[j]
		}
		m.residuals[i] = m.y[i] - m.fitted[i]
		w := 1 / (m.se2[i] + between)
		m.squares += w * m.residuals[i] * m.residuals[i]
		m.steepness += w * w * m.residuals[i] * m.residuals[i]
	}
	if finite(m.squares) != nil {
		return errors.New("the values are beyond what can be computed")
	}
	return nil
}

// factorize finds the coefficients. That of a single column is a quotient of sums: means are fitted
// by the thousand.
func (m *weighted) factorize(between float64) error {
	if m.p == 1 {
		var squares, products float64
		for i, row := range m.design {
			w := row[0] / (m.se2[i] + between)
			squares += w * row[0]
			products += w * m.y[i]
		}
		if squares == 0 {
			return ErrCollinear
		}
		m.sizes[0], m.coefficients[0] = math.Sqrt(squares), products/squares
		return nil
	}
	scaled := mat.NewDense(m.n, m.p, nil)
	right := mat.NewVecDense(m.n, nil)
	clear(m.sizes)
	for i, row := range m.design {
		root := 1 / math.Sqrt(m.se2[i]+between)
		for j, v := range row {
			scaled.Set(i, j, v*root)
			m.sizes[j] = math.Hypot(m.sizes[j], v*root)
		}
		right.SetVec(i, m.y[i]*root)
	}
	// Columns of one size, so that the condition tells of their directions alone.
	for j, size := range m.sizes {
		if size == 0 {
			return ErrCollinear
		}
		for i := range m.n {
			scaled.Set(i, j, scaled.At(i, j)/size)
		}
	}
	m.qr.Factorize(scaled)
	if !(m.qr.Cond() < worstCondition) {
		return ErrCollinear
	}
	var solved mat.VecDense
	if err := m.qr.SolveVecTo(&solved, false, right); err != nil {
		return fmt.Errorf("least squares: %w", err)
	}
	for j := range m.coefficients {
		m.coefficients[j] = solved.AtVec(j) / m.sizes[j]
	}
	return nil
}

// scale is the factor of Knapp and Hartung (2003) for the covariance, held at 1 from below:
// an interval is so never narrower than the points' own errors and the variance between them
// make it (Röver, Knapp and Friede 2015).
func (m *weighted) scale() float64 { return max(1, m.squares/float64(m.n-m.p)) }

// covariance of the coefficients is the inverse of the weighted squares of the
// columns.
func (m *weighted) covariance() *mat.Dense {
	if m.p == 1 {
		return mat.NewDense(1, 1, []float64{1 / (m.sizes[0] * m.sizes[0])})
	}
	var r mat.Dense
	var full mat.Dense
	m.qr.RTo(&full)
	r.CloneFrom(full.Slice(0, m.p, 0, m.p))
	var inverse, c mat.Dense
	// The condition has been looked at: what Inverse warns of is not worse.
	_ = inverse.Inverse(&r)
	c.Mul(&inverse, inverse.T())
	for i := range m.p {
		for j := range m.p {
			c.Set(i, j, c.At(i, j)/m.sizes[i]/m.sizes[j])
		}
	}
	return &c
}
