package bound

import (
	"context"
	"errors"
	"path"
	"slices"

	"tare/annex/guard"
	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/knob"
)

// protection is what was set for one critical container.
type protection struct {
	files []string         // its own, and those of groups below it
	above map[string]int64 // how much of the protection of groups above it is its, by file
}

// Protect keeps a critical container's memory while others' leaves: on version 1 by a
// swappiness of 0, of its group and those below it; on version 2 by memory.low, of as much
// as it uses and a sixteenth more, which the groups above it up to what is defended are
// given too. It may be called again, and is to be as groups come below it and, on version
// 2, as it grows. Without a guard it is [ErrObserving], and a [*guard.Changed] where somebody
// else has set the container's own protection since.
func (b *Bound) Protect(c container.Container) error {
	if b.options.Knobs == nil {
		return ErrObserving
	}
	g, err := b.Place(c)
	if err != nil {
		return err
	}
	place, _ := g.For("memory")
	below, err := g.Below("memory")
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if place.Version == 1 {
		return b.protect(key(c), place, below, swappinessFile, func(cgroup.Group) (string, error) { return "0", nil })
	}
	usage, err := g.MemoryUsage()
	if err != nil {
		return err
	}
	if err := b.protectAbove(key(c), place, protectedSize(usage)); err != nil {
		return err
	}
	return b.protect(key(c), place, below, "memory.low", func(g cgroup.Group) (string, error) {
		usage, err := g.MemoryUsage()
		return text(protectedSize(usage)), err
	})
}

// lowGrain is what protected sizes are whole multiples of, so that they change seldom.
const lowGrain = 4 << 20

// protectedSize is what is protected of a group that uses so much.
func protectedSize(usage int64) int64 { return (usage + usage/16 + lowGrain - 1) / lowGrain * lowGrain }

func (b *Bound) protect(key string, place cgroup.Place, below []cgroup.Group, name string, value func(cgroup.Group) (string, error)) (theirs error) {
	p := b.protected[key]
	defer func() { b.protected[key] = p }()
	own := cgroup.Group{Places: []cgroup.Place{place}}
	groups := append([]cgroup.Group{own}, below...)
	// Of groups that are no more nothing is kept: where many come and go, as below a container
	// that has services, the account of them would grow for as long as it runs.
	var gone []string
	p.files = slices.DeleteFunc(p.files, func(file string) bool {
		is := slices.ContainsFunc(groups, func(g cgroup.Group) bool { return g.Places[0].File(name) == file })
		if !is {
			gone = append(gone, file)
		}
		return !is
	})
	if len(gone) > 0 {
		if _, err := b.options.Knobs.Restore(gone...); err != nil {
			return err
		}
	}
	for _, g := range groups {
		at := g.Places[0]
		text, err := value(g)
		if err == nil {
			err = b.options.Knobs.Keep(context.Background(), at.File(name), text)
		}
		if gone := new(knob.Gone); at.Path != place.Path && (errors.As(err, &gone) || !g.Exists()) {
			continue // it went meanwhile
		}
		// What somebody else has set is his; of the container's own group that is told, since
		// it is then not protected.
		if changed := new(guard.Changed); errors.As(err, &changed) {
			if at.Path == place.Path {
				theirs = err
			}
			continue
		}
		if err != nil {
			return err
		}
		if file := at.File(name); !slices.Contains(p.files, file) {
			p.files = append(p.files, file)
		}
	}
	return theirs
}

// protectAbove gives the groups above a critical one, on version 2, as much protection as
// those below them have together: the kernel shares out only what they have. More would
// go to the others there.
func (b *Bound) protectAbove(key string, place cgroup.Place, size int64) error {
	p := b.protected[key]
	p.above = map[string]int64{}
	top := "/"
	if defended, ok := b.group.For("memory"); ok {
		top = defended.Path
	}
	for at := path.Dir(place.Path); at != "/" && at != "." && at != place.Root && at != top; at = path.Dir(at) {
		up := place
		up.Path = at
		p.above[up.File("memory.low")] = size
	}
	b.protected[key] = p
	for file := range p.above {
		if err := b.options.Knobs.Keep(context.Background(), file, text(b.wanted(file))); err != nil {
			if changed := new(guard.Changed); !errors.As(err, &changed) {
				return err
			}
		}
	}
	return nil
}

// wanted is the protection of a group above critical ones.
func (b *Bound) wanted(file string) (sum int64) {
	for _, p := range b.protected {
		sum += p.above[file]
	}
	return sum
}

// Unprotect puts back what was set for a container that is not critical any more, or not
// there.
func (b *Bound) Unprotect(c container.Container) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.protected[key(c)]
	if !ok {
		return nil
	}
	delete(b.protected, key(c))
	var all []error
	files := slices.Clone(p.files)
	for file := range p.above {
		if sum := b.wanted(file); sum > 0 {
			all = append(all, b.options.Knobs.Keep(context.Background(), file, text(sum)))
		} else {
			files = append(files, file)
		}
	}
	if len(files) > 0 {
		_, err := b.options.Knobs.Restore(files...)
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Release puts back whatever was set, of what somebody else has not changed since.
func (b *Bound) Release() error {
	if b.options.Knobs == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.protected)
	_, err := b.options.Knobs.Restore()
	return err
}
