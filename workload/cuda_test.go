package workload

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/programs/gpu"
	"tare/programs/torch"
)

// stencilResult is a result as the program prints it, with round figures that nobody
// measured.
func stencilResult() gpu.Result {
	return gpu.Result{
		Schema: gpu.Schema, Program: gpu.Stencil,
		Parameters:  gpu.Parameters{Size: []int64{64, 32, 16}, Iterations: 2, Warmup: 1, Seed: 7, Memory: "pinned"},
		Build:       gpu.Build{Kind: gpu.PTX, Targets: "compute_75", Toolkit: "13.0"},
		Device:      gpu.Device{Name: "synthetic", ComputeCapability: "9.0", UUID: "GPU-0", Multiprocessors: 1, MemoryBytes: 1 << 30},
		Seconds:     gpu.Seconds{MainAt: 100, Start: 1, Module: 0.5, Allocate: 0.25, ToDevice: 0.125, FromDevice: 0.25, Iterate: 3, Total: 6},
		Allocations: []gpu.Call{{Bytes: 8, Seconds: 0.25}},
		Copies:      []gpu.Copy{{Direction: "to_device", Bytes: 8, Seconds: 0.125}, {Direction: "from_device", Bytes: 8, Seconds: 0.25}},
		Kernels: gpu.Kernels{
			Seconds: 2, Iterations: []float64{1, 1}, Launches: 2, Bytes: 16, Flops: 32, Basis: "a test's", BytesPerSecond: 8, FlopsPerSecond: 16, Bound: "bandwidth",
			Each: []gpu.Kernel{{Name: "step", Launches: 2, Bytes: 16, Flops: 32}},
		},
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

var stencilParams = map[string]string{"program": "stencil", "build": "ptx", "size": "64x32x16", "iterations": "2", "warmup": "1", "memory": "pinned", "seed": "7"}

func TestCUDACommandLine(t *testing.T) {
	w := FromCUDA("/root")
	p, err := Resolve(w, stencilParams)
	if err != nil {
		t.Fatal(err)
	}
	program, err := w.Program(p)
	if err != nil {
		t.Fatal(err)
	}
	want := "/gpu/ptx/stencil --size 64x32x16 --iterations 2 --warmup 1 --seed 7 --memory pinned"
	if got := strings.Join(program.Args, " "); got != want || !slices.Equal(program.Needs, []string{"/gpu/ptx/stencil"}) || w.Source().Rootfs != "/root" {
		t.Errorf("%s, needs %q", got, program.Needs)
	}
	for name, wrong := range map[string]map[string]string{
		"a program":        {"program": "matrix"},
		"a kind":           {"build": "fat"},
		"a stencil's task": {"task": "training"},
		"two edges":        {"size": "64x32"},
		"a matrix's edges": {"program": "lu", "size": "64x32x16"},
		"no size":          {"size": "0"},
		"memory":           {"memory": "managed"},
		"a seed":           {"seed": "-1"},
	} {
		if _, err := Resolve(w, wrong); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestCUDADrive(t *testing.T) {
	w := FromCUDA("/root")
	p, err := Resolve(w, stencilParams)
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{params: p, stdout: text(t, stencilResult()), exit: Exit{Elapsed: 8 * time.Second, CPU: time.Second}}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	for metric, want := range map[string]float64{
		"wall": 8, "total": 6, "outside": 2, "kernels": 2, "start": 1, "module": 0.5, "allocate": 0.25, "iterate": 3,
		"to-device": 0.125, "to-device-rate": 64, "from-device-rate": 32, "bandwidth": 8, "flops": 16, "cpu": 1,
	} {
		if got := tr.records[metric]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, want %g", metric, got, want)
		}
	}
	// What took no time is no figure.
	if _, ok := tr.records["prepare"]; ok {
		t.Error("a phase of no time is recorded")
	}
	declared := map[string]bool{}
	for _, m := range w.Metrics(p) {
		declared[m.Name] = true
	}
	for metric := range tr.records {
		if !declared[metric] {
			t.Errorf("%s is recorded, and not declared", metric)
		}
	}
}

func TestCUDADriveRefuses(t *testing.T) {
	w := FromCUDA("/root")
	p, err := Resolve(w, stencilParams)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		params map[string]string
		change func(*gpu.Result)
		exit   Exit
		stderr string
		says   string
	}{
		"another program":  {nil, func(r *gpu.Result) { r.Program, r.Parameters.Size = gpu.LU, []int64{8} }, Exit{}, "", "a result of lu"},
		"another build":    {nil, func(r *gpu.Result) { r.Build.Kind = gpu.Exact }, Exit{}, "", "built exact"},
		"another size":     {nil, func(r *gpu.Result) { r.Parameters.Size = []int64{8} }, Exit{}, "", "not what was asked for"},
		"another seed":     {nil, func(r *gpu.Result) { r.Parameters.Seed = 8 }, Exit{}, "", "not what was asked for"},
		"no check":         {map[string]string{"check": "yes"}, func(*gpu.Result) {}, Exit{}, "", "differ from the reference"},
		"no memory":        {nil, func(*gpu.Result) {}, Exit{Code: 16}, "stencil: no memory for it: choose a smaller --size\n", "choose a smaller --size"},
		"an older driver":  {nil, func(*gpu.Result) {}, Exit{Code: 11}, "", "the driver is older"},
		"killed":           {nil, func(*gpu.Result) {}, Exit{Code: 137, OOMKilled: true}, "", "memory limit"},
		"nothing readable": {nil, func(r *gpu.Result) { r.Schema = 9 }, Exit{}, "", "schema 9"},
	} {
		params := Params{}
		for k, v := range p {
			params[k] = v
		}
		for k, v := range c.params {
			params[k] = v
		}
		r := stencilResult()
		c.change(&r)
		err := w.Drive(t.Context(), &trial{params: params, stdout: text(t, r), stderr: c.stderr, exit: c.exit})
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want what says %q", name, err, c.says)
		}
		var failure *gpu.Failure
		if errors.As(err, &failure) != (c.exit.Code != 0 && !c.exit.OOMKilled) {
			t.Errorf("%s: a %T", name, err)
		}
	}
}

func TestTorchDrive(t *testing.T) {
	w := FromTorch("/root", "/usr/bin/python3")
	p, err := Resolve(w, map[string]string{"steps": "2", "batch": "8"})
	if err != nil {
		t.Fatal(err)
	}
	program, err := w.Program(p)
	if want := "/usr/bin/python3 /torch/cnn.py --task training --steps 2 --warmup 10 --batch 8 --seed 1"; err != nil || strings.Join(program.Args, " ") != want {
		t.Errorf("%q, %v", program.Args, err)
	}
	r := torch.Result{Schema: torch.Schema, Task: "training", Steps: 2, Warmup: 10, Batch: 8, Seed: 1, Device: "synthetic", Version: "2", Seconds: torch.Seconds{Import: 1, Start: 2, Iterate: 0.5, Steps: []float64{0.25, 0.25}}}
	tr := &trial{params: p, stdout: text(t, r), exit: Exit{Elapsed: 4 * time.Second, CPU: -1}}
	if err := w.Drive(t.Context(), tr); err != nil || tr.records["step"][0] != 0.25 || tr.records["wall"][0] != 4 || tr.records["cpu"] != nil {
		t.Errorf("%v, %v", tr.records, err)
	}
	r.Batch = 9
	if err := w.Drive(t.Context(), &trial{params: p, stdout: text(t, r)}); err == nil {
		t.Error("another batch is taken")
	}
	if _, err := Resolve(w, map[string]string{"task": "dreaming"}); err == nil {
		t.Error("a task that there is none of")
	}
}
