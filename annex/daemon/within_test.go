package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A reclaim keeps within what is left of the time in which eviction is to have stopped.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped, stop := context.WithCancel(t.Context())
		ctx, cancel := within(t.Context(), stopped, 25*time.Millisecond)
		defer cancel()
		time.Sleep(time.Second)
		if ctx.Err() != nil {
			t.Fatal("it ended though nothing was stopped")
		}
		began := time.Now()
		stop()
		<-ctx.Done()
		if took := time.Since(began); took != 25*time.Millisecond {
			t.Errorf("it ended %v after the stop", took)
		}
	})
}
