package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLevels(t *testing.T) {
	first := tree(t, 1, []string{"memory"}, map[string]string{
		"memory.limit_in_bytes": "9223372036854771712", "memory.usage_in_bytes": "500",
		"a/memory.limit_in_bytes": "400", "a/memory.usage_in_bytes": "300",
		"a/b/memory.limit_in_bytes": "9223372036854771712", "a/b/memory.usage_in_bytes": "200",
		"a/memory.memsw.limit_in_bytes": "800", "a/memory.memsw.usage_in_bytes": "350",
	}).At("/a/b")
	second := tree(t, 2, []string{"memory"}, map[string]string{
		"a/memory.max": "400", "a/memory.current": "450", // above a limit that was lowered
		"a/b/memory.max": "max", "a/b/memory.high": "max", "a/b/memory.current": "200",
		"a/memory.swap.max": "0", "a/memory.swap.current": "0",
		"a/b/memory.swap.max": "max", "a/b/memory.swap.current": "0",
	}).At("/a/b")
	high := tree(t, 2, []string{"memory"}, map[string]string{
		"a/memory.max": "400", "a/memory.high": "300", "a/memory.current": "250", // above it its tasks are held up
		"a/b/memory.max": "100", "a/b/memory.high": "200", "a/b/memory.current": "50",
		"a/memory.swap.max": "max", "a/memory.swap.high": "70", "a/memory.swap.current": "10",
	}).At("/a/b")
	for _, c := range []struct {
		name string
		read func() ([]Level, error)
		want []Level
		free []int64
	}{
		{"memory, v1", first.MemoryLevels, []Level{{"/a/b", NoBound, 200}, {"/a", 400, 300}, {"/", NoBound, 500}}, []int64{NoBound, 100, NoBound}},
		{"both together, v1", first.SwapLevels, []Level{{"/a", 800, 350}}, []int64{450}},
		{"memory, v2", second.MemoryLevels, []Level{{"/a/b", NoBound, 200}, {"/a", 400, 450}}, []int64{NoBound, 0}},
		{"throttled, v2", high.MemoryLevels, []Level{{"/a/b", 100, 50}, {"/a", 300, 250}}, []int64{50, 50}},
		{"swap, throttled, v2", high.SwapLevels, []Level{{"/a", 70, 10}}, []int64{60}},
		{"swap, v2", second.SwapLevels, []Level{{"/a/b", NoBound, 0}, {"/a", 0, 0}}, []int64{NoBound, 0}},
	} {
		got, err := c.read()
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
			continue
		}
		for i, l := range got {
			if l.Free() != c.free[i] {
				t.Errorf("%s: %s has %d free, want %d", c.name, l.Path, l.Free(), c.free[i])
			}
		}
	}
	if _, err := tree(t, 1, []string{"memory"}, map[string]string{"a/memory.limit_in_bytes": "x"}).At("/a").MemoryLevels(); err == nil {
		t.Error("a limit that is no number is read")
	}
	if _, err := tree(t, 2, []string{"memory"}, map[string]string{"a/memory.max": "max", "a/memory.high": "x", "a/memory.current": "1"}).At("/a").MemoryLevels(); err == nil {
		t.Error("a high limit that is no number is read")
	}
}

func TestUnmappedMemoryAndPageCache(t *testing.T) {
	for name, c := range map[string]struct {
		version  int
		stat     string
		unmapped int64
		cache    int64
	}{
		"v1, the totals":          {1, "inactive_anon 9\ntotal_inactive_anon 60\ntotal_active_anon 40\ntotal_rss 70\ntotal_shmem 5\ntotal_swapcached 90\ntotal_inactive_file 3\ntotal_active_file 4", 25, 7},
		"v1, mapped in the cache": {1, "total_inactive_anon 100\ntotal_rss 100\ntotal_swapcached 50", 0, 0},
		"v2":                      {2, "inactive_anon 60\nactive_anon 40\nanon 70\nshmem 0\nswapcached 20\ninactive_file 3\nactive_file 4", 20, 7},
		"v2, an older kernel":     {2, "inactive_anon 60\nactive_anon 40\nanon 70\nshmem 0", 30, 0},
		"counts that lag":         {2, "inactive_anon 60\nanon 70\nshmem 0\nswapcached 20", 0, 0},
	} {
		g := tree(t, c.version, []string{"memory"}, map[string]string{"a/memory.stat": c.stat}).At("/a")
		unmapped, err := g.UnmappedMemory()
		cache, reading := g.PageCache()
		if unmapped != c.unmapped || cache != c.cache || err != nil || reading != nil {
			t.Errorf("%s: %d unmapped, %v, %d of page cache, %v", name, unmapped, err, cache, reading)
		}
	}
}

func TestSwappiness(t *testing.T) {
	first := tree(t, 1, []string{"memory"}, map[string]string{"a/memory.swappiness": "60", "b/cgroup.procs": ""})
	if v, ok, err := first.At("/a").Swappiness(); v != 60 || !ok || err != nil {
		t.Errorf("%d, %t, %v", v, ok, err)
	}
	if _, ok, err := first.At("/b").Swappiness(); ok || err != nil {
		t.Errorf("where there is none: %t, %v", ok, err)
	}
	if _, ok, err := two(t).Swappiness(); ok || err != nil {
		t.Errorf("version 2: %t, %v", ok, err)
	}
}
