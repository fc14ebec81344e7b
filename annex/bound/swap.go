package bound

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/kernel/swap"
)

// Full says that swap does not hold what would leave.
type Full struct {
	Want, Free int64 // bytes; what is reserved is not free
	Size       int64 // 0: there is none
}

func (f *Full) Error() string {
	if f.Size == 0 {
		return "there is no swap for pages to leave to: add an area (mkswap, swapon), or name one that is in use"
	}
	return fmt.Sprintf("swap does not hold %d MiB more: %d of %d MiB are free: add an area (mkswap, swapon), or manage fewer containers", f.Want>>20, f.Free>>20, f.Size>>20)
}

// Holds refuses, with a [*Full], where swap cannot hold so many bytes more beside what is
// reserved of it. A page that left while another came takes its place, so that this is no
// promise; the kernel passes pages by for which it has none.
func (b *Bound) Holds(bytes int64) error {
	size, free, err := b.swapRoom()
	if err != nil {
		return err
	}
	free = max(0, free-int64(float64(size)*b.options.SwapReserve))
	if size == 0 || bytes > free {
		return &Full{bytes, free, size}
	}
	return nil
}

// areas are those that pages are to leave for.
func (b *Bound) areas() ([]swap.Area, error) {
	all, err := b.swap.Areas()
	if err != nil || len(b.options.Areas) == 0 {
		return all, err
	}
	var wanted []string
	for _, path := range b.options.Areas {
		wanted = append(wanted, path)
		if real, err := filepath.EvalSymlinks(path); err == nil {
			wanted = append(wanted, real) // as the kernel tells it
		}
	}
	return slices.DeleteFunc(all, func(a swap.Area) bool { return a.Deleted || !slices.Contains(wanted, a.Path) }), nil
}

func (b *Bound) swapRoom() (size, free int64, err error) {
	areas, err := b.areas()
	for _, a := range areas {
		size += a.Size
		free += max(0, a.Size-a.Used)
	}
	return size, free, err
}

// pool is the memory that compressed swap takes, and as much of it as is charged to no
// group: zram's is, and zswap's on version 1.
func (b *Bound) pool() (uncharged, all int64, err error) {
	areas, err := b.areas()
	if err != nil {
		return 0, 0, err
	}
	for _, a := range areas {
		digits, ok := strings.CutPrefix(filepath.Base(a.Path), "zram")
		id, err := strconv.Atoi(digits)
		if !ok || err != nil || a.File {
			continue
		}
		s, err := b.swap.ZRAMStat(swap.ZRAM{ID: id})
		if err != nil {
			return 0, 0, err
		}
		uncharged += s.MemUsedTotal
	}
	zswap, err := b.swap.ZswapPool()
	if none := new(swap.NoZswap); errors.As(err, &none) {
		return uncharged, uncharged, nil
	}
	if err != nil {
		return 0, 0, err
	}
	all = uncharged + zswap.Held
	if h, ok := b.layout.For("memory"); ok && h.Version == 1 {
		uncharged = all
	}
	return uncharged, all, nil
}
