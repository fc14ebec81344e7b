package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/kernel/process"
)

// What containers are made of.

// wanted are the controllers whose limits are settings.
var wanted = []string{"cpu", "cpuset", "memory"}

func tryControllers() (string, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return "", err
	}
	var have, missing []string
	for _, version := range []int{1, 2} {
		var controllers []string
		for _, h := range layout.Hierarchies {
			if h.Version == version {
				controllers = append(controllers, h.Controllers...)
			}
		}
		if len(controllers) > 0 {
			slices.Sort(controllers)
			have = append(have, fmt.Sprintf("v%d: %s", version, strings.Join(controllers, " ")))
		}
	}
	for _, c := range wanted {
		if _, ok := layout.For(c); !ok {
			missing = append(missing, c)
		}
	}
	detail := strings.Join(have, "; ")
	if len(missing) > 0 {
		return "", fmt.Errorf("no %s (%s)", strings.Join(missing, ", "), detail)
	}
	return detail, nil
}

// tryOverlay mounts one over a tmpfs in a mount namespace of its own, which
// ends with it.
func tryOverlay() (_ string, err error) {
	dir, err := os.MkdirTemp("", "tare-doctor-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	err = mount.Hiding(nil, func() error {
		if err := mount.New("tmpfs", dir, mount.Options{}); err != nil {
			return err
		}
		for _, name := range []string{"lower", "upper", "work", "merged"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
				return err
			}
		}
		at := func(name string) string { return filepath.Join(dir, name) }
		return mount.Overlay(at("lower"), at("upper"), at("work"), at("merged"))
	})
	if err != nil {
		return "", err
	}
	return "mounted one", nil
}

func tryNetworkNamespace() (string, error) {
	err := process.OnFreshThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare(CLONE_NEWNET): %w", err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return "made one", nil
}

// trySeccomp asks for a filter at no address: a kernel with filters gets as
// far as to fail reading it.
func trySeccomp() (string, error) {
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0)
	if !errors.Is(err, unix.EFAULT) {
		return "", fmt.Errorf("prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER): %w", err)
	}
	if actions := tree("/").text("proc/sys/kernel/seccomp/actions_avail"); actions != "" {
		return "filters, with " + actions, nil
	}
	return "filters", nil
}

// tryRealTime takes a real-time priority on a thread that then ends.
func tryRealTime() (string, error) {
	err := process.OnFreshThread(func() error {
		err := unix.SchedSetAttr(
			0,
			&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1},
			0,
		)
		if err != nil {
			return fmt.Errorf("sched_setattr(SCHED_FIFO): %w", err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return "took SCHED_FIFO priority 1 on a thread", nil
}
