package daemon

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/kernel/filesystem/fusetest"
	"tare/kernel/swap"
	"tare/kernel/swap/swaptest"
)

// logged is what a kernel's log has to tell next.
type logged []swap.Failure

func (l *logged) Read() (all []swap.Failure, err error) {
	all, *l = *l, nil
	return all, nil
}

func TestFailing(t *testing.T) {
	const head, low, high = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n", "/low partition 1024 0 1\n", "/high partition 1024 "
	root, log, now := t.TempDir(), &logged{}, time.Unix(0, 0)
	f := newFailing(log)
	f.host, f.now = swap.Host{Root: root}, func() time.Time { return now }
	// No device is known of either area: a failure may be of both.
	read, write := swap.Failure{}, swap.Failure{Write: true}
	for n, c := range []struct {
		failed []swap.Failure
		after  time.Duration
		swaps  string
		says   []string // nothing is that nothing is said
		holds  bool
	}{
		{nil, 0, head + low + high + "0 2\n", nil, false},
		{[]swap.Failure{write, write}, 0, head + high + "0 2\n", []string{"/high does not take pages", "log: 2"}, true},
		{nil, failedFor - time.Second, head + low + high + "0 2\n", []string{"/high"}, true},
		{nil, 0, head + low + high + "1024 2\n", []string{"/high"}, false}, // the next pages go to the other
		{nil, time.Second, head + low + high + "0 2\n", nil, false},
		{[]swap.Failure{read}, 0, head + high + "0 2\n", []string{"/high does not give pages back", "log: 1", "annex drain"}, true},
		{nil, 24 * time.Hour, head + low + high + "0 2\n", []string{"/high"}, true},
		{nil, 0, head + low + high + "0 0\n", []string{"/high"}, false},
		{nil, 0, head + low, nil, false},
		{nil, 0, head + high + "0 2\n", nil, false}, // put to use anew
		{[]swap.Failure{write}, 0, head + high + "0 2\n", []string{"/high"}, true},
		{nil, 0, head + "/high partition 2048 0 2\n", nil, false}, // another device at the same path
	} {
		now = now.Add(c.after)
		*log = c.failed
		put(t, root, "proc/swaps", c.swaps)
		text, holds, err := f.look()
		if err != nil || holds != c.holds || (text == "") != (c.says == nil) {
			t.Errorf("step %d: %q, %v, %v", n, text, holds, err)
		}
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("step %d: %q, want %q in it", n, text, want)
			}
		}
	}
}

// While the areas in use cannot be read, failures wait for that, and take no more memory however many they are.
func TestFailingWithoutAreas(t *testing.T) {
	root, log := t.TempDir(), &logged{}
	f := newFailing(log)
	f.host.Root = root
	put(t, root, "proc/swaps", "Filename\ngarbage\n")
	for range 1000 {
		*log = logged{{Write: true}, {}}
		if _, _, err := f.look(); err == nil {
			t.Fatal("areas that cannot be read are no error")
		}
	}
	if len(f.pending) != 2 {
		t.Errorf("%d wait, want 2: a device's failed reads, and its failed writes", len(f.pending))
	}
	put(t, root, "proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/area partition 1024 0 2\n")
	if text, _, err := f.look(); err != nil || !strings.Contains(text, "log: 1000") || len(f.pending) != 0 {
		t.Errorf("%q, %v, and %d wait still", text, err, len(f.pending))
	}
}

// The policy learns that swap fails, and that it works again.
func TestDataIsToldOfFailingSwap(t *testing.T) {
	manage(t, box128, config.Manage, crowded, func(t *testing.T, h *host, d *Daemon) {
		awaits(t, 10*time.Second, "managing", state(d, control.Managing))
		fails := true
		_ = d.do(t.Context(), func() {
			d.parts.Failing = func() (string, bool, error) { return "swap area /high does not take pages", fails, nil }
		})
		says := func() bool { return warns("nothing can leave")(d.Status()) }
		awaits(t, 2*calmLook, "that nothing leaves", says)
		_ = d.do(t.Context(), func() { fails = false })
		awaits(t, 2*calmLook, "the end of that", func() bool { return !says() })
	})
}

// warns tells that a warning says something.
func warns(what string) func(control.Status) bool {
	return func(s control.Status) bool { return strings.Contains(strings.Join(s.Warnings, "\n"), what) }
}

// onFailing is a daemon that manages a box whose swap can be made to fail, and has swapped something.
func onFailing(t *testing.T) (d *defended, p running, device string, system *fusetest.System) {
	t.Helper()
	d = defendOn(t, func() { device, system = swaptest.Failing(t, 160<<20) })
	p = start(t, d.path, d.socket)
	p.await(t, "something in swap", func(s control.Status) bool { return s.State == control.Managing && extended(s) > 4<<20 })
	return d, p, device, system
}

// ends has the daemon end, which is no failure.
func (p running) ends(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the daemon ends: %v, it says: %s", err, p.said)
	}
}

// What a device does not take stays in memory, and nothing more leaves.
func TestSwapFailsToWrite(t *testing.T) {
	d, p, device, system := onFailing(t)
	system.Fail(func(write bool, _, _ int64) bool { return write })
	d.whole(t) // whose pages others make room for
	s := p.await(t, "failed writes", warns("swap area "+device+" does not take pages"))
	d.whole(t)
	evicted := s.Moved.EvictedBytes
	time.Sleep(3 * time.Second) // no event says that nothing happens
	if s = p.await(t, "an answer", func(control.Status) bool { return true }); s.Moved.EvictedBytes > evicted {
		t.Errorf("%d bytes left after the device had failed", s.Moved.EvictedBytes-evicted)
	}
	d.whole(t)
	p.ends(t)
	d.restored(t)
}

// What a device does not give back is reported, all else comes back, and the critical program has all
// of its memory.
func TestSwapFailsToRead(t *testing.T) {
	d, p, device, system := onFailing(t)
	const each = 64 * annex.PageSize // of every 64 pages of swap one cannot be read
	system.Fail(func(write bool, offset, length int64) bool { return !write && (offset+length)/each > offset/each })
	if err := d.group.LimitMemory(256 << 20); err != nil { // all of it fits now
		t.Fatal(err)
	}
	before := extended(p.await(t, "room", func(s control.Status) bool { return s.Memory.LimitBytes > 200<<20 }))
	if err := p.client.Drain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s := p.await(t, "the end of the drain", func(s control.Status) bool { return s.State == control.Drained })
	t.Logf("of %d bytes: %+v\n%q", before, *s.Drain, s.Warnings)
	if !strings.Contains(s.Drain.Problem, "cannot be read") || !strings.Contains(s.Drain.Problem, device) {
		t.Errorf("the drain says %q", s.Drain.Problem)
	}
	if left := s.Drain.LeftBytes; left == 0 || left > before/2 {
		t.Errorf("%d bytes are left of %d", left, before)
	}
	p.await(t, "failed reads", warns("swap area "+device+" does not give pages back"))
	if answer := d.asks[0](); answer != "whole" {
		t.Errorf("the critical program: %s", answer)
	}
	p.ends(t)
	d.restored(t)
}
