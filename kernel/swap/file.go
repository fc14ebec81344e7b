package swap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CreateFile makes a swap file of so many bytes, without holes, that only root may
// read, and does not put it to use: [On] does. Nothing may be at the path yet, and
// where it fails nothing is. Where the file system takes reserved blocks for written
// ones that is quick; elsewhere all of it is written, and ctx ends that.
//
// The error is an [*Unfit] or a [*Full] where it cannot be there.
func CreateFile(ctx context.Context, path string, size int64) (err error) {
	dir := filepath.Dir(path)
	if err := Fits(dir, size); err != nil {
		return fmt.Errorf("making swap file %s: %w", path, err)
	}
	kind, _, err := ground(dir)
	if err != nil {
		return fmt.Errorf("making swap file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("making swap file: %w", err)
	}
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
		if err != nil {
			err = fmt.Errorf("making swap file %s: %w", path, err)
			if removing := os.Remove(path); removing != nil {
				err = errors.Join(err, removing)
			}
		}
	}()
	if err := allocate(ctx, f, size, kind.making); err != nil {
		return err
	}
	return writeHeader(f, size)
}

func allocate(ctx context.Context, f *os.File, size int64, how making) error {
	if how == inPlace {
		if err := noCopyOnWrite(f); err != nil {
			return err
		}
	}
	if how == reserved || how == inPlace {
		err := fallocate(f, size)
		if !errors.Is(err, unix.EOPNOTSUPP) { // ext3 has ext4's number, and cannot
			return err
		}
	}
	return fill(ctx, f, size)
}

func fallocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		if err != unix.EINTR {
			return os.NewSyscallError("fallocate", err)
		}
	}
}

// noCopyOnWrite marks an empty file of Btrfs: a block of it stays where it is, which
// also turns off checksums and compression for it. FS_NOCOW_FL of
// include/uapi/linux/fs.h, ioctl_iflags(2).
func noCopyOnWrite(f *os.File) error {
	const noCopy = 0x00800000
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return os.NewSyscallError("ioctl(FS_IOC_GETFLAGS)", err)
	}
	return os.NewSyscallError("ioctl(FS_IOC_SETFLAGS)", unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|noCopy))
}

// Fill writes the whole of a swap file that is not in use and puts its header back:
// what mends one that [On] refused for holes, where the file system takes reserved
// blocks for such.
func Fill(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("filling swap file: %w", err)
	}
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
		if err != nil {
			err = fmt.Errorf("filling swap file %s: %w", path, err)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if err := fill(ctx, f, info.Size()); err != nil {
		return err
	}
	return writeHeader(f, info.Size())
}

// fill writes zeros over a file, brings them to the disk, and leaves none of them in
// the page cache: that memory is what is measured.
func fill(ctx context.Context, f *os.File, size int64) error {
	const chunk = 1 << 20
	zeros := make([]byte, chunk)
	for at := int64(0); at < size; at += chunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.WriteAt(zeros[:min(chunk, size-at)], at); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.NewSyscallError("fadvise(POSIX_FADV_DONTNEED)", unix.Fadvise(int(f.Fd()), 0, size, unix.FADV_DONTNEED))
}
