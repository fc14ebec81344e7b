package startup

import (
	"testing"
	"time"

	"tare/lab/labtest"
	"tare/platform"
	"tare/platform/k8s"
	"tare/probe/sched"
)

// The phases that a platform reports are recorded as means, and what is left is the application's.
func TestReportedPhases(t *testing.T) {
	b := labtest.NewBench(nil)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	traced := tracing{reported: []reported{
		{ms(100), []platform.Phase{{Name: k8s.PhaseKubelet, Time: ms(20)}, {Name: k8s.PhaseStart, Time: ms(50)}}},
		{ms(200), []platform.Phase{{Name: k8s.PhaseKubelet, Time: ms(60)}, {Name: k8s.PhaseStart, Time: ms(50)}}},
	}}
	if err := traced.done(b); err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, m := range traceMetrics() {
		declared[m.Name] = true
	}
	for name, want := range map[string]float64{
		pathTotal: 150_000, ofPhase + k8s.PhaseKubelet: 40_000, ofPhase + k8s.PhaseStart: 50_000,
		ofPhase + string(sched.PhaseApplication): 60_000,
	} {
		if got := b.Samples[name]; len(got) != 1 || got[0] != want || !declared[name] {
			t.Errorf("%s: %v us, want %v; declared: %v", name, got, want, declared[name])
		}
	}
}
