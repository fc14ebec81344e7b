package mount

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"tare/kernel/process"
)

// Hiding runs f on a thread whose mount namespace is a copy of the host's in
// which nothing lies at the hidden mount points, and returns f's error.
// Processes that f starts itself (not by way of another goroutine) see that
// namespace; the rest of this program does not.
//
// It serves programs that look at the host's mounts and refuse what they find,
// such as runtimes that do not know version 1 and version 2 control groups
// beside each other.
func Hiding(hidden []string, f func() error) error {
	return process.OnFreshThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("making a mount namespace: %w", err)
		}
		// The copy must not spread back to the host.
		if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		for _, point := range hidden {
			if err := hide(point); err != nil {
				return err
			}
		}
		return f()
	})
}

// hide takes away all mounts stacked at point.
func hide(point string) error {
	for {
		switch err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err {
		case nil:
		case unix.EINVAL, unix.ENOENT:
			return nil // nothing is mounted there any more
		default:
			return &os.PathError{Op: "unmount", Path: point, Err: err}
		}
	}
}
