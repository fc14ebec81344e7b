// Package gpu asks what containing a CUDA program costs, and where: S1's third study
// (Characterization of Containers in Emerging Applications, section 5.3).
//
// A group is one program (programs/gpu) of one task. Its conditions are cells, each on
// every platform: which code the binary holds (for the exact device, PTX that the driver
// compiles, both), whether the driver's cache of compiled PTX is cold or warm, and which
// memory of the host copies start from. The devices, and the driver's libraries, are given
// to bare metal and to containers by the same edits (platform.GPUEdits), and what a trial
// writes lies in one directory of the host under all of them: what is left between two
// platforms is theirs.
//
// End to end is from the launch to the program's end, the container's start among it; the
// program's own clock gives the phases from its main on. The activity probe (probe/gpu)
// slows the calls that it counts, so that trials under it are conditions of their own:
// they are compared with one another alone, and give no time that is end to end.
//
// Beside the programs stands, in every block, one that measures the device's own limits, and
// each program once with every launch timed: so that a kernel's rate can be read as a share of
// them (limits.go). Several containers that share a device are groups of their own (share.go).
//
// Where this study and S1 differ: S1 had one device of 2013's size and one engine, does not
// say how often it measured nor whether the container's start was in its time, and its
// programs were those of Rodinia and Parboil; ours are of the same kinds.
package gpu

import (
	"tare/programs/gpu"
	"tare/workload"
)

// Name is the study's, in the store.
const Name = "gpu"

// Factors of a condition.
const (
	FactorKind    = "kind"    // of trial: KindProgram, KindLimits, KindKernels, KindShared, KindTorch
	FactorProgram = "program" // "stencil"
	FactorTask    = "task"    // of lenet and of PyTorch
	FactorBuild   = "build"   // a programs/gpu.Kind
	FactorCache   = "cache"   // Cold, Warm, Off; empty where nothing is compiled
	FactorMemory  = "memory"  // Pageable, Pinned
	FactorProbe   = "probe"   // On, or empty
	FactorShare   = "share"   // how many at once
)

// The kinds of trials.
const (
	KindProgram = "program"
	KindLimits  = "limits"
	KindKernels = "kernels" // each launch is timed by itself
	KindShared  = "shared"
	KindTorch   = "torch"
)

// Levels of the factors.
const (
	Cold = "cold" // an empty directory of its own for each trial
	Warm = "warm" // filled by an untimed run of the same program in the same place
	Off  = "off"  // CUDA_CACHE_DISABLE=1

	Pageable = "pageable"
	Pinned   = "pinned"

	On = "on"
)

// Builds, Caches and Memories are the levels that may be asked for.
var (
	Builds   = []string{string(gpu.Exact), string(gpu.PTX), string(gpu.Both)}
	Caches   = []string{Cold, Warm, Off}
	Memories = []string{Pageable, Pinned}
)

// Subjects are the programs that may be asked for, with their tasks.
var Subjects = []string{gpu.LU, gpu.ParticleFilter, gpu.Stencil, gpu.LeNet + "-training", gpu.LeNet + "-inference"}

// Bare is the baseline's platform, and Direct what stands in for it where the host lets
// nobody change roots or make groups: see [NewDirect].
const (
	Bare   = "bare"
	Direct = "direct"
)

// Metrics of a trial that the workload does not yield itself.
const (
	// Of a trial under the probe.
	metricKernelTime  = "probe-kernels"
	metricAPITime     = "probe-api"
	metricKernelShare = "probe-kernel-share"
	metricAPIShare    = "probe-api-share"
	metricCompile     = "probe-compile"
	metricLoads       = "probe-loads"
	metricMalloc      = "probe-malloc"
	metricTo          = "probe-to-device"
	metricFrom        = "probe-from-device"
	metricLost        = "probe-lost"

	// Of the device's limits.
	metricCopy   = "copy-limit"
	metricTriad  = "triad-limit"
	metricFMA    = "fma-limit"
	metricLaunch = "launch-limit"

	// Of several at once.
	metricOverlap = "overlap"
	metricSlowest = "slowest"
)

// probeMetrics are those of a trial under the probe, besides the time from end to end.
func probeMetrics() []workload.Metric {
	return []workload.Metric{
		{Name: "wall", Unit: "s", Better: workload.Lower, Primary: true, Doc: "from the launch to the program's end, under the probe"},
		{Name: metricKernelTime, Unit: "s", Better: workload.Lower, Doc: "the sum of all kernels' times"},
		{Name: metricAPITime, Unit: "s", Better: workload.Lower, Doc: "the sum of all calls' times that are no part of others"},
		{Name: metricKernelShare, Unit: "%", Better: workload.Higher, Doc: "kernels, of kernels and calls together (S1.13)"},
		{Name: metricAPIShare, Unit: "%", Better: workload.Lower, Doc: "calls, of kernels and calls together (S1.13)"},
		{Name: metricCompile, Unit: "s", Better: workload.Lower, Doc: "compiling PTX, where CUPTI reports it"},
		{Name: metricLoads, Unit: "s", Better: workload.Lower, Doc: "loading modules, linking, and first launches, in which PTX is compiled"},
		{Name: metricMalloc, Unit: "s", Better: workload.Lower, Doc: "calls of cudaMalloc, or of cuMemAlloc where the runtime's are not seen"},
		{Name: metricTo, Unit: "s", Better: workload.Lower, Doc: "copies to the device"},
		{Name: metricFrom, Unit: "s", Better: workload.Lower, Doc: "copies from the device"},
		{Name: metricLost, Unit: "records", Better: workload.Lower, Count: true, Doc: "records that the probe lost"},
	}
}

func limitMetrics() []workload.Metric {
	return []workload.Metric{
		{Name: metricCopy, Unit: "B/s", Better: workload.Higher, Primary: true, Doc: "a copy from memory to memory, bytes read and written together"},
		{Name: metricTriad, Unit: "B/s", Better: workload.Higher, Doc: "a = b + q c, likewise"},
		{Name: metricFMA, Unit: "flop/s", Better: workload.Higher, Primary: true, Doc: "fused multiply-adds of 32-bit floats in registers"},
		{Name: metricLaunch, Unit: "s", Better: workload.Lower, Doc: "from one empty kernel's start to the next one's"},
	}
}

func eachKernelMetrics() []workload.Metric {
	return []workload.Metric{
		{Name: "kernels", Unit: "s", Better: workload.Lower, Primary: true, Doc: "the timed repetitions on the device, while every launch is timed"},
	}
}

func sharedMetrics() []workload.Metric {
	return []workload.Metric{
		{Name: "iterate", Unit: "s", Better: workload.Lower, Primary: true, Doc: "the timed repetitions of each, as its host's side saw them"},
		{Name: "wall", Unit: "s", Better: workload.Lower, Doc: "each one's time from the launch to its end"},
		{Name: metricSlowest, Unit: "s", Better: workload.Lower, Doc: "the last one's time from the first launch to its end"},
		{Name: "kernels", Unit: "s", Better: workload.Lower, Doc: "each one's timed repetitions by the device's events, which count what others ran between"},
		{Name: metricOverlap, Unit: "%", Better: workload.Higher, Count: true, Doc: "for how much of their timed repetitions all ran at once"},
	}
}
