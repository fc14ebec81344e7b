package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
)

// What an extension of memory by swap has to know of groups.

// Level is a group, or one above it, with what it may have of memory and has.
type Level struct {
	Path  string
	Limit int64 // bytes, or [NoBound]
	Usage int64 // bytes
}

// Free is what the level may still take before it has to reclaim; of one without a limit
// [NoBound].
func (l Level) Free() int64 {
	if l.Limit == NoBound {
		return NoBound
	}
	return max(0, l.Limit-l.Usage)
}

// levelFiles are what bounds a level, the first of them where the controller is, and what is
// counted of it.
type levelFiles struct {
	limits []string
	usage  string
}

// MemoryLevels are the group and those above it, from the group up, as far as they
// account for memory: the root of version 2 does not. There a limit is the lower of
// memory.max and memory.high: above the latter already its pages are reclaimed, by tasks that
// are held up for it.
func (g Group) MemoryLevels() ([]Level, error) {
	return g.levels(map[int]levelFiles{
		1: {[]string{"memory.limit_in_bytes"}, "memory.usage_in_bytes"},
		2: {[]string{"memory.max", "memory.high"}, "memory.current"},
	})
}

// SwapLevels are the same of swap. Version 1 bounds memory and swap together, and that is
// set: a page that leaves memory for swap changes nothing of it, so that such a limit
// keeps no page from leaving. There are none where the kernel does not account for swap.
func (g Group) SwapLevels() ([]Level, error) {
	return g.levels(map[int]levelFiles{
		1: {[]string{"memory.memsw.limit_in_bytes"}, "memory.memsw.usage_in_bytes"},
		2: {[]string{"memory.swap.max", "memory.swap.high"}, "memory.swap.current"},
	})
}

func (g Group) levels(versions map[int]levelFiles) ([]Level, error) {
	place, ok := g.For("memory")
	if !ok {
		return nil, &Unchangeable{g.String(), "no hierarchy of this host carries the memory controller", "boot without cgroup_disable=memory"}
	}
	files := versions[place.Version]
	var all []Level
	for at := place.Path; ; at = path.Dir(at) {
		dir := Place{place.Hierarchy, at}.Dir()
		l := Level{Path: at, Limit: NoBound}
		err := l.bound(dir, files.limits)
		switch {
		case err == nil:
			if l.Usage, err = readInt(dir, files.usage); err != nil {
				return nil, err
			}
			all = append(all, l)
		case optional(err) != nil:
			return nil, err
		}
		if at == "/" || at == place.Root || at == "." {
			return all, nil
		}
	}
}

// bound reads the lowest of a level's limits. The first of them is there, or the level accounts
// for nothing; of the others there need not be any.
func (l *Level) bound(dir string, limits []string) error {
	for i, name := range limits {
		text, err := readFile(dir, name)
		if err != nil && (i == 0 || optional(err) != nil) {
			return err
		}
		if err != nil {
			continue
		}
		limit, err := ParseMemoryLimit(text)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		if (limit > 0 || text == "0") && (l.Limit == NoBound || limit < l.Limit) {
			l.Limit = limit
		}
	}
	return nil
}

// UnmappedMemory is anonymous memory of the group, and of those below it, that no process
// maps: pages that are on their way out, that have left and stay as swap cache until
// memory is wanted, or that were brought back and not touched yet. The kernel reports
// neither apart: it is what its lists of anonymous pages hold beside those that are
// mapped, and beside shared memory, which is on them too.
func (g Group) UnmappedMemory() (int64, error) {
	place, ok := g.For("memory")
	if !ok {
		return 0, &Unchangeable{g.String(), "no hierarchy of this host carries the memory controller", "boot without cgroup_disable=memory"}
	}
	stat, err := readKeyed(place.Dir(), "memory.stat")
	if err != nil {
		return 0, err
	}
	prefix, mapped := "", "anon"
	if place.Version == 1 {
		prefix, mapped = "total_", "total_rss"
	}
	listed := stat[prefix+"inactive_anon"] + stat[prefix+"active_anon"]
	unmapped := max(0, listed-stat[mapped]-stat[prefix+"shmem"])
	// What has left has a place in swap; kernels before Linux 5.12 do not count those.
	if cached, ok := stat[prefix+"swapcached"]; ok {
		unmapped = min(unmapped, cached)
	}
	return unmapped, nil
}

// Swappiness is how readily the kernel takes the group's anonymous memory rather than
// page cache: version 1's own of each group. ok is false where groups have none.
func (g Group) Swappiness() (value int64, ok bool, err error) {
	place, found := g.For("memory")
	if !found || place.Version != 1 {
		return 0, false, nil
	}
	value, err = readInt(place.Dir(), "memory.swappiness")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	return value, err == nil, err
}

// PageCache is what the kernel's lists of file pages hold of the group and of those
// below it: what reclaim takes besides anonymous memory, or before it.
func (g Group) PageCache() (int64, error) {
	inactive, active, err := g.pageCache()
	return inactive + active, err
}

// InactiveCache is that part of [Group.PageCache] which the kernel takes first: it was not
// used again since it was read.
func (g Group) InactiveCache() (int64, error) {
	inactive, _, err := g.pageCache()
	return inactive, err
}

func (g Group) pageCache() (inactive, active int64, err error) {
	place, ok := g.For("memory")
	if !ok {
		return 0, 0, &Unchangeable{g.String(), "no hierarchy of this host carries the memory controller", "boot without cgroup_disable=memory"}
	}
	stat, err := readKeyed(place.Dir(), "memory.stat")
	if err != nil {
		return 0, 0, err
	}
	prefix := ""
	if place.Version == 1 {
		prefix = "total_"
	}
	return stat[prefix+"inactive_file"], stat[prefix+"active_file"], nil
}
