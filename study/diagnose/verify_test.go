package diagnose

import (
	"strings"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/platform"
	"tare/record"
)

func TestContainerOf(t *testing.T) {
	for id, want := range map[string]string{
		"web/throttled": "web", "shop/web/app/memory-limit": "shop/web/app",
		"web/noisy-neighbour:a/b": "web", "web": "", "/throttled": "", "": "",
	} {
		if got := ContainerOf(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestRemediesChangeSettings(t *testing.T) {
	base := platform.Setting{CPUs: 0.13, CPUBurst: time.Millisecond, Memory: 64 << 20, Network: platform.NetworkBridge}
	ms := time.Millisecond
	for _, c := range []struct {
		change map[string]string
		want   string
	}{
		{quotaChange(cgroup.Bandwidth{Quota: 30 * ms, Period: 100 * ms}), "cpus=0.3,memory=64m,network=bridge"},
		{quotaChange(cgroup.Bandwidth{Quota: 13 * ms, Period: 100 * ms, Burst: 13 * ms}), "cpus=0.13,cpu-burst=13ms,memory=64m,network=bridge"},
		{quotaChange(cgroup.Bandwidth{Quota: 5 * ms, Period: 10 * ms}), "cpus=0.5,cpu-period=10ms,memory=64m,network=bridge"},
		{quotaChange(cgroup.Bandwidth{}), "memory=64m,network=bridge"},
		{map[string]string{"memory": "134217728b"}, "cpus=0.13,cpu-burst=1ms,memory=128m,network=bridge"},
		{map[string]string{"seccomp": "unconfined"}, "cpus=0.13,cpu-burst=1ms,memory=64m,network=bridge,seccomp=unconfined"},
	} {
		got, err := Remedy{Change: c.change}.changed(base)
		if err != nil || got.String() != c.want {
			t.Errorf("%v: %s, %v, want %s", c.change, got, err, c.want)
		}
	}
}

func TestPromiseOfAFinding(t *testing.T) {
	r := Result{Findings: []Finding{
		{ID: "web/throttled", Set: []Remedy{{Says: "by hand"}, {Says: "a quota", Change: map[string]string{"cpus": "1"}}}},
		{ID: "web/log", Set: []Remedy{{Says: "less output"}}},
	}}
	if p, err := r.PromiseOf("web/throttled"); err != nil || p.Remedy.Says != "a quota" {
		t.Errorf("%+v, %v", p, err)
	}
	for id, want := range map[string]string{
		"web/log":          "web/log proposes no setting that a copy can be given",
		"web/memory-limit": "web/memory-limit was not found within 0 s, so there is nothing to verify; found: web/throttled, web/log",
	} {
		if _, err := r.PromiseOf(id); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", id, err, want)
		}
	}
}

// verified reads a run of some blocks, in which the copy lost so much.
func verified(current, proposed []float64) Verification {
	run := record.Run{ID: "verify-x", Seed: 1, Plan: record.Plan{Level: 0.95}, Conditions: []record.Condition{{ID: "a", Baseline: true}, {ID: "b"}}}
	for i := range current {
		for id, lost := range map[string]float64{"a": current[i], "b": proposed[i]} {
			for block := range 2 { // what the warm-up saw does not count
				of := lost
				if block == 0 {
					of = 9
				}
				run.Trials = append(run.Trials, record.Trial{
					Condition: id, Block: block * (i + 1), Samples: []record.Sample{{Metric: Lost, Value: of}},
				})
			}
		}
	}
	finding := Finding{ID: "web/throttled", Container: "web", Cost: Cost{Rate: 0.3}}
	return Promise{finding, Remedy{Says: "a quota of 30ms in each 100ms"}}.Verified(run)
}

func TestVerificationsSayWhetherThePromiseHeld(t *testing.T) {
	for _, c := range []struct {
		current, proposed []float64
		want              Outcome
	}{
		{[]float64{0.30, 0.31, 0.29}, []float64{0, 0.01, 0}, Held},
		{[]float64{0.30, 0.31, 0.29}, []float64{0.29, 0.31, 0.30}, Broken},
		{[]float64{0.30, 0.31, 0.29}, []float64{0.15, 0.16, 0.14}, Broken},
		{[]float64{0.30, 0.31, 0.29}, []float64{0, 0.2, 0.1}, Open},
		{[]float64{0.30, 0.31}, []float64{0, 0}, Open},
		{[]float64{0, 0.001, 0}, []float64{0, 0, 0}, NotShown},
		{nil, nil, Open},
	} {
		v := verified(c.current, c.proposed)
		if v.Outcome != c.want || v.Saved.N != len(c.current) {
			t.Errorf("%v and %v: %s (%+v), want %s", c.current, c.proposed, v.Outcome, v.Saved, c.want)
		}
		if text := v.Answer(); !strings.HasPrefix(text, "web/throttled: a quota of 30ms in each 100ms. ") {
			t.Errorf("answer %q", text)
		}
	}
}
