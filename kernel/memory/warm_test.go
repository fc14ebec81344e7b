package memory

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// minorFaults are this program's so far.
func minorFaults(t *testing.T) int64 {
	t.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return use.Minflt
}

func TestWarm(t *testing.T) {
	page := int64(os.Getpagesize())
	before := minorFaults(t)
	w, err := Warm(t.Context(), 512*page+1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.Bytes != 512*page || w.First <= 0 || w.Again <= 0 || w.FirstRate() <= 0 || w.AgainRate() <= 0 {
		t.Errorf("%+v, want 512 pages touched twice", w)
	}
	// Two huge pages at the least, where the host has such.
	if faults := minorFaults(t) - before; faults < 2 {
		t.Errorf("%d faults: nothing was touched", faults)
	}
}

func TestWarmStopsWhereThereIsNoRoom(t *testing.T) {
	for name, c := range map[string]struct {
		steps []bool // answers to whether there is room, false ever after
		want  int64
	}{
		"none":            {nil, 0},
		"for one":         {[]bool{true, false, true}, warmStep},
		"for one, then 0": {[]bool{true, false}, 0},
		"enough":          {[]bool{true, true, true, true}, warmStep + 8192},
		"less later":      {[]bool{true, true, true}, warmStep},
	} {
		w, err := Warm(t.Context(), warmStep+8192, func(step int64) bool {
			if step <= 0 || step > warmStep {
				t.Errorf("asked for room for %d", step)
			}
			if len(c.steps) == 0 {
				return false
			}
			answer := c.steps[0]
			c.steps = c.steps[1:]
			return answer
		})
		if err != nil || w.Bytes != c.want {
			t.Errorf("%s: %+v, %v; want %d bytes", name, w, err, c.want)
		}
		if c.want == 0 && (w.FirstRate() != 0 || w.AgainRate() != 0) {
			t.Errorf("%s: %v and %v bytes a second of nothing", name, w.FirstRate(), w.AgainRate())
		}
	}
}

func TestWarmEnds(t *testing.T) {
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	w, err := Warm(ctx, 3*warmStep, func(int64) bool { cancel(why); return true })
	if !errors.Is(err, why) || w != (Warmth{}) {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := Warm(t.Context(), 0, nil); err != nil || w != (Warmth{}) {
		t.Errorf("of nothing: %+v, %v", w, err)
	}
	if _, err := Warm(t.Context(), 1<<60, nil); err == nil {
		t.Error("mapped an exbibyte")
	}
}
