package overhead_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tare/overhead"
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// compared is a run of conditions with known effects on the rate of one workload:
// 1 is none. Each value's logarithm has the standard deviation noise.
func compared(random *rand.Rand, blocks int, noise, smallest float64, effects []float64) record.Run {
	run := record.Run{Seed: 1, Status: record.Complete, Plan: record.Plan{SmallestEffect: smallest, Level: 0.95}}
	effects = append([]float64{1}, effects...)
	for c := range effects {
		name := fmt.Sprintf("c%d", c)
		if c == 0 {
			name = "bare"
		}
		run.Conditions = append(run.Conditions, record.Condition{ID: name, Label: name, Platform: name, Workload: "redis", Baseline: c == 0, Metrics: []workload.Metric{get}})
	}
	for b := 1; b <= blocks; b++ {
		for c, condition := range run.Conditions {
			run.Trials = append(run.Trials, record.Trial{Condition: condition.ID, Workload: "redis", Block: b, Attempt: 1,
				Samples: []record.Sample{{Metric: "get", Value: 69000 * effects[c] * math.Exp(noise*random.NormFloat64())}}})
		}
	}
	return run
}

func none(n int) []float64 {
	effects := make([]float64, n)
	for i := range effects {
		effects[i] = 1
	}
	return effects
}

// 17 conditions without an effect: of 1000 such runs 47 find one, by single
// intervals 424. (All ratios share the baseline's noise: of independent ones it would
// be 58 %.)
func TestFamilyWithoutAnEffect(t *testing.T) {
	const runs, comparisons = 200, 17
	random := rand.New(rand.NewPCG(17, 1))
	together, alone := 0, 0
	for range runs {
		report := overhead.Analyse(compared(random, 8, 0.03, 0.02, none(comparisons)), overhead.Options{})
		var some, single bool
		for _, r := range report.Groups[0].Metrics[0].Rows {
			some = some || r.Verdict == overhead.Worse || r.Verdict == overhead.Better
			single = single || r.Alone == overhead.Worse || r.Alone == overhead.Better
		}
		if some {
			together++
		}
		if single {
			alone++
		}
	}
	t.Logf("an effect is found in %d runs of %d, by single intervals in %d", together, runs, alone)
	if together > 19 { // 10 are expected at most; a standard deviation is 3.1
		t.Errorf("%d of %d runs find an effect where there is none", together, runs)
	}
	if alone < 3*together {
		t.Errorf("single intervals find one in %d runs only: the test tests nothing", alone)
	}
}

// Where some conditions have no effect, and others one that lies on the edge of
// the band, any false verdict counts: an effect where there is none, one in the wrong
// direction, equivalence where the effect is as large as the smallest of interest.
func TestFamilyOfEffectsAtTheEdges(t *testing.T) {
	const runs = 150
	random := rand.New(rand.NewPCG(18, 1))
	effects := []float64{1, 1, 1, 1, 1 / 1.02, 1 / 1.02, 1 / 1.02, 1.02, 1.02, 0.9, 1.1, 1.001}
	wrong := 0
	for range runs {
		report := overhead.Analyse(compared(random, 10, 0.01, 0.02, effects), overhead.Options{})
		for i, r := range report.Groups[0].Metrics[0].Rows[1:] {
			e := effects[i]
			if r.Verdict == overhead.Worse && e >= 1 || r.Verdict == overhead.Better && e <= 1 ||
				r.Verdict == overhead.Equivalent && (e <= 1/1.02 || e >= 1.02) {
				wrong++
				break
			}
		}
	}
	if wrong > 15 { // 7.5 are expected at most; a standard deviation is 2.7
		t.Errorf("%d of %d runs hold a false verdict", wrong, runs)
	}
}

// By itself one condition looks worse; among 17 it does not, and the row tells.
func TestFamilyOverrulesASingleInterval(t *testing.T) {
	for seed := range uint64(100) {
		run := compared(rand.New(rand.NewPCG(seed, 2)), 8, 0.03, 0.02, none(17))
		m := overhead.Analyse(run, overhead.Options{}).Groups[0].Metrics[0]
		for _, r := range m.Rows {
			if r.Alone != overhead.Worse || r.Verdict != overhead.Inconclusive {
				continue
			}
			if m.Comparisons != 17 || !r.Overruled() {
				t.Errorf("%d comparisons, overruled: %v", m.Comparisons, r.Overruled())
			}
			if !(r.PercentLow > 0 && r.AdjustedLow <= 0 && r.Adjusted.Level > 0.99 && r.Needs != "") {
				t.Errorf("%+v", r)
			}
			if stats.PValue(figures(run, "bare"), figures(run, r.Condition)) > 0.05 {
				t.Errorf("%s is worse by itself, with a p-value above 0.05", r.Label)
			}
			return
		}
	}
	t.Error("no condition without an effect looks worse by itself in 100 runs")
}

func figures(run record.Run, condition string) (of []float64) {
	for _, trial := range run.Trials {
		if trial.Condition == condition {
			of = append(of, trial.Samples[0].Value)
		}
	}
	return of
}

// The verdicts of a t interval are those of Holm's adjusted p-values, and so are
// those of a run of one comparison the single interval's.
func TestFamilyIsHolms(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 1))
	for n := 1; n < 12; n++ {
		effects := none(n)
		for i := range effects {
			effects[i] = 1 - 0.006*float64(i)
		}
		run := compared(random, 8, 0.01, 1e-9, effects)
		m := overhead.Analyse(run, overhead.Options{}).Groups[0].Metrics[0]
		p := make([]float64, n)
		for i := range p {
			p[i] = stats.PValue(figures(run, "bare"), figures(run, m.Rows[i+1].Condition))
		}
		for i, adjusted := range stats.Holm(p) {
			r := m.Rows[i+1]
			if decided := r.Verdict != overhead.Inconclusive; decided != (adjusted <= 0.05) {
				t.Errorf("%d comparisons: %s is %s, with an adjusted p-value of %v", n, r.Label, r.Verdict, adjusted)
			}
			if n == 1 && (r.Verdict != r.Alone || r.AdjustedLow != r.PercentLow) {
				t.Errorf("one comparison: %+v", r)
			}
		}
	}
}

// Secondary metrics are a family of their own: they neither loosen nor tighten the
// verdicts that the run is for.
func TestSecondaryMetricsAreAnotherFamily(t *testing.T) {
	run := synthetic{seed: 21, blocks: 8, noise: 0.01, effects: map[string]float64{"docker": 0.97, "oci:runc": 1}}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	if n := report.Comparisons(); n != 2 || metric(t, report, "get").Comparisons != 2 || metric(t, report, "get-p99").Comparisons != 4 {
		t.Errorf("%d, %d, %d comparisons", n, metric(t, report, "get").Comparisons, metric(t, report, "get-p99").Comparisons)
	}
	// Without a metric that is marked, the first carries the verdict.
	for i := range run.Conditions {
		of := append([]workload.Metric(nil), run.Conditions[i].Metrics...)
		of[0].Primary = false
		run.Conditions[i].Metrics = of
	}
	unmarked := overhead.Analyse(run, overhead.Options{})
	if a, b := row(t, report, "get", "docker"), row(t, unmarked, "get", "docker"); a.Adjusted != b.Adjusted || unmarked.Comparisons() != 2 {
		t.Errorf("marked %v, unmarked %v", a.Adjusted, b.Adjusted)
	}
	for _, w := range report.Warnings {
		if strings.Contains(w, "comparisons") {
			t.Errorf("a warning takes a verdict back: %s", w)
		}
	}
}

// Of intervals that are read together all hold the truth as often as one does by itself.
func TestReadingsHoldTogether(t *testing.T) {
	const runs, conditions = 150, 9
	random := rand.New(rand.NewPCG(22, 1))
	var alone, together int
	for range runs {
		one := overhead.Read(compared(random, 8, 0.02, 0.02, none(conditions)))
		for _, of := range []struct {
			r     overhead.Reading
			count *int
		}{{one, &alone}, {one.Together(conditions), &together}} {
			all := true
			base := of.r.PerBlock(of.r.Run.Conditions[0], "get")
			for _, c := range of.r.Run.Conditions[1:] {
				e, row := of.r.Ratio(base, of.r.PerBlock(c, "get")), of.r.Row(c, "get").Ratio
				all = all && e.Interval.Low <= 1 && 1 <= e.Interval.High
				if e.Interval != row.Interval {
					t.Fatalf("two intervals of one ratio: %v, %v", e.Interval, row.Interval)
				}
			}
			if all {
				*of.count++
			}
		}
	}
	if together < 134 || alone > 120 { // 142.5 are expected at least; a standard deviation is 2.7
		t.Errorf("of %d readings all intervals hold the truth in %d, alone in %d", runs, together, alone)
	}
	r := overhead.Read(compared(random, 5, 0.02, 0.02, none(2)))
	if r.Together(4).Together(1).Report.Level != r.Report.Level || r.Together(0).Report.Level != 0.95 || r.Together(5).Level() != 0.95 {
		t.Error("a reading is of the level that was asked for last, and of 0.95 by itself")
	}
}
