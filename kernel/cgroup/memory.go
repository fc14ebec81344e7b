package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// NoBound is no bound of swap, and no limit of memory.
const NoBound int64 = -1

// BoundMemory holds a group, and all below it together, to so much memory, and to so
// much swap besides; a swap of 0 lets none of it leave, and [NoBound] bounds neither.
//
// Version 1 bounds memory and swap together, where the kernel accounts for swap at all
// (memory.memsw, which swapaccount=0 takes away). Where it does not, no swap is had by
// a swappiness of 0, which for a group's own limit keeps anonymous memory in
// (get_scan_count of mm/vmscan.c), and any other bound of swap is an [*Unchangeable].
func (g Group) BoundMemory(memory, swap int64) error {
	place, err := g.changing("memory")
	if err != nil {
		return err
	}
	if place.Version == 2 {
		err := place.write("memory.swap.max", bound(2, swap))
		if swap <= 0 && swapless() {
			err = optional(err)
		}
		if err != nil && (swap != NoBound || optional(err) != nil) {
			return place.lacking("memory.swap.max", err)
		}
		return place.write("memory.max", bound(2, memory))
	}
	if err := place.write("memory.limit_in_bytes", bound(1, memory)); err != nil {
		return err
	}
	if swap == NoBound || memory == NoBound {
		return nil
	}
	err = place.write("memory.memsw.limit_in_bytes", bound(1, memory+swap))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if swap == 0 {
		return place.write("memory.swappiness", "0")
	}
	return &Unchangeable{g.String(), "the kernel does not account for swap", "boot without swapaccount=0"}
}

// LimitMemory sets the limit of memory alone. A limit below what is used has the kernel
// reclaim the rest first, in the caller's time. Version 1 then refuses one that it does
// not get to (EBUSY), and leaves what was; version 2 calls the OOM killer.
func (g Group) LimitMemory(bytes int64) error {
	place, err := g.changing("memory")
	if err != nil {
		return err
	}
	name := "memory.max"
	if place.Version == 1 {
		name = "memory.limit_in_bytes"
	}
	return place.write(name, bound(place.Version, bytes))
}

// swapless reports whether this kernel has no swap at all, and so no bounds of it.
func swapless() bool {
	_, err := os.Stat("/proc/swaps")
	return errors.Is(err, fs.ErrNotExist)
}

func bound(version int, bytes int64) string {
	switch {
	case bytes >= 0:
		return strconv.FormatInt(bytes, 10)
	case version == 1:
		return "-1"
	}
	return "max"
}

// lacking makes a missing file one of swap that is not accounted for.
func (p Place) lacking(file string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &Unchangeable{p.Path, "it has no " + file, "boot a kernel with CONFIG_SWAP, and without swapaccount=0"}
}

// KeepFromSwap has anonymous memory of the group stay while that of others can leave:
// version 1's memory.swappiness of 0, which groups made below it afterwards have from
// it. Version 2 has nothing of that name; see [Group.ProtectMemory].
func (g Group) KeepFromSwap() error {
	place, err := g.changing("memory")
	if err != nil {
		return err
	}
	if place.Version == 2 {
		return &Unchangeable{g.String(), "version 2 has no swappiness of a group's own", "protect its memory (memory.low)"}
	}
	return place.write("memory.swappiness", "0")
}

// ProtectMemory has the kernel take from others first as long as the group has less
// than that: version 2's memory.low. It is shared out among the groups below it only by
// what those ask for themselves, unless the hierarchy was mounted with
// memory_recursiveprot; so they are to be given it too.
func (g Group) ProtectMemory(bytes int64) error {
	place, err := g.changing("memory")
	if err != nil {
		return err
	}
	if place.Version == 1 {
		return &Unchangeable{g.String(), "version 1 has no memory.low", "keep it from swap (memory.swappiness)"}
	}
	if have, err := readFile(place.Dir(), "memory.low"); err == nil && have == bound(2, bytes) {
		return nil
	}
	return place.write("memory.low", bound(2, bytes))
}

// ReclaimMemory takes that much memory from the group at once, in the caller's time and
// on its account. Less is no error: what there is may be in use.
//
// Version 2 has memory.reclaim for it (Linux 5.19). Version 1 is given a lower limit,
// which the kernel sets once it has got there, and then the old one again; limit is
// that. No other must set the limit meanwhile.
func (g Group) ReclaimMemory(bytes, limit int64) error {
	place, err := g.changing("memory")
	if err != nil {
		return err
	}
	if place.Version == 2 {
		err := place.write("memory.reclaim", bound(2, bytes))
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return &Unchangeable{g.String(), "it has no memory.reclaim", "boot Linux 5.19 or newer"}
		}
		return err
	}
	usage, err := g.MemoryUsage()
	if err != nil {
		return err
	}
	if usage <= bytes {
		return nil
	}
	lowering := g.LimitMemory(usage - bytes)
	if errors.Is(lowering, unix.EBUSY) || errors.Is(lowering, unix.EINTR) {
		lowering = nil
	}
	// Whatever came of it: a limit that stayed low would have the group's programs
	// reclaim, or die, where they had room.
	return errors.Join(lowering, g.LimitMemory(limit))
}

// CanReclaim reports whether a group of this layout can be reclaimed from.
func (l Layout) CanReclaim() error {
	return l.offers("memory.reclaim", "memory.reclaim", "Linux 5.19 or newer")
}

// CanProtect reports whether a group's memory can be kept while others' leaves.
func (l Layout) CanProtect() error {
	return l.offers("memory.swappiness", "memory.low", "Linux 4.5 or newer")
}

// CanBoundSwap reports whether a group can be held to an amount of swap.
func (l Layout) CanBoundSwap() error {
	return l.offers("memory.memsw.limit_in_bytes", "memory.swap.max", "a kernel with CONFIG_SWAP, without swapaccount=0")
}

// offers looks for a file of the memory controller. What version 1's root has, its groups
// have; version 2's files are only in groups, of which there may be none yet.
func (l Layout) offers(one, two, mend string) error {
	h, ok := l.For("memory")
	if !ok {
		return &Unchangeable{"/", "no hierarchy of this host carries the memory controller", "boot without cgroup_disable=memory"}
	}
	if h.Version == 1 {
		if one == "memory.reclaim" {
			return nil // by the limit
		}
		if _, err := os.Stat(filepath.Join(h.Mount, one)); err != nil {
			return &Unchangeable{"/", "it has no " + one, "boot " + mend}
		}
		return nil
	}
	any, err := filepath.Glob(filepath.Join(h.Mount, "*", "memory.max"))
	if err != nil || len(any) == 0 {
		return nil // that is seen when it is asked for
	}
	if have, err := filepath.Glob(filepath.Join(h.Mount, "*", two)); err != nil || len(have) == 0 {
		return &Unchangeable{"/", "its groups have no " + two, "boot " + mend}
	}
	return nil
}

// MemoryUsage is what is charged to the group and those below it, in bytes.
func (g Group) MemoryUsage() (int64, error) {
	place, ok := g.For("memory")
	if !ok {
		return 0, &Unchangeable{g.String(), "no hierarchy of this host carries the memory controller", "boot without cgroup_disable=memory"}
	}
	if place.Version == 1 {
		return readInt(place.Dir(), "memory.usage_in_bytes")
	}
	return readInt(place.Dir(), "memory.current")
}

// MemoryAccounts are what the programs of a group, and of those below it, have.
type MemoryAccounts struct {
	Usage       int64 // charged, bytes: with page cache, and what the kernel holds for them
	Anonymous   int64 // bytes
	Swapped     int64 // bytes, of what is in swap alone: what is in memory again is not in it
	MajorFaults int64 // since the group was made
	// Zswap is what of zswap's pool is charged to the group, and so part of Usage; on
	// version 1 it is charged to nobody.
	Zswap int64
	// Absent are those of the figures that this kernel does not report: "swapped".
	Absent map[string]string
}

// MemoryAccounts reads them: memory.stat, of version 1 the hierarchical totals.
func (g Group) MemoryAccounts() (MemoryAccounts, error) {
	a := MemoryAccounts{}
	var err error
	if a.Usage, err = g.MemoryUsage(); err != nil {
		return a, err
	}
	place, _ := g.For("memory")
	stat, err := readKeyed(place.Dir(), "memory.stat")
	if err != nil {
		return a, err
	}
	take := func(key, figure string) int64 {
		v, ok := stat[key]
		if !ok {
			a.lack(figure, fmt.Sprintf("%s has no %s", place.File("memory.stat"), key))
		}
		return v
	}
	if place.Version == 1 {
		a.Anonymous, a.MajorFaults = take("total_rss", "anonymous"), take("total_pgmajfault", "major_faults")
		a.Swapped = take("total_swap", "swapped") // where swap is accounted for
		return a, nil
	}
	a.Anonymous, a.MajorFaults = take("anon", "anonymous"), take("pgmajfault", "major_faults")
	slots, err := readInt(place.Dir(), "memory.swap.current")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.lack("swapped", "there is no "+place.File("memory.swap.current"))
	case err != nil:
		return a, err
	case slots > 0:
		// A page that was read back keeps its slot until that is wanted, and is in memory
		// too. Those on their way out, or read ahead and not used yet, go with them: the
		// kernel does not distinguish them. It reports the cache at another moment than of
		// the slots, hence the bound.
		a.Swapped = max(0, slots-take("swapcached", "swapped"))
		if a.Absent["swapped"] != "" {
			a.Swapped = 0
		}
	}
	a.Zswap, err = readInt(place.Dir(), "memory.zswap.current")
	return a, optional(err)
}

func (a *MemoryAccounts) lack(figure, why string) {
	if a.Absent == nil {
		a.Absent = map[string]string{}
	}
	a.Absent[figure] = why
}

// OOMKills counts what the OOM killer ended, by group: those of version 1 count for
// themselves alone, so that each below is there; version 2's count for all below, and
// there is one. The counts of a group go with it.
func (g Group) OOMKills() (map[string]int64, error) {
	place, ok := g.For("memory")
	if !ok {
		return nil, nil
	}
	kills := map[string]int64{}
	if place.Version == 2 {
		e, err := readKeyed(place.Dir(), "memory.events")
		kills[place.Path] = e["oom_kill"]
		return kills, optional(err)
	}
	err := place.walk(func(p Place) error {
		e, err := readKeyed(p.Dir(), "memory.oom_control")
		if err == nil {
			kills[p.Path] = e["oom_kill"]
		}
		return passing(err)
	})
	return kills, err
}

// Below lists the groups below this one in the hierarchy that carries the controller.
func (g Group) Below(controller string) ([]Group, error) {
	place, ok := g.For(controller)
	if !ok {
		return nil, nil
	}
	var all []Group
	err := place.walk(func(p Place) error {
		if p.Path != place.Path {
			all = append(all, Group{Places: []Place{p}})
		}
		return nil
	})
	return all, err
}

// walk visits a place and all below it. One that goes meanwhile is passed over.
func (p Place) walk(visit func(Place) error) error {
	if err := visit(p); err != nil {
		return err
	}
	entries, err := os.ReadDir(p.Dir())
	if err != nil {
		return passing(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := (Place{p.Hierarchy, path.Join(p.Path, e.Name())}).walk(visit); err != nil {
			return err
		}
	}
	return nil
}

// passing forgives a group that was removed before, or while, it was read.
func passing(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return optional(err)
}

// Unified is the directory of the group's place in the version 2 hierarchy, which has
// its pressure (PSI) even where the controllers are version 1's; ok is false where it
// has none.
func (g Group) Unified() (dir string, ok bool) {
	i := slices.IndexFunc(g.Places, func(p Place) bool { return p.Version == 2 })
	if i < 0 {
		return "", false
	}
	return g.Places[i].Dir(), true
}

// Reclaim counts what the kernel took from a group, and from those below it, for want of
// memory, since the group was made.
type Reclaim struct {
	Usage   int64 // bytes, now
	AtLimit int64 // how often usage met the limit: memory.events (max and high), or memory.failcnt
	// HasMet tells that usage once met the limit, and is near it now; of version 1 alone, which does not count
	// everything: where the limit of memory and swap together is the same, it is met uncounted.
	HasMet      bool
	Refaults    int64 // pages that were pushed out and are used again (workingset_refault)
	Read        int64 // bytes read from disks; negative where no controller counts them
	MajorFaults int64
	OOMKills    int64 // processes that the kernel killed at a limit: memory.events, or memory.oom_control
}

// Since is what was counted since an earlier reading. Usage is this one's.
func (r Reclaim) Since(earlier Reclaim) Reclaim {
	return Reclaim{
		r.Usage,
		r.AtLimit - earlier.AtLimit,
		r.HasMet,
		r.Refaults - earlier.Refaults,
		r.read(earlier),
		r.MajorFaults - earlier.MajorFaults,
		r.OOMKills - earlier.OOMKills,
	}
}

func (r Reclaim) read(earlier Reclaim) int64 {
	if r.Read < 0 || earlier.Read < 0 {
		return -1
	}
	return r.Read - earlier.Read
}

// DiskReads are the bytes that a group, and those below it, have read from disks (io.stat, or
// blkio.throttle.io_service_bytes_recursive); negative where no controller counts them. Version 1 counts at disks
// alone for which a group was ever given a limit. What goes through a device that lies on others is
// counted at those.
func (g Group) DiskReads() (sum int64, err error) {
	place, ok := g.For("io")
	name, word := "io.stat", "rbytes="
	if !ok {
		place, ok = g.For("blkio")
		name, word = "blkio.throttle.io_service_bytes_recursive", "Read "
	}
	if !ok {
		return -1, nil
	}
	text, err := readFile(place.Dir(), name)
	if err != nil {
		return -1, optional(err)
	}
	for line := range strings.Lines(text) {
		device, rest, _ := strings.Cut(line, " ")
		_, after, ok := strings.Cut(rest, word)
		if !ok || liesOnOthers(device) {
			continue
		}
		count, _, _ := strings.Cut(strings.TrimSpace(after), " ")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return -1, fmt.Errorf("%s: %q: want a number of bytes", name, count)
		}
		sum += n
	}
	return sum, nil
}

// liesOnOthers reports whether a block device, by its numbers, is made of others (LVM, LUKS, MD).
func liesOnOthers(device string) bool {
	below, err := os.ReadDir(filepath.Join("/sys/dev/block", filepath.Base(device), "slaves"))
	return err == nil && len(below) > 0
}

// batch is by how much usage stays below a limit that it has met: the kernel charges so much at once.
const batch = 64 << 12

// Reclaimed reads these counters. A kernel that does not count refaults leaves them 0.
func (g Group) Reclaimed() (r Reclaim, err error) {
	place, ok := g.For("memory")
	if !ok {
		return r, nil
	}
	if r.Usage, err = g.MemoryUsage(); err != nil {
		return r, err
	}
	stat, err := readKeyed(place.Dir(), "memory.stat")
	if err != nil {
		return r, err
	}
	if r.Read, err = g.DiskReads(); err != nil {
		return r, err
	}
	if place.Version == 1 {
		r.Refaults = stat["total_workingset_refault_anon"] + stat["total_workingset_refault_file"]
		r.MajorFaults = stat["total_pgmajfault"]
		if r.AtLimit, err = readInt(place.Dir(), "memory.failcnt"); err != nil {
			return r, optional(err)
		}
		oom, err := readKeyed(place.Dir(), "memory.oom_control")
		if optional(err) != nil {
			return r, err
		}
		r.OOMKills = oom["oom_kill"]
		limit, err := readInt(place.Dir(), "memory.limit_in_bytes")
		if err != nil {
			return r, optional(err)
		}
		peak, err := readInt(place.Dir(), "memory.max_usage_in_bytes")
		r.HasMet = err == nil && peak >= limit-batch && r.Usage >= limit/4*3
		return r, optional(err)
	}
	// Before Linux 5.9 there was one counter of both.
	r.Refaults = stat["workingset_refault_anon"] + stat["workingset_refault_file"] + stat["workingset_refault"]
	r.MajorFaults = stat["pgmajfault"]
	events, err := readKeyed(place.Dir(), "memory.events")
	r.AtLimit, r.OOMKills = events["max"]+events["high"], events["oom_kill"]
	return r, optional(err)
}
