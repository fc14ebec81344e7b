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
