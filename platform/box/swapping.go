package box

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/swap"
	"tare/platform"
)

// swapDirectory is where swap files lie, below a state directory.
const swapDirectory = "swap"

// The kinds of things that are entered in the ledger here, besides control groups.
const (
	kindFile    = "swap file"    // ID: its path
	kindArea    = "swap area"    // ID: its path
	kindAdding  = "zram"         // ID: what it is for; attrKnown, attrSize. A device that is just being added
	kindZRAM    = "zram device"  // ID: its number; attrSize
	kindSetting = "swap setting" // ID: its file; attrOld, attrNew
)

// Attributes of entries.
const (
	attrSize  = "size"
	attrKnown = "known" // devices that were there before
	attrBox   = "box"   // whose programs' pages an area is for
	attrSeq   = "seq"   // swap.ZRAM.Sequence
	attrOld   = "old"
	attrNew   = "new"
)

// compressor is zram's, where the kernel has it: the quickest of those usual, as the
// fastest device that pages can go to is what a disk is held against.
const compressor = "lz4"

// area is the box's own swap; its zero value is none.
type area struct {
	path   string
	size   int64 // bytes
	zram   *swap.ZRAM
	device swap.Device
	// apart says why nothing is known of a device below; empty where it can, and
	// where there is none, as below zram.
	apart string
	// zswap says that a pool is before it; before is what that held then, of others'.
	zswap  bool
	before int64
	// changed are the settings of the kernel's that were set for it.
	changed []swap.Change
}

// takeSwap makes the place that pages go to.
func (b *madeBox) takeSwap(ctx context.Context, dir string) error {
	others, err := b.ground.swap.Areas()
	if err == nil && len(others) > 0 {
		b.notes = append(b.notes, fmt.Sprintf("the host has swap of its own (%s): pages that it swaps count among those in and out", others[0].Path))
	}
	if b.spec.Swap == platform.SwapNone {
		return nil // a kernel without swap will do
	}
	if err != nil {
		return err
	}
	// Above all others, so that what leaves the box goes here and nowhere else.
	priority, err := swap.PriorityAbove(others)
	if err != nil {
		return err
	}
	b.area.size = wholePages(b.spec.SwapSize)
	if b.spec.Swap == platform.SwapZRAM {
		err = b.takeZRAM(ctx)
	} else {
		err = b.takeFile(ctx, dir)
	}
	if err != nil {
		return err
	}
	attributes := map[string]string{attrSize: strconv.FormatInt(b.area.size, 10), attrBox: b.spec.Name}
	if err := b.take(ctx, kindArea, b.area.path, attributes,
		func() error { return b.turnOn(ctx, priority) },
		func(ctx context.Context) error { return turnOff(ctx, b.ground, b.area.path, b.group) }); err != nil {
		return err
	}
	if b.spec.Swap == platform.SwapZswap {
		return b.takeZswap(ctx)
	}
	return nil
}

// take enters a thing for [Remove], makes it, and keeps how to release it.
func (b *madeBox) take(
	ctx context.Context,
	kind, id string,
	attrs map[string]string,
	acquire func() error,
	release func(context.Context) error,
) error {
	return b.things.Take(ctx, platform.Entry{Platform: Entered, Kind: kind, ID: id, Attrs: attrs}, acquire, release)
}

// takeFile makes a swap file.
func (b *madeBox) takeFile(ctx context.Context, dir string) error {
	b.area.path = filepath.Join(dir, b.spec.Name)
	if err := file.Private(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(b.area.path); err == nil {
		return fmt.Errorf("there is a %s already: `tare clean` removes what a killed tare left", b.area.path)
	}
	err := b.take(ctx, kindFile, b.area.path, nil,
		func() error { return swap.CreateFile(ctx, b.area.path, b.area.size) },
		func(context.Context) error { return removeFile(b.area.path) })
	if err != nil {
		return err
	}
	b.area.device, err = b.ground.swap.Below(b.area.path)
	if none := new(swap.NoDevice); errors.As(err, &none) {
		b.area.apart = none.Error()
		return nil
	}
	return err
}

// turnOn puts the area to use. A file whose reserved blocks the file system takes for
// holes is written whole first.
func (b *madeBox) turnOn(ctx context.Context, priority int) error {
	err := swap.On(b.area.path, priority, swap.DiscardNever)
	if b.area.zram != nil || !errors.Is(err, syscall.EINVAL) {
		return err
	}
	if filling := swap.Fill(ctx, b.area.path); filling != nil {
		return errors.Join(err, filling)
	}
	return swap.On(b.area.path, priority, swap.DiscardNever)
}

// turnOff takes an area out of use, if it is in use, and nobody is harmed by that: what it
// holds comes back to memory at once. Being preferred to all others, it may hold pages of
// the host's other programs too.
func turnOff(ctx context.Context, g ground, path string, box cgroup.Group) error {
	one, used, err := g.swap.Area(path)
	if err != nil || !used {
		return err
	}
	if box.Exists() {
		return fmt.Errorf("swap area %s is left in use while there is a cgroup %s, whose programs' pages it holds: end those first, and then `tare clean`", path, box)
	}
	total, available, err := g.memory()
	if err != nil {
		return err
	}
	if why := unfitting(one.Used, total, available); why != "" {
		return fmt.Errorf("swap area %s is left in use: %s: end programs, and then `tare clean`", path, why)
	}
	return swap.Off(ctx, path)
}

// unfitting says why what an area holds does not fit into memory, the host being left as
// far from danger as [danger] wants it; empty where it does.
func unfitting(held, total, available int64) string {
	if room := available - int64(LowMemory*float64(total)); held > max(room, 0) {
		return fmt.Sprintf("it holds %d MiB, and the host has %d MiB of memory to give, with %.0f %% kept", held>>20, max(room, 0)>>20, 100*LowMemory)
	}
	return ""
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// Of the last file, the directory too; others' keep it.
	_ = os.Remove(filepath.Dir(path))
	return nil
}

// takeZRAM adds a compressed device in memory. Its number is known only once it is
// there, so that it is entered twice: as one that was not there before, while it is
// being added, and by its number.
func (b *madeBox) takeZRAM(ctx context.Context) error {
	h, size := b.ground.swap, strconv.FormatInt(b.area.size, 10)
	known, err := b.ground.zrams()
	if err != nil {
		return err
	}
	entered := func() {}
	if b.ledger != nil {
		entered, err = b.ledger.Add(
			platform.Entry{
				Platform: Entered,
				Kind:     kindAdding,
				ID:       b.spec.Name,
				Attrs:    map[string]string{attrSize: size, attrKnown: numbers(known)},
			},
		)
		if err != nil {
			return err
		}
	}
	z, err := h.AddZRAM(b.area.size)
	if err != nil {
		entered() // there is none
		return err
	}
	err = b.take(
		ctx,
		kindZRAM,
		strconv.Itoa(z.ID),
		map[string]string{attrSize: size, attrSeq: strconv.FormatInt(z.Sequence, 10)},
		func() error { return b.configure(z) },
		func(context.Context) error { return h.RemoveZRAM(z) })
	if err != nil {
		if removing := h.RemoveZRAM(z); removing != nil {
			return errors.Join(err, removing)
		}
	}
	entered()
	b.area.zram, b.area.path = &z, z.Device()
	return err
}

func (b *madeBox) configure(z swap.ZRAM) error {
	offered, err := b.ground.swap.ZRAMAlgorithms(z)
	if err != nil {
		return err
	}
	algorithm := compressor
	if !slices.Contains(offered, algorithm) {
		algorithm = "" // the kernel's own choice
		b.notes = append(b.notes, fmt.Sprintf("this kernel's zram has no %s: it compresses by %s", compressor, offered[0]))
	}
	return b.ground.swap.ConfigureZRAM(z, algorithm)
}

// takeZswap puts the compressed pool before the area. It may grow to that part of the
// box which the kernel gives it of all memory, as near as whole percents of the latter
// come, and at least one.
func (b *madeBox) takeZswap(ctx context.Context) error {
	h := b.ground.swap
	found, err := h.Zswap()
	if err != nil {
		return err
	}
	total, _, err := b.ground.memory()
	if err != nil {
		return err
	}
	if pool, err := h.ZswapPool(); err != nil {
		return err
	} else {
		b.area.before = pool.Held
	}
	wanted := swap.Zswap{Enabled: true, MaxPoolPercent: poolPercent(found.MaxPoolPercent, b.spec.Memory, total)}
	changes, err := h.ChangeZswap(wanted)
	if err != nil {
		return err
	}
	b.area.zswap = true
	b.notes = append(b.notes, fmt.Sprintf("zswap compresses by %s, into at most %d %% of the kernel's memory", found.Compressor, wanted.MaxPoolPercent))
	return b.set(ctx, changes...)
}

// poolPercent is the percentage of all memory that is percent of the box's.
func poolPercent(percent int, box, total int64) int {
	return max(1, int(math.Round(float64(percent)*float64(box)/float64(total))))
}

// takeCluster sets how many pages are read for one.
func (b *madeBox) takeCluster(ctx context.Context) error {
	if b.spec.PageCluster < 0 {
		return nil
	}
	c, err := b.ground.swap.PageCluster().Change(strconv.Itoa(b.spec.PageCluster))
	if err != nil {
		return err
	}
	return b.set(ctx, c)
}

// set makes changes to the kernel's settings.
func (b *madeBox) set(ctx context.Context, changes ...swap.Change) error {
	for _, c := range changes {
		if c.Old == c.New {
			continue
		}
		if err := b.take(ctx, kindSetting, c.File, map[string]string{attrOld: c.Old, attrNew: c.New}, c.Make,
			func(context.Context) error { return settle(c) }); err != nil {
			return err
		}
		b.area.changed = append(b.area.changed, c)
	}
	return nil
}

// settle undoes a change. What somebody else has set since is theirs, and left.
func settle(c swap.Change) error {
	err := c.Undo()
	if foreign := new(swap.Foreign); errors.As(err, &foreign) {
		return nil
	}
	return err
}

// pool is the memory that compressed swap holds for the box, and whether that is
// charged to nobody.
func (b *madeBox) pool() (held int64, uncharged bool, err error) {
	switch {
	case b.area.zram != nil:
		s, err := b.ground.swap.ZRAMStat(*b.area.zram)
		return s.MemUsedTotal, true, err
	case !b.area.zswap:
		return 0, false, nil
	}
	if unified(b.layout) {
		a, err := b.group.MemoryAccounts()
		if err != nil || a.Zswap > 0 || b.chargesZswap() {
			return a.Zswap, false, err
		}
	}
	p, err := b.ground.swap.ZswapPool()
	return max(0, p.Held-b.area.before), true, err
}

// chargesZswap tells whether groups have the pool among their memory.
func (b *madeBox) chargesZswap() bool {
	place, ok := b.group.For("memory")
	if !ok {
		return false
	}
	_, err := os.Stat(place.File("memory.zswap.current"))
	return err == nil
}

// zrams lists the compressed devices that there are, whosever.
func (g ground) zrams() ([]int, error) {
	const prefix = "zram"
	dirs, err := filepath.Glob(filepath.Join("/", g.root, "sys/block", prefix+"*"))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, dir := range dirs {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), prefix)); err == nil {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

func numbers(all []int) string {
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
