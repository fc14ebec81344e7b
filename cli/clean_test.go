package cli

import (
	"strings"
	"testing"
)

// The help of clean names all that it takes away.
func TestCleanSaysWhatItRemoves(t *testing.T) {
	long := new(app).clean().Long
	for _, want := range []string{"processes", "cgroups", "mounts", "containers", "images", "swapoff", "swap files", "zram", "settings", "tare place"} {
		if !strings.Contains(long, want) {
			t.Errorf("nothing is said of %s:\n%s", want, long)
		}
	}
}
