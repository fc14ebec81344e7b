package lab

import (
	"context"
	"errors"
	"testing"
)

func TestWarmMemoryLeavesTheRestAlone(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		limit, free, available int64
		want                   int64
	}{
		"room":         {free: 900 * mib, available: 900 * mib, want: 3 * mib},
		"caches":       {free: 62 * mib, available: 900 * mib, want: 0},
		"little":       {free: 900 * mib, available: 62 * mib, want: 0},
		"just enough":  {free: 63 * mib, available: 63 * mib, want: 3 * mib},
		"unknown":      {want: 0},
		"a limit":      {limit: 900 * mib, free: 900 * mib, available: 900 * mib, want: 0},
		"a page short": {free: 63*mib - 4096, available: 63 * mib, want: 0},
	} {
		w, err := warmMemory(t.Context(), 3*mib, c.limit, func() map[string]int64 {
			return map[string]int64{"MemTotal": 1000 * mib, "MemFree": c.free, "MemAvailable": c.available}
		})
		if err != nil || w.Bytes != c.want || (w.Less == "") != (c.want == 3*mib) {
			t.Errorf("%s: %+v, %v; want %d bytes", name, w, err, c.want)
		}
		if c.want > 0 && (w.FirstRate() <= 0 || w.AgainRate() <= 0) {
			t.Errorf("%s: %v and %v bytes a second", name, w.FirstRate(), w.AgainRate())
		}
	}
}

func TestWarmMemoryOfThisHost(t *testing.T) {
	w, err := WarmMemory(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if (w.Bytes == 1<<20) != (w.Less == "") {
		t.Errorf("%+v: fewer without a reason, or a reason for all", w)
	}
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := warmMemory(ctx, 1<<20, 0, readMemInfo); !errors.Is(err, why) {
		t.Errorf("cancelled: %v", err)
	}
}
