package perfevent

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is one CPU's event and the memory that the kernel writes its records
// to: a page of control, then a power of two of pages of data.
type ring struct {
	fd, cpu int
	memory  []byte
	control *unix.PerfEventMmapPage
	data    []byte
}

// ringSize rounds up to a power of two of pages.
func ringSize(bytes int) int {
	if bytes <= 0 {
		bytes = defaultRingBytes
	}
	size := os.Getpagesize()
	for size < bytes {
		size *= 2
	}
	return size
}

// mapRing maps an event's ring. Where the user's share of locked memory is too
// small for it, size is halved, for this ring and those after it.
func mapRing(fd, cpu int, size *int) (*ring, error) {
	page := os.Getpagesize()
	for {
		memory, err := unix.Mmap(fd, 0, page+*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		switch {
		case err == nil:
			return &ring{
				fd: fd, cpu: cpu, memory: memory,
				control: (*unix.PerfEventMmapPage)(unsafe.Pointer(&memory[0])),
				data:    memory[page:],
			}, nil
		case errors.Is(err, unix.EPERM) && *size/2 >= leastRingBytes:
			*size /= 2
		case errors.Is(err, unix.EPERM):
			return nil, &Refused{
				fmt.Sprintf("map a perf ring of %d KiB for CPU %d: %v (kernel.perf_event_mlock_kb is %s)", *size>>10, cpu, err, sysctl(mlockFile)),
				"run with CAP_IPC_LOCK, or raise sysctl kernel.perf_event_mlock_kb", err}
		default:
			return nil, fmt.Errorf("map a perf ring of %d KiB for CPU %d: %w", *size>>10, cpu, err)
		}
	}
}

// drain appends what the kernel has written since the last time. The head is
// read with acquire and the tail written with release semantics (Go's atomics
// are both, and more): the kernel may overwrite only what has been copied.
func (r *ring) drain(into []byte) []byte {
	head := atomic.LoadUint64(&r.control.Data_head)
	tail := r.control.Data_tail // ours alone
	n := head - tail
	if n == 0 {
		return into
	}
	at := tail % uint64(len(r.data))
	first := min(n, uint64(len(r.data))-at)
	into = append(into, r.data[at:at+first]...)
	into = append(into, r.data[:n-first]...)
	atomic.StoreUint64(&r.control.Data_tail, head)
	return into
}

func (r *ring) close() error {
	return errors.Join(unix.Munmap(r.memory), unix.Close(r.fd))
}
