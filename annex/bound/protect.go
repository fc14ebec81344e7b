package bound

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

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

// low is the protection that a group of version 2 had before it was given any, and what it has
// been given.
type low struct {
	identity    uint64 // a group that is made again under the same name is another
	found, kept string
}

// Protect keeps a critical container's memory while others' leaves: on version 1 by a
// swappiness of 0, of its group and those below it; on version 2 by memory.low, of as much
// as it uses and a sixteenth more where it has less, which the groups above it up to what is
// defended are given too, beside what they have. It may be called again, and is to be as groups
// come below it and, on version 2, as it grows, and as systemd sets it back. Without a guard it is
// [ErrObserving], and a
// [*guard.Changed] where somebody else has set the container's own protection since.
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
	b.changing.Lock()
	defer b.changing.Unlock()
	if place.Version == 1 {
		return b.protect(key(c), place, below, swappinessFile, func(_ cgroup.Group, file string) error {
			return b.options.Knobs.Keep(context.Background(), file, "0")
		})
	}
	usage, err := g.MemoryUsage()
	if err != nil {
		return err
	}
	if err := b.protectAbove(key(c), place, protectedSize(usage)); err != nil {
		return err
	}
	return b.protect(key(c), place, below, "memory.low", func(g cgroup.Group, file string) error {
		usage, err := g.MemoryUsage()
		if err != nil {
			return err
		}
		return b.keepLow(file, func(found int64) int64 { return max(found, protectedSize(usage)) })
	})
}

// lowGrain is what protected sizes are whole multiples of, so that they change seldom.
const lowGrain = 4 << 20

// protectedSize is what is protected of a group that uses so much.
func protectedSize(usage int64) int64 { return (usage + usage/16 + lowGrain - 1) / lowGrain * lowGrain }

func (b *Bound) protect(
	key string,
	place cgroup.Place,
	below []cgroup.Group,
	name string,
	keep func(g cgroup.Group, file string) error,
) (theirs error) {
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
		if err := b.restore(gone...); err != nil {
			return err
		}
	}
	for _, g := range groups {
		at := g.Places[0]
		err := keep(g, at.File(name))
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

// keepLow keeps a group's memory.low as is wanted by what was found there first: later it holds
// what was kept. Where the two are the same nothing was written, and no guard tells that
// somebody else has set it since.
func (b *Bound) keepLow(file string, wanted func(found int64) int64) error {
	k, err := knob.Open(file)
	if err != nil {
		return err
	}
	defer k.Close()
	have, err := k.Read()
	if err != nil {
		return err
	}
	before, known := b.low(file)
	l := before
	if !known || l.identity != k.Identity() {
		l = low{k.Identity(), have, have}
	}
	if l.kept == l.found && have != l.found {
		return &guard.Changed{File: file, Found: l.found, Have: have}
	}
	found, err := parseLow(l.found)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	l.kept = lowText(wanted(found))
	err = b.keep(file, l)
	if changed := new(guard.Changed); errors.As(err, &changed) && changed.Have == l.found {
		switch reset, unknown := b.isReset(file, l.found); {
		case unknown != nil:
			err = fmt.Errorf("%w (unless systemd set it back, which it does not say: %w)", err, unknown)
		case reset:
			if err = b.restore(file); err == nil { // which finds it so, and forgets what was kept
				err = b.keep(file, l)
			}
		}
	}
	if err == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.lows, file)
	if known {
		b.lows[file] = before
	}
	return err
}

// keep writes what a file is to hold. It is noted first, so that [Bound.IsOwn] knows the write.
func (b *Bound) keep(file string, l low) error {
	b.mu.Lock()
	b.lows[file] = l
	b.mu.Unlock()
	return b.options.Knobs.Keep(context.Background(), file, l.kept)
}

func (b *Bound) low(file string) (low, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, known := b.lows[file]
	return l, known
}

// IsOwn tells that a group's memory.low holds what was written there last.
func (b *Bound) IsOwn(file string) bool {
	l, known := b.low(file)
	if !known {
		return false
	}
	k, err := knob.Open(file)
	if err != nil {
		return false
	}
	defer k.Close()
	have, err := k.Read()
	return err == nil && k.Identity() == l.identity && have == l.kept
}

// Unit is what systemd knows of a unit: its control group, by its path, and the memory.low that it is
// to have, as systemctl show spells it.
type Unit struct{ Group, MemoryLow string }

// silence is for how long systemd is not asked again after it did not answer: others' settings wait
// while it is asked.
const silence = 10 * time.Second

// isReset tells that a group's protection is what systemd has it be, which owns the group. It is then
// taken for systemd's doing: each systemctl daemon-reload sets groups back. Whoever means the same value
// cannot be distinguished from that. Another value that systemd has by now is somebody's wish. The file is written
// again, and no property of the unit is set: that would stay where annexd is killed, as its guard knows files alone.
func (b *Bound) isReset(file, have string) (bool, error) {
	path, _, ok := b.pathOf(filepath.Dir(file))
	if !ok || b.options.Unit == nil {
		return false, nil
	}
	if b.silent != nil && time.Since(b.silentSince) < silence {
		return false, b.silent
	}
	u, err := b.options.Unit(context.Background(), filepath.Base(path))
	b.silent, b.silentSince = err, time.Now()
	if err != nil || u.Group != path {
		return false, err
	}
	const everything = "infinity"
	if u.MemoryLow == everything {
		return have == allLow, nil
	}
	wanted, err := parseLow(u.MemoryLow)
	if err != nil {
		return false, nil // systemd sets nothing: "[not set]"
	}
	has, err := parseLow(have)
	page := int64(os.Getpagesize()) // the kernel keeps whole ones
	return wanted/page == has/page, err
}

// allLow is how a memory.low of everything is spelled.
const allLow = "max"

func parseLow(text string) (int64, error) {
	if text == allLow {
		return math.MaxInt64, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

func lowText(n int64) string {
	if n == math.MaxInt64 {
		return allLow
	}
	return text(n)
}

// restore puts files back, or all, and forgets what was found in them. What could not be put
// back still holds what was kept.
func (b *Bound) restore(files ...string) error {
	outcomes, err := b.options.Knobs.Restore(files...)
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.lows, func(file string, _ low) bool {
		asked := len(files) == 0 || slices.Contains(files, file)
		return asked &&
			!slices.ContainsFunc(
				outcomes,
				func(o guard.Outcome) bool { return o.File == file && o.Ending == guard.Failed },
			)
	})
	return err
}

// protectAbove gives the groups above a critical one, on version 2, as much protection as
// those below them have together, beside what they had: the kernel shares out only what they
// have. More would go to the others there, and less would take from those.
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
		if err := b.keepAbove(file); err != nil {
			return err
		}
	}
	return nil
}

// keepAbove keeps the protection of a group above critical ones. What somebody else has set
// there is his, and a group that is gone protects nobody.
func (b *Bound) keepAbove(file string) error {
	err := b.keepLow(file, func(found int64) int64 { return found + min(b.wanted(file), math.MaxInt64-found) })
	changed, gone := new(guard.Changed), new(knob.Gone)
	if errors.As(err, &changed) || errors.As(err, &gone) {
		return nil
	}
	return err
}

// wanted is how much more protection a group above critical ones is to have for them.
func (b *Bound) wanted(file string) (sum int64) {
	for _, p := range b.protected {
		sum += p.above[file]
	}
	return sum
}

// Unprotect puts back what was set for a container that is not critical any more, or not
// there.
func (b *Bound) Unprotect(c container.Container) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	p, ok := b.protected[key(c)]
	if !ok {
		return nil
	}
	delete(b.protected, key(c))
	var all []error
	files := slices.Clone(p.files)
	for file := range p.above {
		if b.wanted(file) > 0 {
			all = append(all, b.keepAbove(file))
		} else {
			files = append(files, file)
		}
	}
	if len(files) > 0 {
		all = append(all, b.restore(files...))
	}
	return errors.Join(all...)
}

// Release puts back whatever was set, of what somebody else has not changed since.
func (b *Bound) Release() error {
	if b.options.Knobs == nil {
		return nil
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	clear(b.protected)
	return b.restore()
}
