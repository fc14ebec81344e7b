package cgroup

import "testing"

func TestLacks(t *testing.T) {
	l := Layout{Hierarchies: []Hierarchy{{Version: 2, Controllers: []string{"cpu", "memory"}}}}
	for _, c := range []struct {
		onlyCPU bool
		wanted  []string
		lacks   string
	}{
		{false, []string{"cpu", "memory"}, ""},
		{false, []string{"cpu", "cpuset", "memory"}, "cpuset"},
		// A kernel of one CPU has nothing to choose from, but all else is needed there, too.
		{true, []string{"cpu", "cpuset", "memory"}, ""},
		{true, []string{"cpuset", "io"}, "io"},
	} {
		if got := l.lacks(c.onlyCPU, c.wanted); got != c.lacks {
			t.Errorf("of %v, with one CPU alone %t, it lacks %q, want %q", c.wanted, c.onlyCPU, got, c.lacks)
		}
	}
}
