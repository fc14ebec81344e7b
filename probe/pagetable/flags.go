package pagetable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"tare/kernel/pagemap"
	"tare/probe"
)

// flagger reads the flags of frames.
type flagger struct {
	file   io.ReaderAt
	close  func() error
	frames uint64 // how many the file has
	// blocks are kept from one census to the next, since fresh memory is a fault
	// a page.
	blocks []*block
}

func newFlagger() (*flagger, error) {
	f, err := pagemap.Open("/proc/kpageflags")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &probe.Missing{Probe: "flags of frames", What: err.Error(), Mend: "a kernel with CONFIG_PROC_PAGE_MONITOR"}
	case errors.Is(err, fs.ErrPermission):
		return nil, &probe.Missing{Probe: "flags of frames", What: err.Error(), Mend: "run as root"}
	case err != nil:
		return nil, err
	}
	frames, err := pagemap.MaxFrame(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: find the highest frame: %w", f.Name(), err)
	}
	return &flagger{file: f, close: f.Close, frames: frames}, nil
}

// of reads the flags of one frame.
func (f *flagger) of(frame uint64) (pagemap.Flags, error) {
	var word [1]uint64
	n, err := pagemap.Words(f.file, frame, word[:])
	if err != nil {
		return 0, fmt.Errorf("read the flags of frame %d: %w", frame, err)
	}
	if n == 0 {
		return pagemap.NoPage, nil
	}
	return pagemap.Flags(word[0]), nil
}

// Frames are looked up in blocks of 128 MiB, made where frames are seen.
const (
	blockBits   = 15
	blockFrames = 1 << blockBits
)

// block is what is known of neighbouring frames: which are asked for, and then
// the bits of an Entry from Anon on.
type block struct {
	used  bool // any is asked for
	asked [blockFrames / 64]uint64
	bits  [blockFrames]uint16
}

// bridge is how many frames nobody asked for are read along, since one call
// for two stretches costs less than two: a call takes the time of two frames.
const bridge = 2

// isZero stands in a block's bits where an Entry has SharedFrame, which no flag shows.
const isZero = SharedFrame >> flagShift

const flagShift = 48 // of Anon

// flag sets in all entries what the kernel knows of their frames. files has it set
// FileFrame too.
func (f *flagger) flag(ctx context.Context, spaces []Space, files bool) error {
	if f.blocks == nil {
		f.blocks = make([]*block, f.frames>>blockBits+1)
	}
	blocks := f.blocks
	for _, b := range blocks {
		if b != nil {
			b.used, b.asked = false, [blockFrames / 64]uint64{}
		}
	}
	eachRun(spaces, func(entries []Entry) {
		for _, e := range entries {
			frame := flagged(e)
			if e&Present == 0 || frame >= f.frames {
				continue
			}
			b := blocks[frame>>blockBits]
			if b == nil {
				b = new(block)
				blocks[frame>>blockBits] = b
			}
			b.used = true
			b.asked[frame/64%(blockFrames/64)] |= 1 << (frame % 64)
		}
	})
	if err := f.readAll(ctx, blocks); err != nil {
		return err
	}
	eachRun(spaces, func(entries []Entry) {
		for i, e := range entries {
			if e&Present == 0 {
				continue
			}
			set := NoFrame
			if frame := flagged(e); frame < f.frames {
				known := Entry(blocks[frame>>blockBits].bits[frame%blockFrames])
				set = known &^ isZero << flagShift
				if known&isZero != 0 {
					e = e&^FileFrame | Zero
				}
			}
			if files && (e|set)&(Zero|Anon|NoFrame) == 0 {
				e |= FileFrame
			}
			entries[i] = e | set
		}
	})
	return nil
}

// flagged is the frame whose flags an entry's frame has. Of a page that is
// mapped huge all frames have those of the page, so that the first will do.
func flagged(e Entry) uint64 {
	if e&Huge != 0 {
		return e.Frame() &^ (tableEntries - 1)
	}
	return e.Frame()
}

// readers is how many read flags at once at most. The kernel looks at each frame
// alone, which takes it some ten times as long as all that is done here.
const readers = 4

// readAll reads what was asked for.
func (f *flagger) readAll(ctx context.Context, blocks []*block) error {
	var next atomic.Int64
	var group sync.WaitGroup
	n := min(readers, runtime.GOMAXPROCS(0))
	failed := make([]error, n)
	for worker := range n {
		group.Go(func() {
			buffer := make([]uint64, blockFrames)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(blocks) || failed[worker] != nil {
					return
				}
				if blocks[i] == nil || !blocks[i].used {
					continue
				}
				if failed[worker] = ctx.Err(); failed[worker] == nil {
					failed[worker] = f.read(uint64(i)<<blockBits, blocks[i], buffer)
				}
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

func eachRun(spaces []Space, do func([]Entry)) {
	for i := range spaces {
		for j := range spaces[i].Runs {
			do(spaces[i].Runs[j].Entries)
		}
	}
}

// read reads what was asked for of a block, that begins at a frame.
func (f *flagger) read(first uint64, b *block, buffer []uint64) error {
	for from := b.next(0); from < blockFrames; {
		// The stretch grows over gaps that are no wider than the bridge.
		end := b.gap(from)
		next := b.next(end)
		for next < blockFrames && next-end <= bridge {
			end = b.gap(next)
			next = b.next(end)
		}
		words := buffer[:end-from]
		n, err := pagemap.Words(f.file, first+uint64(from), words)
		if err != nil {
			return fmt.Errorf("read the flags of %d frames from %d on: %w", len(words), first+uint64(from), err)
		}
		for i := range words {
			flags := pagemap.NoPage
			if i < n {
				flags = pagemap.Flags(words[i])
			}
			b.bits[from+i] = bitsOf(flags)
		}
		from = next
	}
	return nil
}

// next is the first frame from one on that is asked for; blockFrames is none.
func (b *block) next(from int) int {
	for from < blockFrames {
		if word := b.asked[from/64] >> (from % 64); word != 0 {
			return from + bits.TrailingZeros64(word)
		}
		from = from&^63 + 64
	}
	return blockFrames
}

// gap is the first frame from one on that is not asked for.
func (b *block) gap(from int) int {
	for from < blockFrames {
		if word := ^b.asked[from/64] >> (from % 64); word != 0 {
			// Of the word only what is left of it counts.
			if n := bits.TrailingZeros64(word); n < 64-from%64 {
				return from + n
			}
		}
		from = from&^63 + 64
	}
	return blockFrames
}

// meanings are which flags say what of an entry.
var meanings = []struct {
	of    Entry
	flags pagemap.Flags
}{
	{Anon, pagemap.Anon},
	{Active, pagemap.Active},
	{Referenced, pagemap.Referenced},
	{OnList, pagemap.LRU},
	{Unevictable, pagemap.Unevictable},
	{THP, pagemap.THP},
	{Large, pagemap.CompoundHead | pagemap.CompoundTail},
	{SwapCache, pagemap.SwapCache},
	{SwapBacked, pagemap.SwapBacked},
	{KSM, pagemap.KSM},
	{Idle, pagemap.Idle},
	{DirtyFrame, pagemap.Dirty},
	{NoFrame, pagemap.NoPage},
	{SharedFrame, pagemap.ZeroPage}, // in the place of isZero
}

// lowFlags and highFlags give the bits for both halves of a frame's flags: a
// look-up each in place of a dozen tests.
var lowFlags, highFlags = func() (low, high [1 << 14]uint16) {
	for i := range low {
		for _, m := range meanings {
			if pagemap.Flags(i)&m.flags != 0 {
				low[i] |= uint16(m.of >> flagShift)
			}
			if pagemap.Flags(i)<<14&m.flags != 0 {
				high[i] |= uint16(m.of >> flagShift)
			}
		}
	}
	return low, high
}()

func bitsOf(f pagemap.Flags) uint16 { return lowFlags[f&(1<<14-1)] | highFlags[f>>14&(1<<14-1)] }
