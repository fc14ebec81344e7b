package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ForgoPrivileges has the programs that the calling thread executes from now on begin
// without capabilities, and gain none by what they execute (capabilities(7),
// PR_SET_NO_NEW_PRIVS). The thread itself keeps what it has, for what is to be
// prepared; it cannot take this back, and so is one of [OnFreshThread].
// Only a thread with CAP_SETPCAP may.
func ForgoPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", err)
	}
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && capability > unix.CAP_SETPCAP {
			break // the kernel knows no more
		}
		if err != nil {
			return os.NewSyscallError("prctl(PR_CAPBSET_DROP)", err)
		}
	}
	// What a program would inherit, and with it what it would be given besides.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	return os.NewSyscallError("capset", unix.Capset(&header, &sets[0]))
}
