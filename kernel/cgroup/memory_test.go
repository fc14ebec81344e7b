package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func holds(t *testing.T, g Group, file string) string {
	t.Helper()
	place, ok := g.For("memory")
	if !ok {
		t.Fatal("no memory controller")
	}
	text, err := readFile(place.Dir(), file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// one and two are a group of each version as the kernel would make it.
func one(t *testing.T) Group {
	return tree(t, 1, []string{"memory"}, map[string]string{
		"tare/a/memory.limit_in_bytes": "", "tare/a/memory.memsw.limit_in_bytes": "", "tare/a/memory.swappiness": "6",
		"tare/a/memory.usage_in_bytes": "4096", "tare/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
		"tare/a/b/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2",
		"tare/a/memory.stat":          "rss 1\nswap 2\npgmajfault 3\ntotal_rss 10\ntotal_swap 20\ntotal_pgmajfault 30",
	}).At("/tare/a")
}

func two(t *testing.T) Group {
	return tree(t, 2, []string{"memory"}, map[string]string{
		"tare/a/memory.max": "", "tare/a/memory.swap.max": "", "tare/a/memory.low": "0", "tare/a/memory.reclaim": "",
		"tare/a/memory.current": "4096", "tare/a/memory.swap.current": "27", "tare/a/memory.zswap.current": "5",
		"tare/a/memory.events": "low 0\noom 4\noom_kill 3", "tare/a/b/memory.events": "oom_kill 3",
		"tare/a/memory.stat": "anon 10\nfile 1\nswapcached 7\npgmajfault 30",
	}).At("/tare/a")
}

func TestBoundMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		group Group
		swap  int64
		want  map[string]string
	}{
		{"v1, with swap", one(t), 50, map[string]string{"memory.limit_in_bytes": "100", "memory.memsw.limit_in_bytes": "150", "memory.swappiness": "6"}},
		{"v1, none", one(t), 0, map[string]string{"memory.limit_in_bytes": "100", "memory.memsw.limit_in_bytes": "100"}},
		{"v1, no bound", one(t), NoBound, map[string]string{"memory.limit_in_bytes": "100", "memory.memsw.limit_in_bytes": ""}},
		{"v2, with swap", two(t), 50, map[string]string{"memory.max": "100", "memory.swap.max": "50"}},
		{"v2, no bound", two(t), NoBound, map[string]string{"memory.max": "100", "memory.swap.max": "max"}},
	} {
		if err := c.group.BoundMemory(100, c.swap); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for file, want := range c.want {
			if got := holds(t, c.group, file); got != want {
				t.Errorf("%s: %s holds %q, want %q", c.name, file, got, want)
			}
		}
	}
}

// Without accounting for swap, none at all can still be had, and nothing else.
func TestBoundMemoryWithoutSwapAccounting(t *testing.T) {
	g := one(t)
	if err := os.Remove(filepath.Join(g.Places[0].Dir(), "memory.memsw.limit_in_bytes")); err != nil {
		t.Fatal(err)
	}
	if err := g.BoundMemory(100, 0); err != nil {
		t.Fatal(err)
	}
	if got := holds(t, g, "memory.swappiness"); got != "0" {
		t.Errorf("swappiness is %s, want 0", got)
	}
	var unchangeable *Unchangeable
	if err := g.BoundMemory(100, 50); !errors.As(err, &unchangeable) {
		t.Errorf("%v, want an *Unchangeable", err)
	}
}

func TestProtection(t *testing.T) {
	var unchangeable *Unchangeable
	first, second := one(t), two(t)
	if err := first.KeepFromSwap(); err != nil || holds(t, first, "memory.swappiness") != "0" {
		t.Errorf("v1: %v, swappiness %s", err, holds(t, first, "memory.swappiness"))
	}
	if err := first.ProtectMemory(100); !errors.As(err, &unchangeable) {
		t.Errorf("v1 has no memory.low: %v", err)
	}
	if err := second.ProtectMemory(100); err != nil || holds(t, second, "memory.low") != "100" {
		t.Errorf("v2: %v, low %s", err, holds(t, second, "memory.low"))
	}
	if err := second.KeepFromSwap(); !errors.As(err, &unchangeable) {
		t.Errorf("v2 has no swappiness: %v", err)
	}
}

func TestReclaimMemory(t *testing.T) {
	first, second := one(t), two(t)
	if err := first.ReclaimMemory(96, 8192); err != nil {
		t.Fatal(err)
	}
	if got := holds(t, first, "memory.limit_in_bytes"); got != "8192" {
		t.Errorf("v1: the limit is %s afterwards, want what it was", got)
	}
	if err := second.ReclaimMemory(96, 8192); err != nil {
		t.Fatal(err)
	}
	if got := holds(t, second, "memory.reclaim"); got != "96" {
		t.Errorf("v2: asked for %q", got)
	}
	if got := holds(t, second, "memory.max"); got != "" {
		t.Errorf("v2: the limit was touched: %q", got)
	}
}

func TestMemoryAccounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		group Group
		want  MemoryAccounts
		kills map[string]int64
	}{
		{"v1: the totals", one(t), MemoryAccounts{Usage: 4096, Anonymous: 10, Swapped: 20, MajorFaults: 30}, map[string]int64{"/tare/a": 1, "/tare/a/b": 2}},
		{"v2", two(t), MemoryAccounts{Usage: 4096, Anonymous: 10, Swapped: 20, MajorFaults: 30, Zswap: 5}, map[string]int64{"/tare/a": 3}},
	} {
		got, err := c.group.MemoryAccounts()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
		kills, err := c.group.OOMKills()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.kills, kills); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
	g := two(t)
	if err := os.Remove(filepath.Join(g.Places[0].Dir(), "memory.swap.current")); err != nil {
		t.Fatal(err)
	}
	if got, err := g.MemoryAccounts(); err != nil || got.Absent["swapped"] == "" {
		t.Errorf("without accounting for swap: %+v, %v", got, err)
	}
}

// A page that was read back keeps its slot in swap, and is counted once.
func TestSwapCacheIsNotSwap(t *testing.T) {
	const without = "anon 10\npgmajfault 30"
	for _, c := range []struct {
		name, slots, stat string
		want              int64
		absent            bool
	}{
		{"part of it is back", "20", without + "\nswapcached 8", 12, false},
		{"none is", "20", without + "\nswapcached 0", 20, false},
		{"more is than there was a moment ago", "20", without + "\nswapcached 24", 0, false},
		{"a kernel that does not say", "20", without, 0, true},
		{"such a kernel, with nothing in swap", "0", without, 0, false},
	} {
		g := two(t)
		for file, text := range map[string]string{"memory.swap.current": c.slots, "memory.stat": c.stat} {
			if err := os.WriteFile(filepath.Join(g.Places[0].Dir(), file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := g.MemoryAccounts()
		if err != nil || got.Swapped != c.want || (got.Absent["swapped"] != "") != c.absent {
			t.Errorf("%s: %d swapped, absent %v, %v; want %d, absent: %v", c.name, got.Swapped, got.Absent, err, c.want, c.absent)
		}
	}
}

func TestTheRootIsEverybodys(t *testing.T) {
	root := tree(t, 1, []string{"memory"}, map[string]string{"memory.limit_in_bytes": "9", "memory.swappiness": "6", "memory.usage_in_bytes": "8"}).At("/")
	var unchangeable *Unchangeable
	for name, do := range map[string]func() error{
		"bound": func() error { return root.BoundMemory(1, 1) }, "limit": func() error { return root.LimitMemory(1) },
		"swappiness": root.KeepFromSwap, "reclaim": func() error { return root.ReclaimMemory(1, 2) },
	} {
		if err := do(); !errors.As(err, &unchangeable) {
			t.Errorf("%s: %v, want an *Unchangeable", name, err)
		}
	}
	if got := holds(t, root, "memory.limit_in_bytes"); got != "9" {
		t.Errorf("the root's limit is %s", got)
	}
}

// Version 1 does not count how often the limit is met where that of memory and swap together is the same.
func TestLimitMetUncounted(t *testing.T) {
	for _, c := range []struct {
		usage, peak string
		want        bool
	}{{"60000000", "67108864", true}, {"60000000", "67000000", true}, {"60000000", "60000000", false}, {"20000000", "67108864", false}} {
		l := tree(t, 1, []string{"memory"}, map[string]string{
			"a/memory.usage_in_bytes": c.usage, "a/memory.max_usage_in_bytes": c.peak, "a/memory.limit_in_bytes": "67108864",
			"a/memory.failcnt": "0", "a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3",
			"a/memory.stat": "total_workingset_refault_file 7\ntotal_pgmajfault 1",
		})
		got, err := l.At("/a").Reclaimed()
		if want := (Reclaim{Usage: got.Usage, HasMet: c.want, Refaults: 7, Read: -1, MajorFaults: 1, OOMKills: 3}); got != want || err != nil {
			t.Errorf("usage %s, peak %s: %+v, %v: want %+v", c.usage, c.peak, got, err, want)
		}
	}
}

// What a group reads from disks is counted by io of version 2, or by blkio of version 1; without either it is unknown.
func TestDiskReads(t *testing.T) {
	const throttled = "8:0 Read 100\n8:0 Write 7\n8:16 Read 50\n8:16 Total 57\nTotal 157"
	for _, c := range []struct {
		version    int
		controller string
		files      map[string]string
		want       int64
	}{
		{2, "io", map[string]string{"a/io.stat": "8:0 rbytes=100 wbytes=7 rios=1\n8:16 rbytes=50 wbytes=0"}, 150},
		{2, "io", map[string]string{"a/io.stat": ""}, 0},
		{1, "blkio", map[string]string{"a/blkio.throttle.io_service_bytes_recursive": throttled}, 150},
		{1, "blkio", map[string]string{"a/x": ""}, -1},
		{2, "memory", map[string]string{"a/x": ""}, -1},
	} {
		got, err := tree(t, c.version, []string{c.controller}, c.files).At("/a").DiskReads()
		if got != c.want || err != nil {
			t.Errorf("version %d, %v: %d, %v: want %d", c.version, c.files, got, err, c.want)
		}
	}
	odd := map[string]string{"a/io.stat": "8:0 rbytes=many"}
	if _, err := tree(t, 2, []string{"io"}, odd).At("/a").DiskReads(); err == nil {
		t.Error("a number that is none is accepted")
	}
	if got := (Reclaim{Read: 10}).Since(Reclaim{Read: -1}).Read; got != -1 {
		t.Errorf("since an unknown number: %d", got)
	}
}
