package process

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CPU is that which the calling thread is on. It may be on another by the time it reads
// this, unless it is bound to one.
func CPU() (int, error) {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0, fmt.Errorf("getcpu: %w", errno)
	}
	return int(cpu), nil
}
