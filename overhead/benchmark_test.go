package overhead_test

import (
	"testing"

	"tare/overhead"
	"tare/record"
)

// Analysing a run of 100,000 samples, of which SPECIFICATION.md speaks.
func BenchmarkAnalyse(b *testing.B) {
	run := synthetic{seed: 71, blocks: 40, noise: 0.01, effects: map[string]float64{"docker": 0.97, "oci:runc": 1, "oci:crun": 1}}.run(b)
	samples := 0
	each(&run, func(trial *record.Trial) {
		for range 499 {
			trial.Samples = append(trial.Samples, trial.Samples[0])
		}
		samples += len(trial.Samples)
	})
	for b.Loop() {
		overhead.Analyse(run, overhead.Options{})
	}
	b.ReportMetric(float64(samples), "samples/op")
}

// What a stop rule asks for after each block.
func BenchmarkHalfWidth(b *testing.B) {
	run := synthetic{seed: 72, blocks: 20, noise: 0.01, effects: map[string]float64{"docker": 0.97, "oci:runc": 1, "oci:crun": 1}}.run(b)
	for b.Loop() {
		overhead.HalfWidth(run, overhead.Options{})
	}
}
