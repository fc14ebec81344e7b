package overhead_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// synthetic describes a run whose truth is known: every condition's figure in
// a block is level x effect x the block's own disturbance x noise.
type synthetic struct {
	seed    uint64
	blocks  int
	effects map[string]float64 // by condition beside the baseline: 1.05 is 5 % more
	noise   float64            // sd of the log of each trial
	shared  float64            // sd of the log of each block, common to all its trials
	trend   float64            // factor from each block to the next
	cold    float64            // factor of the warm-up block; 0 for none
	edit    func(t *record.Trial)
}

var (
	get       = workload.Metric{Name: "get", Unit: "requests/s", Better: workload.Higher, Primary: true}
	p99       = workload.Metric{Name: "get-p99", Unit: "us", Better: workload.Lower, Quantile: 0.99, Histogram: "get"}
	throttled = workload.Metric{Name: "throttled", Unit: "periods", Better: workload.Lower, Count: true}
)

const level = 69000

func (s synthetic) run(t testing.TB) record.Run {
	t.Helper()
	random := rand.New(rand.NewPCG(s.seed, 1))
	started := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	run := record.Run{
		ID: "weigh-20260102-150405-7f3a", Study: "weigh", Command: []string{"tare", "weigh", "redis"}, Version: "0.1", Seed: 7,
		Started: started, Finished: started.Add(time.Hour), Status: record.Complete,
		Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95, Blocks: s.blocks},
		Host: record.Host{Hostname: "box", Kernel: "6.1.0", Arch: "amd64", OS: "Debian 12", CPUModel: "Fast CPU", CPUs: 2},
	}
	names := []string{"bare"}
	for _, name := range []string{"docker", "oci:runc", "oci:crun"} {
		if _, ok := s.effects[name]; ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		run.Conditions = append(run.Conditions, record.Condition{
			ID: "redis@" + name, Label: name, Workload: "redis", Platform: name, Baseline: name == "bare",
			Params: workload.Params{"clients": "50"}, Setting: platform.Setting{Memory: 512 << 20},
			Metrics: []workload.Metric{get, p99, throttled}, Image: "sha256:00", ImageRef: "redis",
		})
	}
	first := 1
	if s.cold != 0 {
		first = 0
	}
	for b := first; b <= s.blocks; b++ {
		disturbance := math.Exp(s.shared*random.NormFloat64()) * math.Pow(1+s.trend, float64(b))
		if b == 0 {
			disturbance *= s.cold
		}
		order := append([]string{"bare"}, names...)
		for position, name := range order {
			effect := 1.0
			if name != "bare" {
				effect = s.effects[name]
			}
			value := level * effect * disturbance * math.Exp(s.noise*random.NormFloat64())
			trial := record.Trial{
				ID: int64(len(run.Trials) + 1), Condition: "redis@" + name, Workload: "redis", Block: b, Attempt: 1, Position: position,
				Started: started.Add(time.Duration(len(run.Trials)) * time.Minute), Elapsed: time.Minute,
				Samples: []record.Sample{{Metric: "get", Value: value}, {Metric: "throttled", Value: float64(random.IntN(3))}},
			}
			if position == 0 {
				trial.Replicate = 1
			}
			trial.Histograms = map[string]record.Histogram{"get": latencies(t, random, 1e7/value)}
			if s.edit != nil {
				s.edit(&trial)
			}
			run.Trials = append(run.Trials, trial)
		}
	}
	return run
}

// latencies is a histogram of exponential latencies, in microseconds.
func latencies(t testing.TB, random *rand.Rand, mean float64) record.Histogram {
	t.Helper()
	h := hdrhistogram.New(1, 10_000_000, 2)
	for range 500 {
		if err := h.RecordValue(1 + int64(mean*random.ExpFloat64())); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := record.EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// row finds a condition's row of a metric in a report of one workload.
func row(t testing.TB, r overhead.Report, metric, label string) overhead.Row {
	t.Helper()
	for _, m := range r.Groups[0].Metrics {
		if m.Name != metric {
			continue
		}
		for _, row := range m.Rows {
			if row.Label == label {
				return row
			}
		}
	}
	t.Fatalf("no row for %s of %s", metric, label)
	return overhead.Row{}
}

func metric(t testing.TB, r overhead.Report, name string) overhead.MetricReport {
	t.Helper()
	for _, m := range r.Groups[0].Metrics {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no metric %s", name)
	return overhead.MetricReport{}
}
