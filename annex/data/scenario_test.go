package data

import (
	"math"
	"testing"
	"time"

	"tare/annex"
)

// load is what containers do in a scenario.
type load struct {
	boxes, pages, limit int
	wakes               func(w *world, i int) func() time.Duration
	burst               func(w *world, i int) func(n int) []int
	shared, light       int
	little              time.Duration
	minutes             int // that count; 0 is 5
}

// play lets it run with and without the extension; the first minutes are for learning.
func (l load) play(t *testing.T, managed bool) (sum, *world) {
	w := newWorld(t, l.limit, managed, 11)
	for i := range l.boxes {
		b := w.add(l.pages, annex.Elastic, l.wakes(w, i), l.burst(w, i))
		b.shared, b.light, b.little = l.shared, l.light, l.little
	}
	minutes := l.minutes
	if minutes == 0 {
		minutes = 5
	}
	w.until(annex.Moment(3 * time.Minute))
	w.forget()
	w.until(w.now.After(time.Duration(minutes) * time.Minute))
	return w.sum(), w
}

// periodic wakes about every 12 s, each container with a period of its own, with a deviation of
// 1 %.
func periodic(w *world, i int) func() time.Duration {
	begun := false
	return func() time.Duration {
		if !begun {
			begun = true
			return time.Second + time.Duration(i)*397*time.Millisecond
		}
		return time.Duration((12 + 0.037*float64(i) + w.random.NormFloat64()*0.12) * float64(time.Second))
	}
}

func poisson(w *world, _ int) func() time.Duration {
	return func() time.Duration { return time.Duration(w.random.ExpFloat64() * float64(12*time.Second)) }
}

// half is a stable half of the pages, in an order of its own, in runs of eight.
func half(pages int) func(w *world, i int) func(int) []int {
	return func(w *world, _ int) func(int) []int {
		order := w.random.Perm(pages / 8)[:pages/16]
		var touch []int
		for _, r := range order {
			for k := range 8 {
				touch = append(touch, r*8+k)
			}
		}
		return func(int) []int { return touch }
	}
}

// thirty containers over twice what there is.
func thirty(l load) load {
	if l.boxes == 0 {
		l.boxes = 30
	}
	if l.pages == 0 {
		l.pages = 512
	}
	if l.limit == 0 {
		l.limit = l.boxes * l.pages * 45 / 100
	}
	if l.wakes == nil {
		l.wakes = periodic
	}
	if l.burst == nil {
		l.burst = half(l.pages)
	}
	return l
}

// TestMurmurs has servers with timers: each second they need the same few pages, and each
// twelfth they do work. Those pages stay: were they to leave each time that their container
// sleeps, each second would find them gone, look like work, and hide when that comes.
func TestMurmurs(t *testing.T) {
	const timer, each = 24, 12
	l := load{light: timer, wakes: func(w *world, i int) func() time.Duration {
		begun := false
		return func() time.Duration {
			if !begun {
				begun = true
				return time.Second + time.Duration(i)*397*time.Millisecond
			}
			return time.Second
		}
	}, burst: func(w *world, i int) func(int) []int {
		work := half(512)(w, i)(0)
		murmur := make([]int, timer)
		for k := range murmur {
			murmur[k] = 20 * k
		}
		return func(n int) []int {
			if n%each == 0 {
				return work
			}
			return murmur
		}
	}}
	s, w := thirty(l).play(t, true)
	t.Logf("annex %+v\n%v", s, w.requests)
	murmurs := 0
	for _, b := range w.boxes {
		murmurs += b.bursts
	}
	if s.demand > 2*murmurs {
		t.Errorf("%d demand faults in %d wakes: want next to none in murmurs", s.demand, murmurs)
	}
	for _, c := range w.m.contexts {
		if worked := c.activity.count * each; worked > 2*w.box(c.info.ID).bursts {
			t.Errorf("%s did work %d times as far as is known, in %d wakes of which one in %d does", c.info.ID, c.activity.count, w.box(c.info.ID).bursts, each)
		}
	}
}

func TestPeriodic(t *testing.T) {
	stock, _ := thirty(load{}).play(t, false)
	s, w := thirty(load{}).play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v", stock, s, w.requests)
	if s.demand*10 > stock.demand {
		t.Errorf("%d demand faults, and %d without: want a tenth at most", s.demand, stock.demand)
	}
	if came := s.use.Fetched + s.use.Mapped; s.use.Wasted*4 > came {
		t.Errorf("%d of %d pages were brought in in vain: want a quarter at most", s.use.Wasted, came)
	}
	if s.reclaims > 0 {
		t.Errorf("the kernel had to reclaim %d pages: want headroom", s.reclaims)
	}
}

func TestPoisson(t *testing.T) {
	for _, percent := range []int{45, 35, 25} {
		l := thirty(load{wakes: poisson, limit: 30 * 512 * percent / 100})
		stock, _ := l.play(t, false)
		s, w := l.play(t, true)
		t.Logf("%d%%\nstock %+v\nannex %+v\n%v", percent, stock, s, w.requests)
		if s.wait > stock.wait || s.demand*2 > stock.demand {
			t.Errorf("%d %%: a burst takes %v with %d demand faults, and %v with %d without: want it shorter, with half at most", percent, s.wait, s.demand, stock.wait, stock.demand)
		}
		if s.reclaims > 0 {
			t.Errorf("%d %%: the kernel had to reclaim %d pages: want headroom", percent, s.reclaims)
		}
	}
}

// TestDrift moves the working set on by a twentieth with each burst.
func TestDrift(t *testing.T) {
	l := thirty(load{burst: func(w *world, i int) func(int) []int {
		return func(n int) []int {
			touch := make([]int, 256)
			for k := range touch {
				touch[k] = (n*13 + k) % 512
			}
			return touch
		}
	}})
	stock, _ := l.play(t, false)
	s, w := l.play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v", stock, s, w.requests)
	if s.wait*2 > stock.wait {
		t.Errorf("a burst takes %v, and %v without: want half at most", s.wait, stock.wait)
	}
}

// TestStays has a fifth of the containers at work, several times a second all together, and others
// after a while. A burst that finds its pages in memory takes little, and is as good a reason to
// leave them there as one that does not.
func TestStays(t *testing.T) {
	l := thirty(load{boxes: 20, little: 5 * time.Millisecond})
	const bursts, away = 8, 26 * time.Second
	l.wakes = func(w *world, i int) func() time.Duration {
		n := 0
		return func() time.Duration {
			if n++; n == 1 {
				return time.Second + time.Duration(i)*1600*time.Millisecond
			}
			apart := 200*time.Millisecond + time.Duration(w.random.ExpFloat64()*float64(600*time.Millisecond))
			if n%bursts == 0 {
				return away + apart
			}
			return apart
		}
	}
	stock, _ := l.play(t, false)
	s, w := l.play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v", stock, s, w.requests)
	// With these bursts taken for probes it is 4.3 %.
	if s.use.Errors*28 > s.use.Evicted || s.use.Wasted*4 > s.use.Fetched {
		t.Errorf("%d pages left, and %d of them were missed at once; %d were brought, and %d of these left unused", s.use.Evicted, s.use.Errors, s.use.Fetched, s.use.Wasted)
	}
	if s.wait*2 > stock.wait {
		t.Errorf("a burst takes %v, and %v without: want half at most", s.wait, stock.wait)
	}
}

// TestScanThroughEverything has each burst go through the next eighth of all pages.
func TestScanThroughEverything(t *testing.T) {
	l := thirty(load{burst: func(w *world, i int) func(int) []int {
		return func(n int) []int {
			touch := make([]int, 64)
			for k := range touch {
				touch[k] = (n*64 + k) % 512
			}
			return touch
		}
	}})
	stock, _ := l.play(t, false)
	s, w := l.play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v", stock, s, w.requests)
	if float64(s.wait) > 1.05*float64(stock.wait) {
		t.Errorf("a burst takes %v, and %v without: want it no longer", s.wait, stock.wait)
	}
}

// TestCollection has each eighth burst touch everything, as a full garbage collection does.
func TestCollection(t *testing.T) {
	l := thirty(load{})
	l.burst = func(w *world, i int) func(int) []int {
		usual := half(512)(w, i)
		return func(n int) []int {
			if (n+i)%8 != 7 {
				return usual(n)
			}
			all := make([]int, 512)
			for k := range all {
				all[k] = k
			}
			return all
		}
	}
	stock, _ := l.play(t, false)
	s, w := l.play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v", stock, s, w.requests)
	if s.wait*2 > stock.wait {
		t.Errorf("a burst takes %v, and %v without: want half at most", s.wait, stock.wait)
	}
}

// TestShared has a quarter of each container's pages mapped by several processes, as after a fork.
func TestShared(t *testing.T) {
	s, w := thirty(load{shared: 128}).play(t, true)
	t.Logf("annex %+v\n%v, %d in vain", s, w.requests, w.vain)
	if s.use.Evicted == 0 || w.vain*20 > s.use.Evicted {
		t.Errorf("%d pages were to leave that are shared, and %d left: want a twentieth at most", w.vain, s.use.Evicted)
	}
}

// TestProbes asks each container every second whether it is well, beside its work every 12 s.
func TestProbes(t *testing.T) {
	l := thirty(load{boxes: 20})
	l.wakes = func(w *world, i int) func() time.Duration {
		n := 0
		return func() time.Duration {
			if n++; n == 1 {
				return time.Second + time.Duration(i)*397*time.Millisecond
			}
			return time.Second
		}
	}
	l.burst = func(w *world, i int) func(int) []int {
		work := half(512)(w, i)
		return func(n int) []int {
			if n%12 == 11 {
				return work(n)
			}
			return work(n)[:3]
		}
	}
	stock, _ := l.play(t, false)
	s, w := l.play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v", stock, s, w.requests)
	for _, c := range w.m.Status().Contexts {
		if c.Activations > 48 || c.Probes < 300 {
			t.Errorf("%s: %d activations and %d probes: want 40 and 440", c.ID, c.Activations, c.Probes)
		}
	}
	if s.wait*2 > stock.wait {
		t.Errorf("a burst takes %v, and %v without: want half at most", s.wait, stock.wait)
	}
}

// TestLargerThanMemory has containers that never rest make use of twice what there is: nothing
// can help, and nothing may get worse.
func TestLargerThanMemory(t *testing.T) {
	l := load{boxes: 4, pages: 512, limit: 1024, minutes: 1}
	l.wakes = func(*world, int) func() time.Duration { return func() time.Duration { return 101 * time.Millisecond } }
	l.burst = func(w *world, i int) func(int) []int {
		return func(int) []int {
			touch := make([]int, 128)
			for k := range touch {
				touch[k] = w.random.IntN(512)
			}
			return touch
		}
	}
	stock, _ := l.play(t, false)
	s, w := l.play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v %s", stock, s, w.requests, w.m.Status().Degraded)
	if float64(s.wait) > 1.1*float64(stock.wait) {
		t.Errorf("a burst takes %v, and %v without: want it no longer than by a tenth", s.wait, stock.wait)
	}
}

// TestEveryoneAtOnce wakes all at the full minute.
func TestEveryoneAtOnce(t *testing.T) {
	l := thirty(load{})
	l.wakes = func(w *world, i int) func() time.Duration {
		return func() time.Duration {
			minute := annex.Moment(time.Minute)
			at := (w.now/minute + 1) * minute
			return at.Since(w.now) + time.Duration(i)*time.Millisecond + time.Millisecond
		}
	}
	stock, _ := l.play(t, false)
	s, w := l.play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v", stock, s, w.requests)
	if s.wait > stock.wait {
		t.Errorf("a burst takes %v, and %v without: want it no longer", s.wait, stock.wait)
	}
}

// TestHeavyTail has the times between activations from a Pareto distribution of shape 1.5.
func TestHeavyTail(t *testing.T) {
	l := thirty(load{})
	l.wakes = func(w *world, _ int) func() time.Duration {
		return func() time.Duration {
			return min(time.Duration(float64(4*time.Second)/math.Pow(1-w.random.Float64(), 1/1.5)), 5*time.Minute)
		}
	}
	stock, _ := l.play(t, false)
	s, w := l.play(t, true)
	t.Logf("stock %+v\nannex %+v\n%v", stock, s, w.requests)
	if s.wait > stock.wait || s.demand*2 > stock.demand {
		t.Errorf("a burst takes %v with %d demand faults, and %v with %d without: want it shorter, with half at most", s.wait, s.demand, stock.wait, stock.demand)
	}
}
