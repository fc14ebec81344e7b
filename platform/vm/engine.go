package vm

import (
	"context"
	"net/netip"
	"os/exec"
	"strings"

	"tare/kernel/cgroup"
	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/vm/guest"
)

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

// emulated says why an engine's figures do not stand for virtual machines as people run
// them; empty where they do.
func (e Engine) emulated() string {
	if e == TCG {
		return "an emulated virtual machine (QEMU without KVM): its processor is translated by a program, so that all of it is slower, and not evenly"
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
