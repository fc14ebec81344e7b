package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/monitor"
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
		awaits(t, time.Minute, "headroom, in the shadow", func() bool { return d.Status().Memory.FreeBytes >= 24*mebibyte })
		if h.protected > 0 || h.pages(annex.Evict) > 0 || h.reclaimed > 0 {
			t.Error("something was changed")
		}
		var web int64
		awaits(t, time.Second, "pages in the shadow", func() bool {
			web = find(t, d, "web").ExtendedBytes + find(t, d, "batch").ExtendedBytes
			return web > 0
		})
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

// What does not fit stays where it is, and the status says so; every setting is put back.
func TestOff(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) { crowded(h); h.run("big", annex.Elastic, 0, 64*pages) }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		if err := d.Off(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Minute, "off", state(d, control.Off))
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
		if h.protected != 2 {
			t.Errorf("protected %d times, want once at the start and once after the reload", h.protected)
		}
	})
}

// A wrong configuration changes nothing; a right one changes classes, at once.
func TestReload(t *testing.T) {
	manage(t, 1<<30, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		read := d.parts.Read
		d.parts.Read = func() (Settings, []string, error) { return Settings{}, nil, errors.New("annex.toml:3: mode") }
		if _, err := d.Reload(t.Context()); err == nil || d.Status().State != control.Managing {
			t.Errorf("a wrong configuration: %v", err)
		}
		d.parts.Read = read
		h.mu.Lock()
		h.containers["web"].class = annex.Critical
		h.containers["batch"].class = annex.Ignored
		h.mu.Unlock()
		if _, err := d.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Second, "the classes", func() bool {
			s := d.Status()
			return len(s.Contexts) == 2 && find(t, d, "web").Class == annex.Critical
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.containers["web"].watched || h.containers["batch"].watched || h.protected != 2 {
			t.Errorf("watched %v and %v, %d protected", h.containers["web"].watched, h.containers["batch"].watched, h.protected)
		}
	})
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
