package gpu

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"tare/platform"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/study/kit"
)

// Options are what the user asked for. Of builds, caches and memories the first is the
// base: the others are tried one at a time, unless Cross asks for every combination.
type Options struct {
	Subjects  []string // some of the package's
	Platforms []string // canonical names; bare metal is always measured, and the baseline
	Builds    []string
	Caches    []string // of PTX
	Memories  []string
	Cross     bool
	// Probe measures the base and PTX with a cold cache under the activity probe too.
	Probe bool
	// Share are numbers of containers that have a device at once; none where empty.
	Share []int
	// Limits measures the device's own limits beside the programs.
	Limits bool
	// Torch trains, and infers with, a small network by PyTorch.
	Torch bool
	// GPU is the setting's: which devices each program is given.
	GPU string
	// Sizes and Iterations are the programs', by subject or by program; without an entry
	// a program has its own.
	Sizes, Iterations map[string]string

	Plan record.Plan
	Seed int64
	Host Host
}

// Host is what the design must know of the machine.
type Host struct {
	kit.Host
	// Scratch makes an empty directory of the host for one trial, by a name that is
	// unique; remove takes it away.
	Scratch func(ctx context.Context, name string) (dir string, remove func() error, err error)
	// Found is what was found of the device before the run; nil where nobody has looked
	// yet, as for a dry run.
	Found *Found
}

// Found is what was found of a host before a run.
type Found struct {
	// Root holds the image's root file system, a directory.
	Root     string
	Device   programs.Device
	Versions programs.Versions
	// Kinds are the builds that there are and that run here; NoKind are those that do not,
	// though others do, each with why: PTX that is newer than the driver.
	Kinds  []programs.Kind
	NoKind map[programs.Kind]string
	// Library is the directory that holds the probe's library; empty where there is none,
	// and NoProbe says why.
	Library string
	NoProbe string
	// Torch is what PyTorch is started from; nil where there is none, and NoTorch says why.
	Torch   *Torch
	NoTorch string
	// Unusable are platforms on which the device could not be used, each with what was
	// tried and came of it, in a line.
	Unusable map[string]string
	// Libraries are the directories of the driver's, parted by colons.
	Libraries string
	// Direct: not even bare metal can be had here.
	Direct bool
}

// Default are the options of a run of some ten minutes.
func Default() Options {
	return Options{
		Subjects:  []string{programs.LU, programs.ParticleFilter, programs.Stencil, programs.LeNet + "-training"},
		Platforms: []string{Bare, "oci:runc", "docker"},
		Builds:    slices.Clone(Builds), Caches: []string{Cold, Warm}, Memories: slices.Clone(Memories),
		Probe: true, Limits: true, GPU: platform.AllGPUs,
	}
}

// Quick are those of a run of a minute or two.
func Quick() Options {
	o := Default()
	o.Subjects = []string{programs.Stencil, programs.LeNet + "-training"}
	o.Builds, o.Caches, o.Memories = []string{
		string(programs.Exact),
		string(programs.PTX),
	}, []string{Cold}, []string{Pageable}
	o.Probe = false
	return o
}

// Full is everything: all programs, every cell, PyTorch where it is there.
func Full() Options {
	o := Default()
	o.Subjects = slices.Clone(Subjects)
	o.Platforms = []string{Bare, "oci:runc", "oci:crun", "docker"}
	o.Cross, o.Torch = true, true
	return o
}

// Bounds of what may be asked for.
const MostShare = 64

// check refuses what cannot be measured, in the words of the command's flags.
func (o Options) check() error {
	for _, f := range []struct {
		flag          string
		asked, levels []string
	}{
		{"program", o.Subjects, Subjects},
		{"build", o.Builds, append(slices.Clone(Builds), string(programs.Emulated))},
		{"cache", o.Caches, Caches},
		{"memory", o.Memories, Memories},
	} {
		if len(f.asked) == 0 {
			return kit.Usagef("--%s: want at least one of %s", f.flag, strings.Join(f.levels, ", "))
		}
		for i, level := range f.asked {
			if !slices.Contains(f.levels, level) {
				return kit.Usagef("--%s %s: want %s", f.flag, level, strings.Join(f.levels, ", "))
			}
			if slices.Contains(f.asked[:i], level) {
				return kit.Usagef("--%s %s is named twice: name it once", f.flag, level)
			}
		}
	}
	if len(o.Platforms) == 0 {
		return kit.Usagef("--platform: want at least one")
	}
	for i, n := range o.Share {
		if n < 1 || n > MostShare {
			return kit.Usagef("--share %d: want 1 to %d", n, MostShare)
		}
		if slices.Contains(o.Share[:i], n) {
			return kit.Usagef("--share %d is named twice: name it once", n)
		}
	}
	for flag, of := range map[string]map[string]string{"size": o.Sizes, "iterations": o.Iterations} {
		for name := range of {
			known := func(s string) bool { return s == name || programOf(s) == name }
			if name != programs.DeviceLimits && !slices.ContainsFunc(Subjects, known) {
				return kit.Usagef("--%s %s: want PROGRAM=N of %s or %s", flag, name, strings.Join(Subjects, ", "), programs.DeviceLimits)
			}
		}
	}
	if err := new(platform.Setting).Set("gpu", o.GPU); err != nil {
		return kit.Usagef("--%v", err)
	}
	if o.GPU == platform.NoGPU {
		return kit.Usagef("--gpu none: the programs require a device: want all, or a list such as 0")
	}
	return nil
}

// programOf is a subject's program, and taskOf its task; "auto" where it has none.
func programOf(subject string) string {
	program, _, _ := strings.Cut(subject, "-")
	return program
}

func taskOf(subject string) string {
	if _, task, ok := strings.Cut(subject, "-"); ok {
		return task
	}
	return "auto"
}

// asked looks a value up for a subject, or for its program.
func asked(of map[string]string, subject string) string {
	for _, name := range []string{subject, programOf(subject)} {
		if v := of[name]; v != "" {
			return v
		}
	}
	return "auto"
}

// cell is one manner of running a program.
type cell struct{ build, cache, memory string }

// compiles reports whether the driver has anything to compile.
func (c cell) compiles() bool { return c.build == string(programs.PTX) }

// text names a cell among others: "exact", "ptx cold", "exact pinned".
func (c cell) text() string {
	words := []string{c.build}
	if c.cache != "" {
		words = append(words, c.cache)
	}
	if c.memory != Pageable {
		words = append(words, c.memory)
	}
	return strings.Join(words, " ")
}

// cells are those that the options ask for: the base first, then a factor at a time, or
// all combinations. The cache is a factor of what is compiled alone.
func (o Options) cells() []cell {
	var all []cell
	for i, memory := range o.Memories {
		for j, build := range o.Builds {
			if i > 0 && j > 0 && !o.Cross {
				continue
			}
			c := cell{build: build, memory: memory}
			if !c.compiles() {
				all = append(all, c)
				continue
			}
			for _, cache := range o.Caches {
				c.cache = cache
				all = append(all, c)
			}
		}
	}
	return all
}

// probed are the cells that are measured under the probe too: the base, and what S1.15 is
// of.
func (o Options) probed() []cell {
	var all []cell
	for i, c := range o.cells() {
		if i == 0 || c.compiles() && c.cache == Cold && c.memory == o.Memories[0] {
			all = append(all, c)
		}
	}
	return all
}

func number(n int) string { return strconv.Itoa(n) }
