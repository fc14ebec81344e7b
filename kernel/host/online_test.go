package host

import "testing"

func TestCPUs(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-3": 4, "0-3,8": 5, "0,2-3\n": 3, "": 0, "3-0": 0, "x": 0} {
		if got := (Topology{Online: list}).CPUs(); got != want {
			t.Errorf("%q: %d CPUs, want %d", list, got, want)
		}
	}
}
