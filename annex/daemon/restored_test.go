package daemon

import (
	"slices"
	"testing"

	"tare/annex/guard"
)

// What was put back is told by its knob and its group; what was not needs no such words.
func TestRestoredIsTold(t *testing.T) {
	knob := guard.Entry{File: "/sys/fs/cgroup/memory/web/memory.swappiness", Found: "60", Written: "0"}
	got := restored([]guard.Outcome{
		{Entry: knob, Ending: guard.Restored},
		{Entry: knob, Ending: guard.Already},
		{Entry: knob, Ending: guard.Foreign},
		{Entry: knob, Ending: guard.Gone},
	})
	want := []string{"put back memory.swappiness of /sys/fs/cgroup/memory/web from 0 to 60, as it was before a daemon that was killed set it"}
	if !slices.Equal(got, want) {
		t.Errorf("tells %q, want %q", got, want)
	}
}
