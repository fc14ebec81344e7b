package pagetable

// Page tables of x86-64, from arch/x86/include/asm/pgtable_types.h and pgtable.h
// of the kernel.

// The bits of an entry.
const (
	x86Present    = 1 << 0
	x86Writable   = 1 << 1
	x86Accessed   = 1 << 5
	x86Dirty      = 1 << 6
	x86Leaf       = 1 << 7 // of a higher level: maps memory itself
	x86ProtNone   = 1 << 8 // while not x86Present: a frame that must not be touched
	x86Special    = 1 << 9 // no page that the kernel manages, or the page of zeros
	x86SavedDirty = 1 << 58

	// x86Frame are the bits of a physical address, wherever a host's memory ends.
	x86Frame = 1<<52 - 1<<12
)

const (
	tableEntries = 512
	tableSpan    = tableEntries * PageSize // what one last-level table maps
)

// x86Format is what the format leaves to the host.
type x86Format struct {
	// physical masks the address in an entry: it lacks the bit that says that memory
	// is encrypted, where the processor has one.
	physical uint64
	// swapFrames masks the frame in an entry of the kind that names one in the
	// form of a place in swap; above it are marks of age.
	swapFrames uint64
	// zero is the frame of the page of zeros.
	zero uint64
}

// decode gives the Entry for an entry of a page table; 0 where no page is
// behind it. leaf means that it is of a higher level: then the frame is the
// first of many.
//
// Left out is what pagemap leaves out (memory of devices, mapped without a
// page), and marks without a page: guards, userfaultfd's.
func (f *x86Format) decode(raw uint64, leaf bool) Entry {
	if raw&(x86Present|x86ProtNone) == 0 && !(leaf && raw&x86Leaf != 0) {
		return f.decodeAbsent(raw)
	}
	frame := raw
	if raw&x86Present == 0 {
		// Inverted, so that a processor that looks ahead at an entry that is not
		// present finds no memory there (the L1TF vulnerability).
		frame = ^frame
	}
	frame = frame & f.physical >> 12
	e := Present | Entry(frame)
	if raw&x86Special != 0 {
		if leaf {
			// The huge page of zeros may be marked so; whether it is, its frame's flags show.
			e = Present | Entry(frame&^(tableEntries-1))
		} else if frame != f.zero {
			return 0
		}
	}
	if frame == f.zero && !leaf {
		e |= Zero
	}
	if leaf {
		// Bit 12 of a leaf is an attribute, and no part of the address.
		e = e&^(tableEntries-1) | Huge
	}
	return e |
		Entry(raw&x86Writable)<<41 |
		Entry(raw&x86Accessed)<<39 |
		Entry((raw>>6|raw>>58)&1)<<43
}

// decodeAbsent reads an entry that the processor does not use: five bits of
// type from the top, then the offset, inverted.
func (f *x86Format) decodeAbsent(raw uint64) Entry {
	if raw == 0 {
		return 0
	}
	kind := raw >> 59
	offset := ^raw << 5 >> 14
	return absent(int(kind), offset, offset&f.swapFrames)
}
