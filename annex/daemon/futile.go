package daemon

import (
	"cmp"
	"fmt"
	"time"

	"tare/annex"
)

// Bounds of evicting in vain: what leaves and frees nothing would go on leaving until
// everything that sleeps is in swap.
const (
	// vainOfOne is how many pages of one container may leave without any being free: more
	// than what reclaim leaves of each in any case.
	vainOfOne = 2048
	vainOfAll = 8192
	vainPause = 30 * time.Second
	// vainSpare is what reclaim leaves of each container as swap cache in any case.
	vainSpare = 320
)

// futile keeps account of evictions after which nothing was free.
type futile struct {
	of  map[annex.ID]vain
	all vain
}

// vain is how many pages have left since any was freed, and until when no more do.
type vain struct {
	pages int
	until annex.Moment
}

func (v *vain) saw(moved, freed, most int, now annex.Moment) {
	if freed > 0 {
		*v = vain{}
		return
	}
	if v.pages += moved; v.pages >= most {
		v.pages, v.until = 0, now.After(vainPause)
	}
}

// saw takes note of what an eviction, all its requests together, moved and freed.
func (f *futile) saw(id annex.ID, moved, freed int, now annex.Moment) {
	if f.of == nil {
		f.of = map[annex.ID]vain{}
	}
	one := f.of[id]
	one.saw(moved, freed, vainOfOne+vainSpare, now)
	f.of[id] = one
	f.all.saw(moved, freed, vainOfAll+vainSpare*len(f.of), now)
}

// holds tells that nothing of a container is to leave for now.
func (f *futile) holds(id annex.ID, now annex.Moment) bool {
	return now < f.all.until || now < f.of[id].until
}

func (f *futile) forget(id annex.ID) { delete(f.of, id) }

// problem is what an operator should know; empty where evictions free what they should. why is the cause
// of the last that did not.
func (f *futile) problem(now annex.Moment, why string) string {
	paused := now < f.all.until
	for id := range f.of {
		paused = paused || f.holds(id, now)
	}
	if !paused {
		return ""
	}
	return fmt.Sprintf("evictions freed nothing, and pause for %v each time (%s)", vainPause, cmp.Or(why, "the cause is unknown"))
}
