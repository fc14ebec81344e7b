package checkpoint

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

// measured is a cell of a run with its conditions.
type measured struct {
	cell
	place.Conditions
	base record.Condition
	// found is what became of the page cache: one of Kept, Dropped, Bypassed and uneven. It
	// differs from what was requested where a host drops nothing.
	found string
}

// uneven is a page cache that some places dropped, and some kept.
const uneven = "uneven"

// mode is by what was found.
func (c measured) mode() mode { return mode{c.found, c.sync, c.memory} }

// reading is a run as the judge and the page of this study read it.
type reading struct {
	overhead.Reading
	cells []measured
}

func readRun(run record.Run) reading {
	r := reading{Reading: overhead.Read(run)}
	for _, g := range place.Groups(run, place.Haccio) {
		if base, ok := g.Baseline(); ok {
			c := measured{cell: cellOf(base), Conditions: g, base: base}
			c.found = r.foundCache(c)
			r.cells = append(r.cells, c)
		}
	}
	slices.SortStableFunc(r.cells, func(a, b measured) int {
		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()),
			cmp.Compare(a.particles, b.particles),
			cmp.Compare(a.ranks, b.ranks),
		)
	})
	return r
}

// mostCached is the share of a file's pages that may be in the page cache when reading
// begins, for the reading to be the disk's.
const mostCached = 0.01

// foundCache is what became of the page cache in a cell. The program cannot drop it where
// others have a file open, or where a sandbox or virtual machine has a page cache of its own:
// it then reads from memory.
func (r reading) foundCache(c measured) string {
	if c.cache == Kept || c.memory {
		return c.cache
	}
	in, reported := 0, 0
	for _, of := range c.All {
		share := r.cachedOf(of)
		if math.IsNaN(share) {
			continue // a floor, which does not report it
		}
		reported++
		if share > mostCached {
			in++
		}
	}
	switch in {
	case 0:
		return c.cache
	case reported:
		return Kept
	}
	return uneven
}

// cachedOf is the mean share of a condition's pages that were in the page cache when
// reading began; NaN where that is not known.
func (r reading) cachedOf(c record.Condition) float64 {
	sum, n := 0.0, 0.0
	for _, t := range r.Trials(c) {
		for _, s := range t.Samples {
			if s.Metric == cached {
				sum, n = sum+s.Value, n+1
			}
		}
	}
	return sum / n
}

// crowded is whether a cell has more ranks than CPUs. A rate is by the slowest rank's own
// time, which begins only when it has a CPU: the rate is then too high.
func (r reading) crowded(c measured) bool {
	if r.imported() {
		return false // the host of the run is not the one that it was measured on
	}
	cpus := r.Run.Host.CPUs
	if set, err := platform.ParseCPUList(c.base.Setting.CPUSet); err == nil && len(set) > 0 {
		cpus = len(set)
	}
	return cpus > 0 && c.ranks > cpus
}

// decisive are the cells of a mode by which the claim is judged.
func (r reading) decisive(m mode) []measured {
	return slices.DeleteFunc(r.of(m), r.crowded)
}

// cellOf reads a cell back from one of its conditions. An imported run need not have all
// factors: it then has S5's levels, the first of each.
func cellOf(c record.Condition) cell {
	return cell{
		particles: place.Number(c, factorParticles), ranks: int(place.Number(c, factorRanks)),
		api: cmp.Or(c.Factors[factorAPI], POSIX), layout: cmp.Or(c.Factors[factorLayout], FilePerRank),
		cache: cmp.Or(c.Factors[factorCache], Kept), sync: cmp.Or(c.Factors[factorSync], NoSync),
		memory: c.Factors[place.FactorStorage] == string(platform.StorageTmpfs),
	}
}

// rank orders the manners of a checkpoint: S5's first, what is in memory last.
func (c cell) rank() int {
	n := 100*slices.Index(Caches, c.cache) + 10*slices.Index(Syncs, c.sync) + 3*slices.Index(Layouts, c.layout) +
		slices.Index(APIs, c.api)
	if c.memory {
		n += 1000
	}
	return n
}

// mode is what lies between the program and the disk. Cells of one mode are put together.
type mode struct {
	cache, sync string
	memory      bool
}

// text names a mode.
func (m mode) text() string {
	var text string
	switch {
	case m.memory:
		return "in memory (tmpfs)"
	case m.cache == Kept:
		text = "page cache kept"
	case m.cache == Dropped:
		text = "page cache dropped"
	case m.cache == uneven:
		text = "page cache dropped in some places only"
	default:
		text = "page cache bypassed"
	}
	if m.sync == Fsync {
		text += ", with fsync"
	}
	return text
}

// modes are those of a run, S5's first.
func (r reading) modes() []mode {
	var all []mode
	for _, c := range r.cells {
		if !slices.Contains(all, c.mode()) {
			all = append(all, c.mode())
		}
	}
	return all
}

// of gives the cells of a mode.
func (r reading) of(m mode) []measured {
	var all []measured
	for _, c := range r.cells {
		if c.mode() == m {
			all = append(all, c)
		}
	}
	return all
}

// imported is whether the run was measured elsewhere.
func (r reading) imported() bool { return r.Run.Status == record.Imported }

// disturbed is whether other programs disturbed every block of a cell.
func (r reading) disturbed(cells []measured) bool {
	for _, g := range r.Report.Groups {
		if g.Blocks == 0 && g.Tainted > 0 &&
			slices.ContainsFunc(cells, func(c measured) bool { return c.Workload == g.Workload }) {
			return true
		}
	}
	return false
}

// in finds a cell's condition for a place, by its label; false where it has none.
func (c measured) in(label string) (record.Condition, bool) {
	i := slices.IndexFunc(c.All, func(of record.Condition) bool { return labelOf(of) == label })
	if i < 0 {
		return record.Condition{}, false
	}
	return c.All[i], true
}

// stored finds a cell's condition on a storage.
func (c measured) stored(storage platform.Storage) (record.Condition, bool) {
	if all := c.Stored(string(storage)); len(all) > 0 {
		return all[0], true
	}
	return record.Condition{}, false
}

// floorOf finds what shows what a condition's disk gives.
func (c measured) floorOf(of record.Condition) (record.Condition, bool) {
	disk := of.Factors[factorDisk]
	i := slices.IndexFunc(c.All, func(f record.Condition) bool {
		return f.Factors[place.FactorFloor] != "" && disk != "" && f.Factors[factorDisk] == disk
	})
	if i < 0 {
		return record.Condition{}, false
	}
	return c.All[i], true
}

// floors are a cell's, one a disk.
func (c measured) floors() []record.Condition {
	return slices.DeleteFunc(
		slices.Clone(c.All),
		func(of record.Condition) bool { return of.Factors[place.FactorFloor] == "" },
	)
}

// contained are a cell's conditions but for the baseline and the floors.
func (c measured) contained() []record.Condition {
	return slices.DeleteFunc(slices.Clone(c.All), func(of record.Condition) bool {
		return of.ID == c.base.ID || of.Factors[place.FactorFloor] != ""
	})
}

// labelOf names a condition's place.
func labelOf(c record.Condition) string { return cmp.Or(c.Label, c.Factors[place.FactorStorage], c.ID) }

// labels are those of the contained conditions of some cells.
func labels(cells []measured) []string {
	var all []string
	for _, c := range cells {
		for _, of := range c.contained() {
			if !slices.Contains(all, labelOf(of)) {
				all = append(all, labelOf(of))
			}
		}
	}
	return all
}

// pick chooses a condition of a cell.
type pick func(measured) (record.Condition, bool)

func bare(c measured) (record.Condition, bool) { return c.base, true }

func labelled(label string) pick {
	return func(c measured) (record.Condition, bool) { return c.in(label) }
}

func on(storage platform.Storage) pick {
	return func(c measured) (record.Condition, bool) { return c.stored(storage) }
}

// below is the floor of what is picked.
func below(of pick) pick {
	return func(c measured) (record.Condition, bool) {
		if on, ok := of(c); ok {
			return c.floorOf(on)
		}
		return record.Condition{}, false
	}
}

// having keeps the cells that have all that is picked.
func having(cells []measured, all ...pick) []measured {
	var kept []measured
	for _, c := range cells {
		if !slices.ContainsFunc(all, func(p pick) bool { _, ok := p(c); return !ok }) {
			kept = append(kept, c)
		}
	}
	return kept
}

// levels puts cells together: by block, the geometric mean over them of what is picked in
// each. A block that one of them lacks is left out.
func (r reading) levels(cells []measured, of pick, metric string) map[int]float64 {
	sums, counts := map[int]float64{}, map[int]int{}
	for _, c := range cells {
		condition, ok := of(c)
		if !ok {
			return nil
		}
		for block, v := range r.PerBlock(condition, metric) {
			if v > 0 {
				sums[block] += math.Log(v)
				counts[block]++
			}
		}
	}
	all := map[int]float64{}
	for block, sum := range sums {
		if counts[block] == len(cells) {
			all[block] = math.Exp(sum / float64(len(cells)))
		}
	}
	return all
}

// ratio is what b has of a, over the cells that have both.
func (r reading) ratio(cells []measured, a, b pick, metric string) stats.Estimate {
	cells = having(cells, a, b)
	return r.Ratio(r.levels(cells, a, metric), r.levels(cells, b, metric))
}

// loss is what is missing in b of a's rate, in percent.
func (r reading) loss(cells []measured, a, b pick, metric string) stats.Estimate {
	return lost(r.ratio(cells, a, b, metric))
}

// lost turns a ratio of rates into what is lost, in percent.
func lost(ratio stats.Estimate) stats.Estimate {
	ratio.Value = 100 * (1 - ratio.Value)
	ratio.Interval.Low, ratio.Interval.High = 100*(1-ratio.Interval.High), 100*(1-ratio.Interval.Low)
	return ratio
}

// together is the reading by n intervals that hold together.
func (r reading) together(n int) reading {
	r.Reading = r.Reading.Together(n)
	return r
}

// scatter is how far a rate moves from block to block, over the cells that have it:
// the standard deviation of its logarithm, in percent; and what that leaves uncertain of
// its level, the half of the interval. Both are NaN where there are too few blocks. The
// interval is that of a single figure: it takes verdicts back, and must not do so the
// more often the more is compared.
func (r reading) scatter(cells []measured, of pick, metric string) (deviation, uncertain float64) {
	values := overhead.InOrder(r.levels(having(cells, of), of, metric))
	return deviationOf(values), halfWidth(stats.GeometricMean(values, r.Level(), r.Run.Seed))
}

func deviationOf(values []float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	mean, squares := 0.0, 0.0
	for _, v := range values {
		mean += math.Log(v) / float64(len(values))
	}
	for _, v := range values {
		squares += (math.Log(v) - mean) * (math.Log(v) - mean)
	}
	return 100 * math.Expm1(math.Sqrt(squares/float64(len(values)-1)))
}

// halfWidth is half of a positive estimate's interval, in percent.
func halfWidth(e stats.Estimate) float64 {
	if !e.Known() || e.Interval.Low <= 0 {
		return math.NaN()
	}
	return 100 * (math.Sqrt(e.Interval.High/e.Interval.Low) - 1)
}

// level is a rate over cells, with its interval over blocks.
func (r reading) level(cells []measured, of pick, metric string) stats.Estimate {
	return stats.GeometricMean(overhead.InOrder(r.levels(having(cells, of), of, metric)), r.Report.Level, r.Run.Seed)
}

// covariate is the mean of what the trials of a cell have of it; NaN where none has.
func (r reading) covariate(c measured, name string) float64 {
	sum, n := 0.0, 0
	for _, of := range c.All {
		for _, t := range r.Trials(of) {
			if v, ok := t.Covariates[name]; ok {
				sum, n = sum+v, n+1
			}
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}
