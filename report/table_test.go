package report

import (
	"slices"
	"testing"
)

func TestWhatRowsHaveInCommonIsSaidOnce(t *testing.T) {
	got := together([]string{"docker: no interval: 1 block.", "oci:runc root=dir: no interval: 1 block.", "oci:crun: no figure: it failed.", "A remark."})
	want := []string{"docker, oci:runc root=dir: no interval: 1 block.", "oci:crun: no figure: it failed.", "A remark."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoIntervalIsRoundedToNothing(t *testing.T) {
	// Beside 96000 ±9000, in thousands, 1000 ±300 must not become 1000 ±0.
	if d := agree(-2, -3, 300); d != -2 {
		t.Errorf("%d decimals, want -2", d)
	}
	if d := agree(-2, -3, 2000); d != -3 {
		t.Errorf("%d decimals, want the column's -3", d)
	}
}
