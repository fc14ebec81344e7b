package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrCannotCompare says that the kernel does not compare processes (it is
// without CONFIG_KCMP).
var ErrCannotCompare = errors.New("the kernel does not compare processes")

// CompareMemory compares the address spaces of two processes, as cmp.Compare
// does, in an order that is the kernel's own: 0 is one and the same, which a
// process that was made by vfork shares with its parent. See kcmp(2).
func CompareMemory(a, b int) (int, error) {
	const memory = 1 // KCMP_VM
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), memory, 0, 0, 0)
	switch {
	case errno == unix.ESRCH:
		return 0, fmt.Errorf("compare the memory of processes %d and %d: %w", a, b, ErrGone)
	case errno == unix.ENOSYS:
		return 0, ErrCannotCompare
	case errno != 0:
		return 0, fmt.Errorf("compare the memory of processes %d and %d: kcmp: %w", a, b, errno)
	}
	switch order {
	case 0:
		return 0, nil
	case 1:
		return -1, nil
	}
	return 1, nil
}
