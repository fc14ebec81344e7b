package bandwidth

import (
	"slices"

	"tare/platform"
	"tare/record"
	"tare/study/io/place"
	"tare/study/kit"
)

// Options are what the user asked for. Of each factor's levels the first is the
// base: the others are tried with the other factor at its base, unless Cross asks for
// every combination.
type Options struct {
	Platforms   []string           // of the containers
	Storages    []platform.Storage // of theirs
	Elements    []int64            // of each array, over all processes
	Processes   []int              // empty: one, and one for each CPU
	Repetitions int                // of a trial, the first of which counts for nothing
	Cross       bool
	// Peer has another program measure the same beside bare metal.
	Peer bool
	// Fitting leaves out what this host has no memory for, and notes it; otherwise
	// that is refused.
	Fitting bool

	Base platform.Setting // besides storage and network
	Plan record.Plan
	Seed int64
	Host place.Host
}

// Default are the options of a run of some minutes: S5's size for the bandwidth of
// memory, by one process and by one for each CPU, and its smallest, which caches hold.
// Where S5's size is less than four times the host's caches, in bytes, a larger one takes its place.
func Default(caches int64) Options {
	return Options{
		Platforms: []string{"docker"},
		Storages:  []platform.Storage{platform.StorageLayer, platform.StorageVolume, platform.StorageBind},
		Elements:  []int64{beyondCaches(caches), PublishedElements[0]}, Repetitions: 10, Fitting: true,
	}
}

// Quick are those of a run of a minute or two: the first of these sizes, by one process,
// which two CPUs suffice for.
func Quick(caches int64) Options {
	o := Default(caches)
	o.Storages = []platform.Storage{platform.StorageVolume, platform.StorageBind}
	o.Elements, o.Processes = o.Elements[:1], []int{1}
	o.Repetitions = 5
	return o
}

// beyondCaches is the least of S5's sizes, from that of its figures on, whose array is four
// times as large as the caches: STREAM's rule, by which the program marks what they hold.
func beyondCaches(caches int64) int64 {
	for _, n := range PublishedElements {
		if n >= publishedCell && n*8 >= 4*caches {
			return n
		}
	}
	return PublishedElements[len(PublishedElements)-1]
}

// Full is S5's grid, as far as the host's memory holds it, and the engines that S5 left for later.
func Full() Options {
	o := Default(0)
	o.Platforms = append(o.Platforms, place.FurtherEngines...)
	o.Elements, o.Processes = slices.Clone(PublishedElements), slices.Clone(PublishedProcesses)
	o.Cross = true
	return o
}

// Bounds of what may be asked for.
const (
	MostElements    = 1_000_000_000_000
	MostProcesses   = 1024
	MostRepetitions = 250
)

// check refuses what cannot be measured, in the words of the command's flags.
func (o Options) check() error {
	if len(o.Platforms) == 0 {
		return kit.Usagef("--platform: want at least one, to compare with bare metal")
	}
	if len(o.Storages) == 0 {
		return kit.Usagef("--storage: want at least one of layer, volume, bind, tmpfs")
	}
	for i, s := range o.Storages {
		if err := new(platform.Setting).Set("storage", string(s)); err != nil {
			return kit.Usagef("--%v", err)
		}
		if slices.Contains(o.Storages[:i], s) {
			return kit.Usagef("--storage %s: named twice; name it once", s)
		}
	}
	for i, name := range o.Platforms {
		if name == place.Bare {
			return kit.Usagef("--platform bare: bare metal is always the baseline; name platforms of containers")
		}
		if slices.Contains(o.Platforms[:i], name) {
			return kit.Usagef("--platform %s: named twice; name it once", name)
		}
	}
	if len(o.Elements) == 0 {
		return kit.Usagef("--elements: want at least one number")
	}
	for i, n := range o.Elements {
		if n < 1 || n > MostElements {
			return kit.Usagef("--elements %d: want 1 to 10^12", n)
		}
		if slices.Contains(o.Elements[:i], n) {
			return kit.Usagef("--elements %d: named twice; name it once", n)
		}
	}
	for i, n := range o.Processes {
		if n < 1 || n > MostProcesses {
			return kit.Usagef("--processes %d: want 1 to %d", n, MostProcesses)
		}
		if slices.Contains(o.Processes[:i], n) {
			return kit.Usagef("--processes %d: named twice; name it once", n)
		}
		if i := slices.IndexFunc(o.Elements, func(elements int64) bool { return elements < int64(n) }); i >= 0 {
			return kit.Usagef("--elements %d --processes %d: want an element for each process", o.Elements[i], n)
		}
	}
	if o.Repetitions < 2 || o.Repetitions > MostRepetitions {
		return kit.Usagef("--repetitions %d: want 2 to %d (the first does not count)", o.Repetitions, MostRepetitions)
	}
	return nil
}

// cells are those of the experiment, the base first.
func (o Options) cells() []cell {
	var all []cell
	add := func(c cell) {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	for i, elements := range o.Elements {
		for j, processes := range o.processes() {
			if i == 0 || j == 0 || o.Cross {
				add(cell{elements, processes})
			}
		}
	}
	return all
}

// processes are those asked for, or one and as many as there are CPUs.
func (o Options) processes() []int {
	if len(o.Processes) > 0 {
		return o.Processes
	}
	counts := []int{1}
	if n := o.cpus(); n > 1 {
		counts = append(counts, n)
	}
	return counts
}

// cpus is how many CPUs the program may use.
func (o Options) cpus() int {
	if set, err := platform.ParseCPUList(o.Base.CPUSet); err == nil && len(set) > 0 {
		return len(set)
	}
	return max(1, len(o.Host.CPUs))
}
