package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
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

// MemoryLevels are the group and those above it, from the group up, as far as they
// account for memory: the root of version 2 does not.
func (g Group) MemoryLevels() ([]Level, error) {
	return g.levels(map[int][2]string{
		1: {"memory.limit_in_bytes", "memory.usage_in_bytes"},
		2: {"memory.max", "memory.current"},
	})
}

// SwapLevels are the same of swap. Version 1 bounds memory and swap together, and that is
// told: a page that leaves memory for swap changes nothing of it, so that such a limit
// keeps no page from leaving. There are none where the kernel does not account for swap.
func (g Group) SwapLevels() ([]Level, error) {
	return g.levels(map[int][2]string{
		1: {"memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"},
		2: {"memory.swap.max", "memory.swap.current"},
	})
}

func (g Group) levels(files map[int][2]string) ([]Level, error) {
	place, ok := g.For("memory")
	if !ok {
		return nil, &Unchangeable{g.String(), "no hierarchy of this host carries the memory controller", "boot without cgroup_disable=memory"}
	}
	var all []Level
	for at := place.Path; ; at = path.Dir(at) {
		dir := Place{place.Hierarchy, at}.Dir()
		text, err := readFile(dir, files[place.Version][0])
		if err == nil {
			l := Level{Path: at, Limit: NoBound}
			if limit, err := ParseMemoryLimit(text); err != nil {
				return nil, fmt.Errorf("%s: %w", dir, err)
			} else if limit > 0 || text == "0" {
				l.Limit = limit
			}
			if l.Usage, err = readInt(dir, files[place.Version][1]); err != nil {
				return nil, err
			}
			all = append(all, l)
		} else if at == place.Path && !errors.Is(err, fs.ErrNotExist) || optional(err) != nil {
			return nil, err
		}
		if at == "/" || at == place.Root || at == "." {
			return all, nil
		}
	}
}

// UnmappedMemory is anonymous memory of the group, and of those below it, that no process
// maps: pages that are on their way out, that have left and stay as swap cache until
// memory is wanted, or that were brought back and not touched yet. The kernel tells of
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
