package gpu

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/lab"
	"tare/lab/labtest"
	"tare/platform"
	programs "tare/programs/gpu"
)

// condition finds a condition of a design by its label.
func condition(t *testing.T, d lab.Design, label string) lab.Condition {
	t.Helper()
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			if c.Label == label {
				return c
			}
		}
	}
	t.Fatalf("no condition %q", label)
	return lab.Condition{}
}

// benched is a bench for a condition of the default design, on its fake platform.
func benched(t *testing.T, label string, change func(*Options)) (lab.Condition, *labtest.Bench, *fakePlatform) {
	t.Helper()
	h, platforms := fakeHost(t, "docker")
	h.Found = found()
	o := planned(Default(), h)
	o.Platforms, o.Subjects = []string{Bare, "docker"}, []string{programs.Stencil}
	if change != nil {
		change(&o)
	}
	c := condition(t, design(t, o), label)
	b := labtest.NewBench(platforms[c.Platform])
	b.Of = c.Condition
	return c, b, platforms[c.Platform]
}

func value(env []string, key string) string {
	for _, kv := range slices.Backward(env) {
		if k, v, _ := strings.Cut(kv, "="); k == key {
			return v
		}
	}
	return ""
}

// A trial is one launch, with an empty cache of its own that is gone afterwards.
func TestTrialWithAColdCache(t *testing.T) {
	c, b, on := benched(t, "docker ptx cold", nil)
	var cache string
	on.does = func(spec platform.Spec) {
		if len(spec.Edits.Mounts) != 1 || spec.Edits.Mounts[0].Target != cacheDirectory || spec.Edits.Mounts[0].ReadOnly {
			t.Fatalf("mounts %+v", spec.Edits.Mounts)
		}
		cache = spec.Edits.Mounts[0].Source
		entries, err := os.ReadDir(cache)
		if err != nil || len(entries) != 0 {
			t.Errorf("the cache holds %v, %v", entries, err)
		}
		if err := os.WriteFile(filepath.Join(cache, "compiled"), []byte("a test's"), 0o600); err != nil {
			t.Error(err)
		}
	}
	if err := c.Procedure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if len(on.specs) != 1 || on.running != 0 || b.Begun != 1 || b.Done != 1 || b.Checked != 1 {
		t.Errorf("%d launches, %d left; begun %d, done %d, read back %d", len(on.specs), on.running, b.Begun, b.Done, b.Checked)
	}
	spec := on.specs[0]
	if value(spec.Env, "CUDA_CACHE_PATH") != cacheDirectory || value(spec.Env, "CUDA_CACHE_DISABLE") != "0" || spec.Setting.GPU != platform.AllGPUs {
		t.Errorf("%q under %v", spec.Env, spec.Setting)
	}
	if got := strings.Join(spec.Args, " "); got != "/gpu/ptx/stencil --seed 7 --memory pageable" {
		t.Errorf("launched %s", got)
	}
	if _, err := os.Stat(cache); err == nil {
		t.Error("the cache is left")
	}
	for metric, want := range map[string]float64{"wall": 4, "total": 3, "outside": 1, "kernels": 0.5, "module": 0.5} {
		if got := b.Samples[metric]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, want %g", metric, got, want)
		}
	}
	if _, err := programs.Parse(b.Attached[AttachmentResult].Data); err != nil {
		t.Error(err)
	}
	if b.Covariates["launch_s"] <= 0 || b.Covariates["compiled_bytes"] != 8 {
		t.Errorf("covariates %v", b.Covariates)
	}
}

// A warm cache is filled by a run that nobody times, in the same place.
func TestTrialWithAWarmCache(t *testing.T) {
	c, b, on := benched(t, "docker ptx warm", nil)
	on.does = func(spec platform.Spec) {
		left := filepath.Join(spec.Edits.Mounts[0].Source, "compiled")
		_, err := os.Stat(left)
		if first := err != nil; first != (len(on.specs) == 1) {
			t.Errorf("run %d finds the cache empty: %t", len(on.specs), first)
		}
		if b.Begun != len(on.specs)-1 {
			t.Errorf("run %d is timed: %d", len(on.specs), b.Begun)
		}
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	if err := c.Procedure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if len(on.specs) != 2 || on.running != 0 || len(b.Samples["wall"]) != 1 {
		t.Errorf("%d launches, %d left, samples %v", len(on.specs), on.running, b.Samples)
	}
	if got := strings.Join(on.specs[0].Args, " "); !strings.Contains(got, "--iterations 1") || !strings.Contains(got, "--size 67x70x65") {
		t.Errorf("warmed by %s", got)
	}
	if got := strings.Join(on.specs[1].Args, " "); strings.Contains(got, "--size") {
		t.Errorf("timed %s", got)
	}
}

func TestTrialWithoutACache(t *testing.T) {
	c, b, on := benched(t, "bare ptx off", func(o *Options) { o.Caches = []string{Off} })
	if err := c.Procedure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if env := on.specs[0].Env; value(env, "CUDA_CACHE_DISABLE") != "1" || value(env, "CUDA_CACHE_PATH") != "" {
		t.Errorf("%q", env)
	}
}

// Trials of the warm-up are small, and compare their results.
func TestWarmUpChecks(t *testing.T) {
	c, b, on := benched(t, "docker exact", nil)
	b.Warm = true
	if err := c.Procedure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(on.specs[0].Args, " "), "/gpu/exact/stencil --size 67x70x65 --iterations 2 --seed 7 --memory pageable --check"; got != want {
		t.Errorf("launched %s, want %s", got, want)
	}
	if b.Of.Params["check"] != "no" {
		t.Error("the condition's own parameters were changed")
	}
}

// What keeps a program from giving a result is reported in its own line, and nothing is left.
func TestTrialsThatFail(t *testing.T) {
	c, b, on := benched(t, "docker exact", nil)
	on.exit, on.stderr = platform.Exit{Code: 16}, "stencil: no memory for it: choose a smaller --size\n"
	err := c.Procedure(t.Context(), b)
	var failure *programs.Failure
	if !errors.As(err, &failure) || failure.Cause.Name != "device-memory" || on.running != 0 || len(b.Samples) != 0 {
		t.Errorf("%v, %d left, samples %v", err, on.running, b.Samples)
	}
	c, b, on = benched(t, "docker exact", nil)
	on.launch = errors.New("no room")
	if err := c.Procedure(t.Context(), b); err == nil || !strings.Contains(err.Error(), "launch on docker: no room") {
		t.Errorf("%v", err)
	}
	c, b, on = benched(t, "docker exact", nil)
	on.change = func(_ int, r *programs.Result) { r.Build.Kind, r.Emulated = programs.Emulated, true }
	if err := c.Procedure(t.Context(), b); err == nil || !strings.Contains(err.Error(), "built emulated") {
		t.Errorf("a result that ran on a CPU counts: %v", err)
	}
}

// A probed trial loads the library, and is no trial where that left nothing.
func TestProbedTrial(t *testing.T) {
	c, b, on := benched(t, "docker exact probed", nil)
	err := c.Procedure(t.Context(), b)
	if err == nil || !strings.Contains(err.Error(), "left no trace") {
		t.Errorf("%v", err)
	}
	spec := on.specs[0]
	if value(spec.Env, "LD_PRELOAD") != probeDirectory+"/"+library || value(spec.Env, "TARE_GPU_TRACE") != traceDirectory {
		t.Errorf("%q", spec.Env)
	}
	targets := map[string]platform.Mount{}
	for _, m := range spec.Edits.Mounts {
		targets[m.Target] = m
	}
	if m := targets[probeDirectory]; !m.ReadOnly || m.Source != "/library-of-a-test" || targets[traceDirectory].ReadOnly {
		t.Errorf("mounts %+v", targets)
	}
	if len(b.Samples["kernels"]) != 0 {
		t.Errorf("a time under the probe stands for one without: %v", b.Samples)
	}
}

func TestLimitsTrial(t *testing.T) {
	h, platforms := fakeHost(t)
	h.Found = found()
	o := planned(Default(), h)
	d := design(t, o)
	c := d.Groups[slices.Index(groupsOf(d), groupName(programs.DeviceLimits))].Conditions[0]
	b := labtest.NewBench(platforms[Bare])
	b.Of = c.Condition
	if err := c.Procedure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if b.Samples[metricCopy][0] != 160 || b.Samples[metricFMA][0] != 1000 || len(b.Samples) != 4 {
		t.Errorf("%v", b.Samples)
	}
}

// Several at once each have a seed of their own, and for how much of their timed parts
// all ran is recorded.
func TestSharing(t *testing.T) {
	c, b, on := benched(t, "docker x 2", func(o *Options) { o.Share = []int{1, 2} })
	on.change = func(n int, r *programs.Result) { r.Seconds.MainAt += 0.25 * float64(n) } // a second each, a quarter apart
	if err := c.Procedure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if len(on.specs) != 2 || on.running != 0 || len(b.Samples["iterate"]) != 2 || len(b.Samples["wall"]) != 2 || len(b.Samples[metricSlowest]) != 1 {
		t.Errorf("%d launches, %d left, %v", len(on.specs), on.running, b.Samples)
	}
	if got := b.Samples[metricOverlap]; len(got) != 1 || got[0] < 74.9 || got[0] > 75.1 {
		t.Errorf("they ran at once for %v %%, want 75", got)
	}
	seeds := map[string]bool{}
	for _, s := range on.specs {
		at := slices.Index(s.Args, "--seed")
		seeds[s.Args[at+1]] = true
	}
	if len(seeds) != 2 {
		t.Errorf("seeds %v", seeds)
	}
	c, b, on = benched(t, "docker x 2", func(o *Options) { o.Share = []int{2} })
	on.exit, on.stderr = platform.Exit{Code: 17}, "stencil: the device is held by others\n"
	if err := c.Procedure(t.Context(), b); err == nil || !strings.Contains(err.Error(), "of 2: stencil: the device is held by others") || on.running != 0 {
		t.Errorf("%v, %d left", err, on.running)
	}
}
