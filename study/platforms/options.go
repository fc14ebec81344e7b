package platforms

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/image"
	"tare/platform"
	"tare/probe/causes"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// Options are what the user asked for.
type Options struct {
	Subjects []workload.Subject
	// Platforms that bare metal is set against, by their canonical names.
	Platforms []string
	// Chosen is set where the user named the platforms: one that this host lacks is then
	// refused, and not left out.
	Chosen  bool
	Presets []string
	// Both has vanilla and pinned measured also where they are granted the same CPUs.
	Both  bool
	Sizes []Size
	// Hosts, where there are any, are the sizes of host on which one size is tried (S2.6).
	Hosts []int
	// Tasks, where there are any, are the numbers of processes that the work is cut into
	// (S2.8).
	Tasks []int
	// Requests are how many a web site is asked at once; 0 is the workload's own.
	Requests int
	// Causes has groups whose programs are watched.
	Causes bool
	// Disruptive allows taking CPUs of the host off line.
	Disruptive bool

	Base platform.Setting // besides CPUs: network, storage, ...
	Plan record.Plan
	Seed int64
	Host Host
}

// Host is what a design must know of the machine.
type Host struct {
	kit.Host
	// Online is how many CPUs its kernel has on line: more, where tare is kept to some of
	// them. 0 is as many as those.
	Online int
	// Confine keeps tare, and the load that it makes, to CPUs.
	Confine func(cpus []int) (restore func() error, err error)
	// Watch begins to watch a program of this kernel; nil where nothing can.
	Watch func(causes.Target, causes.Options) (Watcher, error)
	// Keep leaves as many CPUs of the host on line, and is undone by restore; of all, it
	// makes sure that they are. It is nil where none can be taken.
	Keep func(cpus int) (restore func() error, err error)
	// Fixed says why no CPU of this host can be taken off line; nil where they can.
	Fixed error
}

// online is how many CPUs the host has on line.
func (h Host) online() int { return max(h.Online, len(h.CPUs)) }

// narrow reports whether tare is confined to some of the host's CPUs.
func (h Host) narrow() bool { return h.online() > len(h.CPUs) }

// Watcher watches a program until it is stopped.
type Watcher interface {
	Stop() (causes.Reading, error)
}

// computing, communicating and serving are S2's programs.
var (
	computing     = []string{"ffmpeg"}
	communicating = []string{"mpi-search", "mpi-primes"}
	serving       = []string{"wordpress", "cassandra"}
)

// Workloads are S2's, in its order.
func Workloads() []string { return slices.Concat(computing, communicating, serving) }

// Default are the options of a run of ten minutes: each of S2's programs, in
// containers, at each size that the host has. Virtual machines are added by whoever
// knows that one runs here without emulation.
func Default(cpus int) Options {
	return Options{
		Platforms: []string{"oci:runc", "docker"}, Presets: slices.Clone(Presets), Sizes: Sizes(cpus),
		Requests: fewRequests, Causes: true,
	}
}

// fewRequests take a quarter of the time that S2's thousand take: 20 s and more on one
// CPU, in each trial.
const fewRequests = 250

// Full are S2's.
func Full(cpus int) Options {
	o := Default(cpus)
	o.Requests = 0
	return o
}

// Quick are those of a run of a minute: one program, one size at which a container may
// move about.
func Quick(cpus int) Options {
	o := Default(cpus)
	o.Sizes = []Size{{CPUs: float64(max(1, min(2, cpus-1)))}}
	o.Causes = false
	return o
}

// Sizes are those of a host: half a CPU, and powers of two up to all.
func Sizes(cpus int) []Size {
	sizes := []Size{{CPUs: 0.5}}
	for n := 1; n <= cpus; n *= 2 {
		sizes = append(sizes, Size{CPUs: float64(n)})
	}
	return sizes
}

// Bounds of what may be asked for.
const (
	leastCPUs = 0.05
	mostCPUs  = 4096
)

// check refuses what cannot be measured, in the words of the command's flags.
func (o Options) check() error {
	if len(o.Subjects) == 0 {
		return kit.Usagef("--workload: want at least one of %s", strings.Join(Workloads(), ", "))
	}
	for i, s := range o.Subjects {
		same := func(t workload.Subject) bool { return t.Workload.Name() == s.Workload.Name() }
		if slices.ContainsFunc(o.Subjects[:i], same) {
			return kit.Usagef("--workload %s is given twice: name it once", s.Workload.Name())
		}
	}
	if len(o.Platforms) == 0 {
		return kit.Usagef("--platform: want at least one, to compare with bare metal")
	}
	for i, name := range o.Platforms {
		if slices.Contains(o.Platforms[:i], name) {
			return kit.Usagef("--platform %s is given twice: name it once", name)
		}
	}
	if len(o.Presets) == 0 {
		return kit.Usagef("--preset: want vanilla, pinned or both")
	}
	for i, p := range o.Presets {
		if !slices.Contains(Presets, p) {
			return kit.Usagef("--preset %s: want vanilla (a quota) or pinned (a cpuset)", p)
		}
		if slices.Contains(o.Presets[:i], p) {
			return kit.Usagef("--preset %s is given twice: name it once", p)
		}
	}
	if len(o.Sizes) == 0 {
		return kit.Usagef("--cpus: want at least one size")
	}
	for i, s := range o.Sizes {
		if !(s.CPUs >= leastCPUs && s.CPUs <= mostCPUs) {
			return kit.Usagef("--cpus %g: want %g to %d", s.CPUs, leastCPUs, mostCPUs)
		}
		if slices.Contains(o.Sizes[:i], s) {
			return kit.Usagef("--cpus %g is given twice: name it once", s.CPUs)
		}
	}
	if o.Base.CPUs != 0 || o.Base.CPUSet != "" {
		return kit.Usagef("the presets grant the CPUs: give their number by --cpus")
	}
	return o.checkHosts()
}

// checkHosts refuses what cannot be asked of the host's size and of tasks.
func (o Options) checkHosts() error {
	for i, n := range o.Hosts {
		if n < 1 || n > mostCPUs {
			return kit.Usagef("--host-cpus %d: want 1 to %d", n, mostCPUs)
		}
		if slices.Contains(o.Hosts[:i], n) {
			return kit.Usagef("--host-cpus %d is given twice: name it once", n)
		}
	}
	if len(o.Hosts) == 1 {
		return kit.Usagef("--host-cpus %d: want at least two sizes of host, to compare them", o.Hosts[0])
	}
	if err := o.checkTasks(); err != nil {
		return err
	}
	if len(o.Tasks) == 1 {
		return kit.Usagef("--tasks: want one and many, to compare them")
	}
	for i, n := range o.Tasks {
		if slices.Contains(o.Tasks[:i], n) {
			return kit.Usagef("--tasks %d is given twice: name it once", n)
		}
	}
	for _, s := range o.Subjects {
		if len(o.Tasks) == 0 {
			break
		}
		if _, taken := s.With(paramTasks, ""); !taken {
			return kit.Usagef("--tasks: %s cannot be cut into parts: it has no parameter %s", s.Workload.Name(), paramTasks)
		}
	}
	return nil
}

// Tasks are the numbers of processes that the work may be cut into: as many as a clip is
// cut in parts.
func Tasks() []int {
	counts := []int{1}
	for _, c := range image.CutClips() {
		counts = append(counts, c.Seconds)
	}
	return counts
}

// checkTasks refuses numbers of processes that there are no parts for.
func (o Options) checkTasks() error {
	counts := Tasks()
	for _, n := range o.Tasks {
		if slices.Contains(counts, n) {
			continue
		}
		last := len(counts) - 1
		first := strings.Trim(strings.ReplaceAll(fmt.Sprint(counts[:last]), " ", ", "), "[]")
		return kit.Usagef("--tasks %d: want %s or %d (the clips are cut in as many parts)", n, first, counts[last])
	}
	return nil
}

func formatNumber(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
