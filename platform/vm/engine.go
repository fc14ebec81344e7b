package vm

import (
	"context"
	"io"
	"net/netip"
	"os/exec"
	"strings"

	"tare/kernel/cgroup"
	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/vm/guest"
)

// engine runs machines.
type engine interface {
	// kernel is the kind of kernel that its machines boot.
	kernel() guest.Kernel
	// check reports what this host lacks, by a *platform.Missing. Nothing is started.
	check() error
	// version is what implements it: "QEMU 7.2.22".
	version(ctx context.Context) string
	// channel is the agent's end of what host and agent talk through.
	channel() string
	// byName reports whether the engine opens a tap by its name, not by what it
	// inherits.
	byName() bool
	// start starts a machine, and returns when its engine answers. Whatever is started
	// is in the group. The kernel then has just begun to boot.
	start(ctx context.Context, o startOrder) (running, error)
}

// startOrder is one machine to start.
type startOrder struct {
	shape        shape
	name         string // unique on the host
	dir          string // the machine's own
	group        cgroup.Group
	console      *console
	boot         guest.Boot
	scratch      string // the scratch disk's path
	tap          *netns.Tap
	mac          string // the guest's, where there is a tap, as are the addresses
	hostAddress  netip.Addr
	guestAddress netip.Prefix
	word         string // the order, as a word of the kernel's command line
}

// running is a machine's engine at work.
type running interface {
	process() *child
	// stream is the host's end of the channel.
	stream() io.ReadWriteCloser
	// attach adds a read-only disk, and gives its name in the guest ([guest.Device]).
	attach(ctx context.Context, path, serial string) (string, error)
	// pause stops the machine's time; resume lets it go on.
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	// threads lists the threads that run the machine's CPUs, in order.
	threads(ctx context.Context) ([]int, error)
	// close lets go of what leads to the engine, which has ended.
	close() error
}

func engineOf(e Engine) engine {
	switch e {
	case KVM:
		return qemu{accelerator: "kvm"}
	case UML:
		return uml{}
	}
	return qemu{accelerator: "tcg"}
}

// emulated says why an engine's figures do not stand for virtual machines as people run
// them; empty where they do.
func (e Engine) emulated() string {
	switch e {
	case TCG:
		return "an emulated virtual machine (QEMU without KVM): its processor is translated by a program, so that all of it is slower, and not evenly"
	case UML:
		return "an emulated virtual machine (user-mode Linux): its system calls and page faults go through another process, and it has one CPU"
	}
	return ""
}

// firstLine runs a program for its version.
func firstLine(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(first)
}

// missingProgram says that a program is not on PATH.
func missingProgram(program, mend string) error {
	if _, err := exec.LookPath(program); err != nil {
		return &platform.Missing{What: "no " + program + " on PATH", Mend: mend}
	}
	return nil
}
