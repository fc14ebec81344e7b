package daemon

import (
	"testing"
	"time"

	"tare/kernel/swap"
)

// Areas that are put to use, and taken out of it, are found; those that stay are kept, with what
// they have open, and those of before where there are none.
func TestAreasChange(t *testing.T) {
	root := t.TempDir()
	const head, zram, file = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n", "/dev/zram0 partition 1024 0 100\n", "/var/swap file 2048 0 -2\n"
	const gone = "/var/swap\\040(deleted) file 2048 0 -3\n"
	a := &areas{host: swap.Host{Root: root}}
	for n, c := range []struct {
		swaps, name string
		same        bool
	}{
		{head + zram, "/dev/zram0", false},
		{head + zram, "/dev/zram0", true},
		{head + zram + file, "/dev/zram0, /var/swap", false},
		{head, "/dev/zram0, /var/swap", true},
		{head + file, "/var/swap", false},
		{head + file + gone, "/var/swap, /var/swap (deleted)", false},
	} {
		put(t, root, "proc/swaps", c.swaps)
		before := a.all
		a.at = time.Time{}
		now := a.inUse()
		if now.Name() != c.name || c.same != (len(before) > 0 && before[0] == now[0]) {
			t.Errorf("step %d: %s, want %s (the same: %v)", n, now.Name(), c.name, c.same)
		}
	}
	if room, err := a.inUse()[1].Room(); err != nil || room.Size != 2048<<10 {
		t.Errorf("of the deleted one: %+v, %v", room, err)
	}
}
