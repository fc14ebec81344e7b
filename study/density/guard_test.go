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
	asked        chan struct{}
}

func (b *watchedBox) Danger() *platform.Endangered {
	select {
	case b.asked <- struct{}{}:
	default:
	}
	return b.danger.Load()
}

// A step ends by what a box says of itself, and the box is not read while it goes on.
func TestAStepHearsOfDanger(t *testing.T) {
	b := &watchedBox{asked: make(chan struct{})}
	step, release := guarded(t.Context(), b, time.Minute, time.Millisecond)
	defer release()
	<-b.asked
	<-b.asked
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
