package bandwidth

import (
	"cmp"
	"math"
	"slices"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/io/place"
)

// within and beyond say whether an interval lies inside or outside the smallest effect, in percent.
var within, beyond = stats.Within, stats.Beyond

// reading is a run as the judge and the page of this study read it. The run may be
// one that was measured elsewhere: it has then no more than the kernels' rates.
type reading struct {
	overhead.Reading
	spots []spot
}

// spot is a cell that was measured.
type spot struct {
	cell
	place.Conditions
	base record.Condition
	// beyond is set where the arrays are larger than the caches. The program reports that;
	// where it does not, the benchmark's least size decides.
	beyond, reported bool
}

func read(run record.Run) reading {
	r := reading{Reading: overhead.Read(run)}
	for _, g := range place.Groups(run, place.Stream) {
		base, ok := g.Baseline()
		of := cell{place.Number(base, factorElements), int(place.Number(base, factorProcesses))}
		s := spot{Conditions: g, base: base, cell: of}
		if !ok || s.elements < 1 || s.processes < 1 {
			continue
		}
		resident := r.Value(base, cacheResident)
		s.reported = resident.Value == resident.Value
		s.beyond = s.reported && resident.Value == 0 || !s.reported && s.elements >= leastElements
		r.spots = append(r.spots, s)
	}
	slices.SortStableFunc(r.spots, func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.elements, b.elements), cmp.Compare(a.processes, b.processes))
	})
	return r
}

// together is the reading by n intervals that hold together.
func (r reading) together(n int) reading {
	r.Reading = r.Reading.Together(n)
	return r
}

// crowded is whether a spot has more processes than CPUs. They wait for one another, so
// that its figures do not measure memory.
func (r reading) crowded(s spot) bool {
	if r.Run.Plan.Imported != nil {
		return false // the host of the run is not the one that it was measured on
	}
	cpus := r.Run.Host.CPUs
	if set, err := platform.ParseCPUList(s.base.Setting.CPUSet); err == nil && len(set) > 0 {
		cpus = len(set)
	}
	return cpus > 0 && s.processes > cpus
}

// decisive are the spots by which the claim is judged: beyond the caches, and not
// crowded.
func (r reading) decisive() []spot {
	return slices.DeleteFunc(slices.Clone(r.spots), func(s spot) bool { return !s.beyond || r.crowded(s) })
}

// contained are a spot's conditions but for the baseline and the peer.
func (s spot) contained() []record.Condition {
	return slices.DeleteFunc(slices.Clone(s.All), func(c record.Condition) bool {
		return c.ID == s.base.ID || c.Factors[place.FactorFloor] != ""
	})
}

// peer is the other program's condition.
func (s spot) peer() (record.Condition, bool) {
	i := slices.IndexFunc(s.All, func(c record.Condition) bool { return c.Factors[place.FactorFloor] != "" })
	if i < 0 {
		return record.Condition{}, false
	}
	return s.All[i], true
}

// storages are those that a run has, in the order in which they are shown.
func (r reading) storages() []string {
	var all []string
	for _, s := range []platform.Storage{platform.StorageLayer, platform.StorageVolume, platform.StorageBind,
		platform.StorageTmpfs} {
		if slices.ContainsFunc(r.spots, func(at spot) bool { return len(at.Stored(string(s))) > 0 }) {
			all = append(all, string(s))
		}
	}
	return all
}

// pooled is the ratio of conditions to their spots' bare metal: of the geometric means
// over spots, over what of picks in each, and over kernels. A block counts where all
// of them have it.
func (r reading) pooled(spots []spot, of func(spot) []record.Condition, kernels ...string) stats.Estimate {
	var bare, contained []map[int]float64
	for _, s := range spots {
		for _, c := range of(s) {
			for _, kernel := range kernels {
				bare, contained = append(bare, r.PerBlock(s.base, kernel)), append(contained, r.PerBlock(c, kernel))
			}
		}
	}
	return r.Ratio(together(bare), together(contained))
}

// stored picks a spot's conditions on a storage.
func stored(storage string) func(spot) []record.Condition {
	return func(s spot) []record.Condition { return s.Stored(storage) }
}

// together are the geometric means of values of the same block, of the blocks that
// all have.
func together(all []map[int]float64) map[int]float64 {
	means := map[int]float64{}
	if len(all) == 0 {
		return means
	}
	for block := range all[0] {
		sum := 0.0
		for _, values := range all {
			v, ok := values[block]
			if !ok || !(v > 0) {
				sum = math.NaN()
				break
			}
			sum += math.Log(v)
		}
		if sum == sum {
			means[block] = math.Exp(sum / float64(len(all)))
		}
	}
	return means
}

// against is a metric of b against a's.
func (r reading) against(a, b record.Condition, metric string) stats.Estimate {
	return r.Ratio(r.PerBlock(a, metric), r.PerBlock(b, metric))
}

// lost is a ratio of rates as what is lost of the first, in percent: below zero where
// it is gained.
func lost(ratio stats.Estimate) stats.Estimate {
	low, high := ratio.Interval.Low, ratio.Interval.High
	ratio.Value = 100 * (1 - ratio.Value)
	ratio.Interval.Low, ratio.Interval.High = 100*(1-high), 100*(1-low)
	return ratio
}
