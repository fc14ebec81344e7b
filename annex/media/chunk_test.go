package media

import (
	"slices"
	"testing"

	"tare/annex"
	"tare/kernel/advise"
)

func TestCutter(t *testing.T) {
	c := cutter{runs: []annex.Run{run(one, 0, 3), run(other, 5, 2), run(one, 3, 4), run(one, 100, 0), run(one, 50, 6)}}
	for i, want := range [][][]annex.Run{
		{{run(one, 0, 3)}, {run(other, 5, 1)}},
		{{run(other, 6, 1)}, {run(one, 3, 3)}},
		{{run(one, 6, 1), run(one, 50, 3)}},
		{{run(one, 53, 3)}},
		nil,
	} {
		if got := c.next(4); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("chunk %d is %v, want %v", i, got, want)
		}
	}
}

func TestBridged(t *testing.T) {
	at := func(first, pages uint64) advise.Range {
		return advise.Range{Start: first * annex.PageSize, Length: pages * annex.PageSize}
	}
	for _, c := range []struct {
		pages []annex.Page
		gap   int
		want  []advise.Range
	}{
		{nil, 2, nil},
		{[]annex.Page{1, 2, 3, 5}, 0, []advise.Range{at(1, 3), at(5, 1)}},
		{[]annex.Page{1, 2, 5, 9}, 2, []advise.Range{at(1, 5), at(9, 1)}},
		{[]annex.Page{9, 8, 7, 8}, 2, []advise.Range{at(9, 1), at(8, 1), at(7, 2)}},
	} {
		if got := bridged(c.pages, c.gap); !slices.Equal(got, c.want) {
			t.Errorf("%v with gaps of %d: %v, want %v", c.pages, c.gap, got, c.want)
		}
	}
}

// Whatever the runs, chunks are their pages in their order, and none is too large.
func FuzzCutter(f *testing.F) {
	f.Add([]byte{0, 3, 3, 2, 1, 9, 9, 1, 200}, uint8(4))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		type at struct {
			space annex.Space
			page  annex.Page
		}
		var runs []annex.Run
		var want, got []at
		for ; len(b) >= 3; b = b[3:] {
			r := annex.Run{Space: annex.Space{PID: int32(b[0] % 3)}, First: annex.Page(b[1]), Pages: int(b[2])}
			runs = append(runs, r)
			for p := r.First; p < r.End(); p++ {
				want = append(want, at{r.Space, p})
			}
		}
		most := int(size) + 1
		c := cutter{runs: slices.Clone(runs)}
		for chunk := c.next(most); chunk != nil; chunk = c.next(most) {
			n := 0
			var had []at
			for _, rs := range chunk {
				for _, r := range rs {
					n += r.Pages
					for p := r.First; p < r.End(); p++ {
						had = append(had, at{r.Space, p})
					}
				}
			}
			if n == 0 || n > most {
				t.Fatalf("a chunk of %d pages, of %d at most", n, most)
			}
			// Within a chunk its spaces are together: set them beside the same pages.
			due := slices.Clone(want[len(got):min(len(want), len(got)+n)])
			slices.SortStableFunc(due, func(a, b at) int { return int(a.space.PID - b.space.PID) })
			sorted := slices.Clone(had)
			slices.SortStableFunc(sorted, func(a, b at) int { return int(a.space.PID - b.space.PID) })
			if !slices.Equal(sorted, due) {
				t.Fatalf("a chunk of %v, want %v", had, due)
			}
			got = append(got, had...)
		}
		if len(got) != len(want) {
			t.Errorf("%d pages, want %d", len(got), len(want))
		}
	})
}
