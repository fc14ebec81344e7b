package report

import (
	"math"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/overhead"
	"tare/record"
	"tare/workload"
)

// analysed is a run of trials, with all that goes wrong in one, and what
// package overhead makes of it: the other tests' reports are made by hand.
func analysed(t *testing.T, blocks int) *bench {
	t.Helper()
	b := newBench(blocks)
	metrics := []workload.Metric{
		{Name: "get", Unit: "requests/s", Better: workload.Higher, Primary: true, Doc: "GETs answered"},
		{Name: "get-p99", Unit: "us", Better: workload.Lower, Quantile: 0.99, Histogram: "get"},
		{Name: "throttled", Unit: "periods", Better: workload.Lower, Count: true},
	}
	for i, platform := range []string{"bare", "oci:runc", "docker", "oci:crun"} {
		b.run.Conditions = append(b.run.Conditions, record.Condition{ID: "redis@" + platform, Label: platform, Workload: "redis", Platform: platform, Baseline: i == 0, Metrics: metrics})
	}
	for block := 1; block <= blocks; block++ {
		for i, c := range b.run.Conditions {
			replicates := 1
			if c.Baseline {
				replicates = 2
			}
			for replicate := range replicates {
				h := hdrhistogram.New(1, 10_000_000, 3)
				for range 400 {
					if err := h.RecordValue(int64(200 * (1 + 0.1*float64(i)) * math.Exp(0.3*b.random.NormFloat64()))); err != nil {
						t.Fatal(err)
					}
				}
				text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
				if err != nil {
					t.Fatal(err)
				}
				trial := record.Trial{ID: int64(len(b.run.Trials) + 1), Condition: c.ID, Workload: "redis", Block: block, Attempt: 1, Position: i, Replicate: replicate,
					Samples: []record.Sample{
						{Metric: "get", Value: 69300 * (1 - 0.03*float64(i)) * math.Exp(0.008*b.random.NormFloat64())},
						{Metric: "throttled", Value: float64(7 * i * (1 + block%3))},
					},
					Histograms: map[string]record.Histogram{"get": record.Histogram(text)}}
				if c.Platform == "oci:crun" {
					trial.Samples, trial.Histograms, trial.Error = nil, nil, "crun refuses the host's hybrid cgroups"
				}
				if block == 3 && c.Platform == "docker" {
					trial.Taint = []string{"steal 7.1 %"}
				}
				b.run.Trials = append(b.run.Trials, trial)
			}
		}
	}
	b.rep = overhead.Analyse(b.run, overhead.Options{})
	return b
}

func TestAnalysedRunIsShown(t *testing.T) {
	b := analysed(t, 12)
	out := strings.Join(strings.Fields(screenOf(t, b, ordinary)), " ")
	for _, want := range []string{
		"Docker costs redis", "runc", "crun yielded no figure",
		"TAINTED: redis: 1 of", "mostly by steal",
		"no figure: crun refuses the host's hybrid cgroups",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the screen lacks %q:\n%s", want, screenOf(t, b, ordinary))
		}
	}
	page := pageOf(t, b)
	for _, want := range []string{"throttled", "get-p99", "GETs answered", "the difference in periods"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"NaN", "+Inf", "-Inf"} {
		if strings.Contains(page+out, bad) {
			t.Errorf("a figure is shown as %q", bad)
		}
	}
}

// In its first blocks a run has figures without intervals, and none at all.
func TestEarlyRunIsShown(t *testing.T) {
	for blocks := range 4 {
		b := analysed(t, blocks)
		for _, out := range []string{screenOf(t, b, TerminalOptions{Interim: true}), screenOf(t, b, ordinary), pageOf(t, b)} {
			for _, bad := range []string{"NaN", "+Inf", "-Inf", "%!"} {
				if strings.Contains(out, bad) {
					t.Errorf("after %d blocks a figure is shown as %q", blocks, bad)
				}
			}
		}
	}
}
