package swap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// making is how a file system is given a swap file.
type making int

const (
	never    making = iota
	reserved        // its blocks are reserved, and count as there while nothing was written
	written         // every block is written: reserved ones count as holes, or cannot be known
	inPlace         // reserved, once the file is marked as not to be copied on write
)

// fileSystem is what is known of a type of file system.
type fileSystem struct {
	name   string
	making making
	why    string // never
}

// fileSystems are recognised by their magic number (statfs(2)). Those that are not here are
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
	Reserve    int64 // of what it has, what stays for others
	Choose     string
}

func (f *Full) Error() string {
	mend := "make room, or ask for a smaller one"
	if f.Choose != "" {
		mend += ", or choose a directory on the file system at " + f.Choose
	}
	return fmt.Sprintf("%s has %d MiB left, of which %d MiB stay for other programs, and the swap file takes %d MiB: %s",
		f.Directory, f.Have>>20, f.Reserve>>20, f.Want>>20, mend)
}

// space is what a file system has.
type space struct {
	left    int64 // for who is not root, bytes
	reserve int64 // of that, what a swap file leaves to others
}

func (s space) room() int64 { return max(0, s.left-s.reserve) }

// reserveOf is what a swap file leaves of a file system of so many bytes: who writes
// logs, or the results, beside it must still be able to. That is a GiB, more where a GiB
// is little to such a file system, and less where it is most of it.
func reserveOf(size int64) int64 { return max(min(1<<30, size/8), size/100) }

// Room gives how many bytes a swap file in a directory could have at most: what its
// file system has left for who is not root, less a reserve for others. The directory
// itself may be still to be made. The error is an [*Unfit] where no swap file can be
// there.
func Room(dir string) (int64, error) {
	has, err := fitGround(dir, fewestPages*int64(os.Getpagesize()))
	return has.room(), err
}

// fitGround is ground where a swap file can be; size is what another place is to have
// room for where none can. The error is an [*Unfit] then.
func fitGround(dir string, size int64) (space, error) {
	kind, has, err := ground(dir)
	if err == nil && kind.making == never {
		err = &Unfit{Directory: dir, FileSystem: kind.name, Why: kind.why, Choose: better("/", size)}
	}
	return has, err
}

// Fits refuses a swap file of so many bytes in a directory, before anything is made:
// the error is an [*Unfit] or a [*Full].
func Fits(dir string, size int64) error {
	if err := checkSize(size, os.Getpagesize()); err != nil {
		return err
	}
	has, err := fitGround(dir, size)
	if err == nil && has.room() < size {
		err = &Full{Directory: dir, Want: size, Have: has.left, Reserve: has.reserve, Choose: better("/", size)}
	}
	return err
}

// ground looks at the file system of a directory, or of the nearest one above it that
// is there.
func ground(dir string) (fileSystem, space, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fileSystem{}, space{}, err
	}
	var st unix.Statfs_t
	for at := dir; ; at = filepath.Dir(at) {
		if err = unix.Statfs(at, &st); err == nil {
			break
		}
		if !errors.Is(err, unix.ENOENT) || at == "/" {
			return fileSystem{}, space{}, &os.PathError{Op: "statfs", Path: at, Err: err}
		}
	}
	kind, ok := fileSystems[int64(uint32(st.Type))]
	if !ok {
		kind = fileSystem{fmt.Sprintf("a file system of type %#x", uint32(st.Type)), written, ""}
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		kind.making, kind.why = never, "it is mounted to be read only"
	}
	block := uint64(st.Bsize)
	return kind, space{left: int64(st.Bavail * block), reserve: reserveOf(int64(st.Blocks * block))}, nil
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
	return roomiest(mounts, size, func(point string) (fileSystem, space, error) {
		info, err := os.Stat(point)
		if err == nil && !info.IsDir() {
			err = &os.PathError{Op: "stat", Path: point, Err: unix.ENOTDIR} // a file can be a mount too
		}
		if err != nil {
			return fileSystem{}, space{}, err
		}
		return ground(point)
	})
}

// homes are the types of file system, as the mounts name them, where swap files are made
// quickly.
var homes = []string{"ext2", "ext3", "ext4", "xfs", "btrfs"}

// answering are types whose directories this machine's kernel knows by itself. Of any
// other, such as a network's or a program's (FUSE), a mere look at one may wait forever for
// who has gone.
var answering = append([]string{"tmpfs", "ramfs", "devtmpfs", "overlay", "proc", "sysfs"}, homes...)

// roomiest is the mount that has the most room for a swap file of so many bytes; look is
// called only of such as answer.
func roomiest(mounts []procfs.Mount, size int64, look func(point string) (fileSystem, space, error)) string {
	// The way to a mount leads through those above it, and another may lie on it. The root
	// answers: this very program is there.
	through := func(point string) bool {
		return !slices.ContainsFunc(mounts, func(m procfs.Mount) bool {
			return m.Point != "/" && (point == m.Point || strings.HasPrefix(point, m.Point+"/")) &&
				!slices.Contains(answering, m.FSType)
		})
	}
	best, most := "", size-1
	for _, m := range mounts {
		if !slices.Contains(homes, m.FSType) || slices.Contains(m.Options, "ro") || !through(m.Point) {
			continue
		}
		kind, has, err := look(m.Point)
		if err != nil || kind.making != reserved && kind.making != inPlace || has.room() <= most {
			continue
		}
		best, most = m.Point, has.room()
	}
	return best
}
