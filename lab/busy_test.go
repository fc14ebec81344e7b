package lab

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"tare/kernel/file"
	"tare/record"
)

// While another program has the store, a run keeps what it has measured and writes it later.
// A user who gives up meanwhile is not kept.
func TestABusyStoreLosesNothing(t *testing.T) {
	hold := func(t *testing.T, b *bench) *os.File {
		held, err := file.Lock(b.Store.Path() + ".lock")
		if err != nil {
			t.Error(err)
		}
		return held
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bare", "box")
		w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
			if n == 4 {
				held := hold(t, b)
				time.AfterFunc(3*time.Minute, func() { held.Close() })
			}
			return 1, nil
		}}
		run, err := b.Run(t.Context(), twoPlatforms(w, record.Plan{Blocks: 2}), newRun("r"))
		if err != nil || run.Status != record.Complete || len(run.Trials) != 2+2*3 {
			t.Errorf("status %s, %d trials: %v", run.Status, len(run.Trials), err)
		}
		if len(b.warned("waits to be written")) == 0 {
			t.Error("nobody is told")
		}
		b.Store.Close() // its connection waits for ever, for the bubble
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bare", "box")
		ctx, cancel := context.WithCancelCause(t.Context())
		w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
			if n == 4 {
				held := hold(t, b)
				t.Cleanup(func() { held.Close() })
				time.AfterFunc(time.Minute, func() { cancel(ErrStopped) })
			}
			return 1, nil
		}}
		began := time.Now()
		if _, err := b.Run(ctx, twoPlatforms(w, record.Plan{Blocks: 2}), newRun("r")); err == nil || time.Since(began) > 3*time.Minute {
			t.Errorf("it goes on for %v: %v", time.Since(began), err)
		}
		b.Store.Close()
	})
}
