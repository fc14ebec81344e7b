package overhead_test

import (
	"fmt"
	"time"

	"tare/overhead"
	"tare/record"
	"tare/workload"
)

// Two conditions in five blocks, the baseline twice in each: throughput in the
// container is about 5 % lower.
func Example() {
	throughput := []workload.Metric{{Name: "get", Unit: "requests/s", Better: workload.Higher, Primary: true}}
	run := record.Run{
		ID: "weigh-1", Seed: 1, Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95},
		Conditions: []record.Condition{
			{ID: "redis@bare", Label: "bare", Workload: "redis", Platform: "bare", Baseline: true, Metrics: throughput},
			{ID: "redis@docker", Label: "docker", Workload: "redis", Platform: "docker", Metrics: throughput},
		},
	}
	add := func(block, replicate int, condition string, value float64) {
		run.Trials = append(run.Trials, record.Trial{
			Condition: condition, Block: block, Attempt: 1, Replicate: replicate, Elapsed: time.Second,
			Samples: []record.Sample{{Metric: "get", Value: value}},
		})
	}
	for i, figures := range [][3]float64{
		{69000, 69400, 65700}, {68000, 68300, 64800}, {70100, 69900, 66600}, {69300, 69000, 65500}, {68800, 69100, 65600},
	} {
		add(i+1, 0, "redis@bare", figures[0])
		add(i+1, 1, "redis@bare", figures[1])
		add(i+1, 0, "redis@docker", figures[2])
	}

	report := overhead.Analyse(run, overhead.Options{})
	for _, row := range report.Groups[0].Metrics[0].Rows {
		if !row.Baseline {
			fmt.Printf("%s: %.1f %% (%.1f to %.1f), %s\n", row.Label, row.Percent, row.PercentLow, row.PercentHigh, row.Verdict)
		}
	}
	// Output: docker: 5.0 % (4.8 to 5.2), worse
}
