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
)

// Change is one file of a group that exists, as it was and as it is to be. It
// can be written down before it is made and undone by whoever reads that: either
// way the file is written only where it holds what the change knows of.
type Change struct {
	File string `json:"file"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Changes are made in their order and undone in the opposite one.
type Changes []Change

// Foreign says that a file holds neither what was there before a change nor
// what the change made of it: somebody else has set it since.
type Foreign struct {
	Change
	Have string
}

func (f *Foreign) Error() string {
	return fmt.Sprintf("%s holds %q, which was neither there before (%q) nor set since (%q): somebody else has changed it, and it is left alone", f.File, f.Have, f.Old, f.New)
}

// Gone says that the group of a change is no more, and with it what was set.
type Gone struct{ Change }

func (g *Gone) Error() string {
	return fmt.Sprintf("%s is gone, and with it what was set there", g.File)
}

// Unchangeable says why a limit of a group cannot be changed here.
type Unchangeable struct {
	Group, What, Mend string
}

func (u *Unchangeable) Error() string {
	return fmt.Sprintf("cgroup %s: %s: %s", u.Group, u.What, u.Mend)
}

// changeable are the files that are ever in a change.
var changeable = []string{"cpuset.cpus", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.max", "cpu.shares", "cpu.weight"}

// ChangeCPUs is what gives a group those CPUs, in the kernel's own list format.
func (g Group) ChangeCPUs(list string) (Changes, error) {
	place, err := g.changing("cpuset")
	if err != nil {
		return nil, err
	}
	if place.Version == 1 {
		// There a group may not have less than those in it.
		if inner, err := place.inner(); err != nil {
			return nil, err
		} else if inner != "" {
			return nil, &Unchangeable{g.String(), "it has groups in it with CPUs of their own, " + inner + " the first", "set the CPUs of those first"}
		}
	}
	return place.change("cpuset.cpus", list)
}

// ChangeBandwidth is what gives a group that has a quota another one, its period
// included.
func (g Group) ChangeBandwidth(wanted Bandwidth) (Changes, error) {
	place, err := g.changing("cpu")
	if err != nil {
		return nil, err
	}
	if place.Version == 2 {
		return place.change("cpu.max", micros(wanted.Quota)+" "+micros(wanted.Period))
	}
	quota, err := place.change("cpu.cfs_quota_us", micros(wanted.Quota))
	if err != nil {
		return nil, err
	}
	period, err := place.change("cpu.cfs_period_us", micros(wanted.Period))
	if err != nil {
		return nil, err
	}
	// At no moment more CPU time than before and after, which the group above may
	// not allow.
	have, err := readBandwidth(1, place.Dir())
	if err != nil {
		return nil, err
	}
	if wanted.Period > have.Period {
		return append(period, quota...), nil
	}
	return append(quota, period...), nil
}

// ChangeShares is what gives a group that weight, on the scale of version 1.
func (g Group) ChangeShares(shares int) (Changes, error) {
	place, err := g.changing("cpu")
	if err != nil {
		return nil, err
	}
	if place.Version == 2 {
		return place.change("cpu.weight", strconv.Itoa(WeightOfShares(shares)))
	}
	return place.change("cpu.shares", strconv.Itoa(shares))
}

// changing is the group's place in the controller's hierarchy, which must be
// its own: the root is everybody's.
func (g Group) changing(controller string) (Place, error) {
	place, ok := g.For(controller)
	if !ok {
		return Place{}, &Unchangeable{g.String(), "no hierarchy of this host carries the " + controller + " controller", "boot without cgroup_disable=" + controller}
	}
	if place.Path == "/" || place.Path == place.Root {
		return Place{}, &Unchangeable{place.Path, "it is the root of the " + controller + " hierarchy, where every other process is too", "start the program in a container, or in a group of its own"}
	}
	return place, nil
}

func (p Place) inner() (string, error) {
	entries, err := os.ReadDir(p.Dir())
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.IsDir() {
			return path.Join(p.Path, e.Name()), nil
		}
	}
	return "", nil
}

func (p Place) change(file, wanted string) (Changes, error) {
	old, err := readFile(p.Dir(), file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Unchangeable{p.Path, "it has no " + file, "hand the controller down to it: cgroup.subtree_control of the groups above it"}
	}
	if err != nil {
		return nil, err
	}
	if old == wanted {
		return nil, nil
	}
	return Changes{{File: p.File(file), Old: old, New: wanted}}, nil
}

// Make makes all changes, or none: the error of one undoes those before it. It
// is a [*Foreign] where a file does not hold what it did. Those made already are passed over.
func (c Changes) Make() error {
	for i, one := range c {
		if err := one.set(one.Old, one.New); err != nil {
			return errors.Join(err, c[:i].Undo())
		}
	}
	return nil
}

// Undo gives every file back what it held, and goes on where one cannot be: the
// error joins a [*Foreign] for each that somebody else has changed, and the others'
// reasons. A group that is gone needs nothing.
func (c Changes) Undo() error {
	var all []error
	for _, one := range slices.Backward(c) {
		var gone *Gone
		if err := one.Undo(); !errors.As(err, &gone) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// Undo gives the file back what it held. The error is a [*Foreign] where somebody
// else has changed it, and a [*Gone] where there is no such group any more.
func (c Change) Undo() error {
	err := c.set(c.New, c.Old)
	if err != nil && optional(err) == nil {
		return &Gone{c}
	}
	return err
}

// Made reports whether the file holds what the change makes of it.
func (c Change) Made() bool {
	have, err := readFile(filepath.Dir(c.File), filepath.Base(c.File))
	return err == nil && have == c.New
}

// set writes a value in the place of another.
func (c Change) set(from, to string) error {
	have, err := readFile(filepath.Dir(c.File), filepath.Base(c.File))
	switch {
	case err != nil:
		return err
	case have == to:
		return nil
	case have != from:
		return &Foreign{c, have}
	}
	value := to
	if value == "" {
		value = "\n" // the kernel sees no write of nothing
	}
	f, err := os.OpenFile(c.File, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", to, err)
	}
	return nil
}

// Check refuses a change that is of no file which this package would change:
// what was written down may have been tampered with.
func (c Change) Check(l Layout) error {
	base := filepath.Base(c.File)
	clean := filepath.Clean(c.File) == c.File
	within := slices.ContainsFunc(l.Hierarchies, func(h Hierarchy) bool {
		rest, ok := strings.CutPrefix(c.File, h.Mount+"/")
		return ok && strings.Contains(rest, "/")
	})
	if !clean || !within || !slices.Contains(changeable, base) {
		return fmt.Errorf("%q is no CPU limit of a control group on this host", c.File)
	}
	return nil
}
