package daemon

import (
	"errors"
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

// What was not put back is told, but where another entry of the same knob has put it back.
func TestUnrestoredIsTold(t *testing.T) {
	of := func(file string, identity uint64, how guard.Ending) guard.Outcome {
		o := guard.Outcome{Entry: guard.Entry{File: file, Identity: identity}, Ending: how}
		return o
	}
	got := unrestored([]guard.Outcome{
		of("/a/memory.low", 1, guard.Foreign), // what the entry below set
		of("/a/memory.low", 1, guard.Restored),
		of("/b/memory.low", 2, guard.Foreign),
		of("/b/memory.low", 3, guard.Restored), // another group of that name
		of("/c/memory.low", 4, guard.Failed),
		of("/c/memory.low", 4, guard.Restored),
		of("/d/memory.low", 5, guard.Gone),
	})
	const killed = " was changed by a daemon that was killed, and not put back "
	if want := []string{"/b/memory.low" + killed + "(foreign)", "/c/memory.low" + killed + "(failed)"}; !slices.Equal(got, want) {
		t.Errorf("tells %q, want %q", got, want)
	}
}

// A journal's damage is no reason not to start, and hides none.
func TestDamageHidesNothing(t *testing.T) {
	damage, failure := &guard.Damaged{Lines: []int{3}}, errors.New("memory.swappiness holds 0 instead of 60")
	for name, c := range map[string]struct {
		err     error
		damaged int
		other   error
	}{
		"nothing":       {nil, 0, nil},
		"damage":        {damage, 1, nil},
		"both":          {errors.Join(nil, errors.Join(damage, failure)), 1, failure},
		"of two":        {errors.Join(errors.Join(damage), errors.Join(damage, failure)), 2, failure},
		"no damage":     {failure, 0, failure},
		"none, wrapped": {errors.Join(failure), 0, failure},
	} {
		damaged, other := apart(c.err)
		if len(damaged) != c.damaged || !errors.Is(other, c.other) || (other == nil) != (c.other == nil) {
			t.Errorf("%s: %d damaged and %v, want %d and %v", name, len(damaged), other, c.damaged, c.other)
		}
	}
}
