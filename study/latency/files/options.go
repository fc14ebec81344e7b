package files

import (
	"slices"
	"strings"

	"tare/image"
	"tare/record"
	"tare/study/kit"
)

// Options are what the user asked for.
type Options struct {
	Platform    string   // of the containers; layers are measured on an engine that has them
	Experiments []string // of [Experiments]
	Sizes       []int64  // of one write, bytes
	Writes      int      // of each size, without fsync
	Syncs       int      // of each size, with fsync
	Opens       int
	Creates     int
	Layers      []int // numbers of layers that have the tree
	Walks       int   // of one layer; of n layers about an nth of them
	// Flatten has the image of the most layers flattened, and that of one layer.
	Flatten bool

	Plan record.Plan
	Seed int64
	Host kit.Host
}

// Default are the options of a run of some minutes: S4's sizes and layers.
func Default() Options {
	return Options{
		Platform: engine, Experiments: slices.Clone(Experiments),
		Sizes:  []int64{1 << 10, 4 << 10, 10 << 10, 30 << 10, 50 << 10, 70 << 10, 100 << 10},
		Writes: 2000, Syncs: 60, Opens: 20_000, Creates: 1000,
		Layers: []int{1, 2, 4, 8, 16, 32}, Walks: 100, Flatten: true,
	}
}

// Quick are those of a run of about a minute: fewer sizes, and few enough layers to
// load in seconds.
func Quick() Options {
	o := Default()
	o.Sizes = []int64{1 << 10, 10 << 10, 100 << 10}
	o.Writes, o.Syncs, o.Opens, o.Creates = 1000, 40, 10_000, 500
	o.Layers, o.Walks = []int{1, 4, 8}, 40
	return o
}

// Full has as many operations in a trial as S4 had: 10,000 writes of each size,
// 1,000,000 openings, 100 walks.
func Full() Options {
	o := Default()
	o.Writes, o.Syncs, o.Opens, o.Creates = 10_000, 1000, 1_000_000, 10_000
	o.Walks = 100 * fewestWalks
	return o
}

// engine is the platform of S4's claims.
const engine = "docker"

// Bounds of the options.
const (
	LeastSize     = 1
	GreatestSize  = 16 << 20
	GreatestCount = 10_000_000
	// fewestWalks are those of a trial at however many layers.
	fewestWalks = 10
)

// walks is how many a trial has at so many layers.
func (o Options) walks(layers int) int { return max(min(fewestWalks, o.Walks), o.Walks/layers) }

// check refuses what cannot be measured; its errors name the command's flags.
func (o Options) check() error {
	for _, e := range o.Experiments {
		if !slices.Contains(Experiments, e) {
			return kit.Usagef("--experiment %s: want %s", e, strings.Join(Experiments, ", "))
		}
	}
	if len(o.Experiments) == 0 {
		return kit.Usagef("--experiment: want at least one of %s", strings.Join(Experiments, ", "))
	}
	if len(o.Sizes) == 0 && slices.Contains(o.Experiments, Write) {
		return kit.Usagef("--size: want at least one, such as 4k")
	}
	for i, size := range o.Sizes {
		if size < LeastSize || size > GreatestSize {
			return kit.Usagef("--size %d: want %d to %d bytes", size, LeastSize, GreatestSize)
		}
		if slices.Contains(o.Sizes[:i], size) {
			return kit.Usagef("--size %d is given twice: give it once", size)
		}
	}
	for _, c := range []struct {
		flag  string
		count int
	}{{"writes", o.Writes}, {"syncs", o.Syncs}, {"opens", o.Opens}, {"creates", o.Creates}, {"walks", o.Walks}} {
		if c.count < 1 || c.count > GreatestCount {
			return kit.Usagef("--%s %d: want 1 to %d", c.flag, c.count, GreatestCount)
		}
	}
	for i, layers := range o.Layers {
		if layers < 1 || layers > image.MostLayers {
			return kit.Usagef("--layers %d: want 1 to %d, Docker's maximum", layers, image.MostLayers)
		}
		if slices.Contains(o.Layers[:i], layers) {
			return kit.Usagef("--layers %d is given twice: give it once", layers)
		}
	}
	if slices.Contains(o.Experiments, Walk) && !slices.Contains(o.Layers, 1) {
		return kit.Usagef("--layers: include 1, the baseline of the others")
	}
	return nil
}
