package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mostRegisters is above what any processor has: AMX makes it 11,008 bytes.
const mostRegisters = 64 << 10

// ExtendedState is how many bytes of a process's registers the kernel gives whoever traces
// it, and wants back whole: all that this processor saves by XSAVE for programs
// (NT_X86_XSTATE, arch/x86/kernel/fpu/regset.c). It is asked for of a child that ends
// before it runs.
func ExtendedState() (int, error) {
	size, err := extendedState()
	if err != nil {
		return 0, fmt.Errorf("asking for the size of a process's registers: %w", err)
	}
	return size, nil
}

func extendedState() (size int, err error) {
	runtime.LockOSThread() // whoever traces is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		if killed := cmd.Process.Kill(); killed != nil {
			err = errors.Join(err, killed)
			return
		}
		var ended *exec.ExitError
		if waited := cmd.Wait(); !errors.As(waited, &ended) {
			err = errors.Join(err, waited)
		}
	}()
	// It stops by itself where it would begin.
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(cmd.Process.Pid, &status, 0, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("wait4", err)
		}
	}
	if !status.Stopped() {
		return 0, fmt.Errorf("a traced child did not stop: status %#x", uint32(status))
	}
	room := make([]byte, mostRegisters)
	vec := unix.Iovec{Base: &room[0]}
	vec.SetLen(len(room))
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(cmd.Process.Pid), unix.NT_X86_XSTATE, uintptr(unsafe.Pointer(&vec)), 0, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("ptrace(PTRACE_GETREGSET)", errno)
	}
	return int(vec.Len), nil
}
