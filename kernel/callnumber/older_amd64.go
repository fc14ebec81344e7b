package callnumber

import "golang.org/x/sys/unix"

var older = map[int]uint8{
	unix.SYS_OPEN:     LooksUp | Opens,
	unix.SYS_STAT:     LooksUp,
	unix.SYS_LSTAT:    LooksUp,
	unix.SYS_ACCESS:   LooksUp,
	unix.SYS_READLINK: LooksUp,
}
