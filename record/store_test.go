package record

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	"tare/kernel/process"
	"tare/platform"
	"tare/workload"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "state", "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// example is a run with every field set, without trials.
func example(id string) Run {
	metrics := []workload.Metric{
		{Name: "get", Unit: "requests/s", Better: workload.Higher, Doc: "GET", Primary: true},
		{Name: "get-p99", Unit: "us", Better: workload.Lower, Quantile: 0.99, Histogram: "get"},
		{Name: "throttled", Unit: "periods", Better: workload.Lower, Count: true},
	}
	return Run{
		ID: id, Study: "weigh", Command: []string{"tare", "weigh", "redis"}, Version: "0.1", Seed: -7,
		Started: epoch, Finished: epoch.Add(time.Hour), Status: Complete, Reason: "as planned",
		Plan: Plan{SmallestEffect: 0.02, Level: 0.95, Blocks: 5, Precision: 0.01, Budget: time.Minute, PilotBlocks: 5,
			StageTwoBlocks: 9, Notes: []string{"docker left out: no engine"}, Ladder: true,
			Rounds: map[string]RoundPlan{"redis": {Slice: 50 * time.Millisecond, Settle: 5 * time.Millisecond, Strips: 20, Pilot: 3, Long: time.Second,
				VarianceOfStrips: new(1e-4), VarianceOfRounds: new(-1e-7), CostOfStrip: time.Second, CostOfRound: 3 * time.Second, Rate: map[string]float64{"get": 120_000}}},
			Blocked: map[string]string{"matrix": "its program cannot wait between passes"}},
		Host: Host{Hostname: "h", Kernel: "6.1", CPUs: 2, Mitigated: map[string]string{"meltdown": "PTI"}, Versions: map[string]string{"runc": "1.1.5"}},
		Conditions: []Condition{
			{ID: "redis@bare", Label: "bare", Workload: "redis", Params: workload.Params{"clients": "50"}, Factors: map[string]string{"rate": "4"}, Platform: "bare",
				Setting: platform.Setting{CPUs: 1.5, Storage: platform.StorageBind}, Baseline: true, Metrics: metrics, Image: "sha256:00", ImageRef: "redis", Packages: []string{"redis 7"}},
			{ID: "redis@vm/oci", Label: "vm/oci", Workload: "redis", Platform: "vm/oci", Version: "runc 1.1.5",
				Setting: platform.Setting{
					CPUs: 0.1 + 0.2, CPUPeriod: 10 * time.Millisecond, CPUBurst: 1500 * time.Microsecond, CPUShares: 2, CPUSet: "0-1",
					Memory: 512<<20 + 1, Storage: platform.StorageTmpfs, Network: platform.NetworkNAT, Root: platform.RootOverlay,
					Seccomp: "unconfined", LSM: "default", LogDriver: "local", Runtime: "crun"},
				Process: &platform.Process{Args: []string{"serve"}, Env: []string{"B=1\n", "A="}, Dir: "/data", User: process.User{UID: 7, Groups: []int{0}}, Program: "/bin/serve"},
				InForce: &platform.InForce{CPUQuota: time.Millisecond, CPUSet: "0-1", Namespaces: []string{"mnt"}}, Metrics: metrics, NotRepresentative: "emulated"},
		},
	}
}

func exampleTrial(t testing.TB, condition string, block int) Trial {
	t.Helper()
	h := hdrhistogram.New(1, 3_600_000_000, 3)
	for v := int64(1); v <= 1000; v++ {
		if err := h.RecordValue(v * v); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	return Trial{
		Condition: condition, Workload: "redis", Block: block, Attempt: 2, Position: 3, Replicate: 1,
		Started: epoch.Add(time.Duration(block) * time.Minute), Elapsed: 2 * time.Second, Taint: []string{"steal 7.1 %"},
		Samples:    []Sample{{"get", 69000.5}, {"get", 0}, {"throttled", -1e-300}},
		Histograms: map[string]Histogram{"get": encoded},
		Covariates: map[string]float64{"steal": 0.071},
		Slices: []Slice{
			{Strip: 1, Part: "get", Started: epoch.Add(time.Second), Window: 40 * time.Millisecond, Amount: 4800, CPU: 38 * time.Millisecond,
				Worked: 5600, Load: 20 * time.Millisecond, Steal: 0.01, Foreign: 0.02, Histogram: encoded},
			{Strip: 2, Position: 1, Previous: "redis@bare", Part: "set", Control: ControlLong, Started: epoch.Add(2 * time.Second), Window: time.Second,
				Amount: 1, CPU: -1, Load: -1, Taint: []string{"steal 7.1 %"}},
		},
	}
}

func TestWhatIsKeptComesBackAsItWas(t *testing.T) {
	s := open(t)
	want := example("weigh-1")
	if err := s.Begin(want); err != nil {
		t.Fatal(err)
	}
	for block, condition := range []string{"redis@vm/oci", "redis@bare"} {
		trial := exampleTrial(t, condition, block)
		id, err := s.AddTrial(want.ID, trial)
		if err != nil {
			t.Fatal(err)
		}
		trial.ID = id
		want.Trials = append(want.Trials, trial)
	}
	got, err := s.Run(want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-kept +read)\n%s", diff)
	}

	h, err := got.Trials[0].Histograms["get"].Decode()
	if err != nil {
		t.Fatal(err)
	}
	if h.TotalCount() != 1000 {
		t.Errorf("histogram holds %d values, want 1000", h.TotalCount())
	}
}

func TestTrialsComeInOrderOfStart(t *testing.T) {
	s := open(t)
	run := example("weigh-1")
	must(t, s.Begin(run))
	for _, block := range []int{3, 1, 2} {
		trial := exampleTrial(t, "redis@bare", block)
		trial.Samples = []Sample{{"get", float64(block)}}
		mustTrial(t, s, run.ID, trial)
	}
	got, err := s.Run(run.ID)
	must(t, err)
	for i, trial := range got.Trials {
		if trial.Block != i+1 || trial.Samples[0].Value != float64(i+1) {
			t.Errorf("trial %d is of block %d with samples %v", i, trial.Block, trial.Samples)
		}
	}
}

func TestTrialInSteps(t *testing.T) {
	s := open(t)
	run := example("weigh-1")
	must(t, s.Begin(run))
	whole := exampleTrial(t, "redis@bare", 1)
	id, err := s.BeginTrial(run.ID, whole)
	must(t, err)
	must(t, s.AddSamples(id, whole.Samples[:1]))
	must(t, s.AddSamples(id, nil))
	must(t, s.AddStrip([]TrialSlice{{Trial: id, Slice: whole.Slices[0]}}))

	got, err := s.Run(run.ID)
	must(t, err)
	if got.Trials[0].Error != NotEnded || len(got.Trials[0].Samples) != 1 || len(got.Trials[0].Slices) != 1 {
		t.Errorf("in its midst: error %q, samples %v, slices %v", got.Trials[0].Error, got.Trials[0].Samples, got.Trials[0].Slices)
	}

	rest := whole
	rest.Samples, rest.Slices = whole.Samples[1:], whole.Slices[1:]
	must(t, s.EndTrial(id, rest))
	got, err = s.Run(run.ID)
	must(t, err)
	whole.ID = id
	if diff := cmp.Diff(whole, got.Trials[0]); diff != "" {
		t.Errorf("(-whole +in steps)\n%s", diff)
	}
}

func TestChangesToARun(t *testing.T) {
	s := open(t)
	s.now = func() time.Time { return epoch.Add(2 * time.Hour) }
	run := example("weigh-1")
	run.Status, run.Finished, run.Reason = Running, time.Time{}, ""
	must(t, s.Begin(run))
	id, err := s.AddTrial(run.ID, exampleTrial(t, "redis@bare", 1))
	must(t, err)

	force := platform.InForce{CPUSet: "0", NetworkNS: "own", Env: []string{"A=b"}}
	must(t, s.SetInForce(run.ID, "redis@bare", force))
	must(t, s.SetPlan(run.ID, Plan{Blocks: 12}))
	must(t, s.Taint(id, []string{"load", "steal"}))
	must(t, s.Finish(run.ID, Interrupted, "interrupted by the user"))

	got, err := s.Run(run.ID)
	must(t, err)
	if diff := cmp.Diff(&force, got.Conditions[0].InForce); diff != "" {
		t.Error(diff)
	}
	if got.Plan.Blocks != 12 || len(got.Trials[0].Taint) != 2 || got.Status != Interrupted ||
		got.Reason != "interrupted by the user" || !got.Finished.Equal(epoch.Add(2*time.Hour)) {
		t.Errorf("got %+v", got)
	}

	must(t, s.Resume(run.ID))
	must(t, s.Taint(id, nil))
	got, err = s.Run(run.ID)
	must(t, err)
	if got.Status != Running || !got.Finished.IsZero() || got.Trials[0].Taint != nil {
		t.Errorf("after resuming: %s, finished %v, taint %v", got.Status, got.Finished, got.Trials[0].Taint)
	}
	must(t, s.Finish(run.ID, Complete, ""))
	wantInvalid(t, s.Resume(run.ID), "only an interrupted one")
}

func TestMistakesAreRefusedAndChangeNothing(t *testing.T) {
	s := open(t)
	run := example("weigh-1")
	must(t, s.Begin(run))
	mustTrial(t, s, run.ID, exampleTrial(t, "redis@bare", 1))
	before, err := s.Run(run.ID)
	must(t, err)

	nan := exampleTrial(t, "redis@bare", 2)
	nan.Samples = append(nan.Samples, Sample{"get", math.NaN()})
	_, err = s.AddTrial(run.ID, nan)
	wantInvalid(t, err, "NaN is not a measurement")

	bad := exampleTrial(t, "redis@bare", 2)
	bad.Slices[1].Window = 0
	_, err = s.AddTrial(run.ID, bad)
	wantInvalid(t, err, `slice of "set" in strip 2 of trial 2: a window of 0s holds nothing`)

	_, err = s.AddTrial(run.ID, exampleTrial(t, "redis@moon", 2))
	wantInvalid(t, err, "no such condition")
	_, err = s.AddTrial("weigh-2", exampleTrial(t, "redis@bare", 2))
	wantInvalid(t, err, "no such condition")
	wantInvalid(t, s.Begin(run), "already")
	wantInvalid(t, s.Begin(Run{ID: "latest", Started: epoch}), "not an id")
	wantInvalid(t, s.Begin(Run{ID: "weigh-3"}), "no start")
	twice := example("weigh-4")
	twice.Conditions[1].ID = twice.Conditions[0].ID
	wantInvalid(t, s.Begin(twice), "two conditions")
	odd := example("weigh-5")
	odd.Conditions[0].Setting.CPUShares = 1
	wantInvalid(t, s.Begin(odd), "cpu-shares=1")
	wantInvalid(t, s.Taint(999, nil), "no such trial")
	wantInvalid(t, s.AddSamples(999, []Sample{{"get", 1}}), "no such trial")
	wantInvalid(t, s.EndTrial(999, Trial{}), "no such trial")
	wantInvalid(t, s.SetInForce(run.ID, "redis@moon", platform.InForce{}), "no such condition")
	for _, err := range []error{s.SetPlan("no", Plan{}), s.Finish("no", Complete, ""), s.Resume("no")} {
		if _, ok := errors.AsType[*NotFound](err); !ok {
			t.Errorf("got %v, want a *NotFound", err)
		}
	}

	after, err := s.Run(run.ID)
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the run changed:\n%s", diff)
	}
	runs, err := s.Runs()
	must(t, err)
	if len(runs) != 1 {
		t.Errorf("the store has %d runs, want 1", len(runs))
	}
}

func TestCovariatesThatWereNotObservedAreAbsent(t *testing.T) {
	s := open(t)
	run := example("weigh-1")
	must(t, s.Begin(run))
	trial := exampleTrial(t, "redis@bare", 1)
	trial.Covariates = map[string]float64{"steal": math.NaN(), "load": 1}
	mustTrial(t, s, run.ID, trial)
	got, err := s.Run(run.ID)
	must(t, err)
	if diff := cmp.Diff(map[string]float64{"load": 1}, got.Trials[0].Covariates); diff != "" {
		t.Error(diff)
	}
}

func TestNamingARun(t *testing.T) {
	s := open(t)
	_, err := s.Run(Latest)
	if _, ok := errors.AsType[*NotFound](err); !ok || !strings.Contains(err.Error(), "no run yet") {
		t.Errorf("empty store: %v", err)
	}
	for i, id := range []string{"weigh-20260101-000000-aaaa", "weigh-20260101-000000-aaaabb", "latency-20260102-000000-cccc"} {
		run := example(id)
		run.Started = epoch.Add(time.Duration(i) * time.Hour)
		must(t, s.Begin(run))
	}
	for _, c := range []struct{ name, want string }{
		{"latest", "latency-20260102-000000-cccc"},
		{"latency", "latency-20260102-000000-cccc"},
		{"weigh-20260101-000000-aaaa", "weigh-20260101-000000-aaaa"}, // though another begins so
		{"weigh-20260101-000000-aaaab", "weigh-20260101-000000-aaaabb"},
	} {
		run, err := s.Run(c.name)
		if err != nil || run.ID != c.want {
			t.Errorf("%q is %q, %v; want %q", c.name, run.ID, err, c.want)
		}
	}
	_, err = s.Run("weigh")
	several, ok := errors.AsType[*Ambiguous](err)
	if !ok || len(several.Matches) != 2 || !strings.Contains(err.Error(), "2 runs") {
		t.Errorf(`"weigh": %v`, err)
	}
	for _, c := range []struct {
		name string
		want []string
	}{
		{"latency-20260103", []string{"latency-20260102-000000-cccc"}},
		{"cccc", []string{"latency-20260102-000000-cccc"}},
		{"", nil},
		{"x%_", nil},
		{"memory-1999", nil},
	} {
		_, err := s.Run(c.name)
		missing, ok := errors.AsType[*NotFound](err)
		if !ok {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, missing.Similar); diff != "" {
			t.Errorf("%q: %s", c.name, diff)
		}
	}
}

func TestRunsNewestFirstWithoutTrials(t *testing.T) {
	s := open(t)
	for i := range 3 {
		run := example(fmt.Sprintf("weigh-%d", i))
		run.Started = epoch.Add(time.Duration(i) * time.Hour)
		must(t, s.Begin(run))
		mustTrial(t, s, run.ID, exampleTrial(t, "redis@bare", 1))
	}
	runs, err := s.Runs()
	must(t, err)
	for i, run := range runs {
		if want := fmt.Sprintf("weigh-%d", 2-i); run.ID != want || run.Trials != nil || len(run.Conditions) != 2 {
			t.Errorf("run %d is %s with %d trials and %d conditions, want %s", i, run.ID, len(run.Trials), len(run.Conditions), want)
		}
	}
	if len(runs) != 3 {
		t.Errorf("got %d runs, want 3", len(runs))
	}
}

func TestPrune(t *testing.T) {
	now := epoch.Add(100 * 24 * time.Hour)
	fill := func(t *testing.T) *Store {
		s := open(t)
		s.now = func() time.Time { return now }
		for _, r := range []struct {
			id     string
			days   int
			status Status
		}{{"e", 50, Complete}, {"d", 30, Running}, {"c", 20, Interrupted}, {"b", 10, Complete}, {"a", 0, Running}} {
			run := example(r.id)
			run.Started, run.Status = now.Add(-time.Duration(r.days)*24*time.Hour-time.Hour), r.status
			must(t, s.Begin(run))
			trial := exampleTrial(t, "redis@bare", 1)
			trial.Started = run.Started
			mustTrial(t, s, r.id, trial)
		}
		return s
	}
	for _, c := range []struct {
		name string
		days int
		keep int
		want []string
	}{
		{"by age", 15, 0, []string{"c", "d", "e"}},
		{"by number", 0, 3, []string{"d", "e"}},
		{"both must hold", 25, 4, []string{"e"}},
		{"never one that may be running", 0, 0, []string{"b", "c", "d", "e"}},
		{"nothing is old enough", 1000, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fill(t)
			age := time.Duration(c.days) * 24 * time.Hour
			for _, dry := range []bool{true, false} {
				got, err := s.Prune(age, c.keep, dry)
				must(t, err)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("dry %v: %s", dry, diff)
				}
			}
			runs, err := s.Runs()
			must(t, err)
			if len(runs) != 5-len(c.want) {
				t.Errorf("%d runs remain, want %d", len(runs), 5-len(c.want))
			}
			for _, table := range []string{"conditions", "trials", "samples", "histograms", "covariates", "slices"} {
				var orphans int
				column, parent := "trial_id", "trials"
				if table == "conditions" || table == "trials" {
					column, parent = "run_id", "runs"
				}
				must(t, s.db.QueryRow("SELECT count(*) FROM "+table+" WHERE "+column+" NOT IN (SELECT id FROM "+parent+")").Scan(&orphans))
				if orphans != 0 {
					t.Errorf("%d rows of %s belong to nothing", orphans, table)
				}
			}
		})
	}
	t.Run("a run heard from lately is spared", func(t *testing.T) {
		s := fill(t)
		trial := exampleTrial(t, "redis@bare", 2)
		trial.Started = now.Add(-time.Hour)
		mustTrial(t, s, "d", trial)
		got, err := s.Prune(0, 0, false)
		must(t, err)
		if diff := cmp.Diff([]string{"b", "c", "e"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPruneShrinksTheFile(t *testing.T) {
	s := open(t)
	run := example("weigh-1")
	must(t, s.Begin(run))
	trial := exampleTrial(t, "redis@bare", 1)
	trial.Samples = make([]Sample, 20_000)
	for i := range trial.Samples {
		trial.Samples[i] = Sample{"get", float64(i)}
	}
	mustTrial(t, s, run.ID, trial)
	before := size(t, s.path)
	_, err := s.Prune(0, 0, false)
	must(t, err)
	if after := size(t, s.path); after > before/4 {
		t.Errorf("the file has %d bytes, of %d before", after, before)
	}
}

func TestTheFileIsReadableByAll(t *testing.T) {
	s := open(t)
	info, err := os.Stat(s.Path())
	must(t, err)
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, want 0644", info.Mode().Perm())
	}
}

func TestOpenAgainKeepsWhatIsThere(t *testing.T) {
	// A name that must be escaped in a URI.
	path := filepath.Join(t.TempDir(), "50% of a?b#c.db")
	for i := range 2 {
		s, err := Open(path)
		must(t, err)
		must(t, s.Begin(example(fmt.Sprintf("weigh-%d", i))))
		must(t, s.Close())
	}
	s, err := OpenReadOnly(path)
	must(t, err)
	defer s.Close()
	runs, err := s.Runs()
	must(t, err)
	if len(runs) != 2 {
		t.Errorf("%d runs, want 2", len(runs))
	}
	if _, ok := errors.AsType[*NotAllowed](s.Begin(example("weigh-9"))); !ok {
		t.Error("a store opened for reading took a run")
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	if len(entries) != 2 { // with the writers' lock
		t.Errorf("beside the store lie %v", entries)
	}
}

func TestOpenReadOnlyOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.db")
	_, err := OpenReadOnly(path)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "tare weigh") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("reading made a file")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustTrial(t testing.TB, s *Store, runID string, trial Trial) {
	t.Helper()
	_, err := s.AddTrial(runID, trial)
	must(t, err)
}

func wantInvalid(t *testing.T, err error, part string) {
	t.Helper()
	if _, ok := errors.AsType[*Invalid](err); !ok || !strings.Contains(err.Error(), part) {
		t.Errorf("got error %v, want an *Invalid with %q", err, part)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}
