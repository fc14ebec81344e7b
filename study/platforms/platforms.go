// Package platforms asks what a program loses on each platform: bare metal, a
// container on it, a virtual machine, a container in one; granted its CPUs by a quota
// (vanilla) or by a cpuset (pinned); by the size that it is granted. It is S2's
// experiment (The Art of CPU-Pinning, 2020), whole.
//
// A group is a workload at a size; its baseline is bare metal kept to as many CPUs,
// and its other conditions are a platform and a preset. Beside these matrices stand
// three smaller questions, each in groups of its own: what explains the cost (a probe
// watches, so that its weight is in those figures and in no others), what a larger
// host costs the same container, and what many processes cost against one.
//
// What is fractional has no bare metal of its size: a quota of half a CPU is set
// against bare metal on one CPU, longer by what the program uses of that and is not
// granted. That ideal is what a ratio of a part of a CPU is over. docs/platforms.md has
// all definitions.
//
// The package runs nothing: package lab makes the design happen, model/size separates
// what a platform's type costs from what its size costs, probe/causes watches.
package platforms

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/platform"
	"tare/record"
)

// Name is the study's, in the store.
const Name = "platforms"

// Factors of a condition.
const (
	factorQuestion = "question"
	factorPreset   = "preset"
	factorSize     = "cpus"      // that are granted
	factorHost     = "host-cpus" // that the kernel below has on line
	factorSame     = "same"      // "yes" where vanilla and pinned are granted the same CPUs
	factorTasks    = "tasks"     // how many processes the work is cut into
	factorService  = "service"   // "yes" where the program serves a load
	factorNetwork  = "network"   // where the network is what differs
)

// The questions.
const (
	matrix    = "matrix"
	ofCauses  = "causes"
	ofHosts   = "hosts"
	ofTasking = "tasks"
	ofNetwork = "network"
)

// The presets: the ways in which S2 granted CPUs.
const (
	Vanilla = "vanilla" // by a quota, on any CPU
	Pinned  = "pinned"  // by a cpuset
)

// Presets are all.
var Presets = []string{Vanilla, Pinned}

// Bare is the platform that all others are set against: as it is where the program is
// granted the whole host, and where it is granted less, held to that by a cpuset. An
// affinity would not hold it: x265 has libnuma give its threads back every CPU of their
// node, and takes 0.39 s of CPU time in 0.25 s on what was to be one CPU.
const (
	Bare = "bare"
	Held = "cgroup"
)

// Kind is a platform as S2 speaks of it.
type Kind string

// The kinds.
const (
	BM   Kind = "BM"   // bare metal
	CN   Kind = "CN"   // a container on bare metal
	VM   Kind = "VM"   // a virtual machine
	VMCN Kind = "VMCN" // a container in one
)

// KindOf is the kind of platform that a path names.
func KindOf(path string) Kind {
	switch head, inner, machine := strings.Cut(path, "/"); {
	case machine && (inner == Bare || inner == Held):
		return VM
	case machine:
		return VMCN
	case head == Bare || head == Held:
		return BM
	}
	return CN
}

// machine is the head of a path that names a virtual machine.
func machine(path string) (head, inner string, ok bool) { return strings.Cut(path, "/") }

// Size is what a program is granted.
type Size struct {
	CPUs   float64
	Memory int64 // bytes; 0 is no limit
}

// whole is how many CPUs it takes to grant them.
func (s Size) whole() int { return int(math.Ceil(s.CPUs)) }

func (s Size) fractional() bool { return s.CPUs != math.Trunc(s.CPUs) }

// String writes a size as people say it: "2 CPUs", "0.5 CPU".
func (s Size) String() string {
	text := cpusText(s.CPUs)
	if s.Memory > 0 {
		text += " " + platform.Setting{Memory: s.Memory}.Pairs()[0].Value
	}
	return text
}

func cpusText(n float64) string {
	text := strconv.FormatFloat(n, 'g', -1, 64)
	if n > 1 {
		return text + " CPUs"
	}
	return text + " CPU"
}

// Instance is one of S2's instance types.
type Instance struct {
	Name string
	Size Size
}

// Instances are S2's, in its table's order.
var Instances = []Instance{
	{"large", Size{2, 8 << 30}}, {"xlarge", Size{4, 16 << 30}}, {"2xlarge", Size{8, 32 << 30}},
	{"4xlarge", Size{16, 64 << 30}}, {"8xlarge", Size{32, 128 << 30}}, {"16xlarge", Size{64, 256 << 30}},
}

// InstanceSize gives the size of an instance type; false where there is none of that
// name.
func InstanceSize(name string) (Size, bool) {
	i := slices.IndexFunc(Instances, func(i Instance) bool { return i.Name == name })
	if i < 0 {
		return Size{}, false
	}
	return Instances[i].Size, true
}

// InstanceNames lists them.
func InstanceNames() []string {
	var names []string
	for _, i := range Instances {
		names = append(names, i.Name)
	}
	return names
}

// number is a factor's level; NaN where a condition has none.
func number(c record.Condition, factor string) float64 {
	v, err := strconv.ParseFloat(c.Factors[factor], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// chr is the container-to-host core ratio: what is granted, of the CPUs that the
// kernel below has on line.
func chr(c record.Condition) float64 { return number(c, factorSize) / number(c, factorHost) }
