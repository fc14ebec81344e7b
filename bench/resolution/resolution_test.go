package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"tare/overhead"
	"tare/record"
)

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

func TestBinomialTail(t *testing.T) {
	for _, c := range []struct {
		k, n int
		want float64
	}{
		{0, 20, 1},
		{1, 20, 1 - math.Pow(0.95, 20)},
		{20, 20, math.Pow(0.05, 20)},
		{6, 60, 0.0787}, // by the tables of the binomial distribution
		{7, 60, 0.0297},
	} {
		if p := binomialTail(c.k, c.n, 0.05); !near(p, c.want, 5e-4) {
			t.Errorf("P(%d or more of %d) = %v, want %v", c.k, c.n, p, c.want)
		}
	}
}

func TestVarianceRatio(t *testing.T) {
	// The variance of 1, 2, 3 is 1; the mean of the squares of 1, 1 and 2 is 2.
	ratio, low, high := varianceRatio([]float64{1, 2, 3}, []float64{1, 1, 2})
	if !near(ratio, 0.5, 1e-12) || !(low < ratio && ratio < high) {
		t.Errorf("%v (%v to %v), want 0.5", ratio, low, high)
	}
	if ratio, _, _ := varianceRatio([]float64{1}, []float64{1}); !math.IsNaN(ratio) {
		t.Errorf("of one estimate: %v", ratio)
	}
}

func TestDoseResponse(t *testing.T) {
	truths := []float64{0, 0.5, 1, 2, 1, 1}
	var estimates, errors []float64
	for i, x := range truths {
		off := []float64{0.01, -0.01}[i%2]
		estimates, errors = append(estimates, 0.3+0.5*x+off), append(errors, 0.02)
	}
	intercept, slope, err := doseResponse(truths, estimates, errors)
	if err != nil {
		t.Fatal(err)
	}
	if !holds(slope, 0.5) || holds(slope, 1) || !holds(intercept, 0.3) || holds(intercept, 0) {
		t.Errorf("slope %v, intercept %v; want 0.5 and 0.3, and neither 1 nor 0", slope, intercept)
	}
	if _, _, err := doseResponse([]float64{1, 1, 1, 1}, estimates[:4], errors[:4]); err == nil {
		t.Error("one dose has a slope")
	}
}

// estimated is a figure whose interval is Student's t over rounds, on the log scale.
func estimated(workload, metric, kind string, log, se float64) figure {
	const rounds = 10
	t := distuv.StudentsT{Sigma: 1, Nu: rounds - 1}.Quantile(0.5 + level/2)
	return figure{Workload: workload, Metric: metric, Kind: kind, Primary: true, N: rounds,
		Value: overhead.Number(math.Exp(log)), Low: overhead.Number(math.Exp(log - t*se)), High: overhead.Number(math.Exp(log + t*se))}
}

func TestLogErrorReadsTheInterval(t *testing.T) {
	f := estimated("redis", "get", kindAA, 0.01, 0.002)
	if v, se := f.logError(); !near(v, 0.01, 1e-12) || !near(se, 0.002, 1e-12) {
		t.Errorf("%v and %v", v, se)
	}
	if _, se := (figure{Value: 1, N: 1}).logError(); !math.IsNaN(se) {
		t.Errorf("one round has the error %v", se)
	}
}

// stateOf finds a target by its name.
func stateOf(t *testing.T, targets []target, name string) string {
	t.Helper()
	i := slices.IndexFunc(targets, func(of target) bool { return of.name == name })
	if i < 0 {
		t.Fatalf("no target %q in %v", name, targets)
	}
	return targets[i].state
}

func TestWithoutRunsNothingIsMet(t *testing.T) {
	for _, of := range judge(nil) {
		if of.state != notRun {
			t.Errorf("%s: %s", of.name, of.state)
		}
	}
}

func TestNineOfTen(t *testing.T) {
	lines := make([]line, 10)
	for i := range lines {
		lines[i].Part = "redis2m"
		for metric, kind := range map[string]string{"get": kindTypical, "set": kindTypical, "get-cpu": kindTotal, "set-cpu": kindTotal} {
			se := 0.001
			if metric == "get" && i < 1 || metric == "set" && i < 2 {
				se = 0.01
			}
			lines[i].Figures = append(lines[i].Figures, estimated("redis", metric, kind, 0.02, se))
		}
	}
	targets := judge(lines)
	for name, want := range map[string]string{"1. redis, 2 min, get": met, "1. redis, 2 min, set": notMet, "1. redis, 2 min, get-cpu": met} {
		if is := stateOf(t, targets, name); is != want {
			t.Errorf("%s: %s, want %s", name, is, want)
		}
	}
	if is := stateOf(t, judge(lines[:9]), "1. redis, 2 min, get"); is != tooFew {
		t.Errorf("nine runs: %s", is)
	}
	lines[3].Short = true
	if is := stateOf(t, judge(lines), "1. redis, 2 min, get"); is != shortOnly {
		t.Errorf("a short one among them: %s", is)
	}
}

func TestAADependsOnErrorsBeingRight(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	lines := make([]line, 60)
	for i := range lines {
		v := random.NormFloat64()
		lines[i] = line{Part: "aa-redis", result: result{Values: map[string]overhead.Number{"redis rounds": 6}, Figures: []figure{
			estimated("redis", "right", kindAA, 0.002*v, 0.002),
			estimated("redis", "narrow", kindAA, 0.002*v, 0.0005),
		}}}
	}
	targets := judge(lines)
	for name, want := range map[string]string{
		"4. A/A, redis, rounds": met, "4. A/A, redis, level of right": met, "4. A/A, redis, level of narrow": notMet, "4. A/A, redis, variance of narrow": notMet,
	} {
		if is := stateOf(t, targets, name); is != want {
			t.Errorf("%s: %s, want %s", name, is, want)
		}
	}
	lines[0].Values["redis rounds"] = 4
	if is := stateOf(t, judge(lines), "4. A/A, redis, rounds"); is != notMet {
		t.Errorf("a run of four rounds: %s", is)
	}
}

func TestPlantsThatAreFound(t *testing.T) {
	const se = 0.002
	planting := func(bias float64) (lines []line) {
		random := rand.New(rand.NewPCG(3, 4))
		for _, d := range doses {
			for range d.runs {
				l := line{Part: "plants", result: result{Values: map[string]overhead.Number{valueDose: overhead.Number(d.percent)}}}
				if d.stalls {
					l.Values[valueStalls] = 1
					l.Figures = []figure{estimated("redis", plantedCommand, kindStalls, -0.015, se), estimated("redis", plantedCPU, kindStalls, 0.015, se)}
				} else {
					truth := d.percent / 100
					l.Figures = []figure{estimated("redis", plantedCPU, kindTruth, truth, se/10),
						estimated("redis", plantedCPU, kindTotal, bias*truth+se*random.NormFloat64(), se)}
				}
				lines = append(lines, l)
			}
		}
		return lines
	}
	for bias, want := range map[float64]string{1: met, 2: notMet} {
		targets := judge(planting(bias))
		if is := stateOf(t, targets, "5. plants, dose-response"); is != want {
			t.Errorf("effects found %v times as large: %s, want %s", bias, is, want)
		}
		if is := stateOf(t, targets, "5. plants, stalls"); is != met {
			t.Errorf("stalls: %s", is)
		}
	}
}

func TestBoundsOfOwnWeightDecide(t *testing.T) {
	for want, share := range map[string][2]overhead.Number{met: {0, 0.01}, undecided: {0, 0.05}, notMet: {0.03, 0.05}} {
		l := line{Part: "overhead", result: result{Values: map[string]overhead.Number{valueShareLeast: share[0], valueShareMost: share[1], valueShareBlocks: 0.02}}}
		if is := stateOf(t, judge([]line{l, l, l}), "6. own weight, tare itself"); is != want {
			t.Errorf("%v: %s, want %s", share, is, want)
		}
	}
}

func TestDosesTakeTurns(t *testing.T) {
	names := map[string]int{}
	for _, j := range (&bench{}).plantJobs() {
		names[j.name]++
	}
	for _, d := range doses {
		if names[d.name] != d.runs {
			t.Errorf("%s: %d jobs, want %d", d.name, names[d.name], d.runs)
		}
	}
}

func TestDesignsAreComparedByHalfWidths(t *testing.T) {
	var lines []line
	for range 2 {
		lines = append(lines,
			line{Part: "designs", Name: "redis by " + record.DesignBlocks, result: result{Figures: []figure{estimated("redis", "get", kindRatio, 0, 0.02)}}},
			line{Part: "designs", Name: "redis by " + record.DesignRounds, result: result{Figures: []figure{estimated("redis", "get", kindRatio, 0, 0.002)}}})
	}
	if is := stateOf(t, judge(lines), "3. rounds against blocks, redis"); is != met {
		t.Errorf("a tenth: %s", is)
	}
	for i := range lines {
		if f := &lines[i].Figures[0]; strings.HasSuffix(lines[i].Name, record.DesignBlocks) {
			f.Low, f.High = overhead.Number(math.NaN()), overhead.Number(math.NaN())
		}
	}
	if is := stateOf(t, judge(lines), "3. rounds against blocks, redis"); is == met {
		t.Error("blocks without an interval are a gain of rounds")
	}
}

func TestSpeedsOfStrips(t *testing.T) {
	slice := func(strip int, amount float64, taint ...string) record.Slice {
		return record.Slice{Strip: strip, Part: "get", Window: 1e9, Amount: amount, Taint: taint}
	}
	alone := slice(3, 7)
	alone.Control = record.ControlAlone
	run := record.Run{Trials: []record.Trial{
		{Block: 0, Slices: []record.Slice{slice(1, 1)}}, // of the pilot
		{Block: 1, Replicate: 1, Slices: []record.Slice{slice(1, math.E), slice(2, 5), slice(4, 2)}},
		{Block: 1, Replicate: 0, Slices: []record.Slice{slice(1, 1), slice(2, 5, "steal"), alone}},
	}}
	if all := speedsOf(run, rateOf("get"), false); len(all) != 1 || all[0] != (stripSpeeds{1, 1, 0, 1}) {
		t.Errorf("%v", all)
	}
	if all := speedsOf(run, rateOf("get"), true); len(all) != 2 || all[1].strip != 2 {
		t.Errorf("with tainted ones: %v", all)
	}
	// Of a time the speed is its inverse, and no time at all has none.
	run.Trials = []record.Trial{
		{Block: 1, Replicate: 0, Slices: []record.Slice{{Strip: 1}}, Samples: []record.Sample{{Metric: "elapsed", Value: 1}}},
		{Block: 1, Replicate: 1, Slices: []record.Slice{{Strip: 1}}, Samples: []record.Sample{{Metric: "elapsed", Value: math.E}}},
		{Block: 2, Replicate: 0, Slices: []record.Slice{{Strip: 1}}, Samples: []record.Sample{{Metric: "elapsed"}}},
		{Block: 2, Replicate: 1, Slices: []record.Slice{{Strip: 1}}, Samples: []record.Sample{{Metric: "elapsed", Value: 1}}},
	}
	if all := speedsOf(run, inverse(sampleOf("elapsed")), false); len(all) != 1 || all[0] != (stripSpeeds{1, 1, 0, -1}) {
		t.Errorf("of times: %v", all)
	}
	path := filepath.Join(t.TempDir(), "slices.csv")
	if n, err := writeRecording(path, []stripSpeeds{{1, 1, 11.25, 11.5}, {2, 3, -1e-3, 0}}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	text, err := os.ReadFile(path)
	if want := "round,strip,first,second\n1,1,11.250000,11.500000\n2,3,-0.001000,0.000000\n"; string(text) != want || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := writeRecording(path, nil); err == nil {
		t.Error("an empty recording was written")
	}
}

func TestResultsGoOnAfterALineThatWasCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out", "results.jsonl")
	r, err := openResults(path)
	if err != nil {
		t.Fatal(err)
	}
	undefined := figure{Metric: "get", Value: 1, Low: overhead.Number(math.NaN()), High: overhead.Number(math.NaN())}
	if err := r.add(line{Part: "weigh", Number: 1, result: result{Figures: []figure{undefined}}}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"part":"weigh","num`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if r, err = openResults(path); err != nil {
		t.Fatal(err)
	}
	if !r.has("weigh", 1) || r.has("weigh", 2) {
		t.Errorf("%v", r.lines)
	}
	if !math.IsInf(r.lines[0].Figures[0].halfWidth(), 1) {
		t.Error("a figure without an interval has a half-width")
	}
	if err := r.add(line{Part: "weigh", Number: 2}); err != nil {
		t.Fatal(err)
	}
	if r, err = openResults(path); err != nil || !r.has("weigh", 1) || !r.has("weigh", 2) || len(r.lines) != 2 {
		t.Errorf("%v, %v", r, err)
	}
	if err := os.WriteFile(path, []byte("nonsense\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openResults(path); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a broken line in the midst: %v", err)
	}
}

func TestSummariesNameTheirEvidence(t *testing.T) {
	lines := []line{{Part: "weigh", Number: 1, Name: "all", Commit: "abc1234", Host: "here", Boot: "b", Runs: []string{"weigh-1"}, Short: true}}
	for name, text := range map[string]string{"text": asText(judge(lines), lines), "Markdown": asMarkdown(judge(lines), lines)} {
		for _, want := range []string{"abc1234", "here", "short", notRun} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", name, want, text)
			}
		}
	}
	if page := asMarkdown(judge(lines), lines); !strings.Contains(page, "weigh-1") {
		t.Error("the page names no run")
	}
}

func TestControlHasThePlantsForm(t *testing.T) {
	got := control{On: 1, Iterations: 2, Stall: 3, Seed: 4}.encode()
	want := []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Ten rounds of 10 s with a standard deviation of 1 %: two minutes hold ten, ten hold 51.
func TestPowerByHand(t *testing.T) {
	half := 2.262157 * 0.01 / math.Sqrt(10) // Student's quantile at 9 degrees
	l := line{Part: "redis2m", Seconds: 120, result: result{Values: map[string]overhead.Number{
		"redis rounds": 10, "redis strips_all": 100, "redis strip_s": 0.8, "redis round_s": 2,
	}, Figures: []figure{{
		Workload: "redis", Metric: "get", Kind: kindTypical, Primary: true, Value: 1,
		Low: overhead.Number(math.Exp(-half)), High: overhead.Number(math.Exp(half)), N: 10,
	}, {Workload: "redis", Metric: "get", Kind: kindAA, Primary: true, Value: 1, Low: 0.9, High: 1.1, N: 10}}}}
	got := powers([]line{l})
	if len(got) != 1 || len(got[0].expected) != len(powerBudgets) {
		t.Fatalf("%+v", got)
	}
	if want := 100 * math.Expm1(half); math.Abs(got[0].expected[1]-want) > 1e-4 {
		t.Errorf("expected in two minutes %v, want %v", got[0].expected[1], want)
	}
	if want := 100 * math.Expm1(2.008559*0.01/math.Sqrt(51)); math.Abs(got[0].expected[3]-want) > 1e-4 {
		t.Errorf("expected in ten minutes %v, want %v", got[0].expected[3], want)
	}
	if !math.IsInf(expectedHalfWidth(0.01, 1), 1) {
		t.Error("one round gives an interval")
	}
}
