package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tare/lab"
	"tare/terminal"
)

// withSignals cancels at the first signal, with a cause that says so; a second
// one ends tare at once, and leaves the rest to `tare clean`.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		var asked insistence
		for s := range signals {
			if asked.insists(s, time.Now()) {
				terminal.Fprintln(os.Stderr, "tare: ended at once; `tare clean` removes what is left")
				os.Exit(exitFailure)
			}
			cancel(lab.ErrStopped)
		}
	}()
	return ctx, func() { signal.Stop(signals); close(signals); cancel(nil) }
}

// sameWish is for how long a signal that comes again is the same wish: timeout(1), and
// a terminal's closing, signal the process and its group, one after the other.
const sameWish = time.Second

// insistence distinguishes who wants tare to end at once from who wants it to end.
type insistence struct {
	first os.Signal
	at    time.Time
}

// insists reports whether a signal comes after another that wished the same.
func (i *insistence) insists(s os.Signal, now time.Time) bool {
	if i.first == nil {
		i.first, i.at = s, now
		return false
	}
	return s != i.first || now.Sub(i.at) >= sameWish
}
