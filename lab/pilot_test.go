package lab

import (
	"context"
	"math"
	"testing"
	"time"

	"tare/record"
	"tare/workload"
)

// After a thaw the rate of a program recovers: the settling time is after how many steps
// it is the plateau's, within half a percent or what can be resolved.
func TestSettlingTime(t *testing.T) {
	recovering := func(steps int, depth float64) (rates [][]float64) {
		for range 6 {
			var of []float64
			for i := range settleSteps {
				rate := 1000.0
				if i < steps {
					rate *= 1 - depth
				}
				of = append(of, rate)
			}
			rates = append(rates, of)
		}
		return rates
	}
	noisy := recovering(2, 0.01)
	for i := range noisy {
		for j := range noisy[i] {
			noisy[i][j] *= 1 + 0.2*math.Sin(float64(7*i+3*j)) // what is lost is unknown
		}
	}
	dead := recovering(1, 1) // nothing at all is answered in the first step
	for name, c := range map[string]struct {
		rates [][]float64
		want  time.Duration
	}{
		"at once":        {recovering(0, 0), leastSettle},
		"after one step": {recovering(1, 0.1), leastSettle},
		"after four":     {recovering(4, 0.1), 4 * settleStep},
		"within settled": {recovering(4, settled/2), leastSettle},
		"never":          {recovering(settleSteps/2, 0.1), settleSteps / 2 * settleStep},
		"noise":          {noisy, leastSettle},
		"no answers":     {dead, leastSettle},
		"nothing known":  {nil, leastSettle},
	} {
		if got := settlingTime(c.rates); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The warm-up takes as long as the rate changes, and a slice as long as the slowest
// condition and the quota ask for.
func TestThePilotChoosesByWhatItSees(t *testing.T) {
	for name, c := range map[string]struct {
		factor      func(of *standIn) float64
		cpus        float64
		period      time.Duration
		slice, warm time.Duration
		settled     bool // by rates: several operations are in a step
	}{
		"quick":                        {func(*standIn) float64 { return 1 }, 0, 0, shortestSlice, warmStep, true},
		"a slow condition":             {func(of *standIn) float64 { return map[string]float64{"bare": 1, "box": 0.1}[of.platform] }, 0, 0, 100 * time.Millisecond, warmStep, false},
		"very slow":                    {func(*standIn) float64 { return 0.001 }, 0, 0, longestSlice, warmStep, false},
		"a quota":                      {func(*standIn) float64 { return 1 }, 0.5, 0, time.Second, warmStep, true},
		"a quota of short periods":     {func(*standIn) float64 { return 1 }, 0.5, 10 * time.Millisecond, 100 * time.Millisecond, warmStep, true},
		"a program that takes to warm": {func(of *standIn) float64 { return min(1, 0.1*float64(of.loads)) }, 0, 0, shortestSlice, 10 * warmStep, true},
		"one of two that takes longer": {func(of *standIn) float64 {
			return map[string]float64{"bare": 1, "box": min(1, 0.1*float64(of.loads))}[of.platform]
		}, 0, 0, shortestSlice, 10 * warmStep, true},
		"one that never does": {func(of *standIn) float64 { return math.Pow(1.1, float64(of.loads)) }, 0, 0, shortestSlice, warmMost + warmStep, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "bare", "box")
			s := newStage(t, b)
			w := sliced(s, getDrive)
			w.factor = func(of *standIn, _ workload.Stretch) float64 { return c.factor(of) }
			d := inRounds(w, record.Plan{Blocks: 1}, "bare", "box")
			d.Groups[0].Conditions[1].Setting.CPUs, d.Groups[0].Conditions[1].Setting.CPUPeriod = c.cpus, c.period
			ctx, cancel := context.WithCancelCause(t.Context())
			b.Interim = func(run record.Run, _ string) {
				plan, settled := run.Plan.Rounds["w"]
				if !settled {
					return // in the midst of the pilot
				}
				if plan.Slice != c.slice || plan.Warm != c.warm || plan.Settle < leastSettle {
					t.Errorf("slices of %v after %v, and %v after a thaw; want %v, %v", plan.Slice, plan.Warm, plan.Settle, c.slice, c.warm)
				}
				cancel(ErrStopped) // that is all
			}
			b.platforms["box"].force.CPUQuota = time.Duration(c.cpus * float64(100*time.Millisecond))
			b.platforms["box"].force.CPUPeriod = 100 * time.Millisecond
			if c.period > 0 {
				b.platforms["box"].force.CPUQuota, b.platforms["box"].force.CPUPeriod = time.Duration(c.cpus*float64(c.period)), c.period
			}
			if c.cpus == 0 {
				b.platforms["box"].force.CPUQuota, b.platforms["box"].force.CPUPeriod = 0, 0
			}
			run, _ := b.Run(ctx, d, newRun("r"))
			if _, settled := run.Plan.Rounds["w"]; !settled {
				t.Errorf("no plan: %s", run.Status)
			}
			for _, trial := range run.Trials {
				if trial.Block != 0 {
					t.Errorf("a trial of the pilot is of round %d", trial.Block)
				}
			}
		})
	}
}

// A round has as many strips as leave ten rounds in the time, or else as many rounds from
// five on as there can be; of fewer nothing is promised.
func TestStripsWithin(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		left, round, strip time.Duration
		want               int
	}{
		{10_000 * s, 10 * s, s, maxStrips},
		{400 * s, 10 * s, s, 26},        // 36 s for each of ten
		{150 * s, 10 * s, s, 5},         // 15 s for each of nine
		{84 * s, 10 * s, s, 5},          // 15.1 s for each of five
		{80 * s, 10 * s, s, 0},          // 14.4 s
		{-s, 10 * s, s, 0},              // the pilot took it all
		{100 * s, 0, 2 * s, 5},          // executions: launches are the strips' own
		{100 * s, 10 * s, 0, maxStrips}, // nothing known of strips
	} {
		if got := stripsWithin(c.left, c.round, c.strip); got != c.want {
			t.Errorf("%v of rounds of %v and strips of %v: %d, want %d", c.left, c.round, c.strip, got, c.want)
		}
	}
}

// Of a round that was killed, the time counts until the end of its last slice.
func TestTimeOfAKilledRoundCounts(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	trials := []record.Trial{
		{Started: at(0), Elapsed: 8 * time.Second},
		{Started: at(9), Slices: []record.Slice{{Started: at(10), Window: time.Second}, {Started: at(14), Window: time.Second}}},
	}
	if got := covered(trials); got != 14*time.Second {
		t.Errorf("%v, want 8 s and 6 s", got)
	}
}
