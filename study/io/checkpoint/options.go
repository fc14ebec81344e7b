package checkpoint

import (
	"slices"
	"strings"

	"tare/kernel/filesystem"
	"tare/platform"
	"tare/record"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/workload"
)

// Options are what the user asked for. Of each factor's levels the first is the
// base: the others are tried one at a time, with all other factors at their base,
// unless Cross asks for every combination.
type Options struct {
	Platform  string             // of the containers
	Storages  []platform.Storage // of theirs
	Particles []int64            // of each rank
	Ranks     []int
	APIs      []string
	Layouts   []string
	Caches    []string
	Syncs     []string
	Cross     bool
	// Fitting leaves out what this host has no memory, no disk or no time for, and
	// notes it; otherwise that is refused, but for the time.
	Fitting bool

	Plan record.Plan
	Seed int64
	Host Host
}

// Host is what the design must know of the machine.
type Host struct {
	place.Host
	// Workload gives a workload by its name; nil is the registry's.
	Workload func(name string) (workload.Workload, error)
	// Disk is the file system of a path, and Dirty what waits to be written; nil asks the
	// kernel.
	Disk  func(path string) (filesystem.FileSystem, error)
	Dirty func() (filesystem.Dirty, error)
}

// Default are the options of a run of some minutes: the sizes of S5's figures 4 and 5
// and one between, every factor varied.
func Default() Options {
	return Options{
		Platform: "docker",
		Storages: []platform.Storage{
			platform.StorageLayer,
			platform.StorageBind,
			platform.StorageVolume,
			platform.StorageTmpfs,
		},
		Particles: []int64{2_500_000, 1_000_000, 25_000_000},
		Ranks:     []int{2, 1, 4},
		APIs:      []string{POSIX, MPIIO},
		Layouts:   slices.Clone(Layouts),
		Caches:    slices.Clone(Caches),
		Syncs:     slices.Clone(Syncs),
		Fitting:   true,
	}
}

// Quick are those of a run of about a minute: S5's smallest checkpoint, with the
// page cache kept and dropped.
func Quick() Options {
	o := Default()
	o.Storages = []platform.Storage{platform.StorageBind, platform.StorageVolume}
	o.Particles, o.Ranks, o.Caches = []int64{1_000_000}, []int{2}, []string{Kept, Dropped}
	o.APIs, o.Layouts, o.Syncs = []string{POSIX}, []string{FilePerRank}, []string{NoSync}
	return o
}

// Full is S5's grid, with the page cache kept, as S5 had it, and dropped.
func Full() Options {
	o := Quick()
	o.Storages = Default().Storages
	o.Particles, o.Ranks = slices.Clone(PublishedParticles), slices.Clone(PublishedRanks)
	o.Cross = true
	return o
}

// Bounds of what may be asked for.
const (
	MostParticles = 1_000_000_000
	MostRanks     = 1024
)

// check refuses what cannot be measured, in the words of the command's flags.
func (o Options) check() error {
	if o.Platform == place.Bare {
		return kit.Usagef("--platform bare: bare metal is always the baseline; name the platform of the containers")
	}
	if len(o.Storages) == 0 {
		return kit.Usagef("--storage: want at least one of layer, bind, volume, tmpfs")
	}
	for i, s := range o.Storages {
		if err := new(platform.Setting).Set("storage", string(s)); err != nil {
			return kit.Usagef("--%v", err)
		}
		if slices.Contains(o.Storages[:i], s) {
			return kit.Usagef("--storage %s: named twice; name it once", s)
		}
	}
	if err := checkNumbers("particles", o.Particles, MostParticles); err != nil {
		return err
	}
	if err := checkNumbers("ranks", o.Ranks, MostRanks); err != nil {
		return err
	}
	for _, f := range []struct {
		flag          string
		asked, levels []string
	}{{"api", o.APIs, APIs}, {"layout", o.Layouts, Layouts}, {"cache", o.Caches, Caches}, {"sync", o.Syncs, Syncs}} {
		if len(f.asked) == 0 {
			return kit.Usagef("--%s: want at least one of %s", f.flag, strings.Join(f.levels, ", "))
		}
		for i, level := range f.asked {
			if !slices.Contains(f.levels, level) {
				return kit.Usagef("--%s %s: want %s", f.flag, level, strings.Join(f.levels, ", "))
			}
			if slices.Contains(f.asked[:i], level) {
				return kit.Usagef("--%s %s: named twice; name it once", f.flag, level)
			}
		}
	}
	return nil
}

func checkNumbers[N int | int64](flag string, asked []N, most N) error {
	if len(asked) == 0 {
		return kit.Usagef("--%s: want at least one", flag)
	}
	for i, n := range asked {
		if n < 1 || n > most {
			return kit.Usagef("--%s %d: want 1 to %d", flag, n, most)
		}
		if slices.Contains(asked[:i], n) {
			return kit.Usagef("--%s %d: named twice; name it once", flag, n)
		}
	}
	return nil
}
