package workload

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"tare/programs/gpu"
)

// CUDADirectory is where an image has the CUDA programs, as build.sh lays them out:
// below it KIND/PROGRAM.
const CUDADirectory = "/gpu"

// FromCUDA makes a workload of the CUDA programs (programs/gpu) that lie in a root file
// system. It is not among those of [All]: its image is made on the machine that has the
// device, of binaries that were compiled for that.
func FromCUDA(root string) Workload { return cuda{root} }

// cuda is one of the CUDA programs, which times itself, from launch to end.
type cuda struct{ root string }

func (cuda) Name() string { return "gpu" }
func (cuda) Summary() string {
	return "a CUDA program of our own: LU decomposition, particle filter, stencil, LeNet, or the device's limits"
}
func (c cuda) Source() Source { return Source{Rootfs: c.root} }

func (cuda) Params() []Param {
	return []Param{
		{"program", gpu.Stencil, strings.Join(gpu.Programs, ", ")},
		{"build", string(gpu.Exact), "code for the exact device, for the driver to compile (ptx), or both"},
		{"task", auto, "of lenet: training or inference; auto: the program's own"},
		{"size", auto, "as the program's --size: a number, or a stencil's three edges such as 512x256x128; auto: the program's own"},
		{"iterations", auto, "timed repetitions, 1 to 100000; auto: the program's own"},
		{"warmup", auto, "repetitions before them, 0 to 1000; auto: the program's own"},
		{"memory", "pageable", "the host's memory that copies start from and end in: pageable or pinned"},
		{"seed", auto, "of the input, 0 to 2^53-1; auto: drawn by the program"},
		{"check", "no", "yes: compare the results with a reference on the CPU, in no time but the total"},
		{"each-kernel", "no", "yes: time every launch by events of its own"},
	}
}

// cuda reads a program's command line from parameters.
func (p Params) cuda() (program string, kind gpu.Kind, o gpu.Options, err error) {
	if program, err = p.oneOf("program", gpu.Programs...); err != nil {
		return "", "", o, err
	}
	built, err := p.oneOf("build", string(gpu.Exact), string(gpu.PTX), string(gpu.Both), string(gpu.Emulated))
	if err != nil {
		return "", "", o, err
	}
	if o.Task, err = p.oneOf("task", auto, "training", "inference"); err != nil {
		return "", "", o, err
	}
	if o.Task == auto {
		o.Task = ""
	} else if program != gpu.LeNet {
		return "", "", o, &WrongValue{"task", o.Task, auto + " for " + program + ": " + gpu.LeNet + " alone has tasks"}
	}
	if o.Size, err = cudaSize(program, p["size"]); err != nil {
		return "", "", o, err
	}
	iterations, err := p.wholeOrAuto("iterations", 1, 100000)
	if err != nil {
		return "", "", o, err
	}
	o.Iterations = int(iterations)
	if p["warmup"] != auto {
		n, err := p.whole("warmup", 0, 1000)
		if err != nil {
			return "", "", o, err
		}
		warmup := int(n)
		o.Warmup = &warmup
	}
	if p["seed"] != auto {
		n, err := p.whole("seed", 0, 1<<53-1)
		if err != nil {
			return "", "", o, err
		}
		seed := uint64(n)
		o.Seed = &seed
	}
	if o.Memory, err = p.oneOf("memory", "pageable", "pinned"); err != nil {
		return "", "", o, err
	}
	for _, f := range []struct {
		name string
		to   *bool
	}{{"check", &o.Check}, {"each-kernel", &o.EachKernel}} {
		said, err := p.oneOf(f.name, "yes", "no")
		if err != nil {
			return "", "", o, err
		}
		*f.to = said == "yes"
	}
	return program, gpu.Kind(built), o, nil
}

// cudaSize reads a size: one number, or of a stencil three.
func cudaSize(program, text string) ([]int64, error) {
	if text == auto {
		return nil, nil
	}
	parts := strings.Split(text, "x")
	if len(parts) != 1 && (len(parts) != 3 || program != gpu.Stencil) {
		return nil, &WrongValue{"size", text, "a whole number, and of a stencil three edges too, such as 512x256x128"}
	}
	var size []int64
	for _, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 1 || n > 1<<32 {
			return nil, &WrongValue{"size", text, "whole numbers from 1"}
		}
		size = append(size, n)
	}
	return size, nil
}

func (cuda) Program(p Params) (Program, error) {
	program, kind, o, err := p.cuda()
	if err != nil {
		return Program{}, err
	}
	binary := path.Join(CUDADirectory, string(kind), program)
	return Program{Args: append([]string{binary}, o.Arguments()...), Needs: []string{binary}}, nil
}

// The times of a program's phases that are metrics of a trial, in their order.
var cudaPhases = []struct {
	name, doc string
	of        func(gpu.Result) float64
}{
	{"start", "from main to a context on the device", func(r gpu.Result) float64 { return r.Seconds.Start }},
	{"module", "loading all kernels: with PTX their compilation, or its cache", func(r gpu.Result) float64 { return r.Seconds.Module }},
	{"host-memory", "making the host's buffers and their pages, and pinning them where they are pinned", func(r gpu.Result) float64 { return r.Seconds.Host }},
	{"prepare", "making the input, on the CPU", func(r gpu.Result) float64 { return r.Seconds.Prepare }},
	{"allocate", "all calls of cudaMalloc", func(r gpu.Result) float64 { return r.Seconds.Allocate }},
	{"to-device", "all copies to the device", func(r gpu.Result) float64 { return r.Seconds.ToDevice }},
	{"warmup", "repetitions that count for nothing", func(r gpu.Result) float64 { return r.Seconds.Warmup }},
	{"iterate", "the timed repetitions, as the host saw them", func(r gpu.Result) float64 { return r.Seconds.Iterate }},
	{"from-device", "all copies from the device", func(r gpu.Result) float64 { return r.Seconds.FromDevice }},
	{"free", "all calls of cudaFree, and the host's buffers", func(r gpu.Result) float64 { return r.Seconds.Free }},
	{"end", "the context's end", func(r gpu.Result) float64 { return r.Seconds.End }},
}

func (cuda) Metrics(Params) []Metric {
	all := []Metric{
		wallMetric(true),
		{Name: "kernels", Unit: "s", Better: Lower, Primary: true, Doc: "the timed repetitions on the device, by its own events"},
		{Name: "total", Unit: "s", Better: Lower, Doc: "from main to the printing of the result, by the program's own clock"},
		{Name: "outside", Unit: "s", Better: Lower, Doc: "wall without total: the container's start and end, the linker, the kernel"},
	}
	for _, p := range cudaPhases {
		all = append(all, Metric{Name: p.name, Unit: "s", Better: Lower, Doc: p.doc})
	}
	return append(all,
		Metric{Name: "to-device-rate", Unit: "B/s", Better: Higher, Doc: "bytes copied to the device over the time of the copies"},
		Metric{Name: "from-device-rate", Unit: "B/s", Better: Higher, Doc: "the same of copies from the device"},
		Metric{Name: "bandwidth", Unit: "B/s", Better: Higher, Doc: "bytes that the algorithm needs over the kernels' time"},
		Metric{Name: "flops", Unit: "flop/s", Better: Higher, Doc: "floating point operations that the algorithm needs over the kernels' time"},
		cpuMetric(false),
	)
}

func (cuda) Drive(ctx context.Context, t Trial) error {
	r, exit, err := RunCUDA(ctx, t)
	if err != nil {
		return err
	}
	// Where nothing was copied or computed there is no time and no rate.
	record := func(metric string, value float64) {
		if value > 0 {
			t.Record(metric, value)
		}
	}
	record("wall", exit.Elapsed.Seconds())
	record("kernels", r.Kernels.Seconds)
	record("total", r.Seconds.Total)
	record("outside", exit.Elapsed.Seconds()-r.Seconds.Total)
	for _, p := range cudaPhases {
		record(p.name, p.of(r))
	}
	for metric, direction := range map[string]string{"to-device-rate": "to_device", "from-device-rate": "from_device"} {
		if c, err := r.CopiesTo(direction); err == nil && c.Seconds > 0 {
			record(metric, float64(c.Bytes)/c.Seconds)
		}
	}
	record("bandwidth", r.Kernels.BytesPerSecond)
	record("flops", r.Kernels.FlopsPerSecond)
	if exit.CPU >= 0 {
		record("cpu", exit.CPU.Seconds())
	}
	return nil
}

// RunCUDA waits for the end of a CUDA program that was launched, and reads its result.
// The error is a *[gpu.Failure] where the program gave none that holds, and otherwise
// says what of the result is not what was asked for.
func RunCUDA(ctx context.Context, t Trial) (gpu.Result, Exit, error) {
	program, kind, asked, err := t.Params().cuda()
	if err != nil {
		return gpu.Result{}, Exit{}, err
	}
	exit, err := t.Wait(ctx)
	if err != nil {
		return gpu.Result{}, exit, fmt.Errorf("wait for the program: %w", err)
	}
	stdout, stderr := t.Output()
	if exit.OOMKilled {
		return gpu.Result{}, exit, errors.New(program + ": killed by the kernel, as its memory limit was reached: raise --memory")
	}
	if exit.Code != 0 {
		return gpu.Result{}, exit, gpu.NewFailure(program, exit.Code, string(stderr))
	}
	r, err := gpu.Parse(stdout)
	if err != nil {
		return r, exit, err
	}
	return r, exit, heldTo(r, program, kind, asked)
}

// heldTo refuses the result of another program, or of other work, than was asked for.
func heldTo(r gpu.Result, program string, kind gpu.Kind, asked gpu.Options) error {
	switch p := r.Parameters; {
	case r.Program != program || r.Build.Kind != kind:
		return fmt.Errorf("a result of %s built %s, where %s built %s was asked for", r.Program, r.Build.Kind, program, kind)
	case asked.Size != nil && !slices.Equal(p.Size, asked.Size),
		asked.Iterations > 0 && p.Iterations != asked.Iterations,
		asked.Seed != nil &&
			p.Seed != *asked.Seed,
		p.Memory != asked.Memory,
		asked.Task != "" && p.Task != asked.Task,
		asked.Warmup != nil && p.Warmup != *asked.Warmup:
		return fmt.Errorf("%s ran with %+v, which is not what was asked for: %s", program, p, strings.Join(asked.Arguments(), " "))
	case asked.Check && (r.Check == nil || !r.Check.Valid):
		return fmt.Errorf("%s: its results differ from the reference: no figure of it holds", program)
	}
	return nil
}
