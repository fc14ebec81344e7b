package pagemap

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is one of the kernel's files of words, open. Its calls cost little more
// than the kernel's own part of them, which counts where frames lie scattered
// and each is a call.
type File struct {
	file *os.File
	fd   uintptr
	// waits means that a read may wait for the lock of a process' memory, as one of pagemap
	// does, for as long as a fork of it takes, or a device that its fault waits for. Of such a
	// call Go's scheduler knows of: one that it knows nothing of holds up
	// whatever else runs, the collector of garbage first of all.
	waits bool
}

// Open opens one of the three files.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &File{file: f, fd: f.Fd(), waits: filepath.Base(path) == "pagemap"}, nil
}

// Name is the path.
func (f *File) Name() string { return f.file.Name() }

// Close closes the file. It must not be read meanwhile.
func (f *File) Close() error { return f.file.Close() }

// brief is how many bytes the kernel fills in a time, some 10 us, for which the
// scheduler need not know where nothing is waited for.
const brief = 100 * wordSize

// ReadAt reads as [io.ReaderAt] has it.
func (f *File) ReadAt(b []byte, at int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := f.pread(b[done:], at+int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, &os.PathError{Op: "read", Path: f.Name(), Err: err}
		case n == 0:
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

func (f *File) pread(b []byte, at int64) (int, error) {
	if f.waits || len(b) > brief {
		return unix.Pread(int(f.fd), b, at)
	}
	n, _, errno := syscall.RawSyscall6(
		unix.SYS_PREAD64,
		f.fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)),
		uintptr(at),
		0,
		0,
	)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
