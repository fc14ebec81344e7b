package knob

import (
	"context"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// interrupted runs a call on a thread of which nothing else is running, and sends that
// thread signals from the end of ctx until the call returns.
//
// The signal is SIGURG, which the Go runtime handles and sends to its own threads to
// take turns: nobody takes it for anything else.
func interrupted(ctx context.Context, call func() error) error {
	if ctx.Done() == nil {
		return call()
	}
	thread, result := make(chan int), make(chan error, 1)
	finished := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		result <- call()
		<-finished // or a signal might reach who has the thread next
	}()
	defer close(finished)
	id := <-thread
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	again := time.NewTicker(signalAgain)
	defer again.Stop()
	for {
		// It fails for a thread that is gone, and this one waits.
		_ = unix.Tgkill(os.Getpid(), id, unix.SIGURG)
		select {
		case err := <-result:
			return err
		case <-again.C:
		}
	}
}
