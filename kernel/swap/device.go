package swap

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is a block device, by its number.
type Device struct {
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

func (d Device) String() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// NoDevice says that no single block device is known to be below a file, so that
// nothing can be said of what was read from it and written to it.
type NoDevice struct{ Path, Why string }

func (n *NoDevice) Error() string {
	return fmt.Sprintf("what block device is below %s cannot be known: %s", n.Path, n.Why)
}

// Below finds the block device that a file's file system is on, or that a device file
// stands for. The error is a [*NoDevice] where there is none: a file system in memory,
// one of several devices (Btrfs), one that others lie below (overlay, NFS).
func (h Host) Below(path string) (Device, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Device{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	number := st.Dev
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		number = st.Rdev
	}
	d := Device{unix.Major(number), unix.Minor(number)}
	if d.Major == 0 {
		return Device{}, &NoDevice{path, "its file system has no number of a device (" + d.String() + "), being in memory, on several, or above another one"}
	}
	if _, err := os.Stat(h.diskFile(d)); err != nil {
		return Device{}, &NoDevice{path, "there is no " + h.diskFile(d)}
	}
	return d, nil
}

func (h Host) diskFile(d Device) string { return h.path("sys/dev/block", d.String(), "stat") }

// DeviceIO is what went to and came from a block device since it is there, by
// whomever. The names are those of Documentation/block/stat.rst.
type DeviceIO struct {
	ReadIOs      int64 `json:"read_ios"`
	ReadBytes    int64 `json:"read_bytes"` // "read sectors", of 512 bytes
	ReadMillis   int64 `json:"read_ticks"` // waited for, by all requests together
	WriteIOs     int64 `json:"write_ios"`
	WrittenBytes int64 `json:"written_bytes"` // "write sectors"
	WriteMillis  int64 `json:"write_ticks"`
	InFlight     int64 `json:"in_flight"`
	BusyMillis   int64 `json:"io_ticks"` // during which requests were queued
}

// IO reads a device's counts.
func (h Host) IO(d Device) (DeviceIO, error) {
	text, err := os.ReadFile(h.diskFile(d))
	if errors.Is(err, fs.ErrNotExist) {
		return DeviceIO{}, &NoDevice{d.String(), "it is gone"}
	}
	if err != nil {
		return DeviceIO{}, err
	}
	io, err := ParseDeviceIO(string(text))
	if err != nil {
		return io, fmt.Errorf("%s: %w", h.diskFile(d), err)
	}
	return io, nil
}

// ParseDeviceIO reads a device's stat: one line of at least eleven figures.
func ParseDeviceIO(text string) (DeviceIO, error) {
	const first, sector = 11, 512 // later kernels add discards and flushes
	fields := strings.Fields(text)
	if len(fields) < first {
		return DeviceIO{}, fmt.Errorf("%q has %d figures, want %d or more", text, len(fields), first)
	}
	var n [first]int64
	for i := range n {
		v, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return DeviceIO{}, fmt.Errorf("figure %d is %q, want a count", i+1, fields[i])
		}
		n[i] = int64(min(v, 1<<63/sector-1))
	}
	return DeviceIO{
		ReadIOs: n[0], ReadBytes: n[2] * sector, ReadMillis: n[3],
		WriteIOs: n[4], WrittenBytes: n[6] * sector, WriteMillis: n[7],
		InFlight: n[8], BusyMillis: n[9],
	}, nil
}

// Queue is what a device has been given and not answered yet: Documentation/ABI/stable/sysfs-block,
// "inflight". It stays open, so that looking often costs little.
type Queue struct{ file *os.File }

// Queue opens a device's. The error is a [*NoDevice] where there is none.
func (h Host) Queue(d Device) (*Queue, error) {
	name := h.path("sys/dev/block", d.String(), "inflight")
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NoDevice{d.String(), "there is no " + name}
	}
	if err != nil {
		return nil, err
	}
	return &Queue{file}, nil
}

// Length is how many requests wait, of those that read and of those that write.
func (q *Queue) Length() (reads, writes int64, err error) {
	var text [64]byte // two figures of 20 digits at most
	n, err := q.file.ReadAt(text[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	if reads, writes, err = parseQueue(string(text[:n])); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", q.file.Name(), err)
	}
	return reads, writes, nil
}

// Close closes it.
func (q *Queue) Close() error { return q.file.Close() }

func parseQueue(text string) (reads, writes int64, err error) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, 0, fmt.Errorf("%q has %d figures, want reads and writes", text, len(fields))
	}
	for i, to := range []*int64{&reads, &writes} {
		if *to, err = strconv.ParseInt(fields[i], 10, 64); err != nil || *to < 0 {
			return 0, 0, fmt.Errorf("figure %d is %q, want a count", i+1, fields[i])
		}
	}
	return reads, writes, nil
}
