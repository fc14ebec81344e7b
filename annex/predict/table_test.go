package predict

import (
	"slices"
	"testing"
)

func TestSpansHoldTheirPages(t *testing.T) {
	for _, c := range [][2]int{{0, 0}, {0, 1}, {5, 5}, {63, 65}, {64, 128}, {100, 511}, {0, 512}, {511, 512}} {
		s := span(c[0], c[1])
		for i := range tablePages {
			if in := i >= c[0] && i < c[1]; s.has(i) != in {
				t.Fatalf("pages %d up to %d hold %d: %t", c[0], c[1], i, s.has(i))
			}
		}
		if got := s.below(tablePages - 1); got != c[1]-c[0]-map[bool]int{true: 1}[s.has(tablePages-1)] {
			t.Errorf("%d of pages %d up to %d come before the last", got, c[0], c[1])
		}
	}
}

func TestTablesKeepCellsInOrder(t *testing.T) {
	var table table
	for _, i := range []int{300, 2, 511, 64, 0} {
		table.admit(i, newCell(unknown, i/2))
	}
	table.tells = table.member
	table.drop(span(60, 301))
	if got := slices.Collect(table.member.each); !slices.Equal(got, []int{0, 2, 511}) {
		t.Fatalf("members are %v", got)
	}
	if table.tells != table.member {
		t.Error("a page that is no member tells")
	}
	for _, i := range []int{0, 2, 511} {
		if got := table.cell(i).rank(); got != i/2 {
			t.Errorf("page %d has the rank %d", i, got)
		}
	}
}
