package platform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/kernel/cgroup"
)

// Freezing is an Instance whose processes can be stopped together and go on where they
// were, by the cgroup freezer. Connections stay open: the kernel keeps what arrives. What a
// program sees of it is the time that has passed, and EINTR from epoll_wait(2) and few other
// system calls.
type Freezing interface {
	Instance
	// Freeze returns when every process stands still. A frozen instance stays so. The error
	// wraps [ErrGone] where the program has ended. Stop and Signal work on a frozen
	// instance; what a signal does to the program, it does after Thaw.
	Freeze(ctx context.Context) error
	// Thaw returns when the processes may run. An instance that is not frozen stays so. The
	// error wraps [ErrGone] where the program has ended.
	Thaw(ctx context.Context) error
}

// Freezer is a Platform that tells beforehand whether its instances are Freezing.
type Freezer interface {
	Platform
	// Freezes refuses by an *Unsupported with the reason, or by a *Missing.
	Freezes(ctx context.Context, s Setting) error
}

// Attending is an Instance that others work for: shim, proxy, log daemon, engine.
type Attending interface {
	Instance
	// Attendants is the CPU time that they have used so far, of all their threads, those
	// included that have ended. It never falls, and has the resolution of the scheduler's
	// clock (ns). The time of a thread that runs at this moment lags by up to a tick. Daemons
	// work for all instances of an engine: what one costs is a difference over a time in
	// which the others rest. Of an attendant that has ended, what it used after the last call
	// is missed; so is one that has come after the first call.
	Attendants() (time.Duration, error)
}

// FreezeGroup implements [Freezing] for an instance whose processes are in the group.
func FreezeGroup(ctx context.Context, g cgroup.Group) error {
	err := g.Freeze(ctx)
	if errors.Is(err, cgroup.ErrEmpty) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}

// CheckFreezer reports what this host lacks to freeze programs, as a *Missing.
func CheckFreezer() error {
	layout, err := cgroup.Host()
	if err != nil {
		return &Missing{What: "programs are frozen by their cgroup: " + err.Error()}
	}
	if !layout.HasFreezer() {
		return &Missing{
			What: "this host cannot freeze programs: no cgroup hierarchy has a freezer",
			Mend: "mount -t cgroup2 none /sys/fs/cgroup/unified (Linux 5.2 or newer)",
		}
	}
	return nil
}

// CheckRuntimeFreezes refuses a runtime, by its name or path, whose container has a kernel of
// its own: gVisor's sandbox, or a virtual machine.
func CheckRuntimeFreezes(platform, runtime string) error {
	own := []string{"runsc", "gvisor", "kata", "krun", "firecracker"}
	base := strings.ToLower(filepath.Base(runtime))
	if !slices.ContainsFunc(own, func(word string) bool { return strings.Contains(base, word) }) {
		return nil
	}
	return &Unsupported{platform, "freezing", "the runtime " + runtime + " runs programs under a kernel of its own, which is not known to survive being frozen"}
}
