// Package gpu holds the CUDA programs whose containing is weighed, in CUDA C++ of our own
// without a vendor's library of kernels, and says how they are spoken to: what they take on
// the command line, what they print, how they end, how they are built. The four are of the
// kinds that the thesis measured (Darbaz, Illinois 2018, section 4.3): LU decomposition,
// particle filter, stencil and LeNet. A fifth measures the device's own limits by the same
// manner, so that a kernel's rate can be stated as a share of what the device does.
//
// # The programs
//
//	lu              factors a dense matrix of 32-bit floats with partial pivoting: panels, and
//	                a trailing update by a product tiled through shared memory and registers,
//	                with the next panel beside it; bound by arithmetic where the matrix is large
//	particlefilter  follows a disk through noisy frames: propagate, weigh, prefix sum,
//	                systematic resampling; bound by memory
//	stencil         7 points in 3 dimensions, on 32-bit floats; bound by memory
//	lenet           LeNet-5, its training (forward, backward, gradient descent) or its
//	                inference, on digits that it draws itself; bound by arithmetic
//	devicelimits    copy and triad from memory to memory, fused multiply-adds in registers,
//	                empty launches
//
// # The command line
//
// Every program takes these, and --help, which says the same with its own defaults:
//
//	--size N          lu: rows and columns, 1 to 65536; particlefilter: particles, 1 to 2^26;
//	                  stencil: points an edge, 3 to 2048, or three edges as in 512x256x128;
//	                  lenet: images a batch, 1 to 65536; devicelimits: floats an array, 1 to 2^32
//	--iterations K    timed repetitions, 1 to 100000: factorings, frames, time steps, batches
//	--warmup N        repetitions before them that count for nothing, 0 to 1000; default 1
//	--seed S          of the input, 0 to 2^53-1; left out: drawn from the system, and printed
//	--memory M        pageable or pinned: the host's memory that copies start from and end in
//	--device I        which of the devices seen, from 0; default 0
//	--check           compare the results with a reference on the CPU, outside every time but
//	                  that of the check and the total
//	--each-kernel     time every launch by events of its own, for the time of each kernel;
//	                  iterations then take longer than without
//	--task T          lenet alone: training or inference
//
// Where CUDA_MODULE_LOADING is not set, a program sets it to LAZY for itself, so that making
// the context and loading the kernels (with PTX: compiling them) have times apart. A device
// whose context already loads everything has it all in the first.
//
// # What it prints
//
// One line of JSON on standard output, which [Parse] reads into a [Result] and holds to its
// own rules. Times are in seconds by CLOCK_MONOTONIC, but for those of kernels, which are the
// device's own by events. Bytes and floating point operations of kernels are those that the
// algorithm needs, not those that the device moved; the result says how they are counted.
//
// # How it ends
//
// With 0, or with the code of a [Cause] and one line on standard error: what failed, where,
// and what to do. A result that is wrong is printed all the same, and ends in code 21.
//
// # How it is built
//
// By build.sh beside this file, which Make's target gpu-programs and [Compile] call, with nvcc
// of CUDA 11.8 or newer, in three kinds (see [Kind]). Without nvcc and without a device the
// same sources are compiled by g++ and run on the CPU, a block after the other and its
// threads as coroutines (directory emulate): that is how indexes, barriers and reductions are
// tested, and all that it is for. Its times mean nothing, and results say that they are
// emulated.
package gpu

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Sources are what the programs are built from, by build.sh: the directories cuda and
// emulate.
//
//go:embed build.sh cuda emulate
var Sources embed.FS

// The programs, by the names of their binaries.
const (
	LU             = "lu"
	ParticleFilter = "particlefilter"
	Stencil        = "stencil"
	LeNet          = "lenet"
	DeviceLimits   = "devicelimits"
)

// Programs are all of them: first what is weighed, then what measures the device's limits.
var Programs = []string{LU, ParticleFilter, Stencil, LeNet, DeviceLimits}

// Kind says for which devices a binary holds code, and in which form.
type Kind string

// The kinds of binary.
const (
	// Exact holds machine code of one compute capability and nothing else: nothing is left
	// for the driver to compile.
	Exact Kind = "exact"
	// PTX holds portable code alone, of the oldest virtual architecture that the compiler
	// takes: the driver compiles it for its device, or finds it in its cache.
	PTX Kind = "ptx"
	// Both holds both: the machine code runs on its device, the portable code elsewhere.
	Both Kind = "both"
	// Emulated is compiled by g++, and runs on the CPU, for tests.
	Emulated Kind = "emulated"
)

// Kinds are those that run on a device.
var Kinds = []Kind{Exact, PTX, Both}

// Options are a program's command line. What is zero is left to the program.
type Options struct {
	Size       []int64 // one number, or three for a stencil's edges
	Iterations int
	Warmup     *int    // nil: the program's default
	Seed       *uint64 // nil: drawn from the system; at most 2^53-1
	Memory     string  // "pageable" or "pinned"
	Device     int     // which of those seen
	Task       string  // lenet's: "training" or "inference"
	Check      bool
	EachKernel bool
}

// Arguments gives the command line that says the same, without the program's name.
func (o Options) Arguments() []string {
	var all []string
	add := func(flag, value string) { all = append(all, "--"+flag, value) }
	if len(o.Size) > 0 {
		edges := make([]string, len(o.Size))
		for i, n := range o.Size {
			edges[i] = strconv.FormatInt(n, 10)
		}
		add("size", strings.Join(edges, "x"))
	}
	if o.Iterations > 0 {
		add("iterations", strconv.Itoa(o.Iterations))
	}
	if o.Warmup != nil {
		add("warmup", strconv.Itoa(*o.Warmup))
	}
	if o.Seed != nil {
		add("seed", strconv.FormatUint(*o.Seed, 10))
	}
	if o.Memory != "" {
		add("memory", o.Memory)
	}
	if o.Device != 0 {
		add("device", strconv.Itoa(o.Device))
	}
	if o.Task != "" {
		add("task", o.Task)
	}
	if o.Check {
		all = append(all, "--check")
	}
	if o.EachKernel {
		all = append(all, "--each-kernel")
	}
	return all
}

// known refuses a name that is no program's.
func known(program string) error {
	if !slices.Contains(Programs, program) {
		return fmt.Errorf("%q is none of the CUDA programs: want %s", program, strings.Join(Programs, ", "))
	}
	return nil
}
