package overhead_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tare/overhead"
	"tare/record"
	"tare/workload"
)

// rounded describes a run in rounds whose truth is known: a slice's rate is level x
// effect x its round's own disturbance of each launch x its strip's, common to all, x
// noise, and stalls as often as is said.
type rounded struct {
	seed           uint64
	rounds, strips int
	effect         float64 // of docker upon the rate: 0.98 is 2 % less
	launch, noise  float64 // sd of the log: of each launch, and of each slice
	shared         float64 // of each strip, common to its slices
	stalls         float64 // share of docker's slices that are ten times slower
	edit           func(t *record.Trial, s *record.Slice)
	skip           func(t *record.Trial) bool
}

var (
	throughput = workload.Metric{Name: "throughput", Unit: "requests/s", Better: workload.Higher, Primary: true, Part: "get", Figure: workload.FigureRate}
	cpu        = workload.Metric{Name: "cpu", Unit: "us", Better: workload.Lower, Primary: true, Part: "get", Figure: workload.FigureCPU}
	openP99    = workload.Metric{Name: "p99", Unit: "us", Better: workload.Lower, Quantile: 0.99, Part: "get@half", Figure: workload.FigureLatency}
)

func (r rounded) run(t testing.TB) record.Run {
	t.Helper()
	random := rand.New(rand.NewPCG(r.seed, 1))
	started := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	run := record.Run{ID: "weigh-1", Study: "weigh", Seed: 7, Started: started, Status: record.Complete,
		Plan: record.Plan{Design: record.DesignRounds, SmallestEffect: 0.02, Level: 0.95, Blocks: r.rounds}}
	names := []string{"bare", "docker"}
	for _, name := range names {
		run.Conditions = append(run.Conditions, record.Condition{ID: "redis@" + name, Label: name, Workload: "redis", Platform: name, Baseline: name == "bare",
			Metrics: []workload.Metric{throughput, cpu, openP99}})
	}
	for round := 1; round <= r.rounds; round++ {
		var trials []*record.Trial
		for replicate, name := range []string{"bare", "bare", "docker"} {
			trials = append(trials, &record.Trial{ID: int64(100*round + replicate), Condition: "redis@" + name, Workload: "redis", Block: round, Attempt: 1,
				Position: replicate, Replicate: replicate % 2, Started: started.Add(time.Duration(round) * time.Minute), Elapsed: time.Second})
		}
		levels := []float64{}
		for range trials {
			levels = append(levels, math.Exp(r.launch*random.NormFloat64()))
		}
		previous := ""
		for strip := 1; strip <= r.strips; strip++ {
			moment := math.Exp(r.shared * random.NormFloat64())
			for position, i := range random.Perm(len(trials)) {
				trial := trials[i]
				rate := 1000 * levels[i] * moment * math.Exp(r.noise*random.NormFloat64())
				stalled := 1.0
				if trial.Condition == "redis@docker" {
					rate *= cmp.Or(r.effect, 1)
					if random.Float64() < r.stalls {
						stalled = 10
					}
				}
				s := record.Slice{Strip: strip, Position: position, Previous: previous, Part: "get", Started: trial.Started, Window: time.Second,
					Amount: rate / stalled, CPU: time.Duration(1e9 * stalled), Worked: rate, Load: -1}
				if r.edit != nil {
					r.edit(trial, &s)
				}
				if s.Part != "" {
					trial.Slices = append(trial.Slices, s)
				}
				previous = trial.Condition
			}
		}
		for _, trial := range trials {
			if r.skip == nil || !r.skip(trial) {
				run.Trials = append(run.Trials, *trial)
			}
		}
	}
	return run
}

func near(a, b, within float64) bool { return math.Abs(a-b) <= within }

// A planted effect is found: of the typical strip and of totals, in the rate and in CPU time.
func TestRoundsFindAPlantedEffect(t *testing.T) {
	report := overhead.Analyse(rounded{rounds: 10, strips: 20, effect: 0.97, launch: 0.001, noise: 0.001, shared: 0.2}.run(t), overhead.Options{})
	rate, time := row(t, report, "throughput", "docker"), row(t, report, "cpu", "docker")
	if !near(rate.Typical.Value, 0.97, 0.002) || !near(rate.Total.Value, 0.97, 0.002) || rate.Verdict != overhead.Worse || rate.Ratio.N != 10 {
		t.Errorf("throughput: typical %v, total %v, %s", rate.Typical.Value, rate.Total.Value, rate.Verdict)
	}
	if rate.Ratio.Value != rate.Typical.Value || time.Ratio.Value != time.Total.Value {
		t.Error("the headline of a rate is what is typical, and that of CPU time the total")
	}
	if !near(time.Ratio.Value, 1/0.97, 0.003) {
		t.Errorf("CPU time: %v", time.Ratio.Value)
	}
	if wide := rate.Ratio.Interval.High - rate.Ratio.Interval.Low; wide > 0.005 {
		t.Errorf("what all slices of a strip share widens the interval to %v", wide)
	}
	if g := report.Groups[0]; !g.Rounds || g.Strips != 200 || g.StripsTainted != 0 || g.Blocks != 10 {
		t.Errorf("%+v", g)
	}
}

// Stalls are in totals and not in what is typical, and their test finds them.
func TestRoundsTellStalls(t *testing.T) {
	with := row(t, overhead.Analyse(rounded{rounds: 12, strips: 40, launch: 0.001, noise: 0.001, stalls: 0.1}.run(t), overhead.Options{}), "throughput", "docker")
	if !near(with.Typical.Value, 1, 0.01) || with.Total.Value > 0.95 || !(with.Stalls.Interval.High < 1) {
		t.Errorf("typical %v, total %v, stalls %+v", with.Typical.Value, with.Total.Value, with.Stalls)
	}
	without := row(t, overhead.Analyse(rounded{rounds: 12, strips: 40, launch: 0.001, noise: 0.001}.run(t), overhead.Options{}), "throughput", "docker")
	if !(without.StallsNotExcluded < 0.002) {
		t.Errorf("without stalls %v are not excluded", without.StallsNotExcluded)
	}
}

// What was not measured is left out, and nothing else with it.
func TestRoundsOfWhichPartsAreMissing(t *testing.T) {
	plain := rounded{rounds: 8, strips: 20, effect: 0.97, launch: 0.001, noise: 0.001, shared: 0.1}
	for name, c := range map[string]struct {
		change func(*rounded)
		rounds int // that tell of the rate
		cpu    int // and of CPU time
	}{
		"nothing": {func(*rounded) {}, 8, 8},
		"strips of docker": {func(r *rounded) {
			r.edit = drop(func(t *record.Trial, s *record.Slice) bool { return t.Position == 2 && s.Strip%3 == 0 })
		}, 8, 8},
		"unequal numbers": {func(r *rounded) {
			r.edit = drop(func(t *record.Trial, s *record.Slice) bool { return s.Strip > 6+2*t.Block })
		}, 8, 8},
		"one replicate":     {func(r *rounded) { r.skip = func(t *record.Trial) bool { return t.Position == 1 && t.Block%2 == 0 } }, 8, 8},
		"both replicates":   {func(r *rounded) { r.skip = func(t *record.Trial) bool { return t.Position < 2 && t.Block == 3 } }, 7, 7},
		"docker in a round": {func(r *rounded) { r.skip = func(t *record.Trial) bool { return t.Position == 2 && t.Block == 3 } }, 7, 7},
		"a failed instance": {func(r *rounded) {
			r.edit = func(t *record.Trial, s *record.Slice) {
				if t.Position == 2 && t.Block == 3 {
					t.Error, s.Amount = "strip 5: no answer", 1
				}
			}
		}, 7, 7},
		"its end": {func(r *rounded) {
			r.edit = func(t *record.Trial, s *record.Slice) {
				if t.Block == 8 {
					t.Error = record.NotEnded
				}
			}
		}, 8, 8},
		"CPU time of some": {func(r *rounded) {
			r.edit = func(t *record.Trial, s *record.Slice) {
				if t.Block == 2 {
					s.CPU = -1
				}
			}
		}, 8, 7},
		"amounts of some": {func(r *rounded) {
			r.edit = func(t *record.Trial, s *record.Slice) {
				if s.Strip == 4 {
					s.Amount, s.Worked = 0, 0
				}
			}
		}, 8, 8},
		"tainted strips": {func(r *rounded) {
			r.edit = func(t *record.Trial, s *record.Slice) {
				if s.Strip%4 == 0 {
					s.Taint, s.Amount = []string{"steal 9 %"}, s.Amount*float64(1+t.Position)
				}
			}
		}, 8, 8},
		"a round that is tainted": {func(r *rounded) {
			r.edit = func(t *record.Trial, s *record.Slice) {
				if t.Block == 5 {
					s.Taint = []string{"steal 9 %"}
				}
			}
		}, 7, 7},
	} {
		r := plain
		c.change(&r)
		report := overhead.Analyse(r.run(t), overhead.Options{})
		rate, time := row(t, report, "throughput", "docker"), row(t, report, "cpu", "docker")
		if rate.Ratio.N != c.rounds || !near(rate.Typical.Value, 0.97, 0.003) || !near(rate.Total.Value, 0.97, 0.003) || rate.Verdict != overhead.Worse {
			t.Errorf("%s: throughput of %d rounds: typical %v, total %v, %s", name, rate.Ratio.N, rate.Typical.Value, rate.Total.Value, rate.Verdict)
		}
		if time.Ratio.N != c.cpu || !near(time.Ratio.Value, 1/0.97, 0.003) {
			t.Errorf("%s: CPU time of %d rounds: %v", name, time.Ratio.N, time.Ratio.Value)
		}
	}
}

func drop(what func(*record.Trial, *record.Slice) bool) func(*record.Trial, *record.Slice) {
	return func(t *record.Trial, s *record.Slice) {
		if what(t, s) {
			s.Part = ""
		}
	}
}

// Where every strip is tainted, all are shown, and nothing is decided.
func TestRoundsThatAreAllTainted(t *testing.T) {
	r := rounded{rounds: 8, strips: 10, effect: 0.9, launch: 0.001, noise: 0.001, edit: func(_ *record.Trial, s *record.Slice) { s.Taint = []string{"steal 9 %"} }}
	report := overhead.Analyse(r.run(t), overhead.Options{})
	got := row(t, report, "throughput", "docker")
	if !near(got.Ratio.Value, 0.9, 0.01) || got.Verdict != overhead.Inconclusive {
		t.Errorf("%v, %s", got.Ratio.Value, got.Verdict)
	}
	if g := report.Groups[0]; g.Strips != 80 || g.StripsTainted != 80 {
		t.Errorf("%d of %d strips are tainted", g.StripsTainted, g.Strips)
	}
}

// Fewer than three rounds have no interval, and fewer than five no verdict.
func TestFewRounds(t *testing.T) {
	for rounds := 1; rounds <= 6; rounds++ {
		got := row(t, overhead.Analyse(rounded{rounds: rounds, strips: 20, effect: 0.9, launch: 0.001, noise: 0.001}.run(t), overhead.Options{}), "throughput", "docker")
		if known := !math.IsNaN(got.Ratio.Interval.Low); known != (rounds >= 3) {
			t.Errorf("%d rounds: interval %+v", rounds, got.Ratio.Interval)
		}
		if decided := got.Verdict == overhead.Worse; decided != (rounds >= 5) {
			t.Errorf("%d rounds: %s", rounds, got.Verdict)
		}
	}
}

// Between equals the interval at 95 % excludes equality in about one run of twenty.
func TestRoundsOfEqualsCover(t *testing.T) {
	const runs = 400
	missed := 0
	for seed := range uint64(runs) {
		got := row(t, overhead.Analyse(rounded{seed: seed, rounds: 6, strips: 6, launch: 0.01, noise: 0.02, shared: 0.1}.run(t), overhead.Options{}), "throughput", "docker")
		if got.Ratio.Interval.Low > 1 || got.Ratio.Interval.High < 1 {
			missed++
		}
	}
	// Four standard deviations of a binomial of 20 from 400.
	if missed > 20+18 || missed < 20-17 {
		t.Errorf("%d of %d intervals miss the truth", missed, runs)
	}
}

// Latencies are those of all slices of a round together; what is tainted is left out.
func TestLatenciesOfRounds(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	r := rounded{rounds: 6, strips: 6, launch: 0.001, noise: 0.001, edit: func(trial *record.Trial, s *record.Slice) {
		s.Part = "get@half"
		mean := 100.0
		if trial.Condition == "redis@docker" {
			mean = 150
		}
		if s.Strip == 6 {
			s.Taint, mean = []string{"steal 9 %"}, 10_000
		}
		s.Histogram = latencies(t, random, mean)
	}}
	got := row(t, overhead.Analyse(r.run(t), overhead.Options{}), "p99", "docker")
	if !near(got.Ratio.Value, 1.5, 0.15) || !(got.Ratio.Interval.Low > 1.2) || !near(got.Value.Value, 150*math.Log(100), 70) {
		t.Errorf("%v µs, ratio %+v", got.Value.Value, got.Ratio)
	}
	if got.RatioAll.Value == got.Ratio.Value {
		t.Error("what is tainted changes nothing where all strips are taken")
	}
}

// What moves slices though no condition does is found where it is planted, and else not.
func TestEffectsWithinRounds(t *testing.T) {
	plain := rounded{rounds: 10, strips: 24, launch: 0.002, noise: 0.002, shared: 0.05}
	for name, edit := range map[string]func(*record.Trial, *record.Slice){
		"": nil,
		string(overhead.ByPosition): func(_ *record.Trial, s *record.Slice) {
			if s.Position == 2 {
				s.Amount *= 1.02
			}
		},
		string(overhead.ByPredecessor): func(_ *record.Trial, s *record.Slice) {
			if s.Previous == "redis@bare" {
				s.Amount *= 0.98
			}
		},
		string(overhead.ByHalf): func(t *record.Trial, s *record.Slice) {
			if t.Condition == "redis@bare" && t.Replicate == 1 && s.Strip > 12 {
				s.Amount *= 1.02
			}
		},
	} {
		r := plain
		r.edit = edit
		found := map[string]bool{}
		for _, e := range overhead.Analyse(r.run(t), overhead.Options{}).Groups[0].Effects {
			if e.Counts && e.Metric == "throughput" {
				found[string(e.Name)] = true
			}
		}
		if name == "" && len(found) > 0 || name != "" && !found[name] {
			t.Errorf("planted %q, found %v", name, found)
		}
	}
}

// Controls are in no estimate; how they differ from the other slices is reported.
func TestControlsOfRounds(t *testing.T) {
	r := rounded{rounds: 12, strips: 12, launch: 0.002, noise: 0.001}
	run := r.run(t)
	before := row(t, overhead.Analyse(run, overhead.Options{}), "throughput", "docker").Ratio
	for i := range run.Trials {
		trial := &run.Trials[i]
		if trial.Condition != "redis@bare" || trial.Replicate != 0 {
			continue
		}
		for _, s := range slices.Clone(trial.Slices[:4]) {
			s.Control, s.Amount = record.ControlAlone, s.Amount*1.1
			trial.Slices = append(trial.Slices, s)
			s.Taint, s.Amount = []string{"steal 9 %"}, s.Amount*10
			trial.Slices = append(trial.Slices, s)
		}
	}
	report := overhead.Analyse(run, overhead.Options{})
	// The instance that had them stands for nothing else: the baseline's other one remains.
	if after := row(t, report, "throughput", "docker").Ratio; !near(after.Value, before.Value, 0.002) {
		t.Errorf("controls move the estimate from %v to %v", before.Value, after.Value)
	}
	for _, e := range report.Groups[0].Effects {
		if e.Name == overhead.ByCompany && e.Metric == "throughput" {
			if !e.Counts || !near(e.Ratio.Value, 1/1.1, 0.01) {
				t.Errorf("%+v", e)
			}
			return
		}
	}
	t.Error("nothing is reported of the controls")
}

// Of programs that run to their end the strips' samples are compared; counts, which may be
// zero, by their means, and quantiles by the histograms of all executions.
func TestExecutionsOfRounds(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	run := rounded{rounds: 8, strips: 1, launch: 0.001, noise: 0.001}.run(t)
	elapsed := workload.Metric{Name: "elapsed", Unit: "s", Better: workload.Lower, Primary: true}
	faults := workload.Metric{Name: "faults", Unit: "faults", Better: workload.Lower, Count: true}
	p50 := workload.Metric{Name: "p50", Unit: "us", Better: workload.Lower, Quantile: 0.5, Histogram: "pass"}
	for i := range run.Conditions {
		run.Conditions[i].Metrics = []workload.Metric{elapsed, faults, p50}
	}
	var trials []record.Trial
	for _, trial := range run.Trials {
		for strip := 1; strip <= 5; strip++ {
			one, cost := trial, 1.0
			if trial.Condition == "redis@docker" {
				cost = 1.1
			}
			one.Slices = []record.Slice{{Strip: strip, Started: trial.Started, Window: time.Second, Amount: 1, Worked: 1}}
			one.Samples = []record.Sample{{Metric: "elapsed", Value: cost * math.Exp(0.001*random.NormFloat64())}, {Metric: "faults", Value: float64(strip % 2)}}
			one.Histograms = map[string]record.Histogram{"pass": latencies(t, random, 1000*cost)}
			trials = append(trials, one)
		}
	}
	run.Trials = trials
	report := overhead.Analyse(run, overhead.Options{})
	if got := row(t, report, "elapsed", "docker"); !near(got.Ratio.Value, 1.1, 0.002) || got.Verdict != overhead.Worse {
		t.Errorf("elapsed: %v, %s", got.Ratio.Value, got.Verdict)
	}
	if got := row(t, report, "faults", "docker"); !near(got.Ratio.Value, 1, 1e-9) || !near(got.Value.Value, 0.6, 1e-9) {
		t.Errorf("faults: %v, ratio %+v", got.Value.Value, got.Ratio)
	}
	if got := row(t, report, "p50", "docker"); !near(got.Ratio.Value, 1.1, 0.1) {
		t.Errorf("p50: %+v", got.Ratio)
	}
}

// A wanted precision is reached by no fewer than eight rounds of every condition.
func TestHalfWidthOfRounds(t *testing.T) {
	r := rounded{rounds: 9, strips: 10, launch: 0.001, noise: 0.001}
	if got := overhead.HalfWidth(r.run(t), overhead.Options{}); got > 0.01 {
		t.Errorf("half-width of nine rounds: %v", got)
	}
	r.skip = func(t *record.Trial) bool { return t.Position == 2 && t.Block <= 2 }
	if got := overhead.HalfWidth(r.run(t), overhead.Options{}); !math.IsInf(got, 1) {
		t.Errorf("half-width of seven rounds: %v, want none", got)
	}
}
