package density

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"tare/platform"
)

// watchedBox looks after itself.
type watchedBox struct {
	platform.Box // nil: whoever reads it, or does anything else with it, ends the test
	danger       atomic.Pointer[platform.Endangered]
	asked        atomic.Int64
}

func (b *watchedBox) Danger() *platform.Endangered {
	b.asked.Add(1)
	return b.danger.Load()
}

// A step ends by what a box says of itself, and the box is not read while it goes on.
func TestAStepHearsOfDanger(t *testing.T) {
	b := &watchedBox{}
	step, release := guarded(t.Context(), b, time.Minute, time.Millisecond)
	defer release()
	for b.asked.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := step.Err(); err != nil {
		t.Fatalf("it ended though there is no danger: %v", err)
	}
	want := &platform.Endangered{Why: "a test's"}
	b.danger.Store(want)
	<-step.Done()
	if got := context.Cause(step); !errors.Is(got, want) {
		t.Errorf("it ended by %v, want %v", got, want)
	}
}
