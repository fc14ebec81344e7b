package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/swap"
	"tare/platform"
	"tare/platform/held"
)

// remover is a platform that removes what boxes have entered in the ledger, and runs
// nothing.
type remover struct{ stateDir string }

// Remover gives a platform that removes what boxes have entered in the ledger, for
// whoever cleans up after a crash. Programs do not run on it: a box is around them,
// wherever they run.
func Remover(stateDir string) platform.Platform { return remover{stateDir} }

var errNoPlatform = &platform.Unsupported{Platform: Entered, Key: "programs", Reason: "it is a bound around those of another platform"}

func (remover) Name() string                               { return Entered }
func (remover) Check(context.Context) error                { return nil }
func (remover) Supports(platform.Setting) error            { return errNoPlatform }
func (remover) Prepare(context.Context, image.Image) error { return errNoPlatform }
func (remover) Release(context.Context) error              { return nil }
func (remover) Version(context.Context) string             { return "" }
func (remover) Launch(context.Context, platform.Spec) (platform.Instance, error) {
	return nil, errNoPlatform
}

// Remove implements [platform.Platform]: newest first, it ends the programs in a box
// with its groups, puts settings back that are still what they were set to, and takes
// the swap area away.
func (r remover) Remove(ctx context.Context, e platform.Entry) error {
	var host swap.Host
	switch e.Kind {
	case held.Cgroup:
		return held.RemoveCgroup(ctx, e)
	case kindFile:
		if err := r.own(e.ID); err != nil {
			return err
		}
		return removeFile(e.ID)
	case kindArea:
		return r.removeArea(ctx, host, e)
	case kindZRAM:
		z, err := deviceOf(e)
		if err != nil {
			return err
		}
		return ground{}.removeDevice(z)
	case kindAdding:
		return removeAdded(ground{}, e)
	case kindExtension:
		if err := r.ownExtension(e.ID); err != nil {
			return err
		}
		return removeExtension(ctx, e.ID)
	case kindSetting:
		c := swap.Change{File: e.ID, Old: e.Attrs[attrOld], New: e.Attrs[attrNew]}
		if err := host.Check(c); err != nil {
			return err
		}
		return settle(c)
	}
	return fmt.Errorf("%s %s of a box: this tare does not know how to remove it", e.Kind, e.ID)
}

// own refuses a path that no swap file of this state directory has.
func (r remover) own(path string) error {
	if filepath.Dir(path) != filepath.Join(r.stateDir, swapDirectory) || !nameShape.MatchString(filepath.Base(path)) {
		return fmt.Errorf("%q is no swap file of %s: it is left alone", path, r.stateDir)
	}
	return nil
}

// removeArea takes an area out of use. A device's number may be another's by now, of
// another size.
func (r remover) removeArea(ctx context.Context, host swap.Host, e platform.Entry) error {
	if !strings.HasPrefix(e.ID, zramPath) {
		if err := r.own(e.ID); err != nil {
			return err
		}
		return r.turnOff(ctx, e)
	}
	size, err := sizeOf(e)
	if err != nil {
		return err
	}
	one, used, err := host.Area(e.ID)
	if err != nil || !used {
		return err
	}
	// The first page is the header's.
	if one.Size != size-int64(os.Getpagesize()) {
		return nil
	}
	return r.turnOff(ctx, e)
}

func (remover) turnOff(ctx context.Context, e platform.Entry) error {
	var box cgroup.Group
	if name := e.Attrs[attrBox]; name != "" {
		layout, err := cgroup.Host()
		if err != nil {
			return err
		}
		box = layout.At(path.Join(platform.CgroupParent, name))
	}
	return turnOff(ctx, ground{}, e.ID, box)
}

const zramPath = "/dev/zram"

func sizeOf(e platform.Entry) (int64, error) {
	size, err := strconv.ParseInt(e.Attrs[attrSize], 10, 64)
	if err != nil || size <= 0 {
		return 0, fmt.Errorf("%s %s was entered without its size, so that it cannot be distinguished from another: it is left alone", e.Kind, e.ID)
	}
	return size, nil
}

func deviceOf(e platform.Entry) (swap.ZRAM, error) {
	id, err := strconv.Atoi(e.ID)
	if err != nil || id < 0 {
		return swap.ZRAM{}, fmt.Errorf("%s %q: want a number", e.Kind, e.ID)
	}
	size, err := sizeOf(e)
	if err != nil {
		return swap.ZRAM{}, err
	}
	// A kernel that numbers no disks has 0.
	sequence, err := strconv.ParseInt(e.Attrs[attrSeq], 10, 64)
	if e.Attrs[attrSeq] != "" && err != nil {
		return swap.ZRAM{}, fmt.Errorf("%s %s was entered with the sequence %q: want a number", e.Kind, e.ID, e.Attrs[attrSeq])
	}
	return swap.ZRAM{ID: id, Size: size, Sequence: sequence}, nil
}

// removeDevice takes a device away that is still the one that was added. An empty one has
// no size to be recognised by: where the kernel does not number disks it may be anybody's.
func (g ground) removeDevice(z swap.ZRAM) error {
	if z.Sequence == 0 && g.emptyZRAM(z.ID) {
		return fmt.Errorf("zram%d is empty, and cannot be distinguished from one that somebody else added: it is left alone; remove it by hand if nobody uses it (/sys/class/zram-control/hot_remove)", z.ID)
	}
	err := g.swap.RemoveZRAM(z)
	if other := new(swap.NotOurs); errors.As(err, &other) {
		return nil
	}
	return err
}

// removeAdded looks for a device that was added and had no time to be entered by its
// number: an empty one that was not there before. Whose that is is unknown, since
// others add some too, so that it is left alone and reported; it takes no memory.
func removeAdded(g ground, e platform.Entry) error {
	if _, err := sizeOf(e); err != nil {
		return err
	}
	now, err := g.zrams()
	if err != nil {
		return err
	}
	known := strings.Split(e.Attrs[attrKnown], ",")
	fresh := slices.DeleteFunc(
		now,
		func(id int) bool { return slices.Contains(known, strconv.Itoa(id)) || !g.emptyZRAM(id) },
	)
	if len(fresh) == 0 {
		return nil
	}
	return fmt.Errorf("a device may have been added for a box, and cannot be distinguished from one that somebody else added: of the empty zram devices %s, remove by hand the one that nobody uses (/sys/class/zram-control/hot_remove)", numbers(fresh))
}

// emptyZRAM tells whether a device was never given a size.
func (g ground) emptyZRAM(id int) bool {
	b, err := os.ReadFile(filepath.Join("/", g.root, "sys/block", fmt.Sprintf("zram%d", id), "disksize"))
	return err == nil && strings.TrimSpace(string(b)) == "0"
}
