package daemon

import (
	"sync"
	"time"

	"tare/annex/media"
	"tare/kernel/swap"
)

// areas are the swap areas that are in use, as one medium. An operator may take one out of
// use, or put another to use, while the daemon runs: so they are looked up anew.
type areas struct {
	host swap.Host
	// failing are those that fail; nil where nobody knows.
	failing *failing

	mu  sync.Mutex
	all media.Together
	at  time.Time
}

// areasFor is for how long what was looked up holds.
const areasFor = 5 * time.Second

// inUse are the areas; those of before where the kernel does not tell, or has none any more. The
// same ones stay, with what they have open.
func (a *areas) inUse() media.Together {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.at) < areasFor {
		return a.all
	}
	a.at = time.Now()
	if all, err := media.InUse(a.host); err == nil && len(all) > 0 && media.Together(all).Name() != a.all.Name() {
		a.all = all
	}
	return a.all
}

func (a *areas) Name() string                      { return a.inUse().Name() }
func (a *areas) Kind() media.Kind                  { return a.inUse().Kind() }
func (a *areas) Room() (media.Room, error)         { return a.inUse().Room() }
func (a *areas) Counters() (media.Counters, error) { return a.inUse().Counters() }
func (a *areas) Reading() (int, error)             { return a.inUse().Reading() }

// Filling is the one that the next pages go to.
func (a *areas) Filling() media.Medium {
	if all := a.inUse(); len(all) > 0 {
		return all.Filling()
	}
	return a
}

// Traits are those of the areas. Of one that fails each page is read for itself: with those that cannot be
// read the kernel takes all that were read together for lost, until it drops them.
func (a *areas) Traits() media.Traits {
	t := a.inUse().Traits()
	if a.failing != nil && a.failing.isUnreadable.Load() {
		t.Chunk, t.Gap = 1, 0
	}
	return t
}
