package bound

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"tare/container"
	"tare/kernel/cgroup"
)

// Container is what one has of memory and swap, and may have.
type Container struct {
	Group string // its path in the hierarchy with the memory controller
	// Usage is what is charged to it, Anonymous what of that its processes map, and Unmapped
	// anonymous memory that they do not: on its way out, left and not reclaimed yet, or
	// brought back and not touched. Swapped is in swap alone. Bytes.
	Usage, Anonymous, Unmapped, Swapped int64
	// Limit is its own limit, and Tightest the nearest one, its own or one above it: that
	// of which least is left. [cgroup.NoBound] is none. Bytes.
	Limit    int64
	Tightest cgroup.Level
	// SwapMost is how much of it may be in swap, all told; [cgroup.NoBound] is any amount.
	SwapMost int64
	// Fixed is why its memory cannot be extended, a [*Fixed]; nil where it can.
	Fixed error
}

// Fixed says why a container's memory cannot be extended.
type Fixed struct{ Group, What, Mend string }

func (f *Fixed) Error() string {
	return fmt.Sprintf("cgroup %s cannot be extended: %s: %s", f.Group, f.What, f.Mend)
}

// Unplaced says that a container has no control group of its own.
type Unplaced struct{ Name, Why string }

func (u *Unplaced) Error() string {
	return fmt.Sprintf("container %s has no control group of its own (%s): start it with one", u.Name, u.Why)
}

// key is what a container is known by here: the directory of its control group, since ids are
// their engines', and nothing keeps two of those from having one of the same; without a group
// it is the id.
func key(c container.Container) string {
	if c.Cgroup != "" {
		return filepath.Clean(c.Cgroup)
	}
	return c.ID
}

// Place is the control group that a container is in, in each hierarchy where it has one of
// its own. The error is an [*Unplaced] where its memory is charged to the root, with
// everybody's, or to a group with that of others.
func (b *Bound) Place(c container.Container) (cgroup.Group, error) {
	path, in, known := b.pathOf(c.Cgroup)
	known = known && c.Cgroup != ""
	var members cgroup.Group
	asked := false
	var g cgroup.Group
	for _, h := range b.layout.Hierarchies {
		if h.Version == 1 && !h.Has("memory") {
			continue
		}
		at := cgroup.Place{Hierarchy: h, Path: path}
		same := h.Mount == in.Mount || (cgroup.Group{Places: []cgroup.Place{at}}).Exists()
		if !known || !same {
			// Engines need not call a group the same in each hierarchy; its processes know.
			if !asked {
				asked = true
				if c.PID > 0 {
					var err error
					if members, _, err = b.layout.Of(c.PID); err != nil {
						return g, &Unplaced{c.Name, err.Error()}
					}
					// Its number may be another's by now.
					if at, is := placeIn(members, in); known && (!is || !within(at.Path, path)) {
						return g, &Unplaced{c.Name, fmt.Sprintf("process %d, told as its first, is not in %s", c.PID, c.Cgroup)}
					}
				}
			}
			var ok bool
			if at, ok = placeIn(members, h); !ok {
				continue
			}
			if known && h.Has("memory") {
				if err := b.alone(c, at, cgroup.Place{Hierarchy: in, Path: path}); err != nil {
					return g, err
				}
			}
		}
		if at.Path != "/" && at.Path != h.Root {
			g.Places = append(g.Places, at)
		}
	}
	if _, ok := g.For("memory"); !ok {
		return g, &Unplaced{c.Name, "its processes are in the root of the hierarchy with the memory controller"}
	}
	return g, nil
}

// Within tells whether a container's memory group is what is defended, or lies below it: then
// what leaves of it frees memory there. In the host every one does. The error is that of
// [Bound.Place].
func (b *Bound) Within(c container.Container) (bool, error) {
	if b.Host() {
		return true, nil
	}
	g, err := b.Place(c)
	if err != nil {
		return false, err
	}
	place, _ := g.For("memory")
	defended, ok := b.group.For("memory")
	return ok && place.Mount == defended.Mount && within(place.Path, defended.Path), nil
}

// alone refuses a memory group, found by a container's first process, that holds processes
// besides those of the container's own group, which lies in another hierarchy: their memory
// would be taken for the container's. Of the root that is said elsewhere.
func (b *Bound) alone(c container.Container, memory, own cgroup.Place) error {
	if memory.Path == "/" || memory.Path == memory.Root {
		return nil
	}
	pid, err := b.layout.Outsider(memory, own)
	if err != nil {
		return err
	}
	if pid != 0 {
		return &Unplaced{c.Name, fmt.Sprintf("its memory is charged to %s, with that of others, such as process %d", memory.Path, pid)}
	}
	return nil
}

// within tells whether a group is another, or below it.
func within(path, other string) bool {
	return path == other || other == "/" || strings.HasPrefix(path, other+"/")
}

func placeIn(g cgroup.Group, h cgroup.Hierarchy) (cgroup.Place, bool) {
	for _, p := range g.Places {
		if p.Mount == h.Mount {
			return p, true
		}
	}
	return cgroup.Place{}, false
}

// Container looks at one.
func (b *Bound) Container(c container.Container) (Container, error) {
	g, err := b.Place(c)
	if err != nil {
		return Container{}, err
	}
	place, _ := g.For("memory")
	s := Container{
		Group:    place.Path,
		Limit:    cgroup.NoBound,
		SwapMost: cgroup.NoBound,
		Tightest: cgroup.Level{Limit: cgroup.NoBound},
	}
	levels, err := g.MemoryLevels()
	if err != nil {
		return s, err
	}
	if len(levels) == 0 || levels[0].Path != place.Path {
		s.Fixed = &Fixed{place.Path, "its memory is not accounted for", "hand the memory controller down to it (cgroup.subtree_control of the groups above it)"}
		return s, nil
	}
	s.Limit = levels[0].Limit
	for _, l := range levels {
		if l.Limit != cgroup.NoBound && (s.Tightest.Limit == cgroup.NoBound || l.Free() < s.Tightest.Free()) {
			s.Tightest = l
		}
	}
	accounts, err := g.MemoryAccounts()
	if err != nil {
		return s, err
	}
	s.Usage, s.Anonymous, s.Swapped = accounts.Usage, accounts.Anonymous, accounts.Swapped
	if s.Unmapped, err = g.UnmappedMemory(); err != nil {
		return s, err
	}
	if err := s.allowance(g, place); err != nil {
		return s, err
	}
	return s, nil
}

// allowance finds how much of a group may be in swap.
func (s *Container) allowance(g cgroup.Group, place cgroup.Place) error {
	levels, err := g.SwapLevels()
	if err != nil {
		return err
	}
	if place.Version == 1 {
		// The limit is of memory and swap together: what leaves for swap stays within it.
		for _, l := range levels {
			s.bound(l.Limit)
		}
		value, ok, err := g.Swappiness()
		if err != nil {
			return err
		}
		if ok && value == 0 {
			s.Fixed = &Fixed{place.Path, "it has a swappiness of 0, so that the kernel does not let go of its anonymous memory even where that has left for swap", "echo 60 > " + place.File("memory.swappiness")}
		}
		return nil
	}
	for _, l := range levels {
		if l.Limit == cgroup.NoBound {
			continue
		}
		s.bound(levels[0].Usage + l.Free())
		if l.Limit == 0 {
			up := place
			up.Path = l.Path
			s.Fixed = &Fixed{place.Path, "none of " + l.Path + " may be in swap (memory.swap.max or memory.swap.high is 0)", "echo max > " + up.File("memory.swap.max") + ", and to memory.swap.high there, and have its engine ask for that"}
			return nil
		}
	}
	return nil
}

func (s *Container) bound(most int64) {
	if most != cgroup.NoBound && (s.SwapMost == cgroup.NoBound || most < s.SwapMost) {
		s.SwapMost = most
	}
}

// Inspect says how much of a container may be in swap (0 is any amount), and why it
// cannot be extended; empty where it can. One that lies outside of what is defended is not.
func (b *Bound) Inspect(c container.Container) (swapMost int64, fixed string) {
	if inside, err := b.Within(c); err == nil && !inside {
		defended, _ := b.group.For("memory")
		return 0, fmt.Sprintf("it lies outside of cgroup %s, which is defended, and to which its memory is of no use: have it started below that, or defend the host (memory.defend)", defended.Path)
	}
	s, err := b.Container(c)
	if err = errors.Join(err, s.Fixed); err != nil {
		return 0, err.Error()
	}
	if s.SwapMost == cgroup.NoBound {
		return 0, ""
	}
	return max(1, s.SwapMost), "" // none at all now may be some later
}

// Crowded is the nearest limit of swap, of a container or of what it lies in, of which half or
// more is used; empty where there is none. The kernel then has pages that are used again lose
// their place in swap as where all of swap is more than half full (mem_cgroup_swap_full of its
// mm/memcontrol.c); on version 1, which bounds memory and swap together, it does not.
func (b *Bound) Crowded(c container.Container) (group string, err error) {
	g, err := b.Place(c)
	if err != nil {
		return "", err
	}
	if place, _ := g.For("memory"); place.Version == 1 {
		return "", nil
	}
	levels, err := g.SwapLevels()
	if err != nil {
		return "", err
	}
	for _, l := range levels {
		if l.Limit != cgroup.NoBound && l.Limit > 0 && 2*l.Usage >= l.Limit {
			return l.Path, nil
		}
	}
	return "", nil
}

// Room is how much a container may still take before the nearest limit has the kernel take
// pages of it that are in use; limited tells that there is such a limit at all. Page cache
// that is not used again makes room. What cannot be told is no room. The limit of what is
// defended, and those above it, are none of these: [Bound.Memory] tells what they leave free.
func (b *Bound) Room(c container.Container) (bytes int64, limited bool) {
	g, err := b.Place(c)
	if err != nil {
		return 0, true
	}
	levels, err := g.MemoryLevels()
	if err != nil {
		return 0, true
	}
	defended, _ := b.group.For("memory")
	for _, l := range levels {
		if !b.Host() && l.Path == defended.Path {
			break
		}
		if l.Limit != cgroup.NoBound && (!limited || l.Free() < bytes) {
			bytes, limited = l.Free(), true
		}
	}
	if !limited {
		return 0, false
	}
	if idle, err := g.InactiveCache(); err == nil {
		bytes += idle
	}
	return bytes, true
}
