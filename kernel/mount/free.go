package mount

import (
	"os"

	"golang.org/x/sys/unix"
)

// Free gives how many bytes the file system at a path has left for who is not
// root. Where it counts inodes and has none left, nothing fits, whatever the bytes.
func Free(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Files > 0 && st.Ffree == 0 {
		return 0, nil
	}
	return st.Bavail * uint64(st.Bsize), nil
}
