package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Of personality(2): the flag, and the argument that asks and changes nothing.
const (
	addrNoRandomize = 0x0040000
	askPersonality  = 0xffffffff
)

// SetASLR has what the calling thread executes or starts get its memory at
// addresses that the kernel draws ("on") or at the same ones each time ("off");
// empty leaves it. Programs pass it on to what they start, but for set-uid ones. The
// calling program itself lies where it lies. Whoever calls it holds the thread, and
// ends with it.
//
// "on" does not overrule sysctl kernel.randomize_va_space.
func SetASLR(aslr string) error {
	if aslr == "" {
		return nil
	}
	now, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, askPersonality, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("personality", errno)
	}
	wanted := now | addrNoRandomize
	if aslr == "on" {
		wanted = now &^ addrNoRandomize
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, wanted, 0, 0); errno != 0 {
		return fmt.Errorf("switching address randomisation %s: %w", aslr, os.NewSyscallError("personality", errno))
	}
	return nil
}
