package cli

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
	"tare/workload"
)

// storedService puts a run of a service into the store of home: under docker, one call in a
// hundred takes ten times as long as on bare metal, and all others as long.
func storedService(t *testing.T, home string) {
	t.Helper()
	random := rand.New(rand.NewPCG(9, 9))
	storedTrials(t, home, "weigh-service", map[string]float64{"bare": 1, "docker": 1}, func(run *record.Run) {
		for i := range run.Conditions {
			run.Conditions[i].Metrics = []workload.Metric{
				{Name: "p50", Unit: "us", Better: workload.Lower, Primary: true, Quantile: 0.5, Histogram: "call"},
				{Name: "p99", Unit: "us", Better: workload.Lower, Quantile: 0.99, Histogram: "call"},
			}
		}
	}, func(trial *record.Trial) {
		h := hdrhistogram.New(1, 10_000_000, 3)
		for range 5000 {
			v := 1000 + 50*random.NormFloat64()
			if trial.Condition == "app@docker" && random.IntN(100) == 0 {
				v *= 10
			}
			if err := h.RecordValue(int64(v)); err != nil {
				t.Fatal(err)
			}
		}
		encoded, err := record.EncodeHistogram(h)
		if err != nil {
			t.Fatal(err)
		}
		trial.Samples, trial.Histograms = nil, map[string]record.Histogram{"call": encoded}
	})
}

func TestPredictFanout(t *testing.T) {
	home := t.TempDir()
	storedService(t, home)
	storedRun(t, home, "weigh-batch", map[string]float64{"bare": 1, "docker": 1}, nil)
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"--slow 1% --calls 100", exitSuccess, []string{"1 % of slow calls make 63.4 % of requests slow that wait for 100 calls",
			"the p99.309 of a call decides the p50 of such a request, and the p99.99 the p99", "independently", "dean and barroso"}},
		{"--slow 0.01% --calls 2000", exitSuccess, []string{"make 18.1 % of requests slow"}},
		{"weigh-service --calls 100", exitSuccess, []string{"docker changes the p50 of one call of app call by", "and that of a request of 100 calls by +",
			"together", "fewer than 10 calls were recorded"}},
		{"weigh-batch", exitUsage, []string{"has no latencies of single requests"}},
		{"weigh-service --slow 1%", exitUsage, []string{"leave out one"}},
		{"--slow 0%", exitUsage, []string{"--slow 0%"}},
		{"--slow 1% --calls 1", exitUsage, []string{"--calls 1: want 2"}},
	} {
		code, out, errOut := tare(t, home, append([]string{"predict", "fanout"}, strings.Fields(c.args)...)...)
		if code != c.code {
			t.Errorf("%s: %d, %s", c.args, code, errOut)
		}
		hasAll(t, c.args, out+errOut, c.says)
		for _, line := range strings.Split(out, "\n") {
			if len([]rune(line)) > 80 || strings.Contains(line, "NaN") {
				t.Errorf("%s: %q", c.args, line)
			}
		}
	}

	var d fanoutJSON
	if code, out, errOut := tare(t, home, "predict", "fanout", "weigh-service", "--calls", "100", "--json", "-"); code != exitSuccess {
		t.Fatalf("--json: %d, %s", code, errOut)
	} else if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	// A request of 100 calls has a slow one in 63 of 100 cases: its p50 is a slow call.
	for _, r := range d.Latencies {
		if r.Condition != "app@docker" || r.Quantile != 0.5 {
			continue
		}
		want := map[int]float64{1: 1, 100: 8.9}[r.Calls] // the slow calls lie about ten times 1000, the fast at most 1125
		if r.Ratio == nil || r.Ratio.Value == nil || math.Abs(*r.Ratio.Value/want-1) > 0.05 {
			t.Errorf("%+v: %+v, want %v", r, r.Ratio, want)
		}
	}
	if len(d.Latencies) != 8 || d.SlowCalls != nil || math.Abs(d.DecidesP50-0.99309) > 1e-5 {
		t.Errorf("%+v", d)
	}
}

func TestPercentOf(t *testing.T) {
	for share, want := range map[float64]string{0.01: "1", 0.633968: "63.4", 0.5: "50", 0.99309: "99.309", 0.9999: "99.99", 0.00012345: "0.0123", 1: "100"} {
		if got := percentOf(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}
