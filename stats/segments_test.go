package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tare/stats"
)

// effectsOf are effects without intervals.
func effectsOf(values []float64) []stats.Estimate {
	effects := make([]stats.Estimate, len(values))
	for i, v := range values {
		effects[i] = stats.Absent(0.95)
		effects[i].Value = v
	}
	return effects
}

// runs draws the effects of n runs. Their noise is 1 % where it is normal.
func runs(rng *rand.Rand, n int, noise func(*rand.Rand) float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = math.Exp(0.01 * noise(rng))
	}
	return values
}

func normalNoise(rng *rand.Rand) float64 { return rng.NormFloat64() }

// studentNoise is Student's t with three degrees of freedom.
func studentNoise(rng *rand.Rand) float64 {
	var squares float64
	for range 3 {
		v := rng.NormFloat64()
		squares += v * v
	}
	return rng.NormFloat64() / math.Sqrt(squares/3)
}

// spikyNoise is normal, but one run in ten lies 30 standard deviations off.
func spikyNoise(rng *rand.Rand) float64 {
	if rng.IntN(10) == 0 {
		return 30
	}
	return rng.NormFloat64()
}

func beginnings(segments []stats.Segment) (all []int) {
	for _, s := range segments {
		all = append(all, s.From)
	}
	return all
}

func TestSegments(t *testing.T) {
	flat := func() []float64 { return runs(rand.New(rand.NewPCG(4, 4)), 40, normalNoise) }
	times := func(values []float64, by float64, from, to int) []float64 {
		for i := from; i < to; i++ {
			values[i] *= by
		}
		return values
	}
	for _, c := range []struct {
		name   string
		values []float64
		want   []int
	}{
		{"nothing", nil, nil},
		{"one run", []float64{1}, []int{0}},
		{"flat", flat(), []int{0}},
		{"one spike", times(flat(), 1.3, 20, 21), []int{0}},
		{"two spikes apart", times(times(flat(), 1.3, 10, 11), 1.3, 30, 31), []int{0}},
		{"two runs at the end", times(flat(), 1.3, 38, 40), []int{0}},
		{"three runs at the end", times(flat(), 1.3, 37, 40), []int{0, 37}},
		{"a step", times(flat(), 0.94, 25, 40), []int{0, 25}},
		{"a step beside a spike", times(times(flat(), 1.06, 25, 40), 1.5, 10, 11), []int{0, 25}},
		{"there and back", times(flat(), 1.06, 14, 26), []int{0, 14, 26}},
		{"two steps", times(times(flat(), 1.06, 12, 40), 1.06, 27, 40), []int{0, 12, 27}},
		{"exact, all alike", slices.Repeat([]float64{1.25}, 20), []int{0}},
		{"exact, a step", times(slices.Repeat([]float64{1.25}, 20), 1.01, 12, 20), []int{0, 12}},
		{"exact, a spike", times(slices.Repeat([]float64{1.25}, 20), 1.01, 12, 13), []int{0}},
		{"too few", times(slices.Repeat([]float64{1.25}, 6), 1.01, 3, 6), []int{0}},
		{"no ratio", []float64{1, 1, 0, 1, 1, 1}, nil},
	} {
		got := stats.Segments(effectsOf(c.values), 0.05, 1)
		if !slices.Equal(beginnings(got), c.want) {
			t.Errorf("%s: segments begin at %v, want %v", c.name, beginnings(got), c.want)
		}
		for i, s := range got {
			if first := i == 0; math.IsNaN(s.P) != first || !first && !(s.P > 0 && s.P <= 0.05) {
				t.Errorf("%s: p %v of segment %d", c.name, s.P, i)
			}
			ends := len(c.values)
			if i+1 < len(got) {
				ends = got[i+1].From
			}
			if s.To-s.From < min(stats.FewestRuns, len(c.values)) || s.To != ends {
				t.Errorf("%s: segment %+v", c.name, s)
			}
		}
		if again := stats.Segments(effectsOf(c.values), 0.05, 1); !slices.Equal(beginnings(again), beginnings(got)) {
			t.Errorf("%s: the same runs give %v and %v", c.name, beginnings(got), beginnings(again))
		}
	}
}

// A run with a wide interval counts for little: what comes of three wild runs is no change.
func TestSegmentsWeighRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	with := func(wild float64) []stats.Estimate {
		effects := effectsOf(runs(rng, 30, normalNoise))
		for i := range effects {
			half := 0.01
			if i >= 27 {
				half = wild
				effects[i].Value *= 1.04
			}
			effects[i].N = 10
			v := effects[i].Value
			effects[i].Interval = stats.Interval{Low: v / (1 + half), High: v * (1 + half), Level: 0.95}
		}
		return effects
	}
	if got := stats.Segments(with(0.01), 0.05, 1); len(got) != 2 || got[1].From != 27 {
		t.Errorf("precise runs: %+v", got)
	}
	even, uneven := stats.Pooled(with(0.01), 0.95), stats.Pooled(with(0.5), 0.95)
	if !(uneven.Value < even.Value) || !uneven.Known() {
		t.Errorf("pooled %v, and with wild runs %v", even, uneven)
	}
}

func TestPooledOfExactEffects(t *testing.T) {
	one := stats.ExactRatio(slices.Repeat([]float64{4}, 5), slices.Repeat([]float64{5}, 5), 0.95)
	want := stats.Interval{Low: 1.25, High: 1.25, Level: 0.99}
	if got := stats.Pooled(slices.Repeat([]stats.Estimate{one}, 4), 0.99); got.Value != 1.25 || got.Interval != want {
		t.Errorf("%+v", got)
	}
	if got := stats.Pooled(nil, 0.95); got.Known() || len(got.Warnings) == 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestEnoughRuns(t *testing.T) {
	for alpha, want := range map[float64]int{0.05: 8, 0.01: 13, 0.05 / 20: 20} {
		n := stats.EnoughRuns(alpha)
		if n != want {
			t.Errorf("%v: %d runs, want %d", alpha, n, want)
		}
		values := slices.Repeat([]float64{1}, n)
		for i := n - stats.FewestRuns; i < n; i++ {
			values[i] = 1.1
		}
		if got := stats.Segments(effectsOf(values), alpha, 1); len(got) != 2 {
			t.Errorf("%v: %d runs do not show a step: %+v", alpha, n, got)
		}
	}
}

// The false alarms that docs/statistics.md states: the first of a history without a change, and
// those too many in one with a true step.
func TestFalseAlarmsOfManyHistories(t *testing.T) {
	const histories = 320
	for _, c := range []struct {
		name  string
		n     int
		noise func(*rand.Rand) float64
	}{
		{"normal", 12, normalNoise}, {"normal", 40, normalNoise},
		{"Student's t, 3 degrees", 40, studentNoise}, {"a tenth are spikes", 40, spikyNoise},
	} {
		rng := rand.New(rand.NewPCG(uint64(c.n), 5))
		false0, found, placed, false1 := 0, 0, 0, 0
		for i := range histories {
			values := runs(rng, c.n, c.noise)
			if len(stats.Segments(effectsOf(values), 0.05, 1)) > 1 {
				false0++
			}
			if i%8 > 0 {
				continue // a history with a change takes all permutations
			}
			at := c.n - c.n/3
			for j := at; j < c.n; j++ {
				values[j] *= 1.04
			}
			got := stats.Segments(effectsOf(values), 0.05, 1)
			if len(got) > 1 {
				found++
			}
			if len(got) > 2 {
				false1++
			}
			if slices.ContainsFunc(got, func(s stats.Segment) bool { return s.From >= at-1 && s.From <= at+1 }) {
				placed++
			}
		}
		t.Logf("%s, %d runs: false alarm in %.1f %%; step of 4 sd: found in %d of %d, at most one run off %d, too many %d", c.name,
			c.n, 100*float64(false0)/histories, found, histories/8, placed, false1)
		if false0 > histories*8/100 || false1 > histories/8*14/100 {
			t.Errorf("%s, %d runs: %d and %d false alarms", c.name, c.n, false0, false1)
		}
	}
}
