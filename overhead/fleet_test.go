package overhead_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/overhead"
	"tare/record"
	"tare/record/recordtest"
)

// onNode makes a run that of a node.
func onNode(run record.Run, name, kernel string) record.Run {
	run.ID, run.Host.Hostname, run.Host.Kernel = "weigh-"+name, name, kernel
	return run
}

// nodes are runs of ten blocks, each on a node whose effect is given.
func nodes(t *testing.T, effects []float64, kernel func(i int) string) (all []record.Run) {
	t.Helper()
	for i, effect := range effects {
		run := synthetic{
			seed: uint64(i + 1), blocks: 10, effects: map[string]float64{"docker": effect}, noise: 0.01, shared: 0.05,
		}.run(t)
		all = append(all, onNode(run, fmt.Sprintf("node-%02d", i+1), kernel(i)))
	}
	return all
}

func fleet(runs ...record.Run) overhead.Fleet {
	var all []overhead.Node
	for _, run := range runs {
		all = append(all, overhead.NewNode(run, false))
	}
	return overhead.NewFleet(all)
}

func oneKernel(int) string { return "6.1.0" }

// rowOf finds a metric's row in a fleet of one condition.
func rowOf(t *testing.T, f overhead.Fleet, metric string) overhead.FleetRow {
	t.Helper()
	i := slices.IndexFunc(f.Rows, func(r overhead.FleetRow) bool { return r.Metric == metric })
	if i < 0 {
		t.Fatalf("no row of %s in %+v", metric, f)
	}
	return f.Rows[i]
}

// Docker takes a tenth of the throughput under one kernel, and a fifth under another: the mean lies between, another
// node may have either, and the kernel explains it.
func TestFleet(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var effects []float64
	for i := range 12 {
		effects = append(effects, (0.9-0.1*float64(i%2))*math.Exp(0.005*random.NormFloat64()))
	}
	f := fleet(nodes(t, effects, func(i int) string { return []string{"6.1.0", "6.12.0"}[i%2] })...)
	r := rowOf(t, f, "get")
	if len(f.Nodes) != 12 || len(r.Nodes) != 12 || len(f.LeftOut)+len(f.Warnings)+len(r.Missing) > 0 {
		t.Fatalf("%+v", f)
	}
	if want := math.Sqrt(0.9 * 0.8); !(r.Effect.Interval.Low < want && want < r.Effect.Interval.High) {
		t.Errorf("over nodes %+v, want %v", r.Effect, want)
	}
	if !(r.NewLow < 10 && r.NewHigh > 20) || !(r.Percent > 13 && r.Percent < 17) {
		t.Errorf("%v %%, another node %v to %v %%: want 15, and 10 to 20 within", r.Percent, r.NewLow, r.NewHigh)
	}
	if !r.Differs || len(r.Covariates) != 1 {
		t.Fatalf("differs %t, covariates %+v", r.Differs, r.Covariates)
	}
	c := r.Covariates[0]
	if c.Name != "kernel" || !c.Explains || !(c.Share > 0.9) || math.Abs(c.Means[1].Value-0.8) > 0.01 {
		t.Errorf("%+v", c)
	}
	text := strings.Join(f.Sentences(r), "\n")
	for _, want := range []string{"Nodes differ with a standard deviation of", "The kernel explains"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if strings.Contains(text, "odd") {
		t.Errorf("a node is odd: %q", text)
	}
}

// Nodes that are alike but one: it is named, and no other.
func TestOddNode(t *testing.T) {
	effects := slices.Repeat([]float64{0.95}, 10)
	f := fleet(nodes(t, effects, oneKernel)...)
	r := rowOf(t, f, "get")
	if text := f.Sentences(r); r.Differs || len(text) != 1 || !strings.Contains(text[0], "do not differ significantly") {
		t.Errorf("nodes alike: %q", text)
	}
	effects[6] = 0.6
	f = fleet(nodes(t, effects, oneKernel)...)
	r = rowOf(t, f, "get")
	for i, n := range r.Nodes {
		if n.Odd != (i == 6) {
			t.Errorf("%s: %+v", f.Nodes[n.Node].Name, n)
		}
	}
	if text := strings.Join(f.Sentences(r), "\n"); !strings.Contains(text, "node-07 is odd: 39.8 % worse") {
		t.Errorf("%q", text)
	}
}

// A node that is ten times slower than the others: the 99th percentile of all requests is one of its, and no mean of
// percentiles.
func TestFleetMergesHistograms(t *testing.T) {
	runs := nodes(t, []float64{0.95, 0.95, 0.95, 0.95, 0.095}, oneKernel)
	f := fleet(runs...)
	r := rowOf(t, f, "get-p99")
	var all *hdrhistogram.Histogram
	var sum float64
	for _, run := range runs {
		var own *hdrhistogram.Histogram
		for _, trial := range run.Trials {
			if trial.Condition != "redis@docker" {
				continue
			}
			h, err := trial.Histograms["get"].Decode()
			if err != nil {
				t.Fatal(err)
			}
			if own == nil {
				own = h
			} else {
				own.Merge(h)
			}
		}
		sum += float64(own.ValueAtQuantile(99))
		if all == nil {
			all = own
		} else {
			all.Merge(own)
		}
	}
	want := float64(all.ValueAtQuantile(99))
	if math.Abs(r.Value.Value/want-1) > 0.02 || math.Abs(sum/5/want-1) < 0.2 {
		t.Errorf("%v, of the merged histograms %v, mean of percentiles %v", r.Value.Value, want, sum/5)
	}
	if ratio := r.Value.Value / r.BaseValue.Value; math.Abs(r.Effect.Value/ratio-1) > 1e-9 || r.Effect.N != 5 {
		t.Errorf("effect %+v of %v nodes, want %v", r.Effect, r.Effect.N, ratio)
	}
	if !r.Nodes[4].Odd || r.Nodes[0].Odd {
		t.Errorf("%+v", r.Nodes)
	}
}

func TestRunsThatAreNoNodes(t *testing.T) {
	runs := nodes(t, slices.Repeat([]float64{0.95}, 9), oneKernel)
	runs[1].Host.Hostname = "node-01"
	runs[1].Started = runs[1].Started.Add(time.Hour)
	runs[2].Conditions[0].Params = map[string]string{"clients": "1"}
	runs[3].Study = "startup"
	runs[4].Plan.Code = 99
	runs[5].Status = record.Imported
	runs[6].Host.Hostname = ""
	runs[7].Trials = slices.DeleteFunc(runs[7].Trials, func(t record.Trial) bool { return t.Condition == "redis@docker" })
	runs[7].Status = record.Interrupted
	runs[8].Conditions = runs[8].Conditions[:1]
	f := fleet(runs...)
	if len(f.Nodes) != 2 || f.Nodes[0].Run != "weigh-node-02" {
		t.Errorf("%+v", f.Nodes)
	}
	left := strings.Join(f.LeftOut, "\n")
	for _, want := range []string{
		"weigh-node-01 (node-01): weigh-node-02 of the same node is newer", "different work", "a run of startup",
		"in another way", "measured elsewhere", "names no host", "no condition with a baseline and a metric in common with weigh-node-01",
	} {
		if !strings.Contains(left, want) {
			t.Errorf("%q lacks %q", left, want)
		}
	}
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "node-08: its run is not complete: it is interrupted") {
		t.Errorf("warnings %q", f.Warnings)
	}
	// It has no docker.
	r := rowOf(t, f, "get")
	if len(r.Missing) != 1 || f.Nodes[r.Missing[0]].Name != "node-08" {
		t.Errorf("missing %v", r.Missing)
	}
	if text := strings.Join(f.Sentences(r), "\n"); r.Effect.Known() || !strings.Contains(text, "need at least 3 nodes, have 1") {
		t.Errorf("%+v: %q", r.Effect, text)
	}
	if f := overhead.NewFleet(nil); len(f.Rows) != 0 {
		t.Errorf("of nothing: %+v", f)
	}
}

// Nodes of a cluster are known by its names for them: their machines may share a host name.
func TestFleetOfAClustersNodes(t *testing.T) {
	runs := nodes(t, []float64{0.9, 0.8, 0.9}, func(int) string { return "6.1.0" })
	var want []string
	for i := range runs {
		part := &record.Part{Study: "study", Node: runs[i].Host.Hostname}
		runs[i].Plan.Part, runs[i].Host.Hostname = part, "localhost"
		want = append(want, part.Node)
	}
	f := fleet(runs...)
	if len(f.Nodes) != 3 || len(f.LeftOut) > 0 {
		t.Fatalf("%+v, left out %q", f.Nodes, f.LeftOut)
	}
	for i, n := range f.Nodes {
		if n.Name != want[i] {
			t.Errorf("node %d is %s, want %s", i, n.Name, want[i])
		}
	}
}

// Two covariates that divide nodes in the same way cannot be told apart, and another image is named.
func TestFleetWarns(t *testing.T) {
	runs := nodes(t, []float64{0.9, 0.8, 0.9, 0.8, 0.9, 0.8}, func(i int) string { return []string{"6.1.0", "6.12.0"}[i%2] })
	for i := range runs {
		runs[i].Host.CPUModel = []string{"Slow CPU", "Fast CPU"}[i%2]
	}
	runs[3].Conditions[1].Image = "sha256:11"
	f := fleet(runs...)
	r := rowOf(t, f, "get")
	if len(r.Covariates) != 2 || !slices.Equal(r.Covariates[0].Alike, []string{"CPU"}) {
		t.Errorf("%+v", r.Covariates)
	}
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "node-04") || !strings.Contains(f.Warnings[0], "sha256:11") {
		t.Errorf("%q", f.Warnings)
	}
}

// Rounds of slices give their effects as blocks do.
func TestFleetOfRounds(t *testing.T) {
	var runs []record.Run
	for i := range 5 {
		rounds := recordtest.Rounds{
			Seed: uint64(i + 1), Rounds: 6, Strips: 20, Noise: 0.01, Launch: 0.003,
			Conditions: []recordtest.Effect{{Platform: "docker", Rate: 0.95 - 0.01*float64(i), CPU: 1.04}},
		}
		runs = append(runs, onNode(rounds.Run(), fmt.Sprint("node-", i), "6.1.0"))
	}
	f := fleet(runs...)
	r := rowOf(t, f, "get")
	if len(r.Nodes) != 5 || !r.Primary || math.Abs(r.Effect.Value-0.93) > 0.01 || !r.Differs {
		t.Errorf("%+v", r)
	}
	if p := rowOf(t, f, "get-p99"); !p.Value.Known() || p.Primary {
		t.Errorf("p99: %+v", p)
	}
}

// The rows that carry verdicts are the same where nothing else is read of the runs, whatever the design.
func TestLeadingRowsAlone(t *testing.T) {
	all := nodes(t, []float64{0.9, 0.8, 0.95, 0.85}, oneKernel)
	for i := range 4 {
		rounds := recordtest.Rounds{
			Seed: uint64(i + 1), Rounds: 6, Strips: 20, Noise: 0.01, Launch: 0.003,
			Conditions: []recordtest.Effect{{Platform: "docker", Rate: 0.95 - 0.01*float64(i), CPU: 1.04}},
		}
		all = append(all, onNode(rounds.Run(), fmt.Sprint("rounds-", i), "6.1.0"))
	}
	store, err := record.Open(filepath.Join(t.TempDir(), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, runs := range [][]record.Run{all[:4], all[4:]} {
		var read []overhead.Node
		for _, run := range runs {
			if err := store.Import(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			if err := store.Finish(run.ID, record.Complete, ""); err != nil {
				t.Fatal(err)
			}
			leading, err := store.RunFigures(run.ID, func(run record.Run) record.Figures {
				return overhead.NodeFigures(run, true)
			})
			if err != nil {
				t.Fatal(err)
			}
			read = append(read, overhead.NewNode(leading, true))
		}
		got, whole := overhead.NewFleet(read), fleet(runs...)
		rows := slices.DeleteFunc(whole.Rows, func(r overhead.FleetRow) bool { return !r.Primary })
		if got, want := fmt.Sprintf("%+v", got.Rows), fmt.Sprintf("%+v", rows); got != want || len(rows) == 0 {
			t.Errorf("%d rows:\n%s\nwant\n%s", len(rows), got, want)
		}
	}
}

// A fleet may have thousands of nodes: of a run's histograms, which take megabytes decoded, a node
// keeps little.
func TestANodeIsSmall(t *testing.T) {
	run := recordtest.Rounds{Seed: 7, Rounds: 4, Strips: 24, Conditions: []recordtest.Effect{{Platform: "docker"}}}.Run()
	for _, trial := range run.Trials {
		for i := range trial.Slices {
			if trial.Slices[i].Histogram == "" {
				continue
			}
			fine := hdrhistogram.New(1, 3_600_000_000, 3)
			if err := fine.RecordValue(int64(100 + i)); err != nil {
				t.Fatal(err)
			}
			encoded, err := record.EncodeHistogram(fine)
			if err != nil {
				t.Fatal(err)
			}
			trial.Slices[i].Histogram = encoded
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const count, most = 20, 100_000
	before := heap()
	var kept []overhead.Node
	for range count {
		kept = append(kept, overhead.NewNode(run, false))
	}
	if each := (heap() - before) / count; each > most {
		t.Errorf("a node keeps %d bytes, want %d at most", each, most)
	}
	runtime.KeepAlive(kept)
}
