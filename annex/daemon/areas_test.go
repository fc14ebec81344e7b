package daemon

import (
	"testing"
	"time"

	"tare/annex/media"
	"tare/kernel/swap"
)

// Who bounds areas is told when others are put to use, and nobody while they stay.
func TestAreasChange(t *testing.T) {
	root := t.TempDir()
	const head, zram, file = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n", "/dev/zram0 partition 1024 0 100\n", "/var/swap file 2048 0 -2\n"
	var told []string
	a := &areas{host: swap.Host{Root: root}, changed: func(all media.Together) { told = append(told, all.Name()) }}
	for n, c := range []struct {
		swaps, told string
	}{
		{head + zram, ""}, // what is in use at first nobody has to be told
		{head + zram, ""},
		{head + zram + file, "/dev/zram0, /var/swap"},
		{head, ""}, // those of before stay
		{head + file, "/var/swap"},
	} {
		put(t, root, "proc/swaps", c.swaps)
		a.at, told = time.Time{}, nil
		a.inUse()
		if want := c.told; len(told) > 1 || (want != "") != (len(told) == 1) || want != "" && told[0] != want {
			t.Errorf("step %d: told of %q, want %q", n, told, want)
		}
	}
}
