package process

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnFreshThread runs f on a thread of its own that ends with it, so that f may
// change what belongs to a thread and cannot be changed back (its namespaces)
// without anything else of this program ever running there.
//
// The thread is never the first one. That one cannot end, and is what others
// see of the whole program: /proc/PID/ns and /proc/PID/mountinfo are its own.
func OnFreshThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked, but for the first thread
		if unix.Gettid() != os.Getpid() {
			result <- f()
			return
		}
		// Held here, the first thread cannot be what the next goroutine runs on.
		result <- OnFreshThread(f)
		runtime.UnlockOSThread()
	}()
	return <-result
}
