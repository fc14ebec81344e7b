package advise

import (
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// userfault has faults on memory wait until it is closed (userfaultfd(2), linux/userfaultfd.h).
func userfault(t *testing.T, b []byte) (answer func()) {
	t.Helper()
	const api, register, modeMissing = 0xc018aa3f, 0xc020aa00, 1
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		t.Skip("userfaultfd: ", errno)
	}
	answer = func() { _ = unix.Close(int(fd)) }
	has := [3]uint64{0xaa}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, api, uintptr(unsafe.Pointer(&has))); errno != 0 {
		answer()
		t.Skip("UFFDIO_API: ", errno)
	}
	want := [4]uint64{uint64(uintptr(unsafe.Pointer(&b[0]))), uint64(len(b)), modeMissing}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, register, uintptr(unsafe.Pointer(&want))); errno != 0 {
		answer()
		t.Fatal("UFFDIO_REGISTER: ", errno)
	}
	return answer
}

// A page that its program's own handler has to fill keeps who maps it for as long as that does not
// answer, and keeps nobody else from the process: so such calls need workers of their own.
func TestMapHangsAsLongAsAPageIsNotFilled(t *testing.T) {
	self := open(t, os.Getpid())
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	answer := userfault(t, b[:page])
	begin := uint64(uintptr(unsafe.Pointer(&b[0])))
	type result struct {
		read int
		err  error
	}
	mapped := make(chan result, 1)
	go func() {
		read, err := Map(self, os.Getpid(), []Range{{begin, uint64(page)}})
		mapped <- result{read, err}
	}()
	b[page] = 1
	passed, err := Give(self, Cold, []Range{{begin + uint64(page), uint64(page)}})
	if err != nil || len(passed) > 0 {
		t.Errorf("beside it: %v, %v", passed, err)
	}
	select {
	case r := <-mapped:
		t.Errorf("it came back before the page was filled: %+v", r)
	case <-time.After(100 * time.Millisecond): // that nothing happens makes no event
	}
	answer()
	if r := <-mapped; r.err != nil && !errors.Is(r.err, ErrGone) {
		t.Errorf("once nobody fills it any more: %+v", r)
	}
}
