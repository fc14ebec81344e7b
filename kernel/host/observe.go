package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What observers need.

// openEvent opens a counter of our own thread's and closes it again.
func openEvent(kind uint32, config uint64) error {
	attr := unix.PerfEventAttr{
		Type:   kind,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config: config,
		Bits:   unix.PerfBitDisabled,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("perf_event_open: %w", err)
	}
	return unix.Close(fd)
}

func tryHardwareCounters() (string, error) {
	err := openEvent(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return "", &lack{"the processor shows no counters (" + err.Error() + ")", "a virtual machine gets them from its hypervisor (a virtual PMU), or not at all"}
	case err != nil:
		return "", err
	}
	return "counted instructions", nil
}

// bpfLoad is the head of union bpf_attr for BPF_PROG_LOAD (bpf(2)).
type bpfLoad struct {
	kind, instructions uint32
	code, license      uint64
	logLevel, logSize  uint32
	log                uint64
	kernelVersion      uint32
	flags              uint32
}

// tryBPF loads the least program that the verifier passes, return 0.
func tryBPF() (string, error) {
	var code [16]byte
	code[0] = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K // r0 = 0
	code[8] = unix.BPF_JMP | unix.BPF_EXIT
	license := []byte("Apache-2.0\x00")
	attr := bpfLoad{
		kind: unix.BPF_PROG_TYPE_SOCKET_FILTER, instructions: uint32(len(code) / 8),
		code: uint64(uintptr(unsafe.Pointer(&code[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	// attr holds the two addresses as numbers, which keep nothing alive.
	runtime.KeepAlive(&code)
	runtime.KeepAlive(license)
	if errno != 0 {
		return "", fmt.Errorf("bpf(BPF_PROG_LOAD): %w", errno)
	}
	if err := unix.Close(int(fd)); err != nil {
		return "", err
	}
	if locked := chosen(tree("/").text("sys/kernel/security/lockdown")); locked != "none" {
		return "loaded a program (lockdown: " + locked + ")", nil
	}
	return "loaded a program", nil
}

// userModeOnly (UFFD_USER_MODE_ONLY) asks for faults of user mode alone, which
// needs no privilege.
const userModeOnly = 1

func tryUserfaultfd() (string, error) {
	open := func(flags uintptr) error {
		fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|flags, 0, 0)
		if errno != 0 {
			return fmt.Errorf("userfaultfd: %w", errno)
		}
		return unix.Close(int(fd))
	}
	err := open(0)
	if err == nil {
		return "faults of user and kernel mode", nil
	}
	if open(userModeOnly) == nil {
		return "", fmt.Errorf("faults of user mode alone (with kernel mode: %w)", err)
	}
	return "", err
}

// kvmGetAPIVersion is KVM_GET_API_VERSION; the answer has been 12 since Linux 2.6.22.
const kvmGetAPIVersion = 0xAE00

func tryKVM() (string, error) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	version, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), kvmGetAPIVersion, 0)
	if errno != 0 {
		return "", fmt.Errorf("/dev/kvm: ioctl(KVM_GET_API_VERSION): %w", errno)
	}
	return fmt.Sprintf("/dev/kvm answers (API %d); whether a guest boots is another matter", version), nil
}

// The fields of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst).
const (
	pagePresent    = 1 << 63
	pageFrameField = 1<<55 - 1
)

// tryPageFrames looks a page of our own up: without the privilege the kernel
// shows the entry with its frame number zeroed.
func tryPageFrames() (string, error) {
	size := os.Getpagesize()
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return "", fmt.Errorf("mmap: %w", err)
	}
	defer unix.Munmap(page)
	page[0] = 1
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return "", err
	}
	defer f.Close()
	var raw [8]byte
	at := int64(uintptr(unsafe.Pointer(&page[0])) / uintptr(size) * 8)
	if _, err := f.ReadAt(raw[:], at); err != nil {
		return "", fmt.Errorf("read /proc/self/pagemap: %w", err)
	}
	entry := binary.NativeEndian.Uint64(raw[:])
	if entry&pagePresent == 0 {
		return "", errors.New("/proc/self/pagemap does not show a page that was just written")
	}
	if entry&pageFrameField == 0 {
		return "", errors.New("/proc/self/pagemap hides frame numbers")
	}
	return "/proc/self/pagemap shows them", nil
}
