package pagetable

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"tare/kernel/pagemap"
)

// counting counts the words that are read.
type counting struct {
	io.ReaderAt
	calls, bytes atomic.Int64
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	c.calls.Add(1)
	c.bytes.Add(int64(len(b)))
	return c.ReaderAt.ReadAt(b, at)
}

func flagsFile(words []uint64) *counting {
	var b bytes.Buffer
	for _, w := range words {
		b.Write(binary.NativeEndian.AppendUint64(nil, w))
	}
	return &counting{ReaderAt: bytes.NewReader(b.Bytes())}
}

// Each entry gets the flags of its own frame, whichever way the frames are
// scattered, and no frame is read twice.
func TestFlagsOfFrames(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const frames = 3*blockFrames + 100
	words := make([]uint64, frames)
	for i := range words {
		words[i] = random.Uint64() >> 37 &^ uint64(pagemap.ZeroPage|pagemap.NoPage)
	}
	words[17] = uint64(pagemap.ZeroPage)
	words[18] = uint64(pagemap.NoPage)
	f := &flagger{frames: frames} // one for all: nothing of a census is left for the next
	for _, density := range []int{1, 2, 3, 7, 1000} {
		file := flagsFile(words)
		f.file = file
		asked := map[uint64]bool{}
		entries := []Entry{17 | Present, 18 | Present, 17 | Present, frames + 5 | Present, 3<<5 | Swapped}
		for frame := range uint64(frames) {
			if random.IntN(density) == 0 {
				entries = append(entries, Present|Entry(frame))
			}
		}
		random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		before := append([]Entry{}, entries...)
		for _, e := range entries {
			if e.Has(Present) && e.Frame() < frames {
				asked[e.Frame()] = true
			}
		}
		if err := f.flag(t.Context(), []Space{{Runs: []Run{{Entries: entries}}}}, true); err != nil {
			t.Fatal(err)
		}
		for i, e := range entries {
			if want := plainly(before[i], words); e != want {
				t.Fatalf("density 1/%d: entry %#x became %#x, want %#x", density, before[i], e, want)
			}
		}
		if read := int(file.bytes.Load() / 8); read > len(asked)*(1+bridge) || read > frames {
			t.Errorf("density 1/%d: %d words were read for %d frames", density, read, len(asked))
		}
		if density == 1 && file.calls.Load() > 5 {
			t.Errorf("%d calls for frames without a gap", file.calls.Load())
		}
	}
}

// plainly is what an entry becomes, said the plain way.
func plainly(e Entry, words []uint64) Entry {
	if !e.Has(Present) {
		return e
	}
	if e.Frame() >= uint64(len(words)) {
		return e | NoFrame
	}
	flags := pagemap.Flags(words[e.Frame()])
	for _, m := range meanings {
		if m.of != SharedFrame && flags&m.flags != 0 {
			e |= m.of
		}
	}
	if flags&pagemap.ZeroPage != 0 {
		return e&^FileFrame | Zero
	}
	if flags&(pagemap.Anon|pagemap.NoPage) == 0 {
		e |= FileFrame
	}
	return e
}

// A page that is mapped huge is known by its first frame.
func TestFlagsOfHugePages(t *testing.T) {
	words := make([]uint64, 4*tableEntries)
	words[tableEntries] = uint64(pagemap.Anon | pagemap.THP)
	words[tableEntries+7] = uint64(pagemap.KSM)
	file := flagsFile(words)
	f := &flagger{file: file, frames: uint64(len(words))}
	entries := []Entry{Present | tableEntries + 7, Present | Huge | tableEntries + 9, Present | Huge | tableEntries}
	if err := f.flag(t.Context(), []Space{{Runs: []Run{{Entries: entries}}}}, true); err != nil {
		t.Fatal(err)
	}
	want := []Entry{KSM | FileFrame, Huge | Anon | THP, Huge | Anon | THP}
	for i, e := range entries {
		if e&^Frames != Present|want[i] {
			t.Errorf("entry %d is %#x, want %#x", i, e, Present|want[i])
		}
	}
	if n := file.bytes.Load() / 8; n != 2 {
		t.Errorf("%d words were read, want 2", n)
	}
}

func TestFlagsThatShrink(t *testing.T) {
	f := &flagger{file: flagsFile(make([]uint64, 10)), frames: 100}
	entries := []Entry{Present | 5, Present | 50}
	if err := f.flag(t.Context(), []Space{{Runs: []Run{{Entries: entries}}}}, false); err != nil {
		t.Fatal(err)
	}
	if entries[0] != Present|5 || entries[1] != Present|50|NoFrame {
		t.Errorf("frames at the end of the file are %#x", entries)
	}
}
