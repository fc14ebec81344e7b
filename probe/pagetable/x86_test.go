package pagetable

import "testing"

// swapEntry is an entry as the kernel writes it for a page that is not there.
func swapEntry(kind, offset uint64) uint64 { return kind<<59 | (^offset<<14)>>5 }

func TestDecode(t *testing.T) {
	const (
		zero  = 0x77
		user  = 1 << 2
		noExe = 1 << 63
		sme   = 1 << 47
	)
	format := layout{levels: 4, physical: x86Frame &^ sme}.format(zero)
	frame := func(n uint64) uint64 { return n << 12 }
	// Forbidden, the address is inverted.
	forbidden := func(n uint64) uint64 { return x86ProtNone | ^frame(n)&x86Frame }
	for _, c := range []struct {
		what string
		raw  uint64
		leaf bool
		want Entry
	}{
		{"nothing", 0, false, 0},
		{"nothing huge", 0, true, 0},
		{"a page that is only read", frame(5) | x86Present | user | x86Accessed | noExe, false, 5 | Present | Accessed},
		{"a page that is written", frame(5) | x86Present | user | x86Accessed | x86Dirty | x86Writable, false, 5 | Present | Accessed | Dirty | Writable},
		{"a page that was written, and is shared by fork", frame(5) | x86Present | user | x86Accessed | x86SavedDirty, false, 5 | Present | Accessed | Dirty},
		{"the highest frame", x86Frame&^sme | x86Present, false, Entry(x86Frame&^sme>>12) | Present},
		{"encrypted memory", frame(5) | sme | x86Present, false, 5 | Present},
		{"the page of zeros", frame(zero) | x86Present | x86Special, false, zero | Present | Zero},
		{"a device's memory", frame(5) | x86Present | x86Special | x86Writable, false, 0},
		{"a page that must not be touched", forbidden(5) | x86Dirty, false, 5 | Present | Dirty},
		{"a huge page", frame(512) | x86Present | x86Leaf | x86Writable, true, 512 | Present | Huge | Writable},
		{"a huge page with the attribute of bit 12", frame(512) | 1<<12 | x86Present | x86Leaf, true, 512 | Present | Huge},
		{"a huge page that must not be touched", forbidden(512) | x86Leaf, true, 512 | Present | Huge},
		{"a huge page that is being taken down", ^frame(512)&x86Frame | x86Leaf, true, 512 | Present | Huge},
		{"bit 7 of a base page, an attribute", frame(5) | x86Present | x86Leaf, false, 5 | Present},
		{"a page in swap", swapEntry(2, 9), false, Swapped | 9<<5 | 2},
		{"the first page in swap", swapEntry(0, 0), false, Swapped},
		{"a page in swap, with marks", swapEntry(2, 9) | 1<<1 | 1<<3, false, Swapped | 9<<5 | 2},
		{"a page on its way to another frame", swapEntry(28, 5), false, 5 | Present},
		{"the same with its age", swapEntry(28, 5|1<<34|1<<35), false, 5 | Present},
		{"a huge page on its way", swapEntry(28, 512), true, 512 | Present},
		{"a guard", swapEntry(31, 4), false, 0},
	} {
		if got := format.decode(c.raw, c.leaf); got != c.want {
			t.Errorf("%s (%#x) is %#x, want %#x", c.what, c.raw, got, c.want)
		}
		// The quick way through a table says the same.
		if !c.leaf {
			var to [1]Entry
			format.decodeTable([]uint64{c.raw}, to[:], ownFrames)
			if to[0] != c.want {
				t.Errorf("%s (%#x), in a table, is %#x, want %#x", c.what, c.raw, to[0], c.want)
			}
		}
	}
}

// Whatever stands in a table, an entry is one or the other, and the quick way agrees.
func FuzzDecode(f *testing.F) {
	f.Add(uint64(0x8000000000000025), uint64(3))
	f.Add(swapEntry(31, 4), uint64(3))
	f.Fuzz(func(t *testing.T, raw, zero uint64) {
		format := layout{levels: 5, physical: x86Frame}.format(zero)
		for _, leaf := range []bool{false, true} {
			e := format.decode(raw, leaf)
			if e != 0 && (e&Present != 0) == (e&Swapped != 0) {
				t.Errorf("%#x (leaf: %v) is %#x: present and swapped, or neither", raw, leaf, e)
			}
		}
		var to [1]Entry
		format.decodeTable([]uint64{raw}, to[:], ownFrames)
		if e := format.decode(raw, false); to[0] != e {
			t.Errorf("%#x is %#x, in a table %#x", raw, e, to[0])
		}
	})
}

func TestFileFrameByMapping(t *testing.T) {
	for _, c := range []struct {
		behind behind
		entry  Entry
		file   bool
	}{
		{ownFrames, Present, false},
		{fileFrames, Present | Writable | Dirty, true},
		{fileFrames, Swapped, false},
		{mixedFrames, Present | Accessed, true},
		{mixedFrames, Present | Writable, false},
		{mixedFrames, Present | Dirty, false},
	} {
		if got := c.behind.fileFrame(c.entry) != 0; got != c.file {
			t.Errorf("behind %d, %#x is a file's: %v", c.behind, c.entry, got)
		}
	}
}
