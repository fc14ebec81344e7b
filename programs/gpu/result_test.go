package gpu_test

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"tare/programs/gpu"
)

func number(x float64) *float64 { return &x }

// example is a result with everything in it, as round figures.
func example() gpu.Result {
	return gpu.Result{
		Schema:  gpu.Schema,
		Program: gpu.Stencil,
		Parameters: gpu.Parameters{
			Size: []int64{512, 512, 512}, Iterations: 2, Warmup: 1, Seed: 7, Memory: "pinned", Check: true, EachKernel: true,
		},
		Build:  gpu.Build{Kind: gpu.Both, Targets: "sm_90,compute_75", Toolkit: "13.0"},
		Device: gpu.Device{Name: "a device", ComputeCapability: "9.0", UUID: "GPU-1", Multiprocessors: 132, MemoryBytes: 1 << 37, FreeBytes: 1 << 36},
		Seconds: gpu.Seconds{
			MainAt: 100, Start: 1, Module: 0.5, Allocate: 0.25, ToDevice: 0.125, FromDevice: 0.125, Iterate: 3, Free: 0.25, Total: 6,
		},
		Modules:     []gpu.Module{{Name: "step", Seconds: 0.5, Registers: 48}},
		Allocations: []gpu.Call{{Bytes: 8, Seconds: 0.125}, {Bytes: 8, Seconds: 0.125}},
		Frees:       []gpu.Call{{Bytes: 8, Seconds: 0.125}},
		Copies:      []gpu.Copy{{Direction: "to_device", Bytes: 8, Seconds: 0.125}, {Direction: "from_device", Bytes: 8, Seconds: 0.125}},
		Kernels: gpu.Kernels{
			Seconds: 2, Iterations: []float64{1, 1}, Launches: 2, Bytes: 16, Flops: 32, Basis: "of each point, once",
			BytesPerSecond: 8, FlopsPerSecond: 16, Bound: "bandwidth",
			Each: []gpu.Kernel{{Name: "step", Launches: 2, Seconds: number(1.5), Bytes: 16, Flops: 32}},
		},
		Check:   &gpu.Check{MaxError: number(1e-7), Tolerance: 1e-6, Method: "against the CPU", Reason: "rounding", Valid: true},
		Figures: map[string]float64{"mean": 0.5},
	}
}

func printed(t testing.TB, r gpu.Result) []byte {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func TestParse(t *testing.T) {
	r, err := gpu.Parse(printed(t, example()))
	if err != nil {
		t.Fatal(err)
	}
	if *r.Check.MaxError != 1e-7 || r.Kernels.Each[0].Name != "step" || r.Build.Kind != gpu.Both {
		t.Errorf("read %+v", r)
	}
	to, err := r.CopiesTo("to_device")
	if err != nil || to != (gpu.Call{Bytes: 8, Seconds: 0.125}) {
		t.Errorf("copies to the device are %+v, %v", to, err)
	}
}

func TestParseRefuses(t *testing.T) {
	whole := string(printed(t, example()))
	for what, text := range map[string]string{
		"nothing":          "",
		"no JSON":          "stencil: 512 points",
		"two results":      whole + whole,
		"something after":  whole + "done",
		"an unknown field": strings.Replace(whole, `"schema":1`, `"schema":1,"watts":700`, 1),
		"a later schema":   strings.Replace(whole, `"schema":1`, `"schema":2,"watts":700`, 1),
	} {
		if _, err := gpu.Parse([]byte(text)); err == nil {
			t.Errorf("%s is read as a result", what)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %q", what, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	wrong := map[string]func(*gpu.Result){
		"a schema":                func(r *gpu.Result) { r.Schema = 0 },
		"an unknown program":      func(r *gpu.Result) { r.Program = "matrix" },
		"no size":                 func(r *gpu.Result) { r.Parameters.Size = nil },
		"a size of zero":          func(r *gpu.Result) { r.Parameters.Size[1] = 0 },
		"three edges of a matrix": func(r *gpu.Result) { r.Program = gpu.LU },
		"no iteration":            func(r *gpu.Result) { r.Parameters.Iterations = 0 },
		"a seed":                  func(r *gpu.Result) { r.Parameters.Seed = 1 << 53 },
		"memory":                  func(r *gpu.Result) { r.Parameters.Memory = "managed" },
		"a task":                  func(r *gpu.Result) { r.Parameters.Task = "training" },
		"no task":                 func(r *gpu.Result) { r.Program, r.Parameters.Size = gpu.LeNet, []int64{64} },
		"a kind":                  func(r *gpu.Result) { r.Build.Kind = "fat" },
		"an emulated device":      func(r *gpu.Result) { r.Emulated = true },
		"no device":               func(r *gpu.Result) { r.Device.Name = "" },
		"more free than there is": func(r *gpu.Result) { r.Device.FreeBytes = 1 << 38 },
		"a clock":                 func(r *gpu.Result) { r.Device.ClockHz = math.NaN() },
		"a phase below zero":      func(r *gpu.Result) { r.Seconds.Host = -1 },
		"phases above the total":  func(r *gpu.Result) { r.Seconds.Prepare = 10 },
		"an endless total":        func(r *gpu.Result) { r.Seconds.Total = math.Inf(1) },
		"allocations":             func(r *gpu.Result) { r.Seconds.Allocate = 0.2 },
		"an allocation":           func(r *gpu.Result) { r.Allocations[0].Seconds = -0.125 },
		"frees":                   func(r *gpu.Result) { r.Frees[0].Seconds = 0.5 },
		"copies":                  func(r *gpu.Result) { r.Copies[0].Seconds = 0.25 },
		"a copy to nowhere":       func(r *gpu.Result) { r.Copies[0].Direction = "up" },
		"a kernel without a name": func(r *gpu.Result) { r.Modules[0].Name = "" },
		"a missing iteration":     func(r *gpu.Result) { r.Kernels.Iterations = r.Kernels.Iterations[:1] },
		"iterations":              func(r *gpu.Result) { r.Kernels.Seconds = 3 },
		"launches":                func(r *gpu.Result) { r.Kernels.Launches = 3 },
		"bytes":                   func(r *gpu.Result) { r.Kernels.Bytes = 17 },
		"a rate":                  func(r *gpu.Result) { r.Kernels.FlopsPerSecond = 17 },
		"a bound":                 func(r *gpu.Result) { r.Kernels.Bound = "" },
		"a kernel not timed":      func(r *gpu.Result) { r.Kernels.Each[0].Seconds = nil },
		"no check":                func(r *gpu.Result) { r.Check = nil },
		"a check not asked for":   func(r *gpu.Result) { r.Parameters.Check = false },
		"a wrong that passes":     func(r *gpu.Result) { r.Check.MaxError = number(1) },
		"a NaN that passes":       func(r *gpu.Result) { r.Check.MaxError = nil },
		"a check without method":  func(r *gpu.Result) { r.Check.Method = "" },
		"a figure":                func(r *gpu.Result) { r.Figures["mean"] = math.NaN() },
	}
	for _, what := range slices.Sorted(maps.Keys(wrong)) {
		r := example()
		wrong[what](&r)
		if err := r.Validate(); err == nil {
			t.Errorf("%s: found right", what)
		}
	}
	if r := example(); r.Validate() != nil {
		t.Errorf("the example itself: %v", r.Validate())
	}
}

// What is read is valid, and reads the same when it is printed again.
func FuzzParse(f *testing.F) {
	f.Add(printed(f, example()))
	f.Add([]byte(`{"schema":1,"program":"lu"}`))
	f.Add([]byte(`{"schema":2}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := gpu.Parse(text)
		if err != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("read, and not valid: %v", err)
		}
		if _, err := gpu.Parse(printed(t, r)); err != nil {
			t.Fatalf("read once, and not again: %v", err)
		}
	})
}

func TestArguments(t *testing.T) {
	if got := (gpu.Options{}).Arguments(); len(got) != 0 {
		t.Errorf("nothing is said by %q", got)
	}
	warmup, seed := 0, uint64(7)
	got := strings.Join(gpu.Options{
		Size: []int64{3, 4, 5}, Iterations: 2, Warmup: &warmup, Seed: &seed, Memory: "pinned", Device: 1, Task: "training", Check: true, EachKernel: true,
	}.Arguments(), " ")
	if want := "--size 3x4x5 --iterations 2 --warmup 0 --seed 7 --memory pinned --device 1 --task training --check --each-kernel"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		code         int
		stderr, want string
		cause        string
	}{
		{16, "noise\nlu: no memory for it: choose less\n", "lu: no memory for it: choose less", "device-memory"},
		{10, "", "lu: there is no NVIDIA driver here, or its library cannot be found: load the driver, and let the program find libcuda.so.1", "no-driver"},
		{-1, "", "lu: ended without a word: run it by hand", ""},
		{127, "sh: lu: not found\n", "lu: sh: lu: not found", ""},
	} {
		f := gpu.NewFailure(gpu.LU, c.code, c.stderr)
		if f.Error() != c.want || f.Cause.Name != c.cause {
			t.Errorf("status %d: %q of %q, want %q of %q", c.code, f, f.Cause.Name, c.want, c.cause)
		}
	}
}

func TestCausesDiffer(t *testing.T) {
	codes, names := map[int]bool{}, map[string]bool{}
	for _, c := range gpu.Causes {
		if codes[c.Code] || names[c.Name] || c.What == "" || c.Do == "" || c.Code < 1 || c.Code > 125 {
			t.Errorf("a cause has another's code or name, or says nothing: %+v", c)
		}
		codes[c.Code], names[c.Name] = true, true
	}
}

func TestLimitsOf(t *testing.T) {
	limits := example()
	limits.Program, limits.Parameters.Size = gpu.DeviceLimits, []int64{1 << 20}
	limits.Figures = map[string]float64{"copy_bytes_per_second": 10, "triad_bytes_per_second": 11, "fma_flops_per_second": 64, "launch_seconds": 1e-6}
	if _, err := gpu.LimitsOf(limits); err != nil {
		t.Fatal(err)
	}
	delete(limits.Figures, "launch_seconds")
	if _, err := gpu.LimitsOf(limits); err == nil {
		t.Error("limits without one of them")
	}
	if _, err := gpu.LimitsOf(example()); err == nil {
		t.Error("limits of a stencil")
	}
}
