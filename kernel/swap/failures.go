package swap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Failure is a page that a device did not take or give.
type Failure struct {
	Device Device
	Write  bool
}

// Failures follows the kernel's log for them, which alone tells of them. Of many in a moment the kernel tells
// of some.
type Failures struct {
	fd   int
	name string
}

// Failures follows from now on. Close it.
func (h Host) Failures() (*Failures, error) {
	f := &Failures{name: h.path("dev/kmsg")}
	var err error
	if f.fd, err = unix.Open(f.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return nil, &os.PathError{Op: "open", Path: f.name, Err: err}
	}
	if _, err := unix.Seek(f.fd, 0, unix.SEEK_END); err != nil {
		return nil, errors.Join(&os.PathError{Op: "seek", Path: f.name, Err: err}, f.Close())
	}
	return f, nil
}

// Close closes it.
func (f *Failures) Close() error { return unix.Close(f.fd) }

// Read gives those since it was last called, and does not wait.
func (f *Failures) Read() (all []Failure, err error) {
	record := make([]byte, 8<<10) // the kernel's longest: CONSOLE_EXT_LOG_MAX
	for {
		n, err := unix.Read(f.fd, record)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE): // some were overwritten unread
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return all, nil
		case err != nil:
			return all, &os.PathError{Op: "read", Path: f.name, Err: err}
		}
		if one, ok := ParseFailure(string(record[:n])); ok {
			all = append(all, one)
		}
	}
}

// ParseFailure reads a record of the kernel's log (Documentation/ABI/testing/dev-kmsg), of the kernel
// itself; ok is false of all others. The texts are those of mm/page_io.c.
func ParseFailure(record string) (f Failure, ok bool) {
	head, text, _ := strings.Cut(record, ";")
	var priority, sector uint64
	if n, err := fmt.Sscanf(head, "%d,", &priority); n != 1 || err != nil || priority > 7 { // facility 0
		return f, false
	}
	var what string
	n, err := fmt.Sscanf(text, "%s on swap-device (%d:%d:%d)", &what, &f.Device.Major, &f.Device.Minor, &sector)
	f.Write = what == "Write-error"
	return f, n == 4 && err == nil && (f.Write || what == "Read-error")
}

// Disk is the device that a partition is of; any other device is its own. Before Linux 5.12 failures of a
// partition name its disk.
func (h Host) Disk(d Device) Device {
	at, err := filepath.EvalSymlinks(h.path("sys/dev/block", d.String()))
	if err != nil {
		return d
	}
	if _, err := os.Stat(filepath.Join(at, "partition")); err != nil {
		return d
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(at), "dev"))
	disk := d
	if n, scanning := fmt.Sscanf(string(text), "%d:%d", &disk.Major, &disk.Minor); err != nil || scanning != nil || n != 2 {
		return d
	}
	return disk
}
