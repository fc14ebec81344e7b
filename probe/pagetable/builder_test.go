package pagetable

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// laid is what was laid down of a process.
type laid struct {
	pages   []uint64
	entries []Entry
}

// lay lays down processes, of which some are abandoned.
func lay(b *builder, random *rand.Rand, processes int) (spaces []Space, want []laid) {
	for process := range processes {
		b.begin()
		var l laid
		page := uint64(1000)
		for mapping := range 20 {
			block := make([]Entry, random.IntN(tableEntries))
			for i := range block {
				if random.IntN(8) > 0 {
					block[i] = Present | Entry(random.Uint64()>>30)
				}
			}
			b.add(page, mapping/2, block)
			for i, e := range block {
				if e != 0 {
					l.pages, l.entries = append(l.pages, page+uint64(i)), append(l.entries, e)
				}
			}
			page += uint64(len(block) + random.IntN(2))
		}
		if process%5 == 3 {
			b.abandon()
			continue
		}
		spaces, want = append(spaces, Space{Runs: b.finish()}), append(want, l)
	}
	return spaces, want
}

// Whatever is laid down is read back, before the last slab is trimmed and after.
func TestBuilder(t *testing.T) {
	for _, processes := range []int{0, 1, 2, 3, 4, 5, 9, 60, 64} {
		var b builder
		spaces, want := lay(&b, rand.New(rand.NewPCG(1, uint64(processes))), processes)
		total := uint64(0)
		for _, trimmed := range []bool{false, true} {
			if trimmed {
				b.trim(spaces)
			}
			total = 0
			for i, s := range spaces {
				var got laid
				for j, r := range s.Runs {
					for n := range r.Entries {
						got.pages = append(got.pages, r.Page+uint64(n))
					}
					got.entries = append(got.entries, r.Entries...)
					if cap(r.Entries) != len(r.Entries) {
						t.Fatalf("process %d: run %d has room to write over the next", i, j)
					}
				}
				if !slices.Equal(got.pages, want[i].pages) || !slices.Equal(got.entries, want[i].entries) {
					t.Fatalf("process %d of %d is not read back as it was laid down (trimmed: %v)", i, processes, trimmed)
				}
				total += uint64(len(got.entries))
			}
		}
		if b.total != total {
			t.Errorf("%d entries are counted, want %d", b.total, total)
		}
		if spare := cap(b.slab) - b.live; uint64(spare) > total/spareShare {
			t.Errorf("of %d entries the last slab leaves room for %d", total, spare)
		}
	}
}

func TestBuilderJoinsNeighbours(t *testing.T) {
	var b builder
	b.begin()
	full := slices.Repeat([]Entry{Present | 1}, tableEntries)
	for i := range uint64(3 * largestSlab / tableEntries) {
		b.add(i*tableEntries, 0, full)
	}
	b.add(3*largestSlab, 1, full[:3])
	runs := b.finish()
	pages := 0
	for _, r := range runs {
		pages += len(r.Entries)
	}
	// A run ends where a slab does, and slabs grow.
	if slabs := 3*largestSlab/smallestSlab + 1; pages != 3*largestSlab+3 || len(runs) > slabs+1 || runs[len(runs)-1].Mapping != 1 {
		t.Errorf("%d pages without a gap, of two mappings, are %d pages in %d runs", 3*largestSlab+3, pages, len(runs))
	}
}
