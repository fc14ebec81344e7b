package daemon

import (
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
)

// What a sleeping container has in memory and nobody maps is freed before any page of it or of
// another has to leave.
func TestLeftover(t *testing.T) {
	const unmapped = 48 * mebibyte
	fill := func(h *host) {
		crowded(h)
		h.limit += 16 * mebibyte
		h.containers["web"].unmapped = unmapped
	}
	manage(t, box128, config.Manage, fill, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "headroom", func() bool { return d.Status().Memory.FreeBytes >= 16*mebibyte })
		h.mu.Lock()
		left := h.containers["web"].unmapped
		h.mu.Unlock()
		if left > 2*mebibyte {
			t.Errorf("%d of %d bytes that nobody maps are in memory yet", left, unmapped)
		}
		if n := h.pages(annex.Evict) * annex.PageSize; n > 8*mebibyte {
			t.Errorf("%d bytes of pages left, where %d were to be had for nothing", n, unmapped)
		}
		if n := find(t, d, "web").Moved.Requests[annex.Leftover]; n == 0 {
			t.Error("no request for it is told of")
		}
	})
}

// What the kernel does not give is not asked for time after time.
func TestLeftoverThatStays(t *testing.T) {
	fill := func(h *host) {
		crowded(h)
		h.vain = true
		h.containers["web"].unmapped = 48 * mebibyte
	}
	manage(t, box128, config.Manage, fill, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		awaits(t, time.Minute, "a request", func() bool { return find(t, d, "web").Moved.Requests[annex.Leftover] > 0 })
		time.Sleep(50 * time.Second)
		if n := find(t, d, "web").Moved.Requests[annex.Leftover]; n > 3 {
			t.Errorf("%d requests within a minute, of which none freed anything", n)
		}
	})
}
