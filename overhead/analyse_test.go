package overhead_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tare/overhead"
	"tare/record"
	"tare/workload"
)

func TestKnownEffects(t *testing.T) {
	run := synthetic{seed: 1, blocks: 15, noise: 0.005, shared: 0.05,
		effects: map[string]float64{"docker": 0.95, "oci:runc": 1, "oci:crun": 1.04}}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	for _, c := range []struct {
		label   string
		verdict overhead.Verdict
		percent float64
	}{
		{"docker", overhead.Worse, 5},
		{"oci:runc", overhead.Equivalent, 0},
		{"oci:crun", overhead.Better, -4},
	} {
		r := row(t, report, "get", c.label)
		if r.Verdict != c.verdict || r.PercentLow > c.percent || r.PercentHigh < c.percent {
			t.Errorf("%s: %s, %.2f %% (%.2f to %.2f), want %s around %v %%", c.label, r.Verdict, r.Percent, r.PercentLow, r.PercentHigh, c.verdict, c.percent)
		}
		// Blocks differ by 5 %; pairing must take that out.
		if r.PercentHigh-r.PercentLow > 1 {
			t.Errorf("%s: interval from %.2f to %.2f %%", c.label, r.PercentLow, r.PercentHigh)
		}
		if len(r.Blocks) != 15 || r.Ratio.N != 15 {
			t.Errorf("%s: %d points, %d blocks", c.label, len(r.Blocks), r.Ratio.N)
		}
	}
	base := row(t, report, "get", "bare")
	if base.Verdict != overhead.Baseline || !base.Baseline || base.Ratio.N != 0 || base.Blocks[0].Ratio != 1 {
		t.Errorf("the baseline: %+v", base)
	}
	if base.Value.Interval.Low > level || base.Value.Interval.High < level {
		t.Errorf("the baseline's level: %+v, want %d in it", base.Value, level)
	}
	m := metric(t, report, "get")
	if !(m.NoiseFloor > 0.001 && m.NoiseFloor < 0.01) {
		t.Errorf("noise floor %v", m.NoiseFloor)
	}
	if m.AA == nil || m.AA.Interval.Low > 1 || m.AA.Interval.High < 1 {
		t.Errorf("A/A: %+v", m.AA)
	}
	g := report.Groups[0]
	if g.Blocks != 15 || g.Repeated+g.Tainted+g.Failed != 0 || len(g.Warnings)+len(report.Warnings) != 0 {
		t.Errorf("group %d %d %d %d, warnings %q %q", g.Blocks, g.Repeated, g.Tainted, g.Failed, g.Warnings, report.Warnings)
	}
}

func TestDirectionOfAQuantile(t *testing.T) {
	// Fewer requests a second are longer latencies here.
	run := synthetic{seed: 2, blocks: 20, noise: 0.001, effects: map[string]float64{"docker": 0.5}}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	r := row(t, report, "get-p99", "docker")
	if r.Verdict != overhead.Worse || r.Ratio.Interval.Low > 2 || r.Ratio.Interval.High < 2 {
		t.Errorf("p99: %s, ratio %+v, want worse around 2", r.Verdict, r.Ratio)
	}
	// The 99th percentile of exponential latencies is ln 100 means.
	if want := 1e7 / level * math.Log(100); math.Abs(row(t, report, "get-p99", "bare").Value.Value/want-1) > 0.1 {
		t.Errorf("baseline's p99 %v, want about %v", row(t, report, "get-p99", "bare").Value.Value, want)
	}
}

func TestBothReplicatesOfTheBaselineAreUsed(t *testing.T) {
	set := func(first, second float64) func(*record.Trial) {
		return func(trial *record.Trial) {
			if trial.Condition != "redis@bare" {
				return
			}
			value := first
			if trial.Replicate == 1 {
				value = second
			}
			// The baseline wanders, so that there is an interval at all.
			trial.Samples[0].Value = value * (1 + 0.0001*float64(trial.Block%3))
		}
	}
	run := synthetic{blocks: 6, effects: map[string]float64{"docker": 1}, edit: set(level*2, level/2)}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	if r := row(t, report, "get", "docker"); math.Abs(r.Ratio.Value-1) > 0.001 {
		t.Errorf("ratio to the geometric mean of twice and half: %v, want 1", r.Ratio.Value)
	}
	if aa := metric(t, report, "get").AA; math.Abs(aa.Value-0.25) > 0.001 {
		t.Errorf("A/A: %v, want the second over the first, 0.25", aa.Value)
	}
}

func TestSamplesOfATrialAreReduced(t *testing.T) {
	run := synthetic{blocks: 5, noise: 0.001, effects: map[string]float64{"docker": 1}, edit: func(trial *record.Trial) {
		if trial.Condition == "redis@docker" {
			v := trial.Samples[0].Value
			trial.Samples = []record.Sample{{Metric: "get", Value: v / 2}, {Metric: "get", Value: v * 2},
				{Metric: "throttled", Value: 0}, {Metric: "throttled", Value: 8}}
		}
	}}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	if r := row(t, report, "get", "docker"); math.Abs(r.Ratio.Value-1) > 0.01 {
		t.Errorf("geometric mean of half and twice: ratio %v, want 1", r.Ratio.Value)
	}
	if r := row(t, report, "throttled", "docker"); r.Value.Value != 4 {
		t.Errorf("mean of the counts 0 and 8: %v, want 4", r.Value.Value)
	}
}

func TestCountsAreComparedAsCounts(t *testing.T) {
	run := synthetic{seed: 3, blocks: 10, effects: map[string]float64{"docker": 1, "oci:runc": 1}, edit: func(trial *record.Trial) {
		switch trial.Condition {
		case "redis@bare":
			trial.Samples[1].Value = 0
		case "redis@docker":
			trial.Samples[1].Value = float64(200 + trial.Block%4)
		case "redis@oci:runc":
			trial.Samples[1].Value = 0
		}
	}}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	r := row(t, report, "throttled", "docker")
	if r.Verdict != overhead.Worse || !math.IsNaN(r.Ratio.Interval.Low) || r.Difference.Interval.Low < 200 {
		t.Errorf("hundreds against none: %s, ratio %+v, difference %+v", r.Verdict, r.Ratio, r.Difference)
	}
	r = row(t, report, "throttled", "oci:runc")
	if r.Verdict != overhead.Inconclusive || !strings.Contains(strings.Join(r.Difference.Warnings, " "), "no events") {
		t.Errorf("none against none: %s, %q", r.Verdict, r.Difference.Warnings)
	}
}

func TestTheLastAttemptAtABlockCounts(t *testing.T) {
	run := synthetic{seed: 4, blocks: 6, noise: 0.001, effects: map[string]float64{"docker": 1}}.run(t)
	// Block 2 was tainted, and its first attempt nonsense.
	for _, trial := range run.Trials {
		if trial.Block == 2 {
			first := trial
			first.Taint = []string{"steal 7.1 %"}
			first.Samples = []record.Sample{{Metric: "get", Value: 1}}
			run.Trials = append([]record.Trial{first}, run.Trials...)
		}
	}
	for i := range run.Trials {
		if run.Trials[i].Block == 2 && run.Trials[i].Taint == nil {
			run.Trials[i].Attempt = 2
		}
	}
	report := overhead.Analyse(run, overhead.Options{})
	r := row(t, report, "get", "docker")
	if r.Ratio.N != 6 || r.Verdict != overhead.Equivalent || r.RatioAll.N != 6 {
		t.Errorf("%s from %d blocks: %+v", r.Verdict, r.Ratio.N, r.Ratio)
	}
	if g := report.Groups[0]; g.Repeated != 1 || g.Tainted != 0 || g.Blocks != 6 {
		t.Errorf("%d repeated, %d tainted, %d blocks", g.Repeated, g.Tainted, g.Blocks)
	}
}

func TestAnAttemptThatWasInterruptedIsNoRepetitionForTaint(t *testing.T) {
	run := synthetic{seed: 4, blocks: 6, noise: 0.001, effects: map[string]float64{"docker": 1}}.run(t)
	cut := run.Trials[9] // the first of block 4, as far as it came
	each(&run, func(trial *record.Trial) {
		if trial.Block == 4 {
			trial.Attempt = 2
		}
	})
	run.Trials = append(run.Trials, cut)
	if g := overhead.Analyse(run, overhead.Options{}).Groups[0]; g.Repeated != 0 || g.Blocks != 6 {
		t.Errorf("%d repeated, %d blocks", g.Repeated, g.Blocks)
	}
}

// One accident that outlasts a trial and its two repetitions is one, and follows nobody.
func TestTheTriesOfOneTrialAreOneForTaint(t *testing.T) {
	run := synthetic{seed: 4, blocks: 6, noise: 0.001, effects: map[string]float64{"docker": 1, "oci:runc": 1, "oci:crun": 1}}.run(t)
	for i := range run.Trials {
		trial := &run.Trials[i]
		if trial.Condition != "redis@docker" || trial.Block != 2 {
			continue
		}
		trial.Taint = []string{"steal 9 %"}
		first := *trial
		first.Attempt = record.MadeAgain
		run.Trials = append(run.Trials, first, first)
		break
	}
	for _, w := range overhead.Analyse(run, overhead.Options{}).Groups[0].Warnings {
		if strings.Contains(w, "taint follows") {
			t.Error(w)
		}
	}
}

// A run that was stopped before a disturbed trial was made again has no trial there that counts.
func TestATrialThatWasToBeMadeAgainCountsForNothing(t *testing.T) {
	run := synthetic{seed: 4, blocks: 3, noise: 0.001, effects: map[string]float64{"docker": 1}}.run(t)
	each(&run, func(trial *record.Trial) {
		if trial.Condition == "redis@docker" && trial.Block == 3 {
			trial.Attempt, trial.Taint = record.MadeAgain, []string{"steal 9 %"}
		}
	})
	report := overhead.Analyse(run, overhead.Options{})
	if g := report.Groups[0]; g.Tainted != 0 {
		t.Errorf("%d blocks are tainted, and none came to its end so", g.Tainted)
	}
	for _, c := range run.Conditions {
		want := 3
		if c.ID == "redis@docker" {
			want = 2
		}
		blocks := map[int]bool{}
		for _, trial := range (overhead.Reading{Run: run}).Trials(c) {
			blocks[trial.Block] = true
		}
		if len(blocks) != want {
			t.Errorf("%s has trials that count in %d blocks, want %d", c.ID, len(blocks), want)
		}
	}
}

func TestTaintedBlocksAreLeftOutAndShown(t *testing.T) {
	run := synthetic{seed: 5, blocks: 12, noise: 0.002, effects: map[string]float64{"docker": 1, "oci:runc": 1}, edit: func(trial *record.Trial) {
		if trial.Condition == "redis@docker" && trial.Block%2 == 0 {
			trial.Taint = []string{"steal 7.1 %"}
			trial.Samples[0].Value /= 1.5
		}
	}}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	r := row(t, report, "get", "docker")
	if r.Verdict != overhead.Equivalent || r.Ratio.N != 6 {
		t.Errorf("without: %s from %d blocks", r.Verdict, r.Ratio.N)
	}
	if r.RatioAll.N != 12 || r.RatioAll.Value > 0.9 {
		t.Errorf("with: %+v", r.RatioAll)
	}
	// The whole block goes, for every condition.
	if other := row(t, report, "get", "oci:runc"); other.Ratio.N != 6 {
		t.Errorf("another condition rests on %d blocks, want 6", other.Ratio.N)
	}
	g := report.Groups[0]
	if g.Tainted != 6 || g.Blocks != 6 {
		t.Errorf("%d tainted, %d blocks", g.Tainted, g.Blocks)
	}
	wantWarning(t, g.Warnings, "taint follows docker: 6 of its 12 trials against 0 of 36")
	wantWarning(t, g.Warnings, "docker, get: equivalent without the tainted blocks, worse with them")
}

func TestTaintThatFollowsNothingIsNoWarning(t *testing.T) {
	n := 0
	run := synthetic{seed: 5, blocks: 12, noise: 0.002, effects: map[string]float64{"docker": 1}, edit: func(trial *record.Trial) {
		if n++; n%4 == 0 {
			trial.Taint = []string{"steal 7.1 %"}
		}
	}}.run(t)
	for _, w := range overhead.Analyse(run, overhead.Options{}).Groups[0].Warnings {
		if strings.Contains(w, "follows") {
			t.Error(w)
		}
	}
}

func TestAFailedTrialDropsItsPair(t *testing.T) {
	run := synthetic{seed: 6, blocks: 10, noise: 0.002, effects: map[string]float64{"docker": 1, "oci:runc": 1}, edit: func(trial *record.Trial) {
		if trial.Block == 3 && trial.Condition == "redis@docker" {
			trial.Error, trial.Samples = "killed for its memory", nil
		}
		if trial.Block == 4 && trial.Condition == "redis@bare" && trial.Replicate == 0 {
			trial.Error = "did not answer"
		}
	}}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	if r := row(t, report, "get", "docker"); r.Ratio.N != 9 || !strings.Contains(strings.Join(r.Ratio.Warnings, " "), "1 of 10 blocks dropped") {
		t.Errorf("docker rests on %d, warnings %q", r.Ratio.N, r.Ratio.Warnings)
	}
	// One execution of the baseline is enough for a ratio, not for A/A.
	if r := row(t, report, "get", "oci:runc"); r.Ratio.N != 10 {
		t.Errorf("oci:runc rests on %d blocks, want 10", r.Ratio.N)
	}
	if aa := metric(t, report, "get").AA; aa.N != 9 {
		t.Errorf("A/A rests on %d blocks, want 9", aa.N)
	}
	g := report.Groups[0]
	if g.Failed != 2 || g.Blocks != 8 {
		t.Errorf("%d failed, %d complete", g.Failed, g.Blocks)
	}
	wantWarning(t, g.Warnings, "docker: 1 of 10 trials yielded nothing: killed for its memory")
}

func TestInconclusiveSaysWhatItNeeds(t *testing.T) {
	run := synthetic{seed: 7, blocks: 6, noise: 0.05, effects: map[string]float64{"docker": 0.98}}.run(t)
	r := row(t, overhead.Analyse(run, overhead.Options{}), "get", "docker")
	if r.Verdict != overhead.Inconclusive || !strings.HasPrefix(r.Needs, "about ") {
		t.Errorf("%s, needs %q", r.Verdict, r.Needs)
	}
	run = synthetic{seed: 7, blocks: 2, noise: 0.05, effects: map[string]float64{"docker": 0.98}}.run(t)
	r = row(t, overhead.Analyse(run, overhead.Options{}), "get", "docker")
	if r.Verdict != overhead.Inconclusive || r.Needs != "at least 5 blocks" {
		t.Errorf("%s, needs %q", r.Verdict, r.Needs)
	}
}

func TestAnEffectInsideTheBandIsEquivalent(t *testing.T) {
	run := synthetic{seed: 8, blocks: 20, noise: 0.001, effects: map[string]float64{"docker": 0.99}}.run(t)
	r := row(t, overhead.Analyse(run, overhead.Options{}), "get", "docker")
	if r.Verdict != overhead.Equivalent || !(r.PercentLow > 0) {
		t.Errorf("%s, from %v %%: want equivalent though above 0", r.Verdict, r.PercentLow)
	}
	r = row(t, overhead.Analyse(run, overhead.Options{SmallestEffect: 0.005}), "get", "docker")
	if r.Verdict != overhead.Worse {
		t.Errorf("with a smaller smallest effect: %s, want worse", r.Verdict)
	}
}

func TestDriftAndWarmUpAreReported(t *testing.T) {
	run := synthetic{seed: 9, blocks: 12, noise: 0.002, trend: 0.01, cold: 0.8, effects: map[string]float64{"docker": 1}}.run(t)
	report := overhead.Analyse(run, overhead.Options{})
	warnings := report.Groups[0].Warnings
	wantWarning(t, warnings, "drift: get of the baseline rose by 1")
	wantWarning(t, warnings, "lower in the first executions")
	if r := row(t, report, "get", "docker"); r.Verdict != overhead.Equivalent || r.Ratio.N != 12 {
		t.Errorf("%s from %d blocks: drift or warm-up reached the overhead", r.Verdict, r.Ratio.N)
	}
}

func TestARunInItsMidst(t *testing.T) {
	run := synthetic{seed: 12, blocks: 6, noise: 0.002, effects: map[string]float64{"docker": 1}}.run(t)
	run.Status = record.Running
	run.Trials = run.Trials[:len(run.Trials)-1] // the last block lacks docker's
	run.Trials[len(run.Trials)-1].Error = record.NotEnded
	report := overhead.Analyse(run, overhead.Options{})
	if g := report.Groups[0]; g.Failed != 0 || g.Blocks != 5 {
		t.Errorf("%d failed, %d blocks", g.Failed, g.Blocks)
	}
	run.Status = record.Interrupted
	if g := overhead.Analyse(run, overhead.Options{}).Groups[0]; g.Failed != 1 {
		t.Errorf("once interrupted: %d failed, want 1", g.Failed)
	}
}

func TestDegenerateRuns(t *testing.T) {
	whole := synthetic{seed: 13, blocks: 6, noise: 0.01, effects: map[string]float64{"docker": 1}}.run(t)
	edits := map[string]func(*record.Run){
		"nothing":        func(r *record.Run) { *r = record.Run{} },
		"no trials":      func(r *record.Run) { r.Trials = nil },
		"no baseline":    func(r *record.Run) { r.Conditions[0].Baseline = false },
		"two baselines":  func(r *record.Run) { r.Conditions[1].Baseline = true },
		"only baseline":  func(r *record.Run) { r.Conditions = r.Conditions[:1] },
		"all failed":     func(r *record.Run) { each(r, func(t *record.Trial) { t.Error = "no" }) },
		"all tainted":    func(r *record.Run) { each(r, func(t *record.Trial) { t.Taint = []string{"steal"} }) },
		"no samples":     func(r *record.Run) { each(r, func(t *record.Trial) { t.Samples, t.Histograms = nil, nil }) },
		"all equal":      func(r *record.Run) { each(r, func(t *record.Trial) { t.Samples[0].Value = 1 }) },
		"zero":           func(r *record.Run) { each(r, func(t *record.Trial) { t.Samples[0].Value = 0 }) },
		"negative":       func(r *record.Run) { each(r, func(t *record.Trial) { t.Samples[0].Value *= -1 }) },
		"bad histograms": func(r *record.Run) { each(r, func(t *record.Trial) { t.Histograms["get"] = "???" }) },
		"one block":      func(r *record.Run) { r.Trials = r.Trials[:3] },
		"no plan":        func(r *record.Run) { r.Plan = record.Plan{} },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			run := whole
			run.Conditions, run.Trials = slices.Clone(whole.Conditions), nil
			for _, trial := range whole.Trials {
				trial.Samples = slices.Clone(trial.Samples)
				trial.Histograms = map[string]record.Histogram{"get": trial.Histograms["get"]}
				run.Trials = append(run.Trials, trial)
			}
			edit(&run)
			report := overhead.Analyse(run, overhead.Options{})
			for _, g := range report.Groups {
				for _, m := range g.Metrics {
					for _, r := range m.Rows {
						verdictIsSupported(t, r, m.HigherIsBetter, report.SmallestEffect)
					}
				}
			}
			if half := overhead.HalfWidth(run, overhead.Options{}); math.IsNaN(half) {
				t.Error("half-width is NaN")
			}
		})
	}
}

// Whatever the run, a verdict never says more than the interval beside it.
func verdictIsSupported(t *testing.T, r overhead.Row, higher bool, smallest float64) {
	t.Helper()
	e := r.Ratio
	low, high := e.Interval.Low, e.Interval.High
	switch r.Verdict {
	case overhead.Equivalent:
		if !(low >= 1/(1+smallest) && high <= 1+smallest) {
			t.Errorf("%s is equivalent with %v to %v", r.Label, low, high)
		}
	case overhead.Worse, overhead.Better:
		if math.IsNaN(low) {
			low, high = 1+r.Difference.Interval.Low, 1+r.Difference.Interval.High
		}
		more := (r.Verdict == overhead.Worse) != higher
		if more && !(low > 1) || !more && !(high < 1) {
			t.Errorf("%s is %s with %v to %v", r.Label, r.Verdict, low, high)
		}
	case overhead.Inconclusive:
		if low > 1 || high < 1 {
			t.Errorf("%s is inconclusive with %v to %v", r.Label, low, high)
		}
	}
}

func TestUnitsDoNotMatter(t *testing.T) {
	run := synthetic{seed: 14, blocks: 8, noise: 0.02, effects: map[string]float64{"docker": 0.97}}.run(t)
	before := row(t, overhead.Analyse(run, overhead.Options{}), "get", "docker")
	each(&run, func(trial *record.Trial) { trial.Samples[0].Value /= 1000 })
	after := row(t, overhead.Analyse(run, overhead.Options{}), "get", "docker")
	if math.Abs(before.Percent-after.Percent) > 1e-9 || math.Abs(before.PercentLow-after.PercentLow) > 1e-9 || before.Verdict != after.Verdict {
		t.Errorf("%v (%v) in one unit, %v (%v) in another", before.Percent, before.PercentLow, after.Percent, after.PercentLow)
	}
}

func TestOrderOfTrialsDoesNotMatter(t *testing.T) {
	run := synthetic{seed: 15, blocks: 8, noise: 0.02, effects: map[string]float64{"docker": 0.97}}.run(t)
	before := row(t, overhead.Analyse(run, overhead.Options{}), "get", "docker")
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(run.Trials), func(i, j int) { run.Trials[i], run.Trials[j] = run.Trials[j], run.Trials[i] })
	after := row(t, overhead.Analyse(run, overhead.Options{}), "get", "docker")
	if before.Ratio.Value != after.Ratio.Value || before.Ratio.Interval != after.Ratio.Interval {
		t.Errorf("%+v before, %+v after", before.Ratio, after.Ratio)
	}
}

func TestPrecisionOfARun(t *testing.T) {
	quiet := synthetic{seed: 16, blocks: 10, noise: 0.005, effects: map[string]float64{"docker": 1, "oci:runc": 1}}.run(t)
	noisy := synthetic{seed: 16, blocks: 10, noise: 0.05, effects: map[string]float64{"docker": 1, "oci:runc": 1}}.run(t)
	half := overhead.HalfWidth(quiet, overhead.Options{})
	widest := 0.0
	for _, label := range []string{"docker", "oci:runc"} {
		e := row(t, overhead.Analyse(quiet, overhead.Options{}), "get", label).Ratio
		widest = max(widest, math.Sqrt(e.Interval.High/e.Interval.Low)-1)
	}
	if math.Abs(half-widest) > 1e-12 {
		t.Errorf("half-width %v, want that of the widest interval, %v", half, widest)
	}
	if wide := overhead.HalfWidth(noisy, overhead.Options{}); wide < 5*half {
		t.Errorf("half-width %v with ten times the noise of %v", wide, half)
	}
	if few, many := overhead.SteinBlocks(quiet, "redis", overhead.Options{}, 0.02), overhead.SteinBlocks(noisy, "redis", overhead.Options{}, 0.02); few >= many || few < 10 {
		t.Errorf("Stein asks for %d blocks with little noise, %d with much", few, many)
	}
	if n := overhead.SteinBlocks(quiet, "ffmpeg", overhead.Options{}, 0.02); n != 0 {
		t.Errorf("of a workload that the run does not have: %d blocks", n)
	}
	one := quiet
	one.Trials = one.Trials[:4]
	if half := overhead.HalfWidth(one, overhead.Options{}); !math.IsInf(half, 1) {
		t.Errorf("after one block: %v, want +Inf", half)
	}
}

func TestAConditionThatNeverWorksDoesNotHoldUpTheOthers(t *testing.T) {
	run := synthetic{seed: 17, blocks: 10, noise: 0.005, effects: map[string]float64{"docker": 1, "oci:crun": 1}, edit: func(trial *record.Trial) {
		if trial.Condition == "redis@oci:crun" {
			trial.Error = "refused"
		}
	}}.run(t)
	if half := overhead.HalfWidth(run, overhead.Options{}); math.IsInf(half, 0) {
		t.Error("half-width is infinite")
	}
}

func each(run *record.Run, f func(*record.Trial)) {
	for i := range run.Trials {
		f(&run.Trials[i])
	}
}

func wantWarning(t *testing.T, warnings []string, part string) {
	t.Helper()
	if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, part) }) {
		t.Errorf("no warning says %q: %q", part, warnings)
	}
}

// Of runs without any effect, one in twenty shows one: no more, and not much less.
func TestFalseAlarmsKeepTheirLevel(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 1))
	const runs = 400
	alarms := 0
	for range runs {
		run := record.Run{Seed: 1, Plan: record.Plan{SmallestEffect: 1e-9, Level: 0.95}, Conditions: []record.Condition{
			{ID: "bare", Workload: "w", Baseline: true, Metrics: []workload.Metric{get}},
			{ID: "docker", Workload: "w", Metrics: []workload.Metric{get}},
		}}
		for b := 1; b <= 8; b++ {
			disturbance := 0.05 * random.NormFloat64()
			add := func(condition string, replicate int) {
				run.Trials = append(run.Trials, record.Trial{Condition: condition, Block: b, Attempt: 1, Replicate: replicate,
					Samples: []record.Sample{{Metric: "get", Value: math.Exp(disturbance + 0.01*random.NormFloat64())}}})
			}
			add("bare", 0)
			add("docker", 0)
			add("bare", 1)
		}
		if v := overhead.Analyse(run, overhead.Options{}).Groups[0].Metrics[0].Rows[1].Verdict; v != overhead.Inconclusive {
			alarms++
		}
	}
	// Four binomial standard deviations, 1.1 % each, around 5 %.
	if share := float64(alarms) / runs; share < 0.006 || share > 0.094 {
		t.Errorf("%.1f %% of the runs show an effect, want about 5 %%", 100*share)
	}
}

func TestARunThatWasDisturbedThroughoutIsShownAndDecidesNothing(t *testing.T) {
	run := synthetic{seed: 5, blocks: 12, effects: map[string]float64{"docker": 0.5}, noise: 0.01, edit: func(trial *record.Trial) {
		trial.Taint = []string{"steal 9 % of the host's CPU time"}
	}}.run(t)
	rep := overhead.Analyse(run, overhead.Options{})
	row := rep.Groups[0].Metrics[0].Rows[1]
	if row.Ratio.N != 12 || row.Percent < 40 || row.Percent > 60 {
		t.Errorf("half the rate was measured 12 times, shown as %.0f %% of %d blocks", row.Percent, row.Ratio.N)
	}
	if row.Verdict != overhead.Inconclusive || row.Needs != "a quieter host" {
		t.Errorf("verdict %s, needs %q: nothing undisturbed was measured", row.Verdict, row.Needs)
	}
	if rep.Groups[0].Blocks != 0 {
		t.Errorf("%d blocks count as undisturbed", rep.Groups[0].Blocks)
	}
}
