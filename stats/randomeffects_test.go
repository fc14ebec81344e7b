package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// bcg are the 13 trials of the BCG vaccine of Colditz and others (JAMA 271, 1994): cases and others among the
// vaccinated and among the rest, the absolute latitude and how patients were allocated.
var bcg = []struct {
	cases, others, casesRest, othersRest, latitude float64
	allocation                                     string
}{
	{4, 119, 11, 128, 44, "random"},
	{6, 300, 29, 274, 55, "random"},
	{3, 228, 11, 209, 42, "random"},
	{62, 13536, 248, 12619, 52, "random"},
	{33, 5036, 47, 5761, 13, "alternate"},
	{180, 1361, 372, 1079, 44, "alternate"},
	{8, 2537, 10, 619, 19, "random"},
	{505, 87886, 499, 87892, 13, "random"},
	{29, 7470, 45, 7232, 27, "random"},
	{17, 1699, 65, 1600, 42, "systematic"},
	{186, 50448, 141, 27197, 18, "systematic"},
	{5, 2493, 3, 2338, 33, "systematic"},
	{27, 16886, 29, 17825, 33, "systematic"},
}

// bcgRisks are the logarithms of relative risks with their standard errors.
func bcgRisks() (logs, errors []float64) {
	for _, t := range bcg {
		n, rest := t.cases+t.others, t.casesRest+t.othersRest
		logs = append(logs, math.Log(t.cases/n/(t.casesRest/rest)))
		errors = append(errors, math.Sqrt(1/t.cases-1/n+1/t.casesRest-1/rest))
	}
	return logs, errors
}

// expectations are the effects of 19 experiments on teacher expectancy with their squared standard errors
// (Raudenbush 1985; The Handbook of Research Synthesis and Meta-Analysis, 2009, table 16.1).
var expectations = [][2]float64{
	{0.03, 0.0156}, {0.12, 0.0216}, {-0.14, 0.0279}, {1.18, 0.1391}, {0.26, 0.1362}, {-0.06, 0.0106}, {-0.02, 0.0106},
	{-0.32, 0.0484}, {0.27, 0.0269}, {0.80, 0.0630}, {0.54, 0.0912}, {0.18, 0.0497}, {-0.02, 0.0835}, {0.23, 0.0841},
	{-0.18, 0.0253}, {-0.06, 0.0279}, {0.30, 0.0193}, {0.07, 0.0088}, {-0.07, 0.0303},
}

func rooted(data [][2]float64) (y, se []float64) {
	for _, d := range data {
		y, se = append(y, d[0]), append(se, math.Sqrt(d[1]))
	}
	return y, se
}

// What metafor's documentation and its own tests state for these data (W. Viechtbauer, Journal of Statistical
// Software 36, 2010): rma(yi, vi) and confint.
func TestRandomEffectsOfBCG(t *testing.T) {
	logs, errors := bcgRisks()
	r := randomEffects(logs, errors, nil, 0.95)
	near(t, "variance", r.Variance.Value, 0.313243, 1e-6)
	near(t, "its lower limit", r.Variance.Interval.Low, 0.1197, 5e-5)
	near(t, "its upper limit", r.Variance.Interval.High, 1.1115, 5e-5)
	near(t, "share", r.Share, 0.9222, 5e-5)
	near(t, "Q", r.Q, 152.2330, 1e-6)
	near(t, "mean", math.Log(r.Mean.Value), -0.7145, 5e-5)
	// Hartung and Knapp's variance, by its formula.
	var weights, squares float64
	for i, y := range logs {
		w := 1 / (errors[i]*errors[i] + r.Variance.Value)
		weights += w
		squares += w * math.Pow(y-math.Log(r.Mean.Value), 2)
	}
	half := tQuantile(0.975, 12) * math.Sqrt(squares/12/weights)
	near(t, "half-width", math.Log(r.Mean.Interval.High/r.Mean.Value), half, 1e-9)
	if r.Variance.Method != string(MethodREML) || r.P > 1e-20 || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
}

// The standardised residuals of metafor's tests are without the factor of Knapp and Hartung.
func TestStudentisedResiduals(t *testing.T) {
	logs, errors := bcgRisks()
	z := func(n, i int) float64 {
		m, err := newWeighted(ones(n), logs[:n], errors[:n])
		if err != nil {
			t.Fatal(err)
		}
		residual, variance, _, freedom := m.deleted(i)
		if freedom != float64(n-2) {
			t.Errorf("%v degrees of freedom of %d trials", freedom, n)
		}
		return residual / math.Sqrt(variance)
	}
	near(t, "the first of 13", z(13, 0), -0.218142, 1e-5)
	for i, want := range []float64{0.1426, -0.9957, -0.4591, -1.1949, 2.0949, 0.4330} {
		near(t, "one of the first six", z(6, i), want, 1e-4)
	}
	// With the factor it is the t statistic of a term for that trial alone.
	r := randomEffects(logs, errors, nil, 0.95)
	for i, got := range r.Residuals {
		near(t, "as a term of its own", got, shift(t, logs, errors, i), 1e-6)
	}
}

// shift is the t statistic of a term for one node alone (mean-shift model), fitted from the start.
func shift(t *testing.T, logs, errors []float64, node int) float64 {
	t.Helper()
	design := make([][]float64, len(logs))
	for i := range design {
		design[i] = []float64{1, 0}
	}
	design[node] = []float64{1, 1}
	shifted, err := regress(design, logs, errors, 0.95, byREML)
	if err != nil {
		t.Fatal(err)
	}
	return shifted.values[1] / math.Sqrt(shifted.covariance.At(1, 1))
}

// Leaving out a node starts from the variance of all nodes. It finds what a fit from the start does, also where a
// node is far off, and where nodes do not differ.
func TestNodesLeftOutInTurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, between := range []float64{0, 0.01, 0.1, 1} {
		for _, odd := range []float64{0, 0.5, 5} {
			logs, errors := make([]float64, 40), make([]float64, 40)
			for i := range logs {
				errors[i] = 0.05 * math.Exp(0.5*rng.NormFloat64())
				logs[i] = between*rng.NormFloat64() + errors[i]*rng.NormFloat64()
			}
			logs[0] += odd
			for i, got := range randomEffects(logs, errors, nil, 0.95).Residuals {
				near(t, "left out", got, shift(t, logs, errors, i), 1e-5)
			}
		}
	}
}

func byREML(m *weighted) (float64, error) {
	v, _, err := m.restrictedOrMoments(0, mostSteps)
	return v, err
}

// rma(yi, vi, mods = ~ ablat) and rma(yi, vi, mods = ~ 0 + alloc) of metafor's documentation. It ends its search where
// a step is below 1e-5.
func TestMetaRegression(t *testing.T) {
	logs, errors := bcgRisks()
	var design [][]float64
	var labels []string
	for _, trial := range bcg {
		design = append(design, []float64{1, trial.latitude})
		labels = append(labels, trial.allocation)
	}
	r := randomEffects(logs, errors, nil, 0.95)
	latitude, err := regress(design, logs, errors, 0.95, byREML)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "variance left by latitude", latitude.Between, 0.0764, 6e-5)
	near(t, "share", 1-latitude.Between/r.Variance.Value, 0.7562, 1e-4)
	near(t, "slope", latitude.values[1], -0.0291, 5e-5)
	near(t, "Q left", latitude.Excess*11, 30.7331, 3e-6)

	x := r.By(labels)
	near(t, "variance left by allocation", x.Variance, 0.3615, 5e-5)
	if !slices.Equal(x.Labels, []string{"alternate", "random", "systematic"}) || x.Share != 0 {
		t.Fatalf("%+v", x)
	}
	for i, want := range []float64{-0.5180, -0.9658, -0.4289} {
		near(t, x.Labels[i], math.Log(x.Means[i].Value), want, 5e-5)
	}
	// QM is 1.7675 by 2 degrees of freedom; the F statistic has half of that over the factor of Knapp and Hartung, here
	// held at 1 or near it.
	if !(x.P > 0.40 && x.P < 0.50) {
		t.Errorf("p of allocation: %v", x.P)
	}
}

// Table 16.3 of the handbook: Knapp and Hartung with REML.
func TestRandomEffectsOfExpectations(t *testing.T) {
	y, se := rooted(expectations)
	r := randomEffects(y, se, nil, 0.95)
	near(t, "Q", r.Q, 35.83, 2e-4)
	near(t, "variance", r.Variance.Value, 0.0188, 5e-5)
	near(t, "mean", math.Log(r.Mean.Value), 0.0837, 5e-5)
	near(t, "its lower limit", math.Log(r.Mean.Interval.Low), -0.046, 5e-4)
	near(t, "its upper limit", math.Log(r.Mean.Interval.High), 0.213, 5e-4)
}

// Both examples of Viechtbauer (Journal of Educational and Behavioral Statistics 30, 2005, pages 271 and 272).
func TestVarianceBetween(t *testing.T) {
	for _, c := range []struct {
		data                       [][2]float64
		restricted, share, moments float64
	}{
		{
			[][2]float64{
				{-0.581, 0.023}, {0.530, 0.052}, {0.771, 0.060}, {1.031, 0.115}, {0.553, 0.095}, {0.295, 0.203},
				{0.078, 0.200}, {0.573, 0.211}, {-0.176, 0.051}, {-0.232, 0.040},
			}, 0.223, 0.7684, 0.277,
		},
		{
			[][2]float64{
				{0.100, 0.016}, {-0.162, 0.015}, {-0.090, 0.050}, {-0.049, 0.050}, {-0.046, 0.032}, {-0.010, 0.052},
				{-0.431, 0.036}, {-0.261, 0.024}, {0.134, 0.034}, {0.019, 0.033}, {0.175, 0.031}, {0.056, 0.034},
				{0.045, 0.039}, {0.103, 0.167}, {0.121, 0.134}, {-0.482, 0.096}, {0.290, 0.016}, {0.342, 0.035},
			}, 0.016, 0.3202, 0.013,
		},
	} {
		y, se := rooted(c.data)
		r := randomEffects(y, se, nil, 0.95)
		near(t, "REML", r.Variance.Value, c.restricted, 5e-4)
		near(t, "share", r.Share, c.share, 5e-5)
		m, err := newWeighted(ones(len(y)), y, se)
		if err != nil {
			t.Fatal(err)
		}
		// Without a step REML does not converge.
		moments, by, err := m.restrictedOrMoments(0, 0)
		if near(t, "moments", moments, c.moments, 5e-4); err != nil || by != MethodDerSimonianLaird || m.variance != moments {
			t.Errorf("%v, %v", by, err)
		}
	}
}

// The example of metafor's page on convergence, and that no other variance is likelier, whatever the data.
func TestRestrictedConverges(t *testing.T) {
	y, se := rooted([][2]float64{
		{-0.47, 0.663}, {-1.56, 0.660}, {0.18, 0.125}, {0.88, 0.068}, {0.74, 0.971},
		{0.89, 0.094}, {-0.05, 0.509}, {0.52, 0.887}, {2.08, 0.704}, {0.81, 0.556},
	})
	near(t, "variance", randomEffects(y, se, nil, 0.95).Variance.Value, 0.19878, 2e-5)
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		k := 3 + rng.IntN(20)
		y, se := make([]float64, k), make([]float64, k)
		for i := range y {
			se[i] = math.Exp(rng.NormFloat64())
			y[i] = rng.NormFloat64() + se[i]*rng.NormFloat64()
		}
		m, err := newWeighted(ones(k), y, se)
		if err != nil {
			t.Fatal(err)
		}
		variance, by, err := m.restrictedOrMoments(0, mostSteps)
		if err != nil || by != MethodREML {
			t.Fatalf("%v and %v: %v by %s, %v", y, se, variance, by, err)
		}
		best := m.likelihood()
		for _, factor := range []float64{0, 0.5, 0.99, 1.01, 2} {
			if err := m.solve(variance * factor); err != nil {
				t.Fatal(err)
			}
			if l := m.likelihood(); l > best+1e-9 {
				t.Errorf("%v and %v: %v has the likelihood %v, and %v times that %v", y, se, variance, best, factor, l)
			}
		}
	}
}

// Effects that agree better than their errors allow: the interval is Student's t with the error of a fixed effect,
// where Hartung and Knapp's own would be a tenth of it.
func TestMeanIsNeverNarrowerThanFixedEffect(t *testing.T) {
	y, se := []float64{0.1, 0.1001, 0.0999, 0.1}, []float64{0.02, 0.02, 0.02, 0.02}
	r := randomEffects(y, se, nil, 0.95)
	if r.Variance.Value != 0 || r.Share != 0 {
		t.Errorf("%+v", r.Variance)
	}
	near(t, "half-width", math.Log(r.Mean.Interval.High/r.Mean.Value), tQuantile(0.975, 3)*0.02/2, 1e-9)
}

func TestLabelsThatExplain(t *testing.T) {
	y := []float64{0.10, 0.11, 0.09, 0.10, 0.105, 0.30, 0.31, 0.29, 0.30, 0.295}
	r := randomEffects(y, slices.Repeat([]float64{0.005}, 10), nil, 0.95)
	old := slices.Repeat([]string{"6.1"}, 5)
	x := r.By(append(old, slices.Repeat([]string{"6.12"}, 5)...))
	if !(x.Share > 0.99) || !(x.P < 1e-6) || len(x.Warnings) > 0 {
		t.Errorf("%+v", x)
	}
	if x = r.By([]string{"a", "b", "a", "b", "a", "b", "a", "b", "a", "b"}); !(x.P > 0.2) {
		t.Errorf("by chance: %+v", x)
	}
	for want, labels := range map[string][]string{
		"alike":            slices.Repeat([]string{"6.1"}, 10),
		"10 labels":        {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"},
		"1 labels for 10 ": {"a"},
	} {
		if x := r.By(labels); !math.IsNaN(x.P) || len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0], want) {
			t.Errorf("%v: %+v", labels, x)
		}
	}
}

// The order of nodes is of no account, and an effect's inverse has the inverse of its mean.
func TestRandomEffectsAreEvenHanded(t *testing.T) {
	logs, errors := bcgRisks()
	want := randomEffects(logs, errors, nil, 0.95)
	slices.Reverse(logs)
	slices.Reverse(errors)
	for i := range logs {
		logs[i] = -logs[i]
	}
	got := randomEffects(logs, errors, nil, 0.95)
	near(t, "variance", got.Variance.Value, want.Variance.Value, 1e-7)
	near(t, "mean", got.Mean.Value, 1/want.Mean.Value, 1e-7)
	near(t, "new", got.New.Interval.Low, 1/want.New.Interval.High, 1e-7)
	near(t, "residual", got.Residuals[0], -want.Residuals[12], 1e-6)
}

// Of errors that are as good as known it is Cochran's test, and of errors that are alike nearly the F test of an analysis
// of variance.
func TestHomogeneity(t *testing.T) {
	logs, errors := []float64{0, 1, -0.5}, []float64{0.3, 0.8, 0.5}
	known := shrunk{own: []int{4, 4, 4}, common: math.Inf(1), unsure: 1e-12}
	fitted := randomEffects(logs, errors, nil, 0.95)
	near(t, "p of known errors", homogeneity(logs, errors, known), fitted.P, 1e-6)
	many := shrunk{own: []int{1e8, 1e8, 1e8}, common: 10, unsure: 0.2}
	near(t, "p of nodes of many blocks", homogeneity(logs, errors, many), fitted.P, 1e-6)

	alike := shrunk{own: []int{9, 9, 9}, common: math.Inf(1), unsure: trigamma(9.0/2) / 3}
	mean := 0.5 / 3
	square := (mean*mean + (1-mean)*(1-mean) + (0.5+mean)*(0.5+mean)) / 0.25 / 2
	near(t, "p of errors alike", homogeneity(logs, []float64{0.5, 0.5, 0.5}, alike), distuv.F{D1: 2, D2: 27}.Survival(square), 0.005)
}

// Nodes of five blocks that do not differ, whose errors do, are said to differ no more often than claimed. By Welch's
// test they are too often, the more of them, the more often.
func TestHomogeneityHoldsItsLevel(t *testing.T) {
	const blocks, fleets = 5, 400
	for _, k := range []int{5, 20, 100} {
		random := rand.New(rand.NewPCG(uint64(k), 1))
		found := 0.0
		for range fleets {
			logs, variances, freedom := make([]float64, k), make([]float64, k), slices.Repeat([]int{blocks - 1}, k)
			for i := range logs {
				sd := math.Exp(0.5 * random.NormFloat64())
				logs[i] = sd / math.Sqrt(blocks) * random.NormFloat64()
				for range blocks - 1 {
					v := sd * random.NormFloat64()
					variances[i] += v * v / (blocks - 1)
				}
			}
			s, err := shrinkVariances(variances, freedom)
			if err != nil {
				t.Fatal(err)
			}
			errors := make([]float64, k)
			for i, v := range s.variances {
				errors[i] = math.Sqrt(v / blocks)
			}
			if homogeneity(logs, errors, s) < 0.05 {
				found++
			}
		}
		if share := found / fleets; share > 0.05+4*math.Sqrt(0.05*0.95/fleets) {
			t.Errorf("%d nodes: %.1f %% of fleets that do not differ do", k, 100*share)
		}
	}
}

func TestNoRandomEffects(t *testing.T) {
	good := PairedRatio([]float64{1, 1, 1, 1}, []float64{1.1, 1.2, 1.15, 1.05}, 0.95, 0)
	for want, effects := range map[string][]Estimate{
		"need at least 3 nodes, have 0": nil,
		"need at least 3 nodes, have 2": {good, good},
		"node 3 of 3":                   {good, good, Absent(0.95)},
		"node 1 of 3":                   {ExactRatio([]float64{2, 2, 2, 2, 2}, []float64{3, 3, 3, 3, 3}, 0.95), good, good},
	} {
		r := RandomEffectsOf(effects, 0.95)
		wantWarning(t, r.Warnings, want)
		if r.Mean.Known() || r.New.Known() || !math.IsNaN(r.P) || len(r.Residuals) != len(effects) {
			t.Errorf("%+v", r)
		}
		if x := r.By(make([]string, len(effects))); !math.IsNaN(x.Share) || len(x.Warnings) == 0 {
			t.Errorf("%+v", x)
		}
	}
	if r := RandomEffectsOf([]Estimate{good, good, good}, 2); r.Mean.Known() {
		t.Errorf("a level of 2: %+v", r)
	}
}
