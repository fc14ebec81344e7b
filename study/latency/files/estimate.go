package files

import (
	"strconv"
	"time"

	"tare/lab"
)

// Assumed times of a trial besides the operations, by which a pass over a design is
// estimated. They were measured with an engine on two CPUs.
const (
	assumedLaunch  = 600 * time.Millisecond
	assumedFlatten = 2500 * time.Millisecond
	assumedLayer   = 1500 * time.Millisecond // to load one, and to remove it in the end
)

// Preparing estimates how long images in layers take to be loaded before the first
// block, and removed after the last.
func Preparing(d lab.Design) time.Duration {
	most := 0
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			layers, _ := strconv.Atoi(c.Factors[factorLayers])
			most = max(most, layers) // those of fewer layers share theirs with it
		}
	}
	return time.Duration(most) * assumedLayer
}

// Assumed times of operations, far above those measured, so that limits can rest on
// them.
const (
	assumedWrite  = 30 * time.Microsecond // of 100 KB, handed to the kernel
	assumedSync   = time.Millisecond
	assumedOpen   = 3 * time.Microsecond
	assumedCreate = 300 * time.Microsecond
	assumedWalk   = 4 * time.Millisecond // of one layer
)

// operations estimates what a trial of an experiment does, besides its container.
func (o Options) operations(experiment string) time.Duration {
	switch experiment {
	case Write:
		var all time.Duration
		for _, size := range o.Sizes {
			scale := max(1, float64(size)/(100<<10))
			all += time.Duration(float64(o.Writes)*scale)*assumedWrite +
				time.Duration(float64(o.Syncs)*scale)*assumedSync
		}
		return all
	case Open:
		return time.Duration(o.Opens)*2*assumedOpen + time.Duration(o.Creates)*assumedCreate
	case Walk:
		return time.Duration(o.Walks) * assumedWalk
	}
	return 0
}

// limit bounds a trial: ten times its estimated time, and enough to flatten a hundred
// layers on a slow disk.
func (o Options) limit(experiment string) time.Duration {
	return max(trialLimit, 10*o.operations(experiment))
}

func trialTime(factors map[string]string) time.Duration {
	took := assumedLaunch
	if d, err := time.ParseDuration(factors[factorOperations]); err == nil {
		took += d
	}
	walks := factors[factorExperiment] == Walk && factors[factorFlattened] == ""
	if layers, err := strconv.Atoi(factors[factorLayers]); err == nil && walks {
		took += time.Duration(layers) * 40 * time.Millisecond
	}
	if factors[factorFlattened] != "" {
		took += assumedFlatten
	}
	return took
}
