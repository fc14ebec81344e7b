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
func FromCUDA(root string) Workload { return cuda{root: root} }

// cuda is one of the CUDA programs, which times itself, from launch to end.
type cuda struct {
	root string
	workloadOf[cudaPlan]
}

func (cuda) Name() string { return "gpu" }
func (cuda) Summary() string {
	return "a CUDA program of our own: LU decomposition, particle filter, stencil, LeNet, or the device's limits"
}
func (c cuda) Source() Source { return Source{Rootfs: c.root} }

type cudaPlan struct {
	name    string // of the program
	kind    gpu.Kind
	options gpu.Options
}

func (plan cudaPlan) parse(from *parameters) cudaPlan {
	o := &plan.options
	plan.name = from.word("program", gpu.Stencil, strings.Join(gpu.Programs, ", "), gpu.Programs...)
	plan.kind = gpu.Kind(from.word("build", string(gpu.Exact),
		"code for the exact device, for the driver to compile (ptx), or both",
		string(gpu.Exact), string(gpu.PTX), string(gpu.Both), string(gpu.Emulated)))
	task := from.word("task", auto, "of lenet: training or inference; auto: the program's own", auto, "training", "inference")
	if task != auto {
		o.Task = task
		if plan.name != gpu.LeNet {
			from.refuse("task", auto+" for "+plan.name+": "+gpu.LeNet+" alone has tasks")
		}
	}
	o.Size = from.cudaSize(plan.name)
	o.Iterations = int(from.wholeOr("iterations", auto, 0, 1, 100000, "timed repetitions, RANGE; auto: the program's own"))
	warmup := int(from.wholeOr("warmup", auto, -1, 0, 1000, "repetitions before them, RANGE; auto: the program's own"))
	if warmup >= 0 {
		o.Warmup = &warmup
	}
	o.Memory = from.word("memory", "pageable", "the host's memory that copies start from and end in: pageable or pinned",
		"pageable", "pinned")
	seed := from.wholeOr("seed", auto, -1, 0, 1<<53-1, "of the input, 0 to 2^53-1; auto: drawn by the program")
	if seed >= 0 {
		drawn := uint64(seed)
		o.Seed = &drawn
	}
	o.Check = from.yes("check", "yes: compare the results with a reference on the CPU, in no time but the total")
	o.EachKernel = from.yes("each-kernel", "yes: time every launch by events of its own")
	return plan
}

// yes reads yes or no, which is the default.
func (from *parameters) yes(name, help string) bool {
	return from.word(name, "no", help, "yes", "no") == "yes"
}

// cudaSize reads a size: one number, or of a stencil three.
func (from *parameters) cudaSize(program string) []int64 {
	text := from.text("size", auto,
		"as the program's --size: a number, or a stencil's three edges such as 512x256x128; auto: the program's own")
	if text == auto {
		return nil
	}
	edges := strings.Split(text, "x")
	if len(edges) != 1 && (len(edges) != 3 || program != gpu.Stencil) {
		from.refuse("size", "a whole number, and of a stencil three edges too, such as 512x256x128")
	}
	var size []int64
	for _, edge := range edges {
		n, err := strconv.ParseInt(edge, 10, 64)
		if err != nil || n < 1 || n > 1<<32 {
			from.refuse("size", "whole numbers from 1")
		}
		size = append(size, n)
	}
	return size
}

func (plan cudaPlan) program() Program {
	binary := path.Join(CUDADirectory, string(plan.kind), plan.name)
	return Program{Args: append([]string{binary}, plan.options.Arguments()...), Needs: []string{binary}}
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

func (cudaPlan) metrics() []Metric {
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

func (cudaPlan) drive(ctx context.Context, t Trial) error {
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
	plan, err := planOf[cudaPlan](t.Params())
	if err != nil {
		return gpu.Result{}, Exit{}, err
	}
	exit, err := t.Wait(ctx)
	if err != nil {
		return gpu.Result{}, exit, fmt.Errorf("wait for the program: %w", err)
	}
	stdout, stderr := t.Output()
	if exit.OOMKilled {
		return gpu.Result{}, exit, errors.New(plan.name + ": killed by the kernel, as its memory limit was reached: raise --memory")
	}
	if exit.Code != 0 {
		return gpu.Result{}, exit, gpu.NewFailure(plan.name, exit.Code, string(stderr))
	}
	r, err := gpu.Parse(stdout)
	if err != nil {
		return r, exit, err
	}
	return r, exit, plan.check(r)
}

// check refuses the result of another program, or of other work, than was asked for.
func (plan cudaPlan) check(r gpu.Result) error {
	asked := plan.options
	switch p := r.Parameters; {
	case r.Program != plan.name || r.Build.Kind != plan.kind:
		return fmt.Errorf("a result of %s built %s, where %s built %s was asked for", r.Program, r.Build.Kind, plan.name, plan.kind)
	case asked.Size != nil && !slices.Equal(p.Size, asked.Size),
		asked.Iterations > 0 && p.Iterations != asked.Iterations,
		asked.Seed != nil && p.Seed != *asked.Seed,
		p.Memory != asked.Memory,
		asked.Task != "" && p.Task != asked.Task,
		asked.Warmup != nil && p.Warmup != *asked.Warmup:
		return fmt.Errorf("%s ran with %+v, which is not what was asked for: %s", plan.name, p, strings.Join(asked.Arguments(), " "))
	case asked.Check && (r.Check == nil || !r.Check.Valid):
		return fmt.Errorf("%s: its results differ from the reference: no figure of it holds", plan.name)
	}
	return nil
}
