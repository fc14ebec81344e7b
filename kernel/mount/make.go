package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// mount is mount(2) with an error that names both ends.
func mount(source, target, fsType string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, fsType, flags, options); err != nil {
		return &os.PathError{Op: "mount " + describe(source, fsType), Path: target, Err: err}
	}
	return nil
}

func describe(source, fsType string) string {
	if fsType == "" {
		return source + " on"
	}
	return fsType + " on"
}

// Bind shows source at target, alone (without what is mounted below it), and
// keeps what is mounted there later from spreading to other namespaces.
func Bind(source, target string, readOnly bool) error {
	if err := mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	err := mount("", target, "", unix.MS_PRIVATE, "")
	if err == nil && readOnly {
		// Flags other than the binding itself only take effect on a remount.
		err = Freeze(target)
	}
	if err != nil {
		_ = Unmount(target)
	}
	return err
}

// BindAll shows source at target, with what is mounted below it.
func BindAll(source, target string) error {
	return mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

func flagsOf(target string) (uintptr, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: target, Err: err}
	}
	var flags uintptr
	for _, f := range []struct{ st, ms uintptr }{
		{unix.ST_RDONLY, unix.MS_RDONLY}, {unix.ST_NOSUID, unix.MS_NOSUID},
		{unix.ST_NODEV, unix.MS_NODEV}, {unix.ST_NOEXEC, unix.MS_NOEXEC},
		{unix.ST_NOATIME, unix.MS_NOATIME}, {unix.ST_NODIRATIME, unix.MS_NODIRATIME},
		{unix.ST_RELATIME, unix.MS_RELATIME},
	} {
		if uintptr(st.Flags)&f.st != 0 {
			flags |= f.ms
		}
	}
	return flags, nil
}

// Options of a new file system.
type Options struct {
	ReadOnly, NoExec, NoDev, NoSUID bool
	Data                            string // the file system's own: "mode=755,size=64m"
}

func (o Options) flags() (f uintptr) {
	for _, x := range []struct {
		set  bool
		flag uintptr
	}{{o.ReadOnly, unix.MS_RDONLY}, {o.NoExec, unix.MS_NOEXEC}, {o.NoDev, unix.MS_NODEV}, {o.NoSUID, unix.MS_NOSUID}} {
		if x.set {
			f |= x.flag
		}
	}
	return f
}

// New mounts a new file system of that type ("tmpfs", "proc", "sysfs",
// "devpts") at target, private to this namespace.
func New(fsType, target string, o Options) error {
	if err := mount(fsType, target, fsType, o.flags(), o.Data); err != nil {
		return err
	}
	if err := mount("", target, "", unix.MS_PRIVATE, ""); err != nil {
		_ = Unmount(target)
		return err
	}
	return nil
}

// Overlay mounts at target an overlay that reads from lower and writes to
// upper; work is an empty directory on upper's file system. See the kernel's
// Documentation/filesystems/overlayfs.rst.
func Overlay(lower, upper, work, target string) error {
	// Options are one string: blanks are safe there, separators are not.
	escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace
	return New("overlay", target, Options{
		Data: fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", escape(lower), escape(upper), escape(work)),
	})
}

// Unmount takes away the topmost mount at target. What uses it still keeps it
// until it ends; the path is free at once. A target that is no mount point is
// left alone.
func Unmount(target string) error {
	err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	switch err {
	case nil, unix.EINVAL, unix.ENOENT:
		return nil
	}
	return &os.PathError{Op: "unmount", Path: target, Err: err}
}

// Below lists the mount points at dir and below it, the latest first, which is
// the order to unmount them in. dir must be free of symbolic links.
func Below(dir string) ([]string, error) {
	mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil {
		return nil, err
	}
	dir = filepath.Clean(dir)
	var points []string
	for _, m := range mounts {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			points = append(points, m.Point)
		}
	}
	slices.Reverse(points)
	return points, nil
}

// UnmountBelow unmounts everything at dir and below it.
func UnmountBelow(dir string) error {
	points, err := Below(dir)
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := Unmount(p); err != nil {
			return err
		}
	}
	left, err := Below(dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s is still mounted: another process keeps mounting there", left[0])
	}
	return err
}

// Device makes a character device node.
func Device(path string, mode, major, minor uint32) error {
	if err := unix.Mknod(path, unix.S_IFCHR|mode, int(unix.Mkdev(major, minor))); err != nil {
		return &os.PathError{Op: "mknod", Path: path, Err: err}
	}
	// The process' mask has taken bits away.
	if err := os.Chmod(path, os.FileMode(mode)); err != nil {
		return err
	}
	return nil
}

// Freeze makes the topmost mount at target read-only; the mounts below it stay
// as they are.
func Freeze(target string) error {
	// A remount must repeat the flags that the mount has, or it clears them.
	locked, err := flagsOf(target)
	if err != nil {
		return err
	}
	return mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|locked, "")
}

// IgnoreSetUserID lets programs at dir and below run only with the rights of who starts
// them, whatever set-user-ID bits and file capabilities they have.
func IgnoreSetUserID(dir string) error {
	points, err := Below(dir)
	if err != nil {
		return err
	}
	for _, point := range points {
		flags, err := flagsOf(point)
		if errors.Is(err, unix.ENOENT) {
			continue // a later mount hides it from everybody
		}
		if err != nil {
			return err
		}
		if err := mount("", point, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|flags, ""); err != nil {
			return err
		}
	}
	return nil
}
