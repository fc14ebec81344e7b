package pagemap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
)

func file(words ...uint64) io.ReaderAt {
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return bytes.NewReader(b)
}

func TestEntry(t *testing.T) {
	type says struct {
		present, swapped, file, exclusive, guard bool
	}
	for _, c := range []struct {
		what   string
		entry  Entry
		want   says
		frame  uint64
		kind   int
		offset uint64
	}{
		{what: "nothing"},
		{what: "a page of this process alone", entry: 0x8100000000254a00, want: says{present: true, exclusive: true}, frame: 0x254a00},
		{what: "a page of a file", entry: 0xa00000000033e400, want: says{present: true, file: true}, frame: 0x33e400},
		{what: "a guard", entry: 0x440000000000009f, want: says{swapped: true, guard: true}, kind: MarkerType, offset: 4},
		{what: "a page in swap, dirty", entry: 0x4080000000000122, want: says{swapped: true}, kind: 2, offset: 9},
		{what: "a protected page", entry: 0x8300000000000001, want: says{present: true, exclusive: true}, frame: 1},
	} {
		e := c.entry
		got := says{e.Present(), e.Swapped(), e.FileOrShared(), e.Exclusive(), e.Guard()}
		if got != c.want || e.Present() && e.Frame() != c.frame || e.Swapped() && (e.SwapType() != c.kind || e.SwapOffset() != c.offset) {
			t.Errorf("%s: %+v, frame %#x, swap %d at %d", c.what, got, e.Frame(), e.SwapType(), e.SwapOffset())
		}
	}
}

func TestWords(t *testing.T) {
	r := file(10, 11, 12, 13)
	for _, c := range []struct {
		index uint64
		room  int
		want  []uint64
	}{
		{0, 4, []uint64{10, 11, 12, 13}},
		{1, 2, []uint64{11, 12}},
		{2, 9, []uint64{12, 13}},
		{4, 1, nil},
		{1 << 62, 1, nil},
		{0, 0, nil},
	} {
		to := make([]uint64, c.room)
		n, err := Words(r, c.index, to)
		if err != nil || !slices.Equal(to[:n], c.want) {
			t.Errorf("%d words from %d on are %v (%v), want %v", c.room, c.index, to[:n], err, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := Words(failing{broken}, 0, make([]uint64, 1)); !errors.Is(err, broken) {
		t.Errorf("the reader's error is reported as %v", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestMaxFrame(t *testing.T) {
	for _, n := range []int{1, 2, 3, 1000} {
		if got, err := MaxFrame(file(make([]uint64, n)...)); got != uint64(n) || err != nil {
			t.Errorf("of %d frames %d are reported (%v)", n, got, err)
		}
	}
	if n, err := MaxFrame(file()); err == nil {
		t.Errorf("an empty file has %d frames", n)
	}
	if n, err := MaxFrame(failing{os.ErrPermission}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a file that cannot be read has %d frames (%v)", n, err)
	}
}

func FuzzWords(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), uint64(1), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, index uint64, room uint8) {
		to := make([]uint64, room)
		n, err := Words(bytes.NewReader(b), index, to)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range to[:n] {
			if want := binary.NativeEndian.Uint64(b[(index+uint64(i))*8:]); w != want {
				t.Errorf("word %d is %#x, want %#x", i, w, want)
			}
		}
	})
}

// What the kernel reports of pages of our own.
func TestOwnPages(t *testing.T) {
	zero, err := ZeroFrame()
	if errors.Is(err, ErrHidden) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open("/proc/kpageflags")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	frames, err := MaxFrame(f)
	if err != nil || zero >= frames {
		t.Fatalf("%d frames (%v), and the page of zeros is %d", frames, err, zero)
	}
	var word [1]uint64
	if n, err := Words(f, zero, word[:]); n != 1 || err != nil || Flags(word[0])&ZeroPage == 0 {
		t.Errorf("the page of zeros has flags %#x (%v)", word[0], err)
	}
	page := make([]byte, 2*os.Getpagesize())
	page[0], page[len(page)-1] = 1, 1
	e, err := Own(address(page))
	if err != nil || !e.Present() || e.FileOrShared() {
		t.Errorf("a page of ours is %#x (%v)", uint64(e), err)
	}
	if n, err := Words(f, e.Frame(), word[:]); n != 1 || err != nil || Flags(word[0])&Anon == 0 {
		t.Errorf("the frame of a page of ours has flags %#x (%v)", word[0], err)
	}
}

func TestScan(t *testing.T) {
	maps, err := Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer maps.Close()
	size := uint64(os.Getpagesize())
	memory := make([]byte, 64*size)
	at := address(memory)
	first := (at + size - 1) / size * size
	memory[first-at], memory[first-at+20*size] = 1, 1
	var regions [8]Region
	found, next, err := Scan(maps, first, first+21*size, CategoryPresent, 0, regions[:])
	if errors.Is(err, ErrCannotScan) {
		t.Skip(err)
	}
	// What lies between may have been touched by whoever had the memory before.
	if err != nil || next != first+21*size || len(found) == 0 || found[0].Start != first || found[len(found)-1].End != first+21*size {
		t.Errorf("two pages that are there are found as %+v, up to %#x (%v); want %#x and %#x", found, next, err, first, first+20*size)
	}
	if found, _, err := Scan(maps, first, first+21*size, CategoryPresent, 1, regions[:]); err != nil || len(found) != 1 || found[0].End != first+size {
		t.Errorf("one page at most is %+v (%v)", found, err)
	}
}

// Whoever reads another's page map may wait for its memory's lock, and others go on meanwhile.
func TestWaits(t *testing.T) {
	for path, want := range map[string]bool{"/proc/self/pagemap": true, "/proc/kpageflags": false, "/proc/kpagecount": false} {
		f, err := Open(path)
		if err != nil {
			t.Skip(err)
		}
		if f.waits != want {
			t.Errorf("of %s it is %v", path, f.waits)
		}
		_ = f.Close()
	}
}
