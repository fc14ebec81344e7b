package startup

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// Of two rates whose starts take equally long, the one with more starts must
// not seem to have the longer tail.
func TestTailGrowthIgnoresHowManyWereStarted(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const runs, blocks = 40, 8
	held, sum := 0, 0.0
	for range runs {
		var run record.Run
		run.Plan.Level = 0.95
		var conditions []record.Condition
		for i, starts := range []int{10, 32} {
			c := record.Condition{ID: fmt.Sprint(i), Workload: fmt.Sprint(i), Baseline: true, Metrics: rampMetrics(false), Factors: map[string]string{factorKind: kindRamp}}
			conditions = append(conditions, c)
			for block := 1; block <= blocks; block++ {
				var values []time.Duration
				for range starts {
					values = append(values, time.Duration(100*math.Exp(0.3*random.NormFloat64())*float64(time.Millisecond)))
				}
				encoded, err := record.EncodeHistogram(latencyHistogram(values))
				if err != nil {
					t.Fatal(err)
				}
				run.Trials = append(run.Trials, record.Trial{Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Histograms: map[string]record.Histogram{answer: encoded}})
			}
		}
		run.Conditions = conditions
		e := stats.GeometricMean(overhead.InOrder(read(run).tailGrowths(conditions[0], conditions[1], 0.95)), 0.95, 1)
		if e.Interval.Low <= 1 && 1 <= e.Interval.High {
			held++
		}
		sum += math.Log(e.Value)
	}
	if bias := math.Exp(sum / runs); bias < 0.96 || bias > 1.04 {
		t.Errorf("equal tails seem to grow %.3f times", bias)
	}
	if held < runs*85/100 {
		t.Errorf("%d of %d 95 %% intervals hold the truth", held, runs)
	}
}

func TestLogQuantileOfAllIsTheQuantile(t *testing.T) {
	var values []time.Duration
	for i := range 20 {
		values = append(values, time.Duration(i+1)*time.Millisecond)
	}
	h := latencyHistogram(values)
	if got := math.Exp(logQuantileOf(h, 20, 0.95)); math.Abs(got-19000) > 20 {
		t.Errorf("the 19th of 20 is %v µs, want 19000", got)
	}
	// One drawn at random: the mean of the logarithms.
	var mean float64
	for i := range 20 {
		mean += math.Log(float64(i+1)*1000) / 20
	}
	if got := logQuantileOf(h, 1, 0.95); math.Abs(got-mean) > 1e-3 {
		t.Errorf("one drawn has the logarithm %v, want %v", got, mean)
	}
}
