package daemon

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/media"
	"tare/annex/monitor"
)

// hanging is a host that is short of memory, and on which calls for many containers hang.
func hanging(many int) (prepare func(*host)) {
	return func(h *host) {
		hang := make(chan struct{})
		h.run("db", annex.Critical, 32*pages, 0)
		h.run("web", annex.Elastic, 88*pages, 0)
		h.hangs = map[string]chan struct{}{}
		for i := range many {
			name := fmt.Sprintf("a%02d", i) // before the others in every order
			h.run(name, annex.Elastic, pages, pages)
			h.hangs[name] = hang
		}
	}
}

// Containers of which calls hang hold up no other: each costs a moment once, is set aside for longer
// each time, and is told of.
func TestHangingContainersAreSetAside(t *testing.T) {
	const many = 20
	manage(t, box128+many*mebibyte, config.Manage, hanging(many), func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "another's pages leave", func() bool { return h.swapped("web") > 0 })
		began := h.now()
		awaits(t, many*media.DefaultSlow+2*time.Second, "headroom", func() bool { m, _ := h.Memory(); return m.Free >= 16*mebibyte })
		// Whoever fills memory anew is evicted from while those hang.
		h.mu.Lock()
		h.limit -= 16 * mebibyte
		h.mu.Unlock()
		awaits(t, 2*time.Second+many*media.DefaultSlow, "headroom again", func() bool { m, _ := h.Memory(); return m.Free >= 16*mebibyte })
		if took := h.now().Since(began); took > media.DefaultTimeout*2 {
			t.Errorf("it took %v", took)
		}
		awaits(t, time.Minute, "a warning", func() bool {
			return slices.ContainsFunc(d.Status().Warnings, func(w string) bool { return strings.Contains(w, "set aside") })
		})
		close(h.hangs["a00"])
		time.Sleep(asideMost)
		for _, c := range d.Status().Contexts {
			if c.Aside || c.Problem != "" {
				t.Errorf("%s is aside: %s", c.Name, c.Problem)
			}
		}
	})
}

// What hangs is tried again after longer and longer, and says why in the status.
func TestAsideGrows(t *testing.T) {
	prepare := func(h *host) {
		h.run("web", annex.Elastic, 120*pages, 0)
		h.hangs = map[string]chan struct{}{"web": make(chan struct{})}
	}
	manage(t, box128, config.Manage, prepare, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		awaits(t, time.Minute, "it is late", func() bool { return find(t, d, "web").Aside })
		if c := find(t, d, "web"); !strings.Contains(c.Problem, "comes back from a call") {
			t.Errorf("it says %q", c.Problem)
		}
		awaits(t, time.Minute, "the reason", func() bool { return strings.Contains(find(t, d, "web").Problem, "has not come back within 10s") })
		e, err := d.Explain("web")
		if err != nil || !slices.ContainsFunc(e.Sentences, func(s string) bool { return strings.HasPrefix(s, "Calls for it hang: ") }) {
			t.Errorf("%v: %v", err, e.Sentences)
		}
		time.Sleep(15 * time.Minute)
		h.mu.Lock()
		defer h.mu.Unlock()
		tried := h.tried["web"]
		if len(tried) < 4 || len(tried) > 10 {
			t.Fatalf("it is tried %d times in 15 minutes", len(tried))
		}
		for i := 2; i < len(tried)-1; i++ {
			if before, after := tried[i].Since(tried[i-1]), tried[i+1].Since(tried[i]); after < before {
				t.Errorf("it is tried again %v later, and then %v later", before, after)
			}
		}
	})
}

// A container of which calls were slow, and came back, is managed as before.
func TestSlowIsTakenUp(t *testing.T) {
	prepare := func(h *host) {
		h.run("web", annex.Elastic, 120*pages, 0)
		h.hangs = map[string]chan struct{}{"web": make(chan struct{})}
	}
	manage(t, box128, config.Manage, prepare, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		awaits(t, time.Minute, "it is late", func() bool { return find(t, d, "web").Aside })
		close(h.hangs["web"])
		awaits(t, 2*time.Second, "headroom", func() bool { m, _ := h.Memory(); return m.Free >= 16*mebibyte })
		if c := find(t, d, "web"); c.Aside || c.Problem != "" {
			t.Errorf("%+v", c)
		}
	})
}

// A drain brings back all but what hangs, says which that is, and does not wait for it.
func TestDrainBesideWhatHangs(t *testing.T) {
	prepare := func(h *host) {
		h.run("web", annex.Elastic, pages, 8*pages)
		h.run("stuck", annex.Elastic, pages, 4*pages)
		h.hangs = map[string]chan struct{}{"stuck": make(chan struct{})}
	}
	manage(t, 1<<30, config.Manage, prepare, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		if err := d.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		awaits(t, 2*time.Second, "another's", func() bool { return h.swapped("web") == 0 })
		awaits(t, 2*media.DefaultTimeout, "drained", state(d, control.Drained))
		if p := d.Status().Drain.Problem; strings.Contains(p, "does not fit") || !strings.Contains(p, "stuck (4 MiB)") {
			t.Errorf("it says %q", p)
		}
	})
}

// The daemon ends without waiting for what hangs.
func TestEndBesideWhatHangs(t *testing.T) {
	var ran *host
	manage(t, box128, config.Manage, hanging(3), func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "one is late", func() bool {
			return slices.ContainsFunc(d.Status().Contexts, func(c control.Context) bool { return c.Aside })
		})
		ran = h
	})
	if ran.endTook > 2*media.DefaultSlow {
		t.Errorf("it ended after %v", ran.endTook)
	}
}

// A scan that is slow has others begin beside it.
func TestSlowScanHoldsUpNoOther(t *testing.T) {
	prepare := func(h *host) {
		h.run("web", annex.Elastic, 10, 0)
		h.run("a", annex.Elastic, 10, 0)
		h.stuck, h.sticks = make(chan struct{}), "a"
	}
	manage(t, 1<<30, config.Manage, prepare, func(t *testing.T, h *host, _ *Daemon) {
		awaits(t, 2*scanSlow, "a look at the other", func() bool { return h.scansOf("web") > 0 })
	})
}

// A container that is frozen says so; nothing is fetched for it, and a drain that brings back what
// is its has done what it is for.
func TestFrozen(t *testing.T) {
	manage(t, 1<<30, config.Manage, func(h *host) { h.run("web", annex.Elastic, pages, 8*pages) }, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		set := func(to bool) { h.mu.Lock(); defer h.mu.Unlock(); h.frozen["web"] = to }
		unknown := func(err error) { h.mu.Lock(); defer h.mu.Unlock(); h.frozenErr = err }
		set(true)
		awaits(t, 2*calmLook, "frozen", func() bool { return find(t, d, "web").State == control.Frozen })
		e, err := d.Explain("web")
		if err != nil || !strings.HasPrefix(e.Sentences[0], "It is frozen") || len(e.Sentences) != 1 || e.Context.Next != nil {
			t.Errorf("%v: %q", err, e.Sentences)
		}
		unknown(syscall.EMFILE)
		time.Sleep(2 * calmLook)
		if is := find(t, d, "web").State; is != control.Frozen {
			t.Errorf("it is %s since that cannot be read", is)
		}
		unknown(nil)
		if err := d.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		awaits(t, 10*time.Second, "drained", state(d, control.Drained))
		if s := d.Status(); s.Drain.LeftBytes != 0 || s.Drain.Problem != "" || s.Drain.ReturnedBytes != 8*mebibyte {
			t.Errorf("%+v", s.Drain)
		}
		set(false)
		awaits(t, 2*calmLook, "thawed", func() bool { return find(t, d, "web").State == control.Dormant })
	})
}

// What does not fit of a frozen container is told with its name.
func TestDrainOfFrozenThatDoesNotFit(t *testing.T) {
	manage(t, box128, config.Manage, func(h *host) {
		h.run("db", annex.Critical, 100*pages, 0)
		h.run("web", annex.Elastic, pages, 64*pages)
		h.frozen["web"] = true
	}, func(t *testing.T, _ *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		awaits(t, 10*time.Second, "frozen", func() bool { return find(t, d, "web").State == control.Frozen })
		if err := d.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Minute, "drained", state(d, control.Drained))
		if p := d.Status().Drain.Problem; !strings.Contains(p, "stay so as headroom") || !strings.Contains(p, "frozen or stopped, and untouched until that ends: web (") {
			t.Errorf("it says %q", p)
		}
	})
}

// A critical container is active while it uses a CPU, and dormant when it does not; how often it
// woke is not told, since nobody looks.
func TestCriticalIsActive(t *testing.T) {
	manage(t, 1<<30, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		works := true
		for range 20 {
			h.mu.Lock()
			if works {
				h.cpu["db"] += 100 * time.Millisecond
			}
			h.mu.Unlock()
			if c := find(t, d, "db"); c.State != control.Active || c.Activity != nil {
				t.Fatalf("%+v", c)
			}
			time.Sleep(calmLook / 2)
		}
		works = false
		awaits(t, 3*calmLook, "dormant", func() bool { return find(t, d, "db").State == control.Dormant })
		h.tell(monitor.Batch{})
	})
}
