package pagetable

import "tare/kernel/pagemap"

// absent gives the Entry for one that the processor does not use, by its type and
// what it holds: an offset into swap, or a frame.
//
// A page on its way to another frame (migration), one in a device's memory or
// one whose memory failed has a frame all the same, and counts as present; the
// kernel only keeps the process off it. A mark has no page and is no entry.
func absent(kind int, offset, frame uint64) Entry {
	switch {
	case kind == pagemap.MarkerType:
		return 0
	case kind >= pagemap.FirstSpecialType:
		return Present | Entry(frame)&Frames
	}
	return Swapped | (Entry(kind)|Entry(offset)<<5)&Frames
}
