package checkpoint

import (
	"slices"
	"strconv"

	"tare/report"
	"tare/study/io/place"
	"tare/workload"
)

// cell is one size and manner of checkpoint.
type cell struct {
	particles int64 // of each rank
	ranks     int
	api       string
	layout    string
	cache     string
	sync      string
	memory    bool // its files lie in memory, wherever it runs
}

// cells are those that the options ask for: the base first, then a factor at a time,
// or all combinations.
func (o Options) cells() []cell {
	base := cell{
		particles: o.Particles[0], ranks: o.Ranks[0],
		api: o.APIs[0], layout: o.Layouts[0], cache: o.Caches[0], sync: o.Syncs[0],
	}
	all := []cell{base}
	// vary sets another level in the base, or in all that there is.
	vary := func(levels int, set func(c *cell, level int)) {
		from := all[:1]
		if o.Cross {
			from = slices.Clone(all)
		}
		for level := 1; level < levels; level++ {
			for _, c := range from {
				set(&c, level)
				all = append(all, c)
			}
		}
	}
	vary(len(o.Caches), func(c *cell, i int) { c.cache = o.Caches[i] })
	vary(len(o.Particles), func(c *cell, i int) { c.particles = o.Particles[i] })
	vary(len(o.Ranks), func(c *cell, i int) { c.ranks = o.Ranks[i] })
	vary(len(o.Syncs), func(c *cell, i int) { c.sync = o.Syncs[i] })
	vary(len(o.Layouts), func(c *cell, i int) { c.layout = o.Layouts[i] })
	vary(len(o.APIs), func(c *cell, i int) { c.api = o.APIs[i] })
	return all
}

// bytes are those of a checkpoint, of all its ranks.
func (c cell) bytes() int64 { return c.particles * int64(c.ranks) * particleSize }

// group names the cell's group. What is as S5 had it is left out.
func (c cell) group() string {
	cells := []place.Cell{
		{Factor: factorParticles, Level: strconv.FormatInt(c.particles, 10)},
		{Factor: factorRanks, Level: strconv.Itoa(c.ranks)},
	}
	for _, f := range []struct{ factor, level, published string }{
		{factorAPI, c.api, POSIX}, {factorLayout, c.layout, FilePerRank}, {factorCache, c.cache, Kept},
		{factorSync, c.sync, NoSync},
	} {
		if f.level != f.published {
			cells = append(cells, place.Cell{Factor: f.factor, Level: f.level})
		}
	}
	if c.memory {
		cells = append(cells, place.Cell{Factor: factorDisk, Level: inMemory})
	}
	return place.Group(place.Haccio, cells...)
}

// params are the workload's.
func (c cell) params(w workload.Workload) (workload.Params, error) {
	return workload.Resolve(w, map[string]string{
		factorParticles: strconv.FormatInt(c.particles, 10), factorRanks: strconv.Itoa(c.ranks),
		factorAPI: c.api, factorLayout: c.layout, factorCache: c.cache, factorSync: c.sync,
	})
}

// factors are those of the cell's conditions.
func (c cell) factors() map[string]string {
	return map[string]string{
		factorParticles: strconv.FormatInt(c.particles, 10), factorRanks: strconv.Itoa(c.ranks),
		factorAPI: c.api, factorLayout: c.layout, factorCache: c.cache, factorSync: c.sync,
	}
}

// text names the cell for people: "2.5 M x 2 ranks, dropped". What is as S5 had it is
// left out.
func (c cell) text() string {
	text := millions(c.particles) + " x " + report.Counted(c.ranks, "rank")
	for _, f := range []struct{ level, published string }{
		{c.api, POSIX}, {c.layout, FilePerRank}, {c.cache, Kept}, {c.sync, NoSync},
	} {
		if f.level != f.published {
			text += ", " + f.level
		}
	}
	if c.memory {
		text += ", in memory"
	}
	return text
}

// millions writes a number of particles as S5 does: "2.5 M".
func millions(n int64) string {
	if n < 100_000 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) + " M"
}

// bytesText writes a size as S5 counts it, in powers of ten.
func bytesText(n int64) string {
	switch v := float64(n); {
	case v >= 1e9:
		return strconv.FormatFloat(v/1e9, 'f', 1, 64) + " GB"
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 0, 64) + " MB"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', 0, 64) + " kB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
