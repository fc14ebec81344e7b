package perfevent

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCountFaults(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := CountFaults(unix.Gettid())
	var refused *Refused
	if errors.As(err, &refused) {
		t.Skip(refused)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const pages = 64
	size := pages * os.Getpagesize()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	for at := 0; at < size; at += os.Getpagesize() {
		b[at] = 1
	}
	n, err := c.Read()
	if err != nil || n.User < pages || n.Minor < pages || n.All < n.User {
		t.Errorf("%+v after %d faults, %v", n, pages, err)
	}
}

func TestCountFaultsOfNoThread(t *testing.T) {
	// No thread has the highest number that there may be.
	if _, err := CountFaults(1 << 22); !errors.Is(err, syscall.ESRCH) {
		var refused *Refused
		if !errors.As(err, &refused) {
			t.Errorf("%v, want ESRCH", err)
		}
	}
}
