package box

import (
	"errors"
	"fmt"
	"io/fs"

	"tare/platform"
)

// protect does for the critical class what was asked, before any program is in it.
func (b *madeBox) protect() error {
	critical, idle := b.class(platform.Critical), b.class(platform.Idle)
	switch b.spec.Protect {
	case platform.ProtectSwappiness:
		if !unified(b.layout) {
			// Groups made in it have it from there on.
			return critical.KeepFromSwap()
		}
		// More than it can have: all of the box. A machine reclaims from the root, and
		// what is above the class is to ask for as much.
		if b.spec.Kind == platform.BoxMachine {
			if err := b.layout.At(platform.CgroupParent).ProtectMemory(b.spec.Memory); err != nil {
				return err
			}
			if err := b.group.ProtectMemory(b.spec.Memory); err != nil {
				return err
			}
		}
		return critical.ProtectMemory(b.spec.Memory)
	case platform.ProtectLimit:
		if err := idle.LimitMemory(b.idleLimit(b.spec.Memory)); err != nil {
			return fmt.Errorf("limit the idle class: %w", err)
		}
	}
	return nil
}

// protectBelow gives the groups of instances in the critical class the protection that
// version 2 does not hand down by itself. A group without a memory.low is that far on the
// way of being made, or has no memory of its own: it counts to the group above it.
func (b *madeBox) protectBelow() error {
	if !b.protectsBelow() {
		return nil
	}
	below, err := b.class(platform.Critical).Below("memory")
	if err != nil {
		return err
	}
	for _, g := range below {
		err := g.ProtectMemory(b.spec.Memory)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && g.Exists() {
			return err
		}
	}
	return nil
}

// protectsBelow tells whether groups of instances are to be protected as they come.
func (b *madeBox) protectsBelow() bool {
	return b.spec.Protect == platform.ProtectSwappiness && unified(b.layout)
}

// idleLimit is the idle class' own limit, of a box that has that much memory; -1 is none.
func (b *madeBox) idleLimit(memory int64) int64 {
	if b.spec.Protect == platform.ProtectLimit {
		return max(wholePages(memory-b.spec.Reserve), Smallest)
	}
	return -1
}
