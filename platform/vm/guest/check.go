package guest

import (
	"fmt"

	"tare/image"
	"tare/kernel/process"
)

// umlRoom is how many bytes of a process's registers user-mode Linux 6.1 has room for
// (HOST_XSTATE_SIZE of its arch/x86/um): all that AVX-512 has. The host's kernel wants
// them whole or not at all.
const umlRoom = 2696

// Check reports what keeps a kernel of this kind from running on this host's processor, by
// an [image.Missing]. Nothing is made.
func (k Kernel) Check() error {
	if k != UML {
		return nil
	}
	size, err := process.ExtendedState()
	if err != nil {
		return nil // who may not trace cannot run it either, and is told why by itself
	}
	return fitsUML(size)
}

// fitsUML refuses a processor with more registers than user-mode Linux can give back to its
// programs: its kernel panics as soon as it has begun the first ("ptrace set fp regs
// failed, errno = 14").
func fitsUML(size int) error {
	if size <= umlRoom {
		return nil
	}
	return &image.Missing{
		What: fmt.Sprintf("user-mode Linux 6.1 has room for %d bytes of a process's registers, and this processor has %d (AMX's tiles are 8192)", umlRoom, size),
		Mend: "vm:tcg runs anywhere; or boot this host with clearcpuid=amx_tile",
	}
}
