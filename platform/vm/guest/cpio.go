package guest

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// archive writes a cpio archive as the kernel reads it for its initial root: "newc",
// Documentation/driver-api/early-userspace/buffer-format.rst. Owners are root, times
// are none: the same files are the same bytes.
type archive struct {
	w     io.Writer
	inode uint32
	size  int64
	err   error
}

// Types of files, from stat(2), as the format has them.
const (
	typeDirectory = 0o040000
	typeRegular   = 0o100000
	typeCharacter = 0o020000
)

func (a *archive) directory(name string, mode uint32) { a.entry(name, typeDirectory|mode, 0, 0, 0) }

func (a *archive) device(name string, mode, major, minor uint32) {
	a.entry(name, typeCharacter|mode, 0, major, minor)
}

// file writes a regular file of exactly size bytes.
func (a *archive) file(name string, mode uint32, size int64, content io.Reader) {
	if size < 0 || size > math.MaxUint32 {
		a.fail(fmt.Errorf("%s: %d bytes do not fit a cpio archive", name, size))
		return
	}
	a.entry(name, typeRegular|mode, uint32(size), 0, 0)
	if a.err != nil {
		return
	}
	n, err := io.CopyN(a.w, content, size)
	a.size += n
	if err != nil {
		a.fail(fmt.Errorf("%s: %w", name, err))
	}
	a.pad()
}

// end writes the trailer. The error is the first that came up.
func (a *archive) end() error {
	a.inode = 0
	a.entry("TRAILER!!!", 0, 0, 0, 0)
	return a.err
}

func (a *archive) entry(name string, mode, size, major, minor uint32) {
	name = strings.TrimPrefix(name, "/")
	a.inode++
	links := uint32(1)
	if mode&typeDirectory == typeDirectory {
		links = 2
	}
	// Inode, mode, owner, group, links, time, size, the file's device and its own,
	// length of the name with its null byte, and a checksum that this form has not.
	a.print("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, len(name)+1, 0)
	a.print("%s\x00", name)
	a.pad()
}

func (a *archive) print(format string, args ...any) {
	if a.err != nil {
		return
	}
	n, err := fmt.Fprintf(a.w, format, args...)
	a.size += int64(n)
	a.fail(err)
}

// pad fills up to four bytes, after a header with its name and after a file.
func (a *archive) pad() {
	if rest := a.size % 4; rest != 0 {
		a.print("%s", strings.Repeat("\x00", int(4-rest)))
	}
}

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}
