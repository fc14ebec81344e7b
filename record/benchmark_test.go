package record

import (
	"testing"
	"time"
)

// Loading 100,000 samples, of which SPECIFICATION.md speaks.
func BenchmarkRun(b *testing.B) {
	s := open(b)
	must(b, s.Begin(example("weigh-1")))
	const trials, samples = 200, 500
	for block := range trials {
		trial := Trial{Condition: "redis@bare", Block: block, Attempt: 1, Started: epoch.Add(time.Duration(block) * time.Second)}
		for i := range samples {
			trial.Samples = append(trial.Samples, Sample{"get", float64(69_000 + i)})
		}
		mustTrial(b, s, "weigh-1", trial)
	}
	for b.Loop() {
		run, err := s.Run("weigh-1")
		must(b, err)
		if len(run.Trials) != trials {
			b.Fatalf("%d trials", len(run.Trials))
		}
	}
	b.ReportMetric(trials*samples, "samples/op")
}

func BenchmarkAddTrial(b *testing.B) {
	s := open(b)
	must(b, s.Begin(example("weigh-1")))
	trial := exampleTrial(b, "redis@bare", 1)
	for b.Loop() {
		mustTrial(b, s, "weigh-1", trial)
	}
}
