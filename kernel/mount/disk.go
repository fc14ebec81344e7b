package mount

import (
	"os"

	"golang.org/x/sys/unix"
)

// Disk mounts the file system of that type on a block device at target, private to
// this namespace.
func Disk(device, fsType, target string, o Options) error {
	if err := mount(device, target, fsType, o.flags(), o.Data); err != nil {
		return err
	}
	if err := mount("", target, "", unix.MS_PRIVATE, ""); err != nil {
		_ = Unmount(target)
		return err
	}
	return nil
}

// Enter makes what is mounted at dir the root of this mount namespace, in the place
// of the root that it has. That is how a machine leaves its initial root, which, being
// the kernel's own, can be neither unmounted nor left by pivot_root(2); see
// Documentation/filesystems/ramfs-rootfs-initramfs.rst.
func Enter(dir string) error {
	if err := unix.Chdir(dir); err != nil {
		return &os.PathError{Op: "chdir", Path: dir, Err: err}
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return &os.PathError{Op: "move mount to /", Path: dir, Err: err}
	}
	if err := unix.Chroot("."); err != nil {
		return &os.PathError{Op: "chroot", Path: dir, Err: err}
	}
	if err := unix.Chdir("/"); err != nil {
		return &os.PathError{Op: "chdir", Path: "/", Err: err}
	}
	return nil
}
