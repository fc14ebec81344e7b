package simulate

import (
	"time"

	"tare/annex"
)

// reclaim has up to n of the least recently used pages leave: those with a good copy in swap
// at once, the others when they are written. done is called when there is nothing left to
// wait for; found is how many leave, and with none it is not called.
func (w *world) reclaim(n int, spareCritical, urgent bool, done func()) (found int) {
	m := w.memory
	var write []int32
	began := w.now
	for _, i := range m.victims(n, spareCritical) {
		p := &m.pages[i]
		if p.flags&dirty == 0 {
			w.gone(i)
			found++
			continue
		}
		if !m.put(i) {
			w.noSwap = true
			continue
		}
		m.leaves(i)
		write = append(write, i)
		found++
	}
	drop := micros(w.host.Medium.Drop * float64(found-len(write)))
	switch {
	case found == 0:
		return 0
	case len(write) == 0: // nothing for the device
		w.at(w.now.After(drop), done)
		return found
	}
	w.moving += len(write)
	w.device.do(job{
		begin: func() time.Duration { return drop + micros(w.host.Medium.Write*float64(len(write))) },
		done: func() {
			w.wrote(write, began)
			done()
		},
	}, urgent)
	return found
}

// wrote frees the pages that were written, or had a good copy, and were not used meanwhile.
func (w *world) wrote(pages []int32, began annex.Moment) (freed int) {
	w.moving -= len(pages)
	for _, i := range pages {
		p := &w.memory.pages[i]
		if w.counted(began) && p.flags&dirty != 0 {
			w.out++
		}
		if p.flags&leaving == 0 {
			continue
		}
		p.flags &^= dirty | leaving
		w.gone(i)
		freed++
	}
	return freed
}

// gone has a page leave.
func (w *world) gone(i int32) {
	if w.memory.pages[i].flags&unused != 0 && w.counted(w.now) {
		w.wasted++
	}
	w.memory.leave(i, w.now)
}
