package data

import (
	"slices"

	"tare/annex"
)

// freeMemory is how much memory is free: as last read, and as requests and faults have changed
// it since.
type freeMemory struct {
	read    annex.Memory
	changes []change
}

// change is what a reading does not show yet.
type change struct {
	at    annex.Moment
	pages int // freed; negative: taken
}

// mostChanges bounds how many changes are kept apart.
const mostChanges = 256

// reads takes a reading, unless there was a later one.
func (f *freeMemory) reads(mem annex.Memory) {
	if mem.At < f.read.At {
		return
	}
	f.read = mem
	f.changes = slices.DeleteFunc(f.changes, func(c change) bool { return c.at <= mem.At })
}

// changed notes that pages were freed, or with a negative number taken.
func (f *freeMemory) changed(at annex.Moment, pages int) {
	if pages == 0 || at <= f.read.At {
		return
	}
	if n := len(f.changes); n > 0 && f.changes[n-1].at == at {
		f.changes[n-1].pages += pages
		return
	}
	// Without readings this would grow without end: the two oldest become one.
	if len(f.changes) >= mostChanges {
		f.changes[1].pages += f.changes[0].pages
		f.changes = slices.Delete(f.changes, 0, 1)
	}
	f.changes = append(f.changes, change{at, pages})
}

// pages is how many are free, as far as is known.
func (f *freeMemory) pages() int {
	n := int(f.read.Free / annex.PageSize)
	for _, c := range f.changes {
		n += c.pages
	}
	return n
}

// swapRoom is how many pages swap may still take where a share of it is left free: none where it fails.
func (f *freeMemory) swapRoom(reserve float64) int {
	if f.read.SwapFails {
		return 0
	}
	keep := int64(max(0, reserve) * float64(f.read.SwapSize))
	return int((f.read.SwapFree - keep) / annex.PageSize)
}
