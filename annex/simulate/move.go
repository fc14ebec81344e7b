package simulate

import (
	"slices"
	"time"

	"tare/annex"
)

// lane is what media have been asked for of one direction, one chunk at a time.
type lane struct {
	queue []annex.Request
	busy  bool
	done  annex.Result // of the first request, so far
	rest  []annex.Run
	begun bool
}

// chunkMost is how many pages are moved at once, so that demand does not wait for more.
const chunkMost = 64

// move goes on with what was asked for.
func (m *managed) move(l *lane) {
	w := m.world
	if l.busy || len(l.queue) == 0 {
		return
	}
	r := &l.queue[0]
	if !l.begun {
		l.begun, l.rest = true, slices.Clone(r.Runs)
		l.done = annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: w.now, Asked: annex.Count(r.Runs)}
	}
	var pages []int32
	asked := 0
	c := w.byID[r.ID]
	for asked < chunkMost && len(l.rest) > 0 {
		run := &l.rest[0]
		if s := c.spaces[run.Space]; s != nil {
			if i := s.find(run.First); i != 0 {
				pages = append(pages, i)
			}
		}
		asked++
		run.First++
		if run.Pages--; run.Pages == 0 {
			l.rest = l.rest[1:]
		}
	}
	l.busy = true
	var moved, cached []int32
	began := w.now
	w.device.do(job{
		begin: func() time.Duration {
			if r.By != 0 && w.now > r.By {
				l.done.Stopped = true
				l.rest = nil
				return 0
			}
			began = w.now
			var took time.Duration
			if r.Op == annex.Evict {
				moved, cached, took = w.beginEvict(pages)
			} else {
				moved, took = w.beginFetch(pages, r.Op == annex.Map)
			}
			return took
		},
		done: func() {
			l.busy = false
			if r.Op == annex.Evict {
				l.done.Moved += w.wrote(moved, began)
				l.done.Cached += w.wrote(cached, began)
				l.done.Freed = l.done.Moved + l.done.Cached
				w.headroom()
			} else {
				w.endFetch(moved, r.Op == annex.Map, began)
				l.done.Moved += len(moved)
			}
			if !l.done.Stopped {
				l.done.Skipped = l.done.Asked - annex.Count(l.rest) - l.done.Moved
			}
			if len(l.rest) == 0 {
				l.done.Ended = w.now
				l.queue = l.queue[1:]
				l.begun = false
				m.Done(l.done)
				m.soonest = min(m.soonest, w.now)
				m.plan(w.now)
			}
			m.move(l)
		},
	}, false)
}

// beginEvict begins to write what may leave. What was brought in and is not mapped yet is
// cached: it has to be reclaimed only.
func (w *world) beginEvict(pages []int32) (write, cached []int32, took time.Duration) {
	m := w.memory
	us := 0.0
	for _, i := range pages {
		p := &m.pages[i]
		if p.flags&resident == 0 || p.flags&(coming|leaving|shared) != 0 || p.list == criticals {
			continue
		}
		clean := p.flags&dirty == 0
		if !clean && !m.put(i) {
			w.noSwap = true
			break
		}
		us += w.host.Medium.Write
		if clean {
			us += w.host.Medium.Drop - w.host.Medium.Write
		}
		if p.flags&mapped == 0 {
			cached = append(cached, i)
		} else {
			write = append(write, i)
		}
		m.leaves(i)
	}
	w.moving += len(write) + len(cached)
	return write, cached, micros(us)
}

// beginFetch begins to read what is away, as far as there is room.
func (w *world) beginFetch(pages []int32, mapping bool) (read []int32, took time.Duration) {
	m := w.memory
	var places []int32
	for _, i := range pages {
		p := &m.pages[i]
		if p.place == none || p.flags&(resident|coming) != 0 || m.free() <= 0 {
			continue
		}
		m.come(i)
		m.pages[i].flags |= coming | unused
		read = append(read, i)
		places = append(places, p.place)
	}
	w.moving += len(read)
	slices.Sort(places)
	took = w.host.Medium.fetch(places)
	if mapping {
		took += micros(w.host.Medium.Map * float64(len(read)))
	}
	return read, took
}

func (w *world) endFetch(read []int32, mapping bool, began annex.Moment) {
	if w.counted(began) {
		w.in += len(read)
		w.ahead += len(read)
	}
	for _, i := range read {
		if p := &w.memory.pages[i]; mapping && p.flags&coming != 0 {
			p.flags |= mapped
		}
	}
	w.came(read)
}
