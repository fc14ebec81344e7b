package kit

import (
	"testing"
	"time"

	"tare/kernel/cgroup"
)

// Between a number and its unit there is a space.
func TestDurations(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		d            time.Duration
		short, exact string
	}{
		{0, "0 s", "0 s"},
		{1, "1 ns", "1 ns"},
		{1234, "1.23 µs", "1.234 µs"},
		{1500 * time.Microsecond, "1.5 ms", "1.5 ms"},
		{170 * ms, "170 ms", "170 ms"},
		{-170 * ms, "-170 ms", "-170 ms"},
		{59999 * ms, "1 min", "59.999 s"},
		{90 * time.Second, "1 min 30 s", "1 min 30 s"},
		{2*time.Hour + 5*time.Second, "2 h 5 s", "2 h 5 s"},
	} {
		if short, exact := Short(c.d), Exact(c.d); short != c.short || exact != c.exact {
			t.Errorf("%v: %q and %q, want %q and %q", c.d, short, exact, c.short, c.exact)
		}
	}
	b := cgroup.Bandwidth{Quota: 13 * ms, Period: 100 * ms, Burst: 5 * ms}
	if got := Bandwidth(b); got != "13 ms in each 100 ms, saving up to 5 ms" {
		t.Errorf("%q", got)
	}
}
