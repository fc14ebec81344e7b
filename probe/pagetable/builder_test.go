package pagetable

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever is laid down is read back, in runs that are as long as they can be but
// for the ends of slabs.
func TestBuilder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b builder
	type laid struct {
		runs    []Run
		pages   []uint64
		entries []Entry
	}
	var kept []laid
	total := uint64(0)
	for process := range 60 {
		b.begin()
		var want laid
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
					want.pages, want.entries = append(want.pages, page+uint64(i)), append(want.entries, e)
				}
			}
			page += uint64(len(block) + random.IntN(2))
		}
		if process%5 == 4 {
			b.abandon()
			continue
		}
		want.runs = b.finish()
		total += uint64(len(want.entries))
		kept = append(kept, want)
	}
	if b.total != total {
		t.Errorf("%d entries are counted, want %d", b.total, total)
	}
	for i, k := range kept {
		var pages []uint64
		var entries []Entry
		for j, r := range k.runs {
			for n := range r.Entries {
				pages = append(pages, r.Page+uint64(n))
			}
			entries = append(entries, r.Entries...)
			if cap(r.Entries) != len(r.Entries) {
				t.Fatalf("process %d: run %d has room to write over the next", i, j)
			}
		}
		if !slices.Equal(pages, k.pages) || !slices.Equal(entries, k.entries) {
			t.Fatalf("process %d is not read back as it was laid down", i)
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
