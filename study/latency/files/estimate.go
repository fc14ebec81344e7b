package files

import (
	"strconv"
	"time"

	"tare/lab"
)

// What a trial takes, besides what is measured: assumptions by which a pass over a
// design is estimated, from an engine on two CPUs.
const (
	assumedLaunch  = 600 * time.Millisecond
	assumedFlatten = 2500 * time.Millisecond
	assumedLayer   = 1500 * time.Millisecond // to load one, and to remove it in the end
)

// Pass estimates how long one block of each of a design's groups takes, the
// baseline twice.
func Pass(d lab.Design) time.Duration {
	var all time.Duration
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			took := trialTime(c.Factors)
			all += took
			if c.Baseline {
				all += took
			}
		}
	}
	return all
}

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

func trialTime(factors map[string]string) time.Duration {
	took := assumedLaunch
	if factors[factorExperiment] != CopyUp {
		took += 400 * time.Millisecond // what is measured
	}
	if layers, err := strconv.Atoi(factors[factorLayers]); err == nil && factors[factorExperiment] == Walk && factors[factorFlattened] == "" {
		took += time.Duration(layers) * 40 * time.Millisecond
	}
	if factors[factorFlattened] != "" {
		took += assumedFlatten
	}
	return took
}
