package data

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tare/annex"
)

// TestWhateverHappens gives random observations, true and false ones, and has each request be
// one that may be made: of a managed container, of pages that are where the manager was told
// last, in no other request, within the bounds; and the same observations give the same
// requests.
func TestWhateverHappens(t *testing.T) {
	for seed := range uint64(60) {
		first, second := whatever(t, seed), whatever(t, seed)
		if !slices.Equal(first, second) {
			t.Fatalf("seed %d: the same observations gave other requests", seed)
		}
	}
}

// where is what a test has told of pages: the state that a request may rest on.
type where map[annex.Run]*struct{ in, out, shared bool }

func whatever(t *testing.T, seed uint64) (log []string) {
	r := rand.New(rand.NewPCG(seed, 2))
	p := Policy{Headroom: Headroom{Low: 200 * annex.PageSize}, Flow: Flow{MostLeaving: 128, MostComing: 128, Piece: 32}, Probes: Probes{ProbePages: 8}}
	m := New(p)
	p = m.policy
	now := annex.Moment(time.Second)
	classes := map[annex.ID]annex.Class{}
	ids := []annex.ID{"a", "b", "c", "d", "e"}
	pagesOf := map[annex.ID]where{}
	underWay := map[uint64]annex.Request{}
	busy := map[annex.Run]uint64{}
	back := map[annex.Run]bool{} // missed while they were on their way
	swapFree := 400 + r.IntN(1000)
	single := func(id annex.ID, page annex.Page) annex.Run {
		return annex.Run{Space: annex.Space{PID: int32(id[0])}, First: page}
	}
	at := func(id annex.ID, page annex.Page) *struct{ in, out, shared bool } {
		if pagesOf[id] == nil {
			pagesOf[id] = where{}
		}
		w := pagesOf[id][single(id, page)]
		if w == nil {
			w = &struct{ in, out, shared bool }{}
			pagesOf[id][single(id, page)] = w
		}
		return w
	}
	for range 400 {
		now = now.After(time.Duration(r.ExpFloat64() * float64(300*time.Millisecond)))
		id := ids[r.IntN(len(ids))]
		switch r.IntN(12) {
		case 0:
			if r.IntN(6) == 0 {
				m.Remove(id)
				delete(classes, id)
				delete(pagesOf, id)
				break
			}
			classes[id] = annex.Classes[r.IntN(4)%3]
			if r.IntN(2) == 0 {
				classes[id] = annex.Elastic
			}
			m.Add(ContextInfo{ID: id, Class: classes[id], At: now})
			if classes[id] != annex.Elastic {
				delete(pagesOf, id)
			}
		case 1, 2:
			if classes[id] != annex.Elastic {
				break
			}
			n := 50 + r.IntN(200)
			s := annex.Scan{ID: id, Space: annex.Space{PID: int32(id[0])}, Began: now, Ended: now, KnowsAccess: r.IntN(2) == 0}
			states := make([]annex.State, n)
			known := pagesOf[id]
			pagesOf[id] = where{}
			for i := range states {
				switch r.IntN(5) {
				case 0:
					states[i] = annex.Swapped
				case 1:
				case 2:
					states[i] = annex.Present | annex.Shared
				default:
					states[i] = annex.Present | annex.State(r.IntN(2))*annex.Accessed
				}
				w := at(id, annex.Page(i))
				st := states[i]
				w.in, w.out, w.shared = st.Has(annex.Present), st.Has(annex.Swapped), st.Has(annex.Shared)
				// Of pages that are on their way, or were since, the result says more.
				if before := known[single(id, annex.Page(i))]; before != nil {
					w.in, w.out = w.in || before.in, w.out || before.out
				}
			}
			s.Stretches = []annex.Stretch{{States: states}}
			m.Scan(s)
		case 3:
			m.Activity(annex.Activity{ID: id, What: annex.Woke, At: now})
		case 4:
			m.Activity(annex.Activity{ID: id, What: annex.Slept, At: now, CPU: time.Duration(r.IntN(40)) * time.Millisecond})
		case 5, 6:
			var faults []annex.Fault
			if classes[id] != annex.Elastic {
				break
			}
			for range 1 + r.IntN(40) {
				page := annex.Page(r.IntN(260))
				faults = append(faults, annex.Fault{ID: id, Space: annex.Space{PID: int32(id[0])}, Page: page, At: now, Swapped: r.IntN(4) > 0})
				if key := single(id, page); busy[key] != 0 {
					back[key] = true
				}
				w := at(id, page)
				w.in, w.out, w.shared = true, false, false // a write makes a page one's own
			}
			m.Faults(faults)
		case 7:
			m.Pressure(id, annex.Pressure{At: now, Some: time.Duration(now) / time.Duration(50+r.IntN(1000))})
		case 8, 9:
			m.Memory(annex.Memory{At: now, Limit: 1 << 30, Free: int64(r.IntN(600)) * annex.PageSize, SwapSize: 1 << 30, SwapFree: int64(swapFree)*annex.PageSize + 1<<24})
		case 10:
			if r.IntN(4) == 0 {
				m.Drain(r.IntN(2) == 0)
			}
		default:
			numbers := make([]uint64, 0, len(underWay))
			for n := range underWay {
				numbers = append(numbers, n)
			}
			slices.Sort(numbers)
			for _, n := range numbers {
				q := underWay[n]
				delete(underWay, n)
				pages := annex.Count(q.Runs)
				res := annex.Result{Number: n, ID: q.ID, Op: q.Op, Began: now - 1000, Ended: now, Asked: pages, Moved: pages}
				if r.IntN(4) == 0 {
					res.Moved = r.IntN(pages + 1)
					res.Skipped = r.IntN(pages - res.Moved + 1)
					res.Stopped = r.IntN(2) == 0
				}
				res.Freed = r.IntN(res.Moved + 1)
				for _, run := range q.Runs {
					for page := run.First; page < run.End(); page++ {
						key := annex.Run{Space: run.Space, First: page}
						returned := back[key]
						delete(busy, key)
						delete(back, key)
						if pagesOf[q.ID] == nil {
							continue
						}
						switch w := at(q.ID, page); {
						case q.Op == annex.Evict:
							w.in, w.out = w.in && (res.Moved < pages || returned), true
						case q.Op == annex.Map && res.Moved == pages:
							w.in, w.out = true, false
						default:
							w.in = true
						}
					}
				}
				m.Done(res)
			}
		}
		requests, next := m.Plan(now)
		if next != 0 && next <= now {
			t.Fatalf("seed %d: at %v it is to be planned again at %v", seed, now, next)
		}
		leaving := 0
		for _, q := range requests {
			log = append(log, fmt.Sprint(q))
			if classes[q.ID] != annex.Elastic {
				t.Fatalf("seed %d: %s is %q: nothing of it may be moved: %+v", seed, q.ID, classes[q.ID], q)
			}
			if n := annex.Count(q.Runs); n == 0 || n > p.Piece {
				t.Fatalf("seed %d: a request of %d pages: %+v", seed, n, q)
			}
			underWay[q.Number] = q
			for _, run := range q.Runs {
				for page := run.First; page < run.End(); page++ {
					key := annex.Run{Space: run.Space, First: page}
					if busy[key] != 0 {
						t.Fatalf("seed %d: page %d of %s is in requests %d and %d", seed, page, q.ID, busy[key], q.Number)
					}
					busy[key] = q.Number
					w := at(q.ID, page)
					if q.Op == annex.Evict && (!w.in || w.shared && !w.out) || q.Op != annex.Evict && !w.out {
						t.Fatalf("seed %d: %s page %d of %s, of which was told %+v", seed, q.Op, page, q.ID, *w)
					}
				}
			}
		}
		coming := 0
		for _, q := range underWay {
			if q.Op == annex.Evict {
				leaving += annex.Count(q.Runs)
			} else {
				coming += annex.Count(q.Runs)
			}
		}
		if leaving > p.MostLeaving || coming > p.MostComing || leaving > swapFree+1<<12 {
			t.Fatalf("seed %d: %d pages are leaving and %d coming: want %d and %d at most", seed, leaving, coming, p.MostLeaving, p.MostComing)
		}
	}
	for _, c := range m.contexts {
		check(t, c)
	}
	return log
}

// check counts all pages of a context, and compares that with what it keeps count of.
func check(t *testing.T, c *context) {
	t.Helper()
	var tally [256]int32
	for _, s := range c.pages.spaces {
		for i := range s.areas {
			for _, cell := range s.areas[i].cells {
				tally[cell.flags]++
			}
		}
	}
	if tally != c.pages.tally {
		t.Fatalf("%s: its pages are %v, and it counts %v", c.info.ID, tally, c.pages.tally)
	}
}

// TestWorldsAreTheSame has a whole scenario ask for the same twice.
func TestWorldsAreTheSame(t *testing.T) {
	run := func() []string {
		w := newWorld(t, 2000, true, 5)
		for i := range 10 {
			w.add(512, annex.Elastic, poisson(w, i), half(512)(w, i))
		}
		return w.until(annex.Moment(2 * time.Minute)).log
	}
	if a, b := run(), run(); len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("%d and %d requests, which are not the same", len(a), len(b))
	}
}

// TestNothingOfCriticalOnes has a critical container and an ignored one among those that are
// managed, while memory is short all the time.
func TestNothingOfCriticalOnes(t *testing.T) {
	w := newWorld(t, 3000, true, 5)
	for i := range 10 {
		class := annex.Elastic
		if i < 2 {
			class = annex.Classes[i*2]
		}
		w.add(512, class, poisson(w, i), half(512)(w, i))
	}
	w.until(annex.Moment(2 * time.Minute))
	for id, c := range w.m.byID {
		moved := 0
		for _, n := range c.account.asked {
			moved += n.Pages
		}
		if c.info.Class != annex.Elastic && moved > 0 {
			t.Errorf("%d pages of %s, which is %s, were asked for", moved, id, c.info.Class)
		}
	}
	if len(w.log) == 0 {
		t.Error("nothing was asked for at all")
	}
}
