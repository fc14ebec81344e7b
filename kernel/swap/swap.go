// Package swap gives the kernel room for pages that leave memory, and reads what
// became of them: swap files and compressed block devices (zram), the compressed
// pool before them (zswap), the few settings that belong to them, and the kernel's
// counts.
//
// Everything here but a file that is not yet in use reaches the whole host: swap has
// no owner, and a page of any program may go to the area of the highest priority.
// Whoever calls it knows that, and has written down beforehand what is to be
// undone: a [Change] and a [ZRAM] can be, and are undone only where they are still
// ours. What was there before is never touched: no device that this package did not
// add is set, reset or removed, and no file that exists is written over.
//
// It decides nothing: which pages leave is the kernel's business, or its caller's, by
// the groups they are in.
//
// Sources: swapon(2), proc(5); include/linux/swap.h and mm/swapfile.c for areas and
// their header; Documentation/admin-guide/blockdev/zram.rst,
// Documentation/admin-guide/mm/zswap.rst, Documentation/admin-guide/sysctl/vm.rst,
// Documentation/block/stat.rst and mm/vmstat.c.
package swap

import "path/filepath"

// Host is the kernel's files; its zero value is this host's.
type Host struct {
	Root string // of the tree that holds proc, sys and dev; empty is "/"
}

func (h Host) path(elements ...string) string {
	root := h.Root
	if root == "" {
		root = "/"
	}
	return filepath.Join(append([]string{root}, elements...)...)
}
