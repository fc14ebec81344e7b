package host

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onOwnThread runs f on a thread that ends with it, so that whatever f sets on
// its thread or unshares harms nobody.
func onOwnThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		// The first thread never ends: Go parks it for good, with what f did
		// to it, and /proc/PID would show that as the whole program's. While
		// this goroutine occupies it, the next one gets another.
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			result <- onOwnThread(f)
			return
		}
		result <- f() // never unlocked: the thread ends with the goroutine
	}()
	return <-result
}
