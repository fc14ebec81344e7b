package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// A shape says how one synthetic condition behaves.
type shape struct {
	platform string
	setting  string  // as in a label: "network=bridge"
	cost     float64 // 0.03 is 3 % worse
	noise    float64 // of one block, log scale
	verdict  overhead.Verdict
	needs    string
	marked   string // why it is not representative
}

// A bench is a synthetic run and its report, in which every figure follows
// from values drawn with a fixed seed.
type bench struct {
	run    record.Run
	rep    overhead.Report
	random *rand.Rand
	blocks int
	// together is how many comparisons carry the verdict.
	together int
}

func newBench(blocks int) *bench {
	started := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	return &bench{
		run: record.Run{
			ID: "weigh-20260102-150405-7f3a", Study: "weigh", Version: "0.1.0", Seed: 7,
			Command: []string{"/usr/local/bin/tare", "weigh", "redis"},
			Started: started, Finished: started.Add(12*time.Minute + 31*time.Second), Status: record.Complete,
			Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95, Blocks: blocks},
			Host: record.Host{
				Hostname: "scales", Kernel: "6.18.5", OS: "Debian GNU/Linux 12", Arch: "amd64", CPUModel: "Example CPU 8 v2",
				CPUs: 2, SMT: "off", Governor: "performance", Memory: 24 << 30, Cgroup: "v1", THP: "madvise", KSM: "off",
				Virtual: "kvm", LSM: "none", Mitigated: map[string]string{"spectre_v2": "Mitigation: Retpolines", "meltdown": "Not affected"},
				Versions: map[string]string{"docker": "20.10.24", "runc": "1.1.5", "crun": "1.8.1"}, FS: "ext4",
			},
		},
		rep:    overhead.Report{SmallestEffect: 0.02, Level: 0.95},
		random: rand.New(rand.NewPCG(1, 2)),
		blocks: blocks,
	}
}

// A gauge is one synthetic metric.
type gauge struct {
	name, unit string
	higher     bool
	primary    bool
	level      float64
	stress     float64 // multiplies every condition's cost
}

func (b *bench) weigh(name string, gauges []gauge, shapes []shape) *overhead.Group {
	g := overhead.Group{Workload: name, Blocks: b.blocks}
	for i, s := range shapes {
		label, id := s.platform, name+"@"+s.platform
		if s.setting != "" {
			label, id = label+" "+s.setting, id+","+s.setting
		}
		c := record.Condition{ID: id, Label: label, Workload: name, Platform: s.platform, Baseline: i == 0,
			Params: workload.Params{"clients": "50", "pipeline": "1"}, Image: "sha256:0f", ImageRef: "tare.local/" + name + ":0f",
			Version: s.platform + " 1.0", NotRepresentative: s.marked, InForce: force(s)}
		for _, m := range gauges {
			better := workload.Lower
			if m.higher {
				better = workload.Higher
			}
			c.Metrics = append(c.Metrics, workload.Metric{Name: m.name, Unit: m.unit, Better: better, Primary: m.primary})
		}
		b.run.Conditions = append(b.run.Conditions, c)
	}
	together := 0
	for _, m := range gauges {
		if m.primary {
			together += len(shapes) - 1
		}
	}
	for _, m := range gauges {
		stress := m.stress
		if stress == 0 {
			stress = 1
		}
		report := overhead.MetricReport{Name: m.name, Unit: m.unit, Primary: m.primary, HigherIsBetter: m.higher, NoiseFloor: 0.0119}
		aa := stats.Estimate{Value: 1.001, Interval: stats.Interval{Low: 0.995, High: 1.007, Level: 0.95}, N: b.blocks, Method: "t"}
		report.AA = &aa
		var base []float64
		for i, s := range shapes {
			values := make([]float64, b.blocks)
			for k := range values {
				effect := math.Log1p(s.cost * stress)
				if m.higher {
					effect = math.Log1p(-s.cost * stress)
				}
				values[k] = m.level * math.Exp(effect+s.noise*b.random.NormFloat64())
			}
			if i == 0 {
				base = values
			}
			report.Rows = append(report.Rows, row(b.run.Conditions[len(b.run.Conditions)-len(shapes)+i], m, s, base, values, together))
		}
		g.Metrics = append(g.Metrics, report)
	}
	b.rep.Groups = append(b.rep.Groups, g)
	b.together += together
	for _, g := range b.rep.Groups {
		for i := range g.Metrics {
			g.Metrics[i].Comparisons = b.together
		}
	}
	return &b.rep.Groups[len(b.rep.Groups)-1]
}

func row(c record.Condition, m gauge, s shape, base, values []float64, together int) overhead.Row {
	r := overhead.Row{Condition: c.ID, Label: c.Label, Platform: c.Platform, Baseline: c.Baseline, Verdict: s.verdict,
		Needs: s.needs, NotRepresentative: s.marked, Value: stats.GeometricMean(values, 0.95, 1)}
	for k, v := range values {
		r.Blocks = append(r.Blocks, overhead.BlockPoint{Block: k + 1, Value: v, Ratio: v / base[k]})
	}
	if c.Baseline {
		r.Verdict = overhead.Baseline
		return r
	}
	judge := func(low, high float64) overhead.Verdict {
		switch {
		case math.Max(-low, high) < 2:
			return overhead.Equivalent
		case low > 0:
			return overhead.Worse
		case high < 0:
			return overhead.Better
		}
		return overhead.Inconclusive
	}
	percent := func(e stats.Estimate) (value, low, high float64) {
		value, low, high = 100*(e.Value-1), 100*(e.Interval.Low-1), 100*(e.Interval.High-1)
		if m.higher {
			return -value, -high, -low
		}
		return value, low, high
	}
	r.Ratio = stats.PairedRatio(base, values, 0.95, 1)
	r.RatioAll = r.Ratio
	r.Difference = stats.PairedDifference(base, values, 0.95, 1)
	r.Percent, r.PercentLow, r.PercentHigh = percent(r.Ratio)
	adjusted := stats.PairedRatio(base, values, 1-0.05/float64(max(1, together)), 1)
	r.Adjusted, r.AdjustedDifference = adjusted.Interval, r.Difference.Interval
	_, r.AdjustedLow, r.AdjustedHigh = percent(adjusted)
	r.Alone = judge(r.PercentLow, r.PercentHigh)
	if r.Verdict == "" {
		r.Verdict = judge(r.AdjustedLow, r.AdjustedHigh)
	}
	return r
}

func force(s shape) *platform.InForce {
	f := &platform.InForce{CPUSet: "0-1", NetworkNS: "host", RootFS: "ext4", OpenFiles: 16384, Stdin: "/dev/null", Stdout: "pipe",
		Env: []string{"HOME=/", "HOSTNAME=tare"}, Cgroups: []string{"4:memory:/"}}
	if s.platform != "bare" {
		f.Namespaces, f.RootFS, f.Seccomp = []string{"ipc", "mnt", "pid", "uts"}, "overlay", 2
		f.Cgroups = []string{"4:memory:/tare/" + s.platform}
	}
	if s.setting == "network=bridge" {
		f.NetworkNS = "own"
	}
	return f
}

// histograms gives every condition of a workload latency histograms, one a
// block, whose tail grows with the position of the condition.
func (b *bench) histograms(t testing.TB, name, workloadName string, perTrial int) {
	t.Helper()
	for i, c := range b.run.Conditions {
		if c.Workload != workloadName {
			continue
		}
		for k := range b.blocks {
			h := hdrhistogram.New(1, 10_000_000, 3)
			for range perTrial {
				v := 180 * math.Exp(0.25*b.random.NormFloat64()) * (1 + 0.05*float64(i))
				if b.random.Float64() < 0.004 {
					v *= 8 + 3*float64(i)*b.random.Float64()
				}
				if err := h.RecordValue(int64(v)); err != nil {
					t.Fatal(err)
				}
			}
			encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
			if err != nil {
				t.Fatal(err)
			}
			b.run.Trials = append(b.run.Trials, record.Trial{
				ID: int64(len(b.run.Trials) + 1), Condition: c.ID, Workload: workloadName, Block: k + 1, Attempt: 1, Position: i,
				Elapsed: 2 * time.Second, Histograms: map[string]record.Histogram{name: record.Histogram(encoded)},
				Covariates: map[string]float64{"steal": 0.01 * b.random.Float64()},
			})
		}
	}
}

// redis is the ordinary run that most tests show.
func redis() *bench {
	b := newBench(20)
	g := b.weigh("redis", []gauge{
		{name: "get", unit: "requests/s", higher: true, primary: true, level: 69300},
		{name: "get-p50", unit: "us", level: 312},
		{name: "get-p99", unit: "us", level: 870, stress: 2},
		{name: "set", unit: "requests/s", higher: true, level: 66100},
	}, []shape{
		{platform: "bare", noise: 0.011},
		{platform: "oci:crun", cost: 0.001, noise: 0.012},
		{platform: "oci:runc", cost: 0.002, noise: 0.012},
		{platform: "docker", cost: 0.031, noise: 0.013},
		{platform: "docker", setting: "network=bridge", cost: 0.083, noise: 0.018},
	})
	g.Repeated = 1
	return b
}

// suite is a run of three workloads, one with several primary metrics, with
// much that can go wrong.
func suite() *bench {
	b := redis()
	b.run.Command = []string{"tare", "weigh", "redis", "stream", "ffmpeg", "--budget", "10m"}
	b.run.Plan.Notes = []string{"left out: cpus=3 (this host has 2 CPUs)"}
	var triads []gauge
	for i, name := range []string{"copy", "scale", "add", "triad"} {
		triads = append(triads, gauge{name: name, unit: "B/s", higher: true, primary: true, level: 1.21e10 + 4e8*float64(i)})
	}
	b.weigh("stream", triads, []shape{
		{platform: "bare", noise: 0.003},
		{platform: "oci:runc", cost: 0.001, noise: 0.003},
		{platform: "docker", cost: 0.002, noise: 0.004},
	})
	g := b.weigh("ffmpeg", []gauge{{name: "elapsed", unit: "s", primary: true, level: 1.83}}, []shape{
		{platform: "bare", noise: 0.02},
		{platform: "oci:runc", cost: 0.012, noise: 0.03, verdict: overhead.Inconclusive, needs: "about 34 blocks"},
		{platform: "docker", cost: 0.02, noise: 0.03, verdict: overhead.Inconclusive, needs: "about 51 blocks"},
		{platform: "vm/bare", cost: 4.1, noise: 0.04, marked: "emulated by tcg, CPU work is several times slower than under KVM"},
	})
	g.Warnings = []string{"the baseline drifts by 3.1 % from the first block to the last"}
	g.Blocks, g.Tainted, g.Failed = 17, 3, 2
	for i := range 3 {
		b.run.Trials = append(b.run.Trials, record.Trial{Workload: "ffmpeg", Condition: "ffmpeg@docker", Block: i + 1, Attempt: 1,
			Taint: []string{fmt.Sprintf("steal %d.1 %%", 5+i)}})
		for j := range b.rep.Groups[2].Metrics[0].Rows {
			r := &b.rep.Groups[2].Metrics[0].Rows[j]
			r.Blocks[i*4].Tainted = true
			r.Ratio.N = min(r.Ratio.N, g.Blocks)
		}
	}
	b.rep.Warnings = []string{"9 effects were looked at: about 0 of them would be called by chance alone at 95 %"}
	return b
}

func weighed() Weight {
	return Weight{
		{What: "redis get rate, under tare against by hand", Unit: "%", Difference: true, Estimate: stats.Estimate{Value: 0.12, Interval: stats.Interval{Low: -0.31, High: 0.55, Level: 0.95}, N: 20, Method: "t"}},
		{What: "lateness of the load generator, p99", Unit: "us", Reason: "redis-benchmark is a closed loop and has no schedule"},
	}
}
