package data

import (
	"testing"

	"tare/annex"
)

// What was freed and taken since memory was read counts, and no more once a reading shows it.
func TestFreeMemory(t *testing.T) {
	var f freeMemory
	f.reads(annex.Memory{At: second, Free: 100 * annex.PageSize})
	f.changed(second, 50) // the reading shows it
	f.changed(2*second, 10)
	f.changed(2*second, 5)
	f.changed(3*second, -7)
	if n := f.pages(); n != 108 {
		t.Errorf("%d pages are free, want 108", n)
	}
	f.reads(annex.Memory{At: second - 1, Free: 1})
	if f.pages() != 108 {
		t.Error("an older reading counts")
	}
	f.reads(annex.Memory{At: 2 * second, Free: 200 * annex.PageSize})
	if n := f.pages(); n != 193 {
		t.Errorf("%d pages are free, want 193: only what came after the reading", n)
	}
	for i := range annex.Moment(2 * mostChanges) {
		f.changed(4*second+i, 1)
	}
	if n := f.pages(); n != 193+2*mostChanges || len(f.changes) != mostChanges {
		t.Errorf("%d pages are free by %d changes, want %d by %d", n, len(f.changes), 193+2*mostChanges, mostChanges)
	}
}

func TestSwapRoom(t *testing.T) {
	f := freeMemory{read: annex.Memory{SwapSize: 640 * annex.PageSize, SwapFree: 100 * annex.PageSize}}
	for reserve, want := range map[float64]int{-1: 100, 0: 100, 1.0 / 64: 90, 0.5: -220} {
		if n := f.swapRoom(reserve); n != want {
			t.Errorf("%g of it kept: room for %d pages, want %d", reserve, n, want)
		}
	}
}
