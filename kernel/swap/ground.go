package swap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// making is how a file system is given a swap file.
type making int

const (
	never    making = iota
	reserved        // its blocks are reserved, and count as there while nothing was written
	written         // every block is written: reserved ones count as holes, or cannot be told
	inPlace         // reserved, once the file is marked as not to be copied on write
)

// fileSystem is what is known of a type of file system.
type fileSystem struct {
	name   string
	making making
	why    string // never
}

// fileSystems are told by their magic number (statfs(2)). Those that are not here are
// tried: the kernel itself refuses what has no swap_activate and no bmap operation
// (mm/swapfile.c), or a file that has holes by them.
//
// On ext4 and XFS reserved blocks are taken by iomap_swapfile_activate
// (fs/iomap/swapfile.c), since Linux 5.9 and 4.18; on Btrfs, which wants no copy on
// write, by its own since 5.0.
var fileSystems = map[int64]fileSystem{
	unix.EXT4_SUPER_MAGIC:      {"ext4", reserved, ""}, // and ext2, ext3: they have one number
	unix.XFS_SUPER_MAGIC:       {"xfs", reserved, ""},
	unix.BTRFS_SUPER_MAGIC:     {"btrfs", inPlace, ""},
	unix.TMPFS_MAGIC:           {"tmpfs", never, "its files are in memory themselves"},
	unix.RAMFS_MAGIC:           {"ramfs", never, "its files are in memory themselves"},
	unix.HUGETLBFS_MAGIC:       {"hugetlbfs", never, "its files are in memory themselves"},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", never, "its files have no blocks of their own"},
	unix.FUSE_SUPER_MAGIC:      {"fuse", never, "its blocks are in a program's hands, which may need memory itself"},
	unix.V9FS_MAGIC:            {"9p", never, "its files are another machine's"},
	unix.NFS_SUPER_MAGIC:       {"nfs", never, "its files are another machine's, and what the network takes would count as swap"},
	unix.SMB2_SUPER_MAGIC:      {"smb", never, "its files are another machine's, and what the network takes would count as swap"},
	unix.CEPH_SUPER_MAGIC:      {"ceph", never, "its files are other machines', and what the network takes would count as swap"},
	unix.SQUASHFS_MAGIC:        {"squashfs", never, "it can only be read"},
	unix.EROFS_SUPER_MAGIC_V1:  {"erofs", never, "it can only be read"},
	zfsMagic:                   {"zfs", never, "it has no way to write to a file's blocks without memory"},
}

// zfsMagic is ZFS_SUPER_MAGIC of OpenZFS, which is no part of the kernel's tree.
const zfsMagic = 0x2fc12fc1

// Unfit says that no swap file can be where one was asked for.
type Unfit struct {
	Directory  string
	FileSystem string
	Why        string
	Choose     string // where one can be; empty where no such place was found
}

func (u *Unfit) Error() string {
	mend := "choose a directory on ext4 or XFS; no such file system with room is mounted here"
	if u.Choose != "" {
		mend = "choose a directory on the file system at " + u.Choose
	}
	return fmt.Sprintf("%s is on %s, which cannot hold a swap file: %s: %s", u.Directory, u.FileSystem, u.Why, mend)
}

// Full says that a file system has not the room for a swap file.
type Full struct {
	Directory  string
	Want, Have int64 // bytes
	Choose     string
}

func (f *Full) Error() string {
	mend := "make room, or ask for a smaller one"
	if f.Choose != "" {
		mend += ", or choose a directory on the file system at " + f.Choose
	}
	return fmt.Sprintf("%s has %d MiB left, and the swap file takes %d MiB: %s", f.Directory, f.Have>>20, f.Want>>20, mend)
}

// Room tells how many bytes a swap file in a directory could have at most: what its
// file system has left for who is not root. The directory itself may be still to be
// made. The error is an [*Unfit] where no swap file can be there.
func Room(dir string) (int64, error) {
	kind, room, err := ground(dir)
	if err == nil && kind.making == never {
		err = &Unfit{Directory: dir, FileSystem: kind.name, Why: kind.why, Choose: better("/", fewestPages*int64(os.Getpagesize()))}
	}
	return room, err
}

// Fits refuses a swap file of so many bytes in a directory, before anything is made:
// the error is an [*Unfit] or a [*Full].
func Fits(dir string, size int64) error {
	if err := checkSize(size, os.Getpagesize()); err != nil {
		return err
	}
	room, err := Room(dir)
	var unfit *Unfit
	if errors.As(err, &unfit) {
		unfit.Choose = better("/", size)
	}
	if err == nil && room < size {
		err = &Full{Directory: dir, Want: size, Have: room, Choose: better("/", size)}
	}
	return err
}

// ground looks at the file system of a directory, or of the nearest one above it that
// is there.
func ground(dir string) (fileSystem, int64, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fileSystem{}, 0, err
	}
	var st unix.Statfs_t
	for at := dir; ; at = filepath.Dir(at) {
		if err = unix.Statfs(at, &st); err == nil {
			break
		}
		if !errors.Is(err, unix.ENOENT) || at == "/" {
			return fileSystem{}, 0, &os.PathError{Op: "statfs", Path: at, Err: err}
		}
	}
	kind, ok := fileSystems[int64(uint32(st.Type))]
	if !ok {
		kind = fileSystem{fmt.Sprintf("a file system of type %#x", uint32(st.Type)), written, ""}
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		kind.making, kind.why = never, "it is mounted to be read only"
	}
	return kind, int64(st.Bavail * uint64(st.Bsize)), nil
}

// better finds where the most room is for a swap file of that many bytes; empty where
// there is none.
func better(root string, size int64) string {
	b, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return ""
	}
	mounts, err := procfs.ParseMountInfo(bytes.NewReader(b))
	if err != nil {
		return ""
	}
	best, most := "", size-1
	for _, m := range mounts {
		info, err := os.Stat(m.Point)
		if err != nil || !info.IsDir() || slices.Contains(m.Options, "ro") {
			continue // a file can be a mount too
		}
		kind, room, err := ground(m.Point)
		if err != nil || kind.making != reserved && kind.making != inPlace || room <= most {
			continue
		}
		best, most = m.Point, room
	}
	return best
}
