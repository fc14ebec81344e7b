package lab

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestTheGuardStopsARunWhenMemoryEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	tick := make(chan time.Time)
	left := []int64{500 << 20, 40 << 20, 20 << 20}
	read := func() (total, available int64, err error) {
		available, left = left[0], left[1:]
		return 1000 << 20, available, nil
	}
	go guard(ctx, tick, read, cancel)
	tick <- time.Time{}
	tick <- time.Time{}
	if ctx.Err() != nil {
		t.Fatalf("stopped with 4 %% left: %v", context.Cause(ctx))
	}
	tick <- time.Time{}
	<-ctx.Done()
	if cause := context.Cause(ctx).Error(); !strings.Contains(cause, "20 MiB of its 1000 MiB") {
		t.Errorf("cause %q", cause)
	}
}
