// Package mount makes and finds mounts, and runs work in a mount namespace of
// its own.
//
// It knows nothing of images or containers. What the calls mean is mount(2),
// mount_namespaces(7) and the kernel's Documentation/filesystems/sharedsubtree.rst.
package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// IDUnder gives the id (as in mountinfo) of the mount that path lies on, for a
// process whose root directory is root: links are followed as that process
// would follow them, and cannot lead out.
func IDUnder(root, path string) (int, error) {
	f, err := openUnder(root, path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var st unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(int(f.Fd()), "", flags, unix.STATX_MNT_ID, &st); err != nil {
		return 0, &os.PathError{Op: "statx", Path: filepath.Join(root, path), Err: err}
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, fmt.Errorf("%s: the kernel does not report mount ids: Linux 5.8 or newer does", filepath.Join(root, path))
	}
	return int(st.Mnt_id), nil
}

// Served reports whether a type of file system, as mountinfo has it, is one whose files a
// program serves (FUSE): it may take for ever to answer, to whoever asks.
func Served(fsType string) bool {
	return fsType == "fuse" || fsType == "fuseblk" || strings.HasPrefix(fsType, "fuse.")
}

// openUnder opens path as a handle only (O_PATH), as seen from root.
func openUnder(root, path string) (*os.File, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	name := filepath.Join(root, path)
	if path == "/" {
		path = "."
	}
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
