package gpu_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/probe/gpu"
	"tare/stats"
)

func kernel(name string, device int, from, to time.Duration) gpu.Work {
	return gpu.Work{Kind: gpu.Kernel, Name: name, Start: from, Took: to - from, Timing: gpu.ByCUPTI, Device: device}
}

// Kernels that overlap count once for their device, and each in the sum that S1 states.
func TestKernelsThatOverlap(t *testing.T) {
	devices := []gpu.Device{{Ordinal: 0, UUID: "GPU-a"}, {Ordinal: 1, UUID: "GPU-b"}}
	s := gpu.Summarize(&gpu.Trace{
		Method: gpu.CUPTI, Began: 0, Ended: 1000, Devices: devices,
		Work: []gpu.Work{
			kernel("a", 0, 0, 100), kernel("b", 0, 50, 150), kernel("a", 0, 60, 70), kernel("a", 0, 150, 160), // one stretch of 160
			kernel("a", 0, 500, 500), // nothing
			kernel("a", 1, 100, 300), // beside them, on another
			{Kind: gpu.Copy, Start: 140, Took: 60, Timing: gpu.ByCUPTI, Device: 0, Bytes: 600, Direction: gpu.HostToDevice, From: gpu.Pinned, To: gpu.DeviceMemory},
			{Kind: gpu.Copy, Start: 700, Took: 60, Timing: gpu.ByCall, Device: -1, Bytes: 600, Direction: gpu.HostToDevice, From: gpu.Pinned, To: gpu.DeviceMemory},
		},
		Calls: []gpu.Call{{Name: "cuLaunchKernel", Took: 580, Outer: true}, {Name: "cuMemAlloc", Took: 99, Outer: false}},
	})
	if s.Kernels.Time.Sum != 420 || s.Kernels.Busy != 160+200 || s.Kernels.Timed != 6 {
		t.Errorf("kernels %+v", s.Kernels)
	}
	if k, a := s.Shares(); math.Abs(k-0.42) > 1e-9 || math.Abs(a-0.58) > 1e-9 {
		t.Errorf("shares %v and %v", k, a)
	}
	want := []gpu.DeviceTime{{Device: devices[0], Kernels: 160, Copies: 60, Any: 200}, {Device: devices[1], Kernels: 200, Any: 200}}
	if !slices.Equal(s.Devices, want) {
		t.Errorf("devices %+v", s.Devices)
	}
	if len(s.Copies) != 2 || s.Copies[1].Timing != gpu.ByCUPTI || s.Copies[1].Rate() != 600/60e-9 {
		t.Errorf("copies %+v", s.Copies)
	}
	if s.Span != 1000 {
		t.Errorf("span %s", s.Span)
	}
}

// A device is the same whatever ordinal a process has for it.
func TestSeveralProcesses(t *testing.T) {
	one := &gpu.Trace{Method: gpu.CUPTI, Began: 100, Devices: []gpu.Device{{Ordinal: 0, UUID: "GPU-a"}}, Work: []gpu.Work{kernel("a", 0, 100, 200)}, Complaints: []string{"x"}}
	other := &gpu.Trace{Method: gpu.Interposition, Began: 50, Devices: []gpu.Device{{Ordinal: 1, UUID: "GPU-a"}}, Work: []gpu.Work{kernel("a", 1, 150, 250)}, Complaints: []string{"x"}, Cut: true}
	s := gpu.Summarize(one, other)
	if s.Processes != 2 || s.Kernels.Time.Sum != 200 || s.Kernels.Busy != 150 || len(s.Devices) != 1 || s.Span != 200 || len(s.Methods) != 2 {
		t.Errorf("%+v", s)
	}
	if len(s.Complaints) != 2 || !strings.Contains(s.Complaints[1], "cut") {
		t.Errorf("complaints %q", s.Complaints)
	}
}

func TestNothing(t *testing.T) {
	s := gpu.Summarize()
	if k, a := s.Shares(); k != 0 || a != 0 || s.Span != 0 || s.KernelTime() != 0 || s.API.Time.Count != 0 {
		t.Errorf("%+v", s)
	}
	if _, ok := s.Call("cuInit"); ok {
		t.Error("a call that was not made is reported")
	}
	if n := s.API.Time.Histogram().TotalCount(); n != 0 {
		t.Errorf("%d values of nothing", n)
	}
}

// Of a sample the rest is taken to be alike; what went into graphs is not extended.
func TestSampledKernels(t *testing.T) {
	var calls []gpu.Call
	for range 10 {
		calls = append(calls, gpu.Call{Name: "cuLaunchKernel", Took: 5, Outer: true})
	}
	calls = append(calls, gpu.Call{Name: "cuLaunchKernel", Took: 5, Outer: true, Status: 1})
	tr := &gpu.Trace{Method: gpu.Interposition, Calls: calls, Work: []gpu.Work{kernel("a", 0, 0, 10), kernel("a", 0, 20, 50)}}
	if got := gpu.Summarize(tr).KernelTime(); got != 200 {
		t.Errorf("kernels took %d", got)
	}
	tr.Lost.Capture = 8
	if got := gpu.Summarize(tr).KernelTime(); got != 40 {
		t.Errorf("kernels took %d", got)
	}
}

// The quantiles are order statistics, and the histogram is what stats takes.
func TestDistribution(t *testing.T) {
	tr := &gpu.Trace{}
	for i := 1000; i >= 1; i-- {
		tr.Calls = append(tr.Calls, gpu.Call{Name: "cuMemAlloc", Took: time.Duration(i) * time.Microsecond, Bytes: 10, Outer: true})
	}
	c, _ := gpu.Summarize(tr).Call("cuMemAlloc")
	if c.Time.P50 != 500*us || c.Time.P99 != 990*us || c.Time.Max != 1000*us || c.Time.Sum != 500500*us || c.Bytes != 10000 {
		t.Errorf("%+v", c)
	}
	got := stats.Quantile([]*hdrhistogram.Histogram{c.Time.Histogram()}, 0.99, 0.95, 1).Value
	if math.Abs(got/float64(c.Time.P99)-1) > 0.002 {
		t.Errorf("from the histogram %v", got)
	}
}

func TestEnvironment(t *testing.T) {
	p := gpu.Probe{Library: "/opt/libtaregpu.so", Dir: "/traces"}
	for _, c := range []struct {
		name string
		with func(*gpu.Probe)
		env  []string
		want []string
	}{
		{"plain", nil, []string{"HOME=/"}, []string{"HOME=/", "CUDA_INJECTION64_PATH=/opt/libtaregpu.so", "LD_PRELOAD=/opt/libtaregpu.so", "TARE_GPU_METHOD=auto", "TARE_GPU_TRACE=/traces"}},
		{"others preloaded", func(p *gpu.Probe) { p.Method = gpu.Interposition }, []string{"LD_PRELOAD=/a.so:/b.so"},
			[]string{"LD_PRELOAD=/opt/libtaregpu.so:/a.so:/b.so", "TARE_GPU_METHOD=interpose", "TARE_GPU_TRACE=/traces"}},
		{"all", func(p *gpu.Probe) { p.Method, p.Sample, p.Room, p.CUPTI, p.Eager = gpu.CUPTI, -1, 64, "/c.so", true }, nil,
			[]string{"CUDA_INJECTION64_PATH=/opt/libtaregpu.so", "CUDA_MODULE_LOADING=EAGER", "LD_PRELOAD=/opt/libtaregpu.so", "TARE_GPU_CUPTI=/c.so", "TARE_GPU_METHOD=cupti", "TARE_GPU_MIB=64", "TARE_GPU_SAMPLE=0", "TARE_GPU_TRACE=/traces"}},
		{"again", nil, []string{"LD_PRELOAD=/opt/libtaregpu.so", "TARE_GPU_TRACE=/elsewhere"}, []string{"CUDA_INJECTION64_PATH=/opt/libtaregpu.so", "LD_PRELOAD=/opt/libtaregpu.so", "TARE_GPU_METHOD=auto", "TARE_GPU_TRACE=/traces"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := p
			if c.with != nil {
				c.with(&p)
			}
			got, err := p.Environment(c.env)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
	for _, c := range []struct {
		probe gpu.Probe
		env   []string
		says  string
	}{
		{gpu.Probe{Library: "lib.so", Dir: "/traces"}, nil, "not absolute"},
		{gpu.Probe{Library: "/lib.so", Dir: ""}, nil, "not absolute"},
		{gpu.Probe{Library: "/my lib.so", Dir: "/traces"}, nil, "a space or colon"},
		{gpu.Probe{Library: "/lib.so", Dir: "/traces", Method: "guess"}, nil, `no method "guess"`},
		{p, []string{"CUDA_INJECTION64_PATH=/nsys.so"}, "/nsys.so already"},
	} {
		if _, err := c.probe.Environment(c.env); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.probe, err)
		}
	}
}

func TestSupports(t *testing.T) {
	d := gpu.Device{Name: "H200", Major: 9, Minor: 0}
	for arch, fits := range map[int]bool{90: true, 80: false, 100: false} {
		if err := d.Supports(arch); (err == nil) != fits {
			t.Errorf("%d: %v", arch, err)
		}
	}
	if err := (gpu.Device{Major: 8, Minor: 6}).Supports(80); err != nil {
		t.Error(err)
	}
	if err := (gpu.Device{Major: 8, Minor: 0}).Supports(86); err == nil || !strings.Contains(err.Error(), "8.0") {
		t.Error(err)
	}
}

func ExampleSummarize() {
	tr := &gpu.Trace{
		Method: gpu.CUPTI,
		Work:   []gpu.Work{{Kind: gpu.Kernel, Name: "stencil", Start: 100 * us, Took: 300 * us, Timing: gpu.ByCUPTI}},
		Calls: []gpu.Call{
			{Name: "cudaMalloc", Start: 10 * us, Took: 80 * us, Outer: true},
			{Name: "cudaLaunchKernel", Start: 95 * us, Took: 20 * us, Outer: true},
			{Name: "cudaMemcpy", Start: 115 * us, Took: 800 * us, Outer: true},
		},
	}
	s := gpu.Summarize(tr)
	kernels, api := s.Shares()
	fmt.Printf("kernels %.0f %%, API %.0f %%; %s took %s\n", 100*kernels, 100*api, s.API.Calls[0].Name, s.API.Calls[0].Time.Sum)
	// Output: kernels 25 %, API 75 %; cudaMemcpy took 800µs
}

// Modules are loaded within other calls of the runtime's, and each once.
func TestLoadsWithinCalls(t *testing.T) {
	s := gpu.Summarize(&gpu.Trace{Method: gpu.CUPTI, Calls: []gpu.Call{
		{Name: "cudaFree", Start: 0, Took: 1000, Outer: true, Thread: 1},
		{Name: "cuLibraryLoadData", Start: 100, Took: 300, Thread: 1},
		{Name: "cuLinkComplete", Start: 500, Took: 50, Thread: 1},
		{Name: "cudaLibraryLoadData", Start: 2000, Took: 90, Outer: true, Thread: 1},
		{Name: "cuLibraryLoadData", Start: 2010, Took: 70, Thread: 1},
		{Name: "cuLibraryLoadData", Start: 2010, Took: 7, Outer: true, Thread: 2},
	}})
	if s.JIT.Loads.Count != 3 || s.JIT.Loads.Sum != 300+90+7 || s.JIT.Links.Sum != 50 || s.API.Time.Sum != 1097 {
		t.Errorf("JIT %+v, API %+v", s.JIT, s.API.Time)
	}
}
