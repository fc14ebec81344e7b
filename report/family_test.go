package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tare/overhead"
	"tare/record"
	"tare/workload"
)

// drawn is a run of which the truth is known: the conditions' effects on a rate, of
// which 0.9 is a tenth less. Each value's logarithm has the standard deviation noise.
func drawn(random *rand.Rand, blocks int, noise float64, effects ...float64) record.Run {
	run := record.Run{ID: "weigh-1", Seed: 1, Study: "weigh", Status: record.Complete, Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95, Blocks: blocks}}
	rate := workload.Metric{Name: "get", Unit: "requests/s", Better: workload.Higher, Primary: true}
	for c, effect := range append([]float64{1}, effects...) {
		name := fmt.Sprintf("c%02d", c)
		if c == 0 {
			name = "bare"
		}
		run.Conditions = append(run.Conditions, record.Condition{ID: name, Label: name, Platform: name, Workload: "redis", Baseline: c == 0, Metrics: []workload.Metric{rate}})
		for b := 1; b <= blocks; b++ {
			run.Trials = append(run.Trials, record.Trial{ID: int64(len(run.Trials) + 1), Condition: name, Workload: "redis", Block: b, Attempt: 1,
				Samples: []record.Sample{{Metric: "get", Value: 69000 * effect * math.Exp(noise*random.NormFloat64())}}})
		}
	}
	return run
}

func alike(n int) []float64 {
	effects := make([]float64, n)
	for i := range effects {
		effects[i] = 1
	}
	return effects
}

// 17 conditions that cost nothing: of 1000 such runs the first sentence of 24 names a
// cost. When each verdict was that of its own interval, it did in 279. (Half of all false
// findings are gains, so that 25 are expected at most.)
func TestHeadlineWithoutAnEffect(t *testing.T) {
	const runs = 250
	random := rand.New(rand.NewPCG(17, 3))
	said, alone := 0, 0
	for range runs {
		run := drawn(random, 8, 0.03, alike(17)...)
		rep := overhead.Analyse(run, overhead.Options{})
		if strings.Contains(Answer(run, rep), " costs ") {
			said++
		}
		for i := range rep.Groups[0].Metrics[0].Rows {
			rep.Groups[0].Metrics[0].Rows[i].Verdict = rep.Groups[0].Metrics[0].Rows[i].Alone
		}
		if strings.Contains(Answer(run, rep), " costs ") {
			alone++
		}
	}
	t.Logf("of %d headlines %d name a cost, by single intervals %d", runs, said, alone)
	if said > runs/20 {
		t.Errorf("%d of %d headlines name a cost where there is none", said, runs)
	}
	if alone < 4*said {
		t.Errorf("by single intervals only %d do", alone)
	}
}

// Among 17 conditions one looks dear by itself. The sentence does not name it, the table
// says that it is inconclusive, and one note says why; no warning takes anything back.
func TestTheFirstScreenIsAtOneWithItself(t *testing.T) {
	for seed := range uint64(200) {
		run := drawn(rand.New(rand.NewPCG(seed, 4)), 8, 0.03, alike(17)...)
		rep := overhead.Analyse(run, overhead.Options{})
		var dear string
		for _, r := range rep.Groups[0].Metrics[0].Rows {
			if r.Alone == overhead.Worse && r.Verdict == overhead.Inconclusive {
				dear = r.Label
			}
		}
		if dear == "" {
			continue
		}
		sheet := WeighSheet(run, rep)
		screen := sheetScreen(t, sheet, TerminalOptions{})
		text := strings.Join(strings.Fields(screen), " ")
		for _, want := range []string{
			"hold for all 17 comparisons together (Holm)", "A verdict must hold together with those of all 17 comparisons.",
		} {
			if strings.Count(text, want) != 1 {
				t.Errorf("the screen says %q %d times:\n%s", want, strings.Count(text, want), screen)
			}
		}
		if answer := Answer(run, rep); strings.Contains(answer, "costs") || strings.Contains(text, "warning:") {
			t.Errorf("%s\n%s", answer, screen)
		}
		page := sheetOf(t, sheet)
		for _, want := range []string{"hold for all 17 comparisons together (Holm)", "A verdict must hold together with those of all 17 comparisons."} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
		return
	}
	t.Error("in 200 runs no condition looked dear by itself")
}

// Whatever a run holds, a condition that its sentence names with a cost has a table
// that says "worse", and the interval of the sentence says it too.
func TestSentenceAndTableAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 5))
	named := 0
	for range 150 {
		effects := alike(1 + random.IntN(20))
		for i := range effects {
			if random.IntN(2) == 0 {
				effects[i] = 1 - 0.06*random.Float64()
			}
		}
		run := drawn(random, 5+random.IntN(8), 0.002+0.02*random.Float64(), effects...)
		rep := overhead.Analyse(run, overhead.Options{})
		clauses := strings.Split(Answer(run, rep), "; ")
		for _, r := range rep.Groups[0].Metrics[0].Rows {
			for _, clause := range clauses {
				costs := strings.Contains(clause, " costs redis ") || strings.Contains(clause, " costs the ")
				if r.Baseline || !costs || strings.Contains(clause, "nothing above") || !strings.Contains(clause, label(r)) {
					continue
				}
				named++
				if r.Verdict != overhead.Worse || !(r.AdjustedLow > 0) {
					t.Errorf("%s is %s in the table (%.2f to %.2f)\n%s", r.Label, r.Verdict, r.AdjustedLow, r.AdjustedHigh, clause)
				}
			}
			if costly := r.AdjustedLow > 0 && r.Verdict == overhead.Inconclusive; costly {
				t.Errorf("%s is inconclusive, by an interval of %.2f to %.2f", r.Label, r.AdjustedLow, r.AdjustedHigh)
			}
		}
	}
	if named < 100 {
		t.Errorf("%d costs were named: the test tests little", named)
	}
}

// Nor does a ladder whose layers cost nothing name one as the dearest: of 300, 9 do;
// by single intervals 55 would.
func TestLadderWithoutAnEffect(t *testing.T) {
	const runs = 300
	random := rand.New(rand.NewPCG(23, 3))
	said, alone := 0, 0
	for range runs {
		run := drawn(random, 8, 0.03, alike(8)...)
		run.Plan.Ladder = true
		rep := overhead.Analyse(run, overhead.Options{})
		if strings.Contains(Answer(run, rep), "most expensive rung") {
			said++
		}
		for _, r := range Ladder(run, rep.Groups[0].Primaries(), rep.Level)[0] {
			if r.PercentLow > 0 {
				alone++
				break
			}
		}
	}
	if said > runs/20 || alone < 4*said {
		t.Errorf("of %d ladders without an effect %d name a most expensive rung, by single intervals %d", runs, said, alone)
	}
	t.Logf("%d, by single intervals %d", said, alone)
}
