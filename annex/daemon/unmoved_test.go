package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/annextest"
	"tare/annex/control"
	"tare/kernel/swap/swaptest"
)

// A container that is frozen after most of it has left holds nothing up: a drain ends, and a daemon that is
// killed meanwhile is followed by one that goes on. Thawed, it finds all of its memory.
func TestFrozenWhileManaged(t *testing.T) {
	d := defend(t)
	p := start(t, d.path, d.socket)
	of := func(s control.Status, name string) (one control.Context) {
		for _, c := range s.Contexts {
			if c.Name == d.box+"/"+name {
				one = c
			}
		}
		return one
	}
	const name = "program1"
	p.await(t, "some of it in swap", func(s control.Status) bool { return of(s, name).ExtendedBytes > 2<<20 })
	group := d.group.Child(name)
	if err := group.Freeze(t.Context()); err != nil {
		t.Skip(err)
	}
	thaw := func() {
		if err := group.Thaw(context.Background()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(thaw) // before it is ended
	frozen := func(s control.Status) bool { return of(s, name).State == control.Frozen }
	p.await(t, "frozen", frozen)
	if err := d.group.LimitMemory(256 << 20); err != nil { // all of it fits now
		t.Fatal(err)
	}
	p.await(t, "room", func(s control.Status) bool { return s.Memory.LimitBytes > 200<<20 })
	if err := p.client.Drain(t.Context(), 50<<20); err != nil {
		t.Fatal(err)
	}
	s := p.await(t, "the end of the drain", func(s control.Status) bool { return s.State == control.Drained })
	t.Logf("the drain: %+v", *s.Drain)
	if left := of(s, name).ExtendedBytes; left > 0 && !strings.Contains(s.Drain.Problem, name) {
		t.Errorf("%d bytes of it are left, and the drain says %q", left, s.Drain.Problem)
	}
	p.end(syscall.SIGKILL)
	d.restored(t)
	p = start(t, d.path, d.socket)
	s = p.await(t, "managing, with it frozen", func(s control.Status) bool { return s.State == control.Managing && frozen(s) })
	if next := of(s, name).Next; next != nil {
		t.Errorf("it is expected to wake: %+v", *next)
	}
	thaw()
	p.await(t, "thawed", func(s control.Status) bool { return !frozen(s) })
	d.whole(t)
	p.ends(t)
	d.restored(t)
}

// Memory that a program has locked is not asked for again and again, and all else of it leaves.
func TestLockedMemoryStays(t *testing.T) {
	box := annextest.Box(t, "daemon", 128<<20)
	swaptest.File(t, "daemon", 160<<20)
	const each = 32 << 20
	var asks []func() string
	for _, name := range []string{"critical", "locked", "plain"} {
		g := box.Child(name)
		if err := g.Create("memory"); err != nil {
			t.Fatal(err)
		}
		if name == "locked" {
			t.Setenv(annextest.LockVariable, "1")
		}
		asks = append(asks, annextest.Hold(t, g, each).Check)
		if name == "locked" {
			t.Setenv(annextest.LockVariable, "")
		}
	}
	place, _ := box.For("memory")
	dir := t.TempDir()
	path := filepath.Join(dir, "annex.toml")
	text := strings.NewReplacer(`headroom = "32MiB"`, `headroom = "100MiB"`, `high = "40MiB"`, `high = "110MiB"`).Replace(managing(dir, place.Path, ""))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, path, filepath.Join(dir, "annex.sock"))
	p.await(t, "half of the one and all of the other in swap", func(s control.Status) bool { return extended(s) > 3*each/2-8<<20 })
	time.Sleep(5 * time.Second) // no event says that nothing happens
	p.ends(t)
	log, err := os.Open(filepath.Join(dir, "decisions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	skipped := 0
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var one Decision
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		if one.What == annex.Evict.String() && one.Container == place.Path+"/locked" {
			skipped += one.Skipped
		}
	}
	const locked = each / 2 / annex.PageSize
	if t.Logf("%d pages are locked, and %d were asked for and stayed", locked, skipped); skipped > 4*locked {
		t.Errorf("%d pages were asked for that stayed, of %d that are locked: want some times as many at most", skipped, locked)
	}
	for n, ask := range asks {
		if answer := ask(); answer != "whole" {
			t.Errorf("program %d: %s", n, answer)
		}
	}
}
