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
	host    swap.Host
	changed func(media.Together) // told when others are in use than before; nil is nobody

	mu  sync.Mutex
	all media.Together
	at  time.Time
}

// areasFor is for how long what was looked up holds.
const areasFor = 5 * time.Second

// inUse are the areas; those of before where the kernel does not tell, or has none any more.
func (a *areas) inUse() media.Together {
	all, others := a.look()
	if others && a.changed != nil {
		a.changed(all)
	}
	return all
}

// look gives them, and tells whether they are others than before.
func (a *areas) look() (all media.Together, others bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.at) < areasFor {
		return a.all, false
	}
	a.at = time.Now()
	before := a.all
	// The same ones stay, with what they have open.
	if all, err := media.InUse(a.host); err == nil && len(all) > 0 && media.Together(all).Name() != before.Name() {
		a.all = all
	}
	return a.all, len(before) > 0 && before.Name() != a.all.Name()
}

func (a *areas) Name() string                      { return a.inUse().Name() }
func (a *areas) Kind() media.Kind                  { return a.inUse().Kind() }
func (a *areas) Traits() media.Traits              { return a.inUse().Traits() }
func (a *areas) Room() (media.Room, error)         { return a.inUse().Room() }
func (a *areas) Counters() (media.Counters, error) { return a.inUse().Counters() }
func (a *areas) Reading() (int, error)             { return a.inUse().Reading() }
