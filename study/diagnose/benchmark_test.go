package diagnose

import "testing"

// What the rules themselves take of a throttled container: mostly the model of its quota.
func BenchmarkRules(b *testing.B) {
	idle := *quietHost
	idle.Idle = 0.6
	f := isolated()
	for b.Loop() {
		Diagnose(&idle, []*Facts{f})
	}
}
