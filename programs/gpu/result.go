package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Schema is the version of what the programs print. A change that an older reader would
// misread raises it.
const Schema = 1

// Result is what a program prints. Times are in seconds, by the host's CLOCK_MONOTONIC where
// nothing else is said.
type Result struct {
	Schema     int        `json:"schema"`
	Program    string     `json:"program"`
	Parameters Parameters `json:"parameters"`
	Build      Build      `json:"build"`
	// Emulated says that it ran on the CPU, for a test: none of its times mean anything.
	Emulated bool     `json:"emulated"`
	Device   Device   `json:"device"`
	Versions Versions `json:"versions"`
	Seconds  Seconds  `json:"seconds"`
	// Modules are the program's kernels as they were loaded, in order.
	Modules []Module `json:"modules"`
	// Allocations are the calls of cudaMalloc, Frees those of cudaFree, Copies those between
	// host and device, in order; those of the check are not among them.
	Allocations []Call  `json:"allocations"`
	Frees       []Call  `json:"frees"`
	Copies      []Copy  `json:"copies"`
	Kernels     Kernels `json:"kernels"`
	// Check is nil where none was asked for.
	Check *Check `json:"check"`
	// Figures are the program's own: a loss, an error of tracking, the device's limits. Names
	// end in their unit where they have one.
	Figures map[string]float64 `json:"figures"`
}

// Parameters are what the program ran with, defaults and drawn seed included.
type Parameters struct {
	Size       []int64 `json:"size"` // one number, or a stencil's three edges
	Iterations int     `json:"iterations"`
	Warmup     int     `json:"warmup"`
	Seed       uint64  `json:"seed"`
	Memory     string  `json:"memory"` // "pageable" or "pinned"
	Check      bool    `json:"check"`
	EachKernel bool    `json:"each_kernel"`
	Task       string  `json:"task,omitempty"` // lenet's
}

// Build is what the binary was compiled to be.
type Build struct {
	Kind Kind `json:"kind"`
	// Targets are what it holds code for, as nvcc names them: "sm_90,compute_75".
	Targets string `json:"targets"`
	// Toolkit is the compiler's version: "13.0"; empty where emulated.
	Toolkit string `json:"toolkit"`
}

// Device is the one that the program ran on, as the driver describes it.
type Device struct {
	Index int    `json:"index"` // among those that the program saw
	Name  string `json:"name"`
	// ComputeCapability is as in "9.0".
	ComputeCapability string `json:"compute_capability"`
	UUID              string `json:"uuid"` // "GPU-..." or, of a MIG instance, its own
	PCI               string `json:"pci"`  // "0000:3b:00.0"
	MIG               bool   `json:"mig"`
	// ComputeMode is default, exclusive-process or prohibited.
	ComputeMode     string  `json:"compute_mode"`
	MemoryBytes     uint64  `json:"memory_bytes"`
	FreeBytes       uint64  `json:"free_bytes"` // when the context was made
	Multiprocessors int     `json:"multiprocessors"`
	L2Bytes         uint64  `json:"l2_bytes"`
	ClockHz         float64 `json:"clock_hz"`        // the highest of the multiprocessors
	MemoryClockHz   float64 `json:"memory_clock_hz"` // the highest; 0 where the driver does not say
	MemoryBusBits   int     `json:"memory_bus_bits"`
}

// Versions are of CUDA, as in "13.0".
type Versions struct {
	Driver  string `json:"driver"` // the newest CUDA that the driver serves
	Runtime string `json:"runtime"`
}

// Seconds are a program's phases, in their order. What they leave of the total is the
// program's own: reading its arguments, printing.
type Seconds struct {
	// MainAt is CLOCK_MONOTONIC when main began: what lies between the launch, as its
	// launcher stamped it, and this is the kernel's, the linker's and the container's.
	MainAt float64 `json:"main_at"`
	// Start goes from main to a context on the device, the driver's loading included.
	Start float64 `json:"start"`
	// Module is the loading of all kernels; with PTX, their compilation or its cache.
	Module float64 `json:"module"`
	// Host is the making of the host's buffers, their pages too; where pinned, their pinning.
	Host float64 `json:"host"`
	// Prepare is the making of the input, on the CPU.
	Prepare float64 `json:"prepare"`
	// Allocate is the sum of the Allocations.
	Allocate float64 `json:"allocate"`
	// ToDevice and FromDevice are the sums of the Copies.
	ToDevice float64 `json:"to_device"`
	// Warmup is what came before the timed iterations, with what put the input back.
	Warmup float64 `json:"warmup"`
	// Iterate goes from the first timed launch to the end of the last, as the host saw it.
	Iterate    float64 `json:"iterate"`
	FromDevice float64 `json:"from_device"`
	// Check is the reference and the comparison; 0 where none was asked for.
	Check float64 `json:"check"`
	// Free is the sum of the Frees, and of the host's buffers.
	Free float64 `json:"free"`
	// End is the context's end.
	End float64 `json:"end"`
	// Total goes from main to the printing.
	Total float64 `json:"total"`
}

// phases gives what the total is the sum of, but for the program's own.
func (s Seconds) phases() []float64 {
	return []float64{
		s.Start,
		s.Module,
		s.Host,
		s.Prepare,
		s.Allocate,
		s.ToDevice,
		s.Warmup,
		s.Iterate,
		s.FromDevice,
		s.Check,
		s.Free,
		s.End,
	}
}

// Module is a kernel as it was loaded.
type Module struct {
	Name string `json:"name"`
	// Seconds is what asking for its attributes took, which loads it.
	Seconds float64 `json:"seconds"`
	// Registers are those of a thread, LocalBytes what it keeps in memory instead.
	Registers  int `json:"registers"`
	LocalBytes int `json:"local_bytes"`
	// SharedBytes are those of a block.
	SharedBytes int `json:"shared_bytes"`
	// PTXVersion and BinaryVersion are compute capabilities, 90 for 9.0: of the portable
	// code that it was compiled from, and of the machine code that is in use.
	PTXVersion    int `json:"ptx_version"`
	BinaryVersion int `json:"binary_version"`
}

// Call is one call of an allocation or its end. A free of which the size is not known has 0.
type Call struct {
	Bytes   uint64  `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Copy is one between host and device, until the copied data is there.
type Copy struct {
	// Direction is to_device or from_device.
	Direction string  `json:"direction"`
	Bytes     uint64  `json:"bytes"`
	Seconds   float64 `json:"seconds"`
}

// Kernels is what the timed iterations came to on the device.
type Kernels struct {
	// Seconds is the sum of the Iterations, each by a pair of the device's events. What puts
	// the input back between them is in none.
	Seconds    float64   `json:"seconds"`
	Iterations []float64 `json:"iterations"`
	// Launches, Bytes and Flops are of all timed iterations together.
	Launches int64   `json:"launches"`
	Bytes    float64 `json:"bytes"`
	Flops    float64 `json:"flops"`
	// Basis says how the last two are counted.
	Basis          string  `json:"basis"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	FlopsPerSecond float64 `json:"flops_per_second"`
	// Bound is what a kernel of this class comes near to: bandwidth or compute.
	Bound string `json:"bound"`
	// Each has one entry a kernel.
	Each []Kernel `json:"each"`
}

// Kernel is one kernel's part of the timed iterations.
type Kernel struct {
	Name     string `json:"name"`
	Launches int64  `json:"launches"`
	// Seconds is nil unless each launch was timed.
	Seconds *float64 `json:"seconds"`
	Bytes   float64  `json:"bytes"`
	Flops   float64  `json:"flops"`
}

// Check is the comparison with the reference.
type Check struct {
	// MaxError is the largest difference that was found, in the method's measure; nil where
	// it is no number.
	MaxError *float64 `json:"max_error"`
	// Tolerance is what it may be, and Reason why that much.
	Tolerance float64 `json:"tolerance"`
	Reason    string  `json:"reason"`
	// Method says what was compared with what.
	Method string `json:"method"`
	Valid  bool   `json:"valid"`
}

// Parse reads what a program printed: one result and nothing else, of this schema, with no
// field that it does not know, and valid.
func Parse(printed []byte) (Result, error) {
	d := json.NewDecoder(bytes.NewReader(printed))
	d.DisallowUnknownFields()
	var r Result
	if err := d.Decode(&r); err != nil {
		var unknown struct{ Schema int }
		if json.Unmarshal(printed, &unknown) == nil && unknown.Schema > Schema {
			return Result{}, fmt.Errorf("read a CUDA program's result: it is of schema %d, this tare reads %d: build the programs from its own sources", unknown.Schema, Schema)
		}
		return Result{}, fmt.Errorf("read a CUDA program's result: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Result{}, errors.New("read a CUDA program's result: something follows it: want one line of JSON")
	}
	if err := r.Validate(); err != nil {
		return Result{}, fmt.Errorf("read a CUDA program's result: %w", err)
	}
	return r, nil
}

// Validate tells what a result says that cannot be: a missing part, a time below zero, sums
// that are none.
func (r *Result) Validate() error {
	if r.Schema != Schema {
		return fmt.Errorf("it is of schema %d, want %d", r.Schema, Schema)
	}
	if err := known(r.Program); err != nil {
		return err
	}
	for _, part := range []func() error{r.Parameters.validate, r.Build.validate, r.Device.validate, r.validateSeconds,
		r.validateKernels, r.validateCheck} {
		if err := part(); err != nil {
			return err
		}
	}
	if r.Emulated != (r.Build.Kind == Emulated) {
		return fmt.Errorf("emulated is %t, the build's kind %q", r.Emulated, r.Build.Kind)
	}
	if edges := len(r.Parameters.Size); r.Program != Stencil && edges != 1 {
		return fmt.Errorf("%s has a size of %d numbers, want one", r.Program, edges)
	}
	if task := r.Parameters.Task; (r.Program == LeNet) != (task == "training" || task == "inference") {
		return fmt.Errorf("%s's task is %q", r.Program, task)
	}
	for name, value := range r.Figures {
		if !finite(value) {
			return fmt.Errorf("figure %s is %g", name, value)
		}
	}
	return nil
}

func (p Parameters) validate() error {
	switch {
	case len(p.Size) != 1 && len(p.Size) != 3:
		return fmt.Errorf("the size has %d numbers, want 1 or 3", len(p.Size))
	case slices.Min(p.Size) < 1:
		return fmt.Errorf("the size is %d", p.Size)
	case p.Iterations < 1 || p.Warmup < 0:
		return fmt.Errorf("%d iterations after %d for warming up", p.Iterations, p.Warmup)
	case p.Seed >= 1<<53:
		return fmt.Errorf("the seed %d exceeds 2^53-1", p.Seed)
	case p.Memory != "pageable" && p.Memory != "pinned":
		return fmt.Errorf("the host's memory is %q, want pageable or pinned", p.Memory)
	}
	return nil
}

func (b Build) validate() error {
	if b.Kind != Emulated && !slices.Contains(Kinds, b.Kind) {
		return fmt.Errorf("the build is of kind %q, want one of %q", b.Kind, Kinds)
	}
	return nil
}

func (d Device) validate() error {
	switch {
	case d.Name == "" || d.ComputeCapability == "":
		return errors.New("the device has no name or no compute capability")
	case d.Index < 0 || d.Multiprocessors < 1 || d.MemoryBytes < 1:
		return fmt.Errorf("device %d has %d multiprocessors and %d bytes", d.Index, d.Multiprocessors, d.MemoryBytes)
	case d.FreeBytes > d.MemoryBytes:
		return fmt.Errorf("%d of the device's %d bytes are free", d.FreeBytes, d.MemoryBytes)
	case !(d.ClockHz >= 0) || !(d.MemoryClockHz >= 0) || d.MemoryBusBits < 0:
		return fmt.Errorf("the device's clocks are %g and %g Hz, its bus %d bits", d.ClockHz, d.MemoryClockHz, d.MemoryBusBits)
	}
	return nil
}

func (r *Result) validateSeconds() error {
	var sum float64
	for _, s := range r.Seconds.phases() {
		if !(s >= 0) {
			return fmt.Errorf("a phase took %g s", s)
		}
		sum += s
	}
	if total := r.Seconds.Total; !finite(total) || sum > total*(1+rounding)+rounding || !(r.Seconds.MainAt >= 0) {
		return fmt.Errorf("the phases took %g s, the total %g s, from %g s on", sum, total, r.Seconds.MainAt)
	}
	var allocate, free float64
	for _, c := range r.Allocations {
		if !(c.Seconds >= 0) {
			return fmt.Errorf("an allocation took %g s", c.Seconds)
		}
		allocate += c.Seconds
	}
	for _, c := range r.Frees {
		if !(c.Seconds >= 0) {
			return fmt.Errorf("a free took %g s", c.Seconds)
		}
		free += c.Seconds
	}
	to, err := r.CopiesTo("to_device")
	if err != nil {
		return err
	}
	from, err := r.CopiesTo("from_device")
	if err != nil {
		return err
	}
	for _, s := range []struct {
		name        string
		phase, sums float64
	}{
		{"allocate", r.Seconds.Allocate, allocate},
		{"to_device", r.Seconds.ToDevice, to.Seconds},
		{"from_device", r.Seconds.FromDevice, from.Seconds},
	} {
		if !near(s.phase, s.sums) {
			return fmt.Errorf("phase %s took %g s, its calls %g s", s.name, s.phase, s.sums)
		}
	}
	if free > r.Seconds.Free*(1+rounding)+rounding {
		return fmt.Errorf("phase free took %g s, its calls %g s", r.Seconds.Free, free)
	}
	for _, m := range r.Modules {
		if m.Name == "" || !(m.Seconds >= 0) || m.Registers < 0 || m.LocalBytes < 0 || m.SharedBytes < 0 {
			return fmt.Errorf("kernel %q was loaded in %g s", m.Name, m.Seconds)
		}
	}
	return nil
}

// CopiesTo adds the copies of a direction up, to_device or from_device; an error where a copy
// has neither, or a time below zero.
func (r *Result) CopiesTo(direction string) (Call, error) {
	var sum Call
	for _, c := range r.Copies {
		if (c.Direction != "to_device" && c.Direction != "from_device") || !(c.Seconds >= 0) {
			return Call{}, fmt.Errorf("a copy goes %q and took %g s", c.Direction, c.Seconds)
		}
		if c.Direction == direction {
			sum.Bytes += c.Bytes
			sum.Seconds += c.Seconds
		}
	}
	return sum, nil
}

func (r *Result) validateKernels() error {
	k := r.Kernels
	if len(k.Iterations) != r.Parameters.Iterations {
		return fmt.Errorf("%d iterations have %d times", r.Parameters.Iterations, len(k.Iterations))
	}
	var seconds float64
	for i, s := range k.Iterations {
		if !(s >= 0) {
			return fmt.Errorf("iteration %d took %g s", i, s)
		}
		seconds += s
	}
	if !near(k.Seconds, seconds) {
		return fmt.Errorf("the kernels took %g s, the iterations %g s", k.Seconds, seconds)
	}
	var launches int64
	var bytes, flops float64
	for _, e := range k.Each {
		if e.Name == "" || e.Launches < 0 || !(e.Bytes >= 0) || !(e.Flops >= 0) ||
			(e.Seconds != nil && !(*e.Seconds >= 0)) {
			return fmt.Errorf("kernel %q has %d launches, %g bytes, %g operations", e.Name, e.Launches, e.Bytes, e.Flops)
		}
		if timed := e.Seconds != nil; timed != r.Parameters.EachKernel {
			return fmt.Errorf("each kernel is timed: %t, kernel %s: %t", r.Parameters.EachKernel, e.Name, timed)
		}
		launches += e.Launches
		bytes += e.Bytes
		flops += e.Flops
	}
	if launches != k.Launches || !near(bytes, k.Bytes) || !near(flops, k.Flops) {
		return fmt.Errorf("the kernels have %d launches, %g bytes, %g operations, together %d, %g, %g", k.Launches, k.Bytes, k.Flops, launches, bytes, flops)
	}
	if k.Seconds > 0 && (!near(k.BytesPerSecond*k.Seconds, k.Bytes) || !near(k.FlopsPerSecond*k.Seconds, k.Flops)) {
		return fmt.Errorf("the rates %g and %g are not those of %g bytes and %g operations in %g s", k.BytesPerSecond, k.FlopsPerSecond, k.Bytes, k.Flops, k.Seconds)
	}
	if k.Bound != "bandwidth" && k.Bound != "compute" {
		return fmt.Errorf("the kernels are bound by %q, want bandwidth or compute", k.Bound)
	}
	return nil
}

func (r *Result) validateCheck() error {
	c := r.Check
	if (c != nil) != r.Parameters.Check {
		return fmt.Errorf("a check was asked for: %t, made: %t", r.Parameters.Check, c != nil)
	}
	if c == nil {
		return nil
	}
	if !(c.Tolerance >= 0) || (c.MaxError != nil && !(*c.MaxError >= 0)) {
		return errors.New("the check's error or its tolerance is below zero")
	}
	if within := c.MaxError != nil && *c.MaxError <= c.Tolerance; c.Valid && !within {
		return errors.New("the check passes with an error above its tolerance")
	}
	if c.Method == "" || c.Reason == "" {
		return errors.New("the check does not say its method or its tolerance's reason")
	}
	return nil
}

// rounding is what printed figures may be off by, relative to themselves, and sums of many
// of them; in seconds it is less than any clock tells.
const rounding = 1e-6

func near(a, b float64) bool {
	return math.Abs(a-b) <= rounding*max(math.Abs(a), math.Abs(b))+1e-9
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
