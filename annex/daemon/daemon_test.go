package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/monitor"
	"tare/container"
)

const pages = mebibyte / annex.PageSize // a mebibyte's

// crowded is a host on which what runs leaves nothing free.
func crowded(h *host) {
	h.run("db", annex.Critical, 32*pages, 0)
	h.run("web", annex.Elastic, 44*pages, 0)
	h.run("batch", annex.Elastic, 44*pages, 0)
	h.run("cron", annex.Ignored, 4*pages, 0)
}

const box128 = 128 * mebibyte

// What is found is classed, watched, protected, and evicted from until there is headroom:
// from elastic containers alone.
func TestManage(t *testing.T) {
	manage(t, box128, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		awaits(t, time.Minute, "headroom", func() bool { m, _ := h.Memory(); return m.Free > 20*mebibyte })
		if h.swapped("db") > 0 || h.swapped("cron") > 0 {
			t.Error("pages left that are not elastic")
		}
		s := d.Status()
		if len(s.Contexts) != 3 || h.protected != 1 || h.reclaimed == 0 {
			t.Errorf("%d contexts, %d protected, %d reclaims: want 3, 1 and some", len(s.Contexts), h.protected, h.reclaimed)
		}
		h.mu.Lock()
		for name, b := range h.containers {
			if b.first != (name == "db") {
				t.Errorf("the daemon gives way to %s: %v", name, b.first)
			}
		}
		h.mu.Unlock()
		if h.gave.Load() == 0 || s.Weight.GaveWaySeconds == 0 {
			t.Errorf("it gave way %d times, and tells of %v s", h.gave.Load(), s.Weight.GaveWaySeconds)
		}
		awaits(t, time.Second, "as much told to have left as did", func() bool {
			return d.Status().Moved.EvictedBytes == int64(h.pages(annex.Evict))*annex.PageSize
		})
	})
}

// At rest memory is looked at about once a second, and nothing else is done.
func TestRest(t *testing.T) {
	manage(t, 1<<30, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		h.mu.Lock()
		before := h.memoryLooks
		h.mu.Unlock()
		time.Sleep(time.Minute)
		h.mu.Lock()
		defer h.mu.Unlock()
		if looks := h.memoryLooks - before; looks > 90 || looks < 30 {
			t.Errorf("memory was looked at %d times in a minute of rest", looks)
		}
	})
}

// A start finds out what had left before it.
func TestAdopt(t *testing.T) {
	manage(t, 1<<30, config.Manage, func(h *host) { h.run("web", annex.Elastic, 10, 20) }, func(t *testing.T, _ *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		if c := find(t, d, "web"); c.ResidentBytes != 10*annex.PageSize || c.ExtendedBytes != 20*annex.PageSize {
			t.Errorf("%d bytes in memory and %d in swap, want 10 and 20 pages", c.ResidentBytes, c.ExtendedBytes)
		}
	})
}

// What cannot be extended is told with what it has all the same.
func TestFixedHasItsSize(t *testing.T) {
	const resident, extended = 5 * annex.PageSize, 2 * annex.PageSize
	prepare := func(h *host) {
		h.run("web", annex.Elastic, 10, 20)
		h.fixed = map[string]string{"web": "it may have nothing in swap"}
	}
	manage(t, 1<<30, config.Manage, prepare, func(t *testing.T, _ *host, d *Daemon) {
		d.parts.Size = func(container.Container) (int64, int64, error) { return resident, extended, nil }
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		if c := find(t, d, "web"); c.Problem == "" || c.ResidentBytes != resident || c.ExtendedBytes != extended {
			t.Errorf("%+v", c)
		}
	})
}

// Pressure on a critical container ends eviction within the stated time, and none begins
// until it is over.
func TestBrake(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.each = time.Millisecond }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "an eviction", func() bool { return h.pages(annex.Evict) > 100 })
		ctx, calm := context.WithCancel(t.Context())
		go h.press(ctx, "db", 0.5)
		time.Sleep(2 * shortestStall)
		from := h.now()
		awaits(t, 10*time.Second, "the brake", func() bool { return d.Status().Brake.On })
		time.Sleep(StopWithin)
		stopped := h.pages(annex.Evict)
		time.Sleep(5 * time.Second)
		if more := h.pages(annex.Evict) - stopped; more > 0 {
			t.Errorf("%d pages left while critical containers waited", more)
		}
		if took := h.lastEvicted.Since(from); took > StopWithin {
			t.Errorf("the last page left %v after the pressure, want %v at most", took, StopWithin)
		}
		calm()
		awaits(t, time.Minute, "eviction again", func() bool { return h.pages(annex.Evict) > stopped })
	})
}

// A stop that is heeded late counts with all the time that it took, though the pressure was over
// long before.
func TestWorstStop(t *testing.T) {
	const each = 100 * time.Millisecond // so that a piece of 64 pages takes 6.4 s
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.each = each }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "an eviction", func() bool { return h.pages(annex.Evict) > 100 })
		ctx, calm := context.WithCancel(t.Context())
		go h.press(ctx, "db", 0.5)
		awaits(t, 10*time.Second, "the brake", func() bool { return d.Status().Brake.On })
		calm()
		awaits(t, time.Minute, "a time", func() bool { return d.Status().Brake.WorstStopSeconds != nil })
		if took := *d.Status().Brake.WorstStopSeconds; took < time.Second.Seconds() {
			t.Errorf("stopped within %.3f s, by a mover that goes on for up to %v", took, 64*each)
		}
	})
}

// Where free memory cannot be read, nothing leaves.
func TestBlind(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.memoryErr = errors.New("no such file") }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		time.Sleep(10 * time.Second)
		if n := h.pages(annex.Evict); n > 0 || !d.Status().Brake.On {
			t.Errorf("%d pages left without a look at memory", n)
		}
	})
}

// Observing moves nothing, decides all the same, and finds out what was wrong.
func TestObserve(t *testing.T) {
	manage(t, box128, config.Observe, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "observing", state(d, control.Observing))
		awaits(t, time.Minute, "headroom, in the shadow", func() bool { return d.Status().Observed.FreeBytes >= 24*mebibyte })
		if h.protected > 0 || h.pages(annex.Evict) > 0 || h.reclaimed > 0 {
			t.Error("something was changed")
		}
		var web int64
		awaits(t, time.Second, "pages in the shadow", func() bool {
			web = find(t, d, "web").Observed.ExtendedBytes + find(t, d, "batch").Observed.ExtendedBytes
			return web > 0
		})
		s := d.Status()
		if m, _ := h.Memory(); s.Memory.FreeBytes != m.Free || s.Moved.EvictedBytes != 0 {
			t.Errorf("%d bytes free and %d moved, want what is: %d, and 0", s.Memory.FreeBytes, s.Moved.EvictedBytes, m.Free)
		}
		for _, c := range s.Contexts {
			if c.ExtendedBytes != 0 || c.Moved.EvictedBytes != 0 {
				t.Errorf("%s has %d bytes in swap, and %d left: nothing moves", c.Name, c.ExtendedBytes, c.Moved.EvictedBytes)
			}
		}
		// Everything is used, which the next scan shows.
		h.mu.Lock()
		for _, name := range []string{"web", "batch"} {
			for i := range h.containers[name].states {
				h.containers[name].states[i] |= annex.Accessed
			}
		}
		h.mu.Unlock()
		for _, name := range []annex.ID{"web", "batch"} {
			h.tell(monitor.Batch{Activity: []annex.Activity{{ID: name, What: annex.Woke, At: h.now()}}})
		}
		awaits(t, time.Minute, "faults that would have been", func() bool { return d.Status().Observed.AddedFaults > 0 })
		if o := d.Status().Observed; o.WrongShare == nil || *o.WrongShare == 0 {
			t.Errorf("no mistake among %d bytes that would have left and were used", o.EvictedBytes)
		}
	})
}

// What was under way when the mode became observe has moved, and is in the account of what has.
func TestObserveFromNowOn(t *testing.T) {
	slow := func(h *host) { crowded(h); h.each = time.Millisecond }
	manage(t, box128, config.Manage, slow, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "an eviction under way", func() bool { return h.pages(annex.Evict) > 0 })
		d.parts.Read = func(bool) (Settings, []string, error) { return h.settings(config.Observe), nil, nil }
		before := d.Status().Moved.EvictedBytes
		if _, err := d.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, 10*time.Second, "observing", state(d, control.Observing))
		time.Sleep(time.Second)
		moved := int64(h.pages(annex.Evict)) * annex.PageSize
		if s := d.Status(); s.Moved.EvictedBytes != moved || moved == before {
			t.Errorf("%d bytes are told to have left, of which %d before the mode changed: want %d, and more", s.Moved.EvictedBytes, before, moved)
		}
	})
}

// Everything comes back at the rate that was asked for, and nothing leaves after that until
// a reload.
func TestDrain(t *testing.T) {
	manage(t, box128, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "headroom", func() bool { m, _ := h.Memory(); return m.Free > 20*mebibyte })
		// Somebody ends, so that everything fits.
		h.end("cron")
		h.mu.Lock()
		h.limit += 64 * mebibyte
		h.mu.Unlock()
		left := h.swapped("web") + h.swapped("batch")
		began := h.now()
		if err := d.Drain(t.Context(), 4*mebibyte); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Minute, "drained", state(d, control.Drained))
		if n := h.swapped("web") + h.swapped("batch"); n > 0 {
			t.Errorf("%d pages have not come back", n)
		}
		least := time.Duration(float64(left*annex.PageSize-2*mebibyte) / (4 * mebibyte) * float64(time.Second))
		if took := h.now().Since(began); took < least {
			t.Errorf("%d pages came back in %v: faster than 4 MiB a second", left, took)
		}
		h.mu.Lock()
		h.limit -= 64 * mebibyte
		h.mu.Unlock()
		before := h.pages(annex.Evict)
		time.Sleep(10 * time.Second)
		if h.pages(annex.Evict) != before {
			t.Error("pages left after a drain")
		}
		if _, err := d.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Minute, "eviction after a reload", func() bool { return h.pages(annex.Evict) > before })
	})
}

// A drain that is asked for before it is known what had left ends when that is back.
func TestDrainAtTheStart(t *testing.T) {
	manage(t, 1<<30, config.Manage, func(h *host) {
		h.run("web", annex.Elastic, 10, 20)
		h.stuck = make(chan struct{})
	}, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Second, "the container", func() bool { return len(d.Status().Contexts) == 1 })
		if err := d.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(scanWithin / 2)
		if s := d.Status().State; s != control.Draining {
			t.Errorf("it is %s before what had left is known", s)
		}
		h.stuck <- struct{}{}
		awaits(t, time.Minute, "drained", state(d, control.Drained))
		if n := h.swapped("web"); n > 0 {
			t.Errorf("%d pages have not come back", n)
		}
	})
}

// A limit that was set after the last look at the containers holds for what comes back.
func TestDrainWithinALimitOfJustNow(t *testing.T) {
	manage(t, 1<<30, config.Manage, func(h *host) { h.run("web", annex.Elastic, 4*pages, 40*pages) }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		h.mu.Lock()
		h.containers["web"].limit = 24 * mebibyte
		h.mu.Unlock()
		if err := d.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Minute, "drained", state(d, control.Drained))
		if n := h.swapped("web"); n < 20*pages || n > 24*pages {
			t.Errorf("%d MiB stay in swap; of 44 24 may be in memory", n/pages)
		}
	})
}

// What does not fit stays where it is, and the status says so; every setting is put back.
func TestOff(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.run("big", annex.Elastic, 0, 64*pages) }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		if err := d.Off(t.Context()); err != nil {
			t.Fatal(err)
		}
		looked := h.looked()
		d.look() // which sets nothing again while everything comes back
		awaits(t, 15*time.Second, "a look", func() bool { return h.looked() > looked && h.protectedNow() == 0 })
		awaits(t, time.Minute, "off", state(d, control.Off))
		if n := h.protectedNow(); n != 0 {
			t.Errorf("%d containers are protected though all is off", n)
		}
		s := d.Status()
		if s.Drain == nil || s.Drain.LeftBytes == 0 || s.Drain.Problem == "" {
			t.Errorf("64 MiB more than there is room for: %+v", s.Drain)
		}
		if m, _ := h.Memory(); m.Free == 0 || h.released == 0 {
			t.Errorf("%d bytes free, %d releases", m.Free, h.released)
		}
		var refused *control.Refused
		if err := d.Drain(t.Context(), 0); !errors.As(err, &refused) {
			t.Errorf("a drain while off: %v", err)
		}
		if _, err := d.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Minute, "managing again", state(d, control.Managing))
		awaits(t, time.Minute, "protection again", func() bool { return h.protectedNow() == 1 })
	})
}

// What is off reclaims nothing any more, for which settings are changed; a drain may end what is
// under way.
func TestOffEndsReclaim(t *testing.T) {
	for _, off := range []bool{true, false} {
		var reclaiming, ended annex.Moment
		prepare := func(h *host) {
			crowded(h)
			h.reclaim = func(ctx context.Context) (int64, error) {
				h.mu.Lock()
				reclaiming = h.now()
				h.mu.Unlock()
				<-ctx.Done()
				h.mu.Lock()
				ended = h.now()
				h.mu.Unlock()
				return 0, ctx.Err()
			}
		}
		manage(t, box128, config.Manage, prepare, func(t *testing.T, h *host, d *Daemon) {
			at := func(m *annex.Moment) annex.Moment { h.mu.Lock(); defer h.mu.Unlock(); return *m }
			awaits(t, time.Minute, "a reclaim", func() bool { return at(&reclaiming) > 0 })
			asked, order := h.now(), d.Off
			if !off {
				order = func(ctx context.Context) error { return d.Drain(ctx, 0) }
			}
			if err := order(t.Context()); err != nil {
				t.Fatal(err)
			}
			awaits(t, StopWithin, "the end of the reclaim", func() bool { return at(&ended) > 0 })
			if took := at(&ended).Since(asked); off && took > 0 {
				t.Errorf("the reclaim ends %v after annex off", took)
			}
		})
	}
}

// A critical container that its engine starts again, by the same id and in a control group of
// the same name, is protected and watched as the first one was.
func TestRestart(t *testing.T) {
	generation := "1"
	manage(t, 1<<30, config.Manage, func(h *host) {
		crowded(h)
		h.identify = func(c container.Container) annex.ID {
			if c.Name == "db" {
				return annex.ID("db@" + generation)
			}
			return annex.ID(c.Name)
		}
		h.alarm = &alarm{watched: map[string]int{}}
	}, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		awaits(t, time.Second, "protection", func() bool { return h.protectedNow() == 1 && h.alarm.has("db") })
		h.mu.Lock()
		generation = "2"
		h.mu.Unlock()
		d.look()
		awaits(t, 15*time.Second, "the second one", func() bool { return find(t, d, "db").ID == "db@2" })
		time.Sleep(time.Second)
		if n := h.protectedNow(); n != 1 || !h.alarm.has("db") {
			t.Errorf("%d protected, watched %v: want 1 and watched", n, h.alarm.has("db"))
		}
		// Where the kernel lets nobody watch it, the operator is told, and it is tried again.
		h.alarm.refuse("db", errors.New("no psi"))
		awaits(t, 15*time.Second, "a warning", func() bool {
			return slices.ContainsFunc(d.Status().Warnings, func(w string) bool { return strings.Contains(w, "no psi") })
		})
		h.alarm.refuse("db", nil)
		awaits(t, 15*time.Second, "watching again", func() bool { return h.alarm.has("db") && len(d.Status().Warnings) == 0 })
	})
}

// alarm is one that never tells, of containers by their ids.
type alarm struct {
	mu      sync.Mutex
	watched map[string]int
	err     error
}

func (a *alarm) Add(c container.Container) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.watched[c.ID] = 1
	}
	return a.err
}

func (a *alarm) Remove(c container.Container) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watched, c.ID)
}
func (a *alarm) Alarms() <-chan struct{} { return nil }
func (a *alarm) Over() bool              { return false }
func (a *alarm) Since() annex.Moment     { return 0 }
func (a *alarm) Evicting() func()        { return func() {} }

func (a *alarm) has(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watched["id-of-"+name] == 1
}

// refuse has the kernel watch a container no more.
func (a *alarm) refuse(name string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	delete(a.watched, "id-of-"+name)
}

// A wrong configuration changes nothing; a right one changes classes, at once.
func TestReload(t *testing.T) {
	manage(t, 1<<30, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		read := d.parts.Read
		d.parts.Read = func(bool) (Settings, []string, error) { return Settings{}, nil, errors.New("annex.toml:3: mode") }
		if _, err := d.Reload(t.Context()); err == nil || d.Status().State != control.Managing {
			t.Errorf("a wrong configuration: %v", err)
		}
		told := func() bool {
			return slices.ContainsFunc(d.Status().Warnings, func(w string) bool { return strings.Contains(w, "annex.toml:3: mode") })
		}
		if !told() {
			t.Error("the status does not tell of a reload that was refused")
		}
		h.mu.Lock()
		h.containers["web"].class = annex.Critical
		h.containers["batch"].class = annex.Ignored
		h.mu.Unlock()
		// What has been read is in force, though whoever asked for it leaves meanwhile.
		for n := range 20 {
			impatient, leave := context.WithCancel(t.Context())
			file := fmt.Sprint(n)
			d.parts.Read = func(bool) (Settings, []string, error) {
				leave()
				s, restart, err := read(true)
				s.File = file
				return s, restart, err
			}
			if _, err := d.Reload(impatient); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if got := d.Status().Config; got != file {
				t.Fatalf("what was read the %d. time is not in force", n+1)
			}
			if told() {
				t.Fatal("the status tells of a refused reload after one that was not")
			}
		}
		awaits(t, time.Second, "the classes", func() bool {
			s := d.Status()
			return len(s.Contexts) == 2 && find(t, d, "web").Class == annex.Critical
		})
		// Settings are written beside all else.
		awaits(t, time.Second, "protection", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.protected == 2 })
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.containers["web"].watched || h.containers["batch"].watched {
			t.Errorf("watched %v and %v", h.containers["web"].watched, h.containers["batch"].watched)
		}
		if !h.containers["web"].first || h.containers["batch"].first {
			t.Errorf("the daemon gives way to web, which is critical: %v, and to batch: %v", h.containers["web"].first, h.containers["batch"].first)
		}
	})
}

// A configuration is read for a daemon that is to begin to manage also after a drain, and after
// it was off: it is checked as a start is.
func TestReloadBegins(t *testing.T) {
	manage(t, 1<<30, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		var told []bool
		d.parts.Read = func(managing bool) (Settings, []string, error) {
			told = append(told, managing)
			return h.settings(config.Manage), nil, nil
		}
		reload := func() {
			t.Helper()
			if _, err := d.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		}
		reload()
		if err := d.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		reload()
		if err := d.Off(t.Context()); err != nil {
			t.Fatal(err)
		}
		reload()
		if want := []bool{true, false, false}; !slices.Equal(told, want) {
			t.Errorf("that it manages was told as %v, want %v", told, want)
		}
	})
}

// Who is awake when managing begins is looked at as often as anybody who is.
func TestReloadKnowsWhoIsAwake(t *testing.T) {
	manage(t, 1<<30, config.Observe, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "observing", state(d, control.Observing))
		h.tell(monitor.Batch{Activity: []annex.Activity{{ID: find(t, d, "web").ID, What: annex.Woke, At: h.now()}}})
		d.parts.Read = func(bool) (Settings, []string, error) { return h.settings(config.Manage), nil, nil }
		if _, err := d.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		before := h.scansOf("web")
		time.Sleep(2 * time.Minute)
		if n := h.scansOf("web") - before; n < 3 {
			t.Errorf("%d scans in two minutes of a container that is awake", n)
		}
	})
}

// What is made critical while its pages leave has none taken any more, whatever waits, and is
// protected when what was under way has ended.
func TestReclassify(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.each = time.Millisecond }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "an eviction", func() bool { return h.pages(annex.Evict) > 100 })
		h.mu.Lock()
		h.lateClass = map[string]annex.Class{"web": annex.Critical, "batch": annex.Critical}
		h.mu.Unlock()
		if _, err := d.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, 5*time.Second, "protection", func() bool { return h.protectedNow() == 3 })
		left := h.pages(annex.Evict)
		time.Sleep(10 * time.Second)
		if more := h.pages(annex.Evict) - left; more > 0 {
			t.Errorf("%d pages of critical containers left", more)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.early > 0 {
			t.Errorf("%d containers were protected while their pages left", h.early)
		}
	})
}

// Evictions that free nothing do not go on until everything has left.
func TestVain(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.vain = true }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "an eviction", func() bool { return h.pages(annex.Evict) > 100 })
		time.Sleep(vainPause / 2)
		if n := h.pages(annex.Evict); n > vainOfAll+mostTogether {
			t.Errorf("%d pages left, of which none was free: want no more than %d before a pause", n, vainOfAll+mostTogether)
		}
		if len(d.Status().Warnings) == 0 {
			t.Error("nothing is said of evictions that free nothing")
		}
		h.mu.Lock()
		h.vain = false
		h.mu.Unlock()
		awaits(t, 2*time.Minute, "headroom, when it is of use again", func() bool { m, _ := h.Memory(); return m.Free > 20*mebibyte })
	})
}

// What media hold of a process that has ended is let go.
func TestEndedProcesses(t *testing.T) {
	manage(t, box128, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		other := annex.Space{PID: 8, Started: 8}
		h.tell(monitor.Batch{Processes: []monitor.Process{
			{ID: "a", Space: theSpace, What: monitor.Forked, At: h.now()}, {ID: "a", Space: other, What: monitor.Ended, At: h.now()},
		}})
		awaits(t, time.Second, "letting go", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.Equal(h.forgot, []annex.Space{other})
		})
	})
}

// Scans that do not come back hold up neither the start nor the end.
func TestScanLeftBehind(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) {
		crowded(h)
		h.stuck = make(chan struct{})
	}, func(t *testing.T, _ *host, d *Daemon) {
		awaits(t, 3*scanWithin, "managing all the same", state(d, control.Managing))
	})
}

// While a scan of one container does not come back the others are looked at, and it is not,
// until that scan has come back.
func TestScanLeftBehindHoldsUpNoOther(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) {
		crowded(h)
		h.stuck, h.sticks = make(chan struct{}), "web"
	}, func(t *testing.T, h *host, d *Daemon) {
		works := func() {
			for _, name := range []annex.ID{"web", "batch"} {
				h.tell(monitor.Batch{Activity: []annex.Activity{{ID: name, What: annex.Woke, At: h.now()}}})
			}
		}
		awaits(t, 3*scanWithin, "managing all the same", state(d, control.Managing))
		works()
		awaits(t, 2*time.Minute, "more scans of the other", func() bool { return h.scansOf("batch") > 3 })
		if n := h.scansOf("web"); n != 1 {
			t.Errorf("%d scans of the stuck one were begun, want 1", n)
		}
		if problem := find(t, d, "web").Problem; !strings.Contains(problem, "state D") {
			t.Errorf("what is said of the stuck one: %q", problem)
		}
		if problem := find(t, d, "batch").Problem; problem != "" {
			t.Errorf("what is said of the other: %q", problem)
		}
		h.stuck <- struct{}{}
		awaits(t, time.Second, "nothing more to be said", func() bool { return find(t, d, "web").Problem == "" })
		works()
		awaits(t, 2*time.Minute, "another scan of it", func() bool { return h.scansOf("web") == 2 })
	})
}

// A pause that a request has caused goes on when a scan comes back.
func TestScanThatComesBackEndsItsPauseAlone(t *testing.T) {
	prepare := func(h *host) {
		h.run("web", annex.Elastic, 120*pages, 0)
		h.stuck, h.sticks = make(chan struct{}), "web"
		h.hangs = map[string]chan struct{}{"web": make(chan struct{})}
	}
	manage(t, box128, config.Manage, prepare, func(t *testing.T, h *host, d *Daemon) {
		h.stuck <- struct{}{} // the first scan
		awaits(t, time.Minute, "the pause", func() bool {
			return strings.Contains(find(t, d, "web").Problem, "set aside for")
		})
		h.tell(monitor.Batch{Activity: []annex.Activity{{ID: "web", What: annex.Woke, At: h.now()}}})
		isBehind := func() (is bool) {
			_ = d.do(t.Context(), func() { is = d.behind["web"] })
			return is
		}
		awaits(t, asideMost, "a pause, and a scan that is left behind", func() bool {
			return isBehind() && strings.Contains(find(t, d, "web").Problem, "set aside for")
		})
		h.stuck <- struct{}{}
		awaits(t, time.Second, "the scan", func() bool { return !isBehind() })
		if c := find(t, d, "web"); !c.Aside || !strings.Contains(c.Problem, "set aside for") {
			t.Errorf("its pause has ended with the scan: %+v", c)
		}
	})
}

// What a scan failed at is told until one does not.
func TestTroubleEnds(t *testing.T) {
	manage(t, 1<<30, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		fail := func(err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.scanErr = err
		}
		told := func() string { return find(t, d, "web").Problem }
		works := func() { h.tell(monitor.Batch{Activity: []annex.Activity{{ID: "web", What: annex.Woke, At: h.now()}}}) }
		fail(errors.New("no page tables"))
		works()
		awaits(t, 2*time.Minute, "the trouble", func() bool { return told() == "scanning web: no page tables" })
		fail(nil)
		works()
		awaits(t, 2*time.Minute, "its end", func() bool { return told() == "" })
		if c := find(t, d, "db"); c.Problem != "" {
			t.Errorf("of one that is not scanned: %q", c.Problem)
		}
	})
}

// A trouble is not ended by what went well besides.
func TestTroubleIsItsOwn(t *testing.T) {
	d := New(Parts{Now: func() annex.Moment { return annex.Moment(time.Hour) }}, Settings{})
	h := &held{}
	d.trouble(h, "scanning web", errors.New("no page tables"))
	d.trouble(h, "protecting web", nil)
	if h.trouble == "" {
		t.Error("protecting ended the trouble with scanning")
	}
	d.trouble(h, "scanning web", nil)
	if h.trouble != "" {
		t.Errorf("left is %q", h.trouble)
	}
}

// A reclaim that was cut short is none that failed; that it left a setting changed is told.
func TestReclaimThatWasStopped(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		failed bool
	}{
		"cut short":          {nil, false},
		"and a limit is low": {errors.New("memory.limit_in_bytes holds 1 instead of 2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			manage(t, box128, config.Manage, func(h *host) {
				crowded(h)
				h.reclaim = func(ctx context.Context) (int64, error) {
					<-ctx.Done()
					return 0, errors.Join(ctx.Err(), c.err)
				}
			}, func(t *testing.T, h *host, d *Daemon) {
				awaits(t, time.Minute, "a reclaim", func() bool {
					h.mu.Lock()
					defer h.mu.Unlock()
					return h.reclaimed > 0
				})
				if err := d.Drain(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				awaits(t, time.Minute, "drained", state(d, control.Drained))
				if s := d.Status(); (s.Moved.Failed > 0) != c.failed {
					t.Errorf("%d requests failed", s.Moved.Failed)
				}
			})
		})
	}
}

// So many scans are left behind and no more; when one has come back another begins.
func TestScansLeftBehindAreBounded(t *testing.T) {
	const many = mostBehind + 2
	name := func(n int) string { return "c" + strconv.Itoa(n) }
	manage(t, box128, config.Manage, func(h *host) {
		for n := range many {
			h.run(name(n), annex.Elastic, 8*pages, 0)
		}
		h.stuck = make(chan struct{})
	}, func(t *testing.T, h *host, d *Daemon) {
		begun := func() (sum int) {
			for n := range many {
				sum += h.scansOf(name(n))
			}
			return sum
		}
		warned := func() bool {
			return slices.ContainsFunc(d.Status().Warnings, func(w string) bool { return strings.Contains(w, "no container is looked at") })
		}
		awaits(t, (mostBehind+1)*scanWithin, "managing all the same", state(d, control.Managing))
		time.Sleep(2 * scanWithin)
		if n := begun(); n != mostBehind || !warned() {
			t.Errorf("%d scans were begun, want %d; a warning: %v", n, mostBehind, warned())
		}
		h.stuck <- struct{}{}
		awaits(t, time.Minute, "another scan", func() bool { return begun() == mostBehind+1 })
		if warned() {
			t.Error("it says still that no container is looked at")
		}
	})
}

// A drain that waits for its rate does not keep the loop busy.
func TestRated(t *testing.T) {
	d := New(Parts{Now: func() annex.Moment { return 0 }}, Settings{})
	d.drain.waiting = true
	drained := annex.Request{Why: annex.Drained}
	for name, c := range map[string]struct {
		fetches  []annex.Request
		fetching int
		want     bool
	}{
		"a slot is free":      {[]annex.Request{drained}, mostFetching - 1, true},
		"none is":             {[]annex.Request{drained}, mostFetching, false},
		"none of it is left":  {nil, 0, false},
		"only others' remain": {[]annex.Request{{Why: annex.Awake}}, 0, false},
	} {
		d.movers.fetches, d.movers.fetching = c.fetches, c.fetching
		if got := d.movers.rated(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Containers come and go at any moment.
func TestComeAndGo(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.each = 50 * time.Microsecond }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "an eviction", func() bool { return h.pages(annex.Evict) > 100 })
		h.end("web")
		h.end("batch")
		h.run("late", annex.Elastic, 80*pages, 0)
		awaits(t, time.Minute, "the late one", func() bool { s := d.Status(); return len(s.Contexts) == 2 && h.swapped("late") > 0 })
	})
}

// A container of which its engine tells a moment after its group was made, as they do, is
// found soon all the same; and at rest nobody is asked more often than he was.
func TestToldLate(t *testing.T) {
	manage(t, 1<<30, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		time.Sleep(time.Minute)
		h.run("late", annex.Ignored, 8*pages, 0)
		h.changes <- struct{}{}
		time.Sleep(lookAgain + lookAfter/2)
		if len(d.Status().Contexts) != 3 {
			t.Fatal("it is managed before its engine tells of it")
		}
		h.mu.Lock()
		h.containers["late"].class = annex.Elastic
		h.mu.Unlock()
		awaits(t, 2*time.Second, "the late one", func() bool { return len(d.Status().Contexts) == 4 })
		time.Sleep(time.Minute)
		looked := h.looked()
		time.Sleep(time.Minute)
		if n := h.looked() - looked; n > int(time.Minute/lookEvery) {
			t.Errorf("%d looks in a minute of rest", n)
		}
	})
}

// Where a fleet is started, one after another, what each of those that were there before may have
// is looked at as often as at rest, and not each time that one more comes.
func TestAFleetIsStarted(t *testing.T) {
	manage(t, 1<<30, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		const fleet, apart = 60, time.Second / 2
		for i := range fleet {
			h.run(fmt.Sprintf("web%d", i), annex.Elastic, pages, 0)
			select {
			case h.changes <- struct{}{}:
			default:
			}
			time.Sleep(apart)
		}
		awaits(t, 2*time.Second, "the last", func() bool { return len(d.Status().Contexts) == 3+fleet })
		h.mu.Lock()
		defer h.mu.Unlock()
		often := fleet * (2 + int(fleet*apart/lookEvery))
		if h.inspected > often {
			t.Errorf("%d looks at what one container may have, want %d at most", h.inspected, often)
		}
		if h.inspected < fleet {
			t.Errorf("%d looks at what one of %d containers may have", h.inspected, fleet)
		}
	})
}

// A look at the configuration that takes long holds up nothing else, and what was asked for meanwhile is
// looked for after it.
func TestDoubtsHoldUpNothing(t *testing.T) {
	var looks chan int // at so many containers
	var answers chan string
	prepare := func(h *host) {
		crowded(h)
		looks, answers = make(chan int, 1), make(chan string)
		h.doubts = func(found []container.Container) []string {
			looks <- len(found)
			return []string{<-answers}
		}
	}
	manage(t, box128, config.Manage, prepare, func(t *testing.T, h *host, d *Daemon) {
		defer close(answers)
		<-looks
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		awaits(t, time.Minute, "an eviction", func() bool { return h.pages(annex.Evict) > 0 })
		h.end("db")
		d.look()
		time.Sleep(2 * lookEvery)
		answers <- "all is well"
		awaits(t, lookEvery, "another look", func() bool {
			select {
			case n := <-looks:
				return n == 3
			default:
				return false
			}
		})
		answers <- "nothing is critical"
		awaits(t, time.Second, "what it found", func() bool {
			return slices.Contains(d.Status().Warnings, "nothing is critical")
		})
	})
}

// Others come one after another, for which the configuration is not looked at anew each time; but
// where the last critical container goes, or the first comes, it is told at once.
func TestNothingIsDefended(t *testing.T) {
	prepare := func(h *host) {
		crowded(h)
		h.doubts = func(found []container.Container) []string {
			if slices.ContainsFunc(found, func(c container.Container) bool { return c.Name == "db" }) {
				return nil
			}
			return []string{"nothing is critical"}
		}
	}
	manage(t, 1<<30, config.Manage, prepare, func(t *testing.T, h *host, d *Daemon) {
		doubtful := func() bool { return slices.Contains(d.Status().Warnings, "nothing is critical") }
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		changed := func() {
			select {
			case h.changes <- struct{}{}:
			default:
			}
			time.Sleep(lookAgain + 2*lookAfter)
		}
		for i := range 3 {
			h.run(fmt.Sprintf("web%d", i), annex.Elastic, pages, 0)
			changed()
		}
		h.end("db")
		changed()
		if !doubtful() {
			t.Error("the last critical container has gone, and nothing is told")
		}
		h.run("db", annex.Critical, 32*pages, 0)
		changed()
		if doubtful() {
			t.Error("a critical container has come, and it is told that there is none")
		}
	})
}

// Where nothing is managed a program that reads the status has lists to go through all the same.
func TestStatusOfNothing(t *testing.T) {
	manage(t, 1<<30, config.Manage, func(*host) {}, func(t *testing.T, _ *host, d *Daemon) {
		text, err := json.Marshal(d.Status())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"contexts":[]`, `"tiers":[]`} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	})
}

// A rule that decides of nothing is no longer doubted as soon as the first container that it is meant
// for runs, and is again some seconds after the last has gone.
func TestFirstElasticIsTold(t *testing.T) {
	prepare := func(h *host) {
		h.run("db", annex.Critical, pages, 0)
		h.doubts = func(found []container.Container) []string {
			if slices.ContainsFunc(found, func(c container.Container) bool { return c.Name == "web" }) {
				return nil
			}
			return []string{"nothing is elastic"}
		}
	}
	manage(t, 1<<30, config.Manage, prepare, func(t *testing.T, h *host, d *Daemon) {
		doubtful := func() bool { return slices.Contains(d.Status().Warnings, "nothing is elastic") }
		awaits(t, 10*time.Second, "that a rule decides of nothing", doubtful)
		changed := func() {
			select {
			case h.changes <- struct{}{}:
			default:
			}
			time.Sleep(lookAgain + 2*lookAfter)
		}
		h.run("web", annex.Elastic, pages, 0)
		changed()
		if doubtful() {
			t.Error("an elastic container has come, and it is told that there is none")
		}
		h.end("web")
		time.Sleep(lookEvery)
		changed()
		if !doubtful() {
			t.Error("the last elastic container has gone, and nothing is told")
		}
	})
}

// What media, engines and the monitor fail at ends nothing but itself.
func TestFailures(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.moveErr = errors.New("swap is full") }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "a request that failed", func() bool { return d.Status().Moved.Failed > 0 })
		h.mu.Lock()
		h.moveErr, h.findErr = nil, errors.New("the engine is restarting")
		h.mu.Unlock()
		time.Sleep(time.Minute)
		if n := len(d.Status().Contexts); n != 3 {
			t.Errorf("%d contexts while it is not known what runs, want those of before", n)
		}
		if h.pages(annex.Evict) == 0 {
			t.Error("nothing left after the failure")
		}
	})
}

// Ended in each state, everything is answered and put back: manage checks it.
func TestEnd(t *testing.T) {
	for name, reach := range map[string]func(*testing.T, *host, *Daemon){
		"starting": func(*testing.T, *host, *Daemon) {},
		"evicting": func(t *testing.T, h *host, d *Daemon) {
			awaits(t, time.Minute, "an eviction", func() bool { return h.pages(annex.Evict) > 100 })
		},
		"braking": func(t *testing.T, h *host, d *Daemon) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go h.press(ctx, "db", 0.5)
			awaits(t, time.Minute, "the brake", func() bool { return d.Status().Brake.On })
			stop()
			time.Sleep(20 * time.Millisecond)
		},
		"draining": func(t *testing.T, h *host, d *Daemon) {
			awaits(t, time.Minute, "an eviction", func() bool { return h.pages(annex.Evict) > 10*pages })
			h.mu.Lock()
			h.limit += 64 * mebibyte
			h.mu.Unlock()
			if err := d.Drain(t.Context(), mebibyte); err != nil {
				t.Fatal(err)
			}
			awaits(t, time.Minute, "something back", func() bool { return h.pages(annex.Map)+h.pages(annex.Fetch) > 0 })
		},
		"off": func(t *testing.T, h *host, d *Daemon) {
			if err := d.Off(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { manage(t, box128, config.Manage, crowded, reach) })
	}
}

// Explaining finds a container by what it may be called by.
func TestExplain(t *testing.T) {
	manage(t, box128, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "an eviction", func() bool { return h.swapped("web")+h.swapped("batch") > 0 })
		for _, name := range []string{"web", "id-of-web", "id-of-w"} {
			if e, err := d.Explain(name); err != nil || e.Context.Name != "web" || len(e.Sentences) == 0 {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
		}
		var unknown *control.Unknown
		if _, err := d.Explain("wbe"); !errors.As(err, &unknown) || len(unknown.Near) != 1 {
			t.Errorf("a mistyped name: %v", err)
		}
		if _, err := d.Explain("id-of"); !errors.As(err, &unknown) || len(unknown.Several) != 3 {
			t.Errorf("the beginning of several: %v", err)
		}
	})
}

// Limits of swap of which half is used are told of, for as long as that is so.
func TestCrowdedLimitsAreTold(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) {
		for _, name := range []string{"one", "other"} {
			h.run(name, annex.Elastic, 8*pages, 0).crowded = "/pod"
		}
		h.run("db", annex.Critical, 8*pages, 0).crowded = "/pod" // nothing of it leaves
	}, func(t *testing.T, h *host, d *Daemon) {
		told := func() bool {
			return slices.ContainsFunc(d.Status().Warnings, func(w string) bool {
				return strings.Contains(w, "containers: 2; one by the limit of /pod")
			})
		}
		awaits(t, 15*time.Second, "a warning", told)
		h.mu.Lock()
		for _, b := range h.containers {
			b.crowded = ""
		}
		h.mu.Unlock()
		awaits(t, time.Minute, "no warning", func() bool { return !told() })
	})
}
