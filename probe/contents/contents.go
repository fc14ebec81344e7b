// Package contents compares what page tables cannot: the bytes of memory pages
// and of mapped files, by hash.
//
// It only reads, from /proc/PID/mem and from the files themselves; but reading is not
// without trace. A page that is read counts as accessed, so the kernel keeps it
// longer; one that was swapped out since it was listed comes back; and a file
// that is read whole comes into the page cache. So nothing is read unless it is
// asked for. The bytes go nowhere: what is kept of a page is its hash.
//
// Sources: proc_pid_mem(5), proc_pid_map_files(5); the access that is needed is
// that of ptrace (ptrace(2), PTRACE_MODE_ATTACH_FSCREDS).
package contents

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"

	"tare/kernel/procfs"
)

// pageSize is what memory is read and compared by.
const pageSize = 4096

// Pages reads pages of processes. Its hashes compare with each other, and with
// no other's: each has a seed of its own. It is used by one goroutine at a time.
type Pages struct {
	proc procfs.FS
	seed maphash.Seed
	pid  int
	mem  *os.File // of pid; nil where it cannot be read
	buf  [pageSize]byte
	err  error // the first that is not the end of a process or of a page
}

// NewPages makes a reader; Close ends it.
func NewPages() *Pages { return &Pages{proc: procfs.Host, seed: maphash.MakeSeed()} }

// Read hashes one page of a process, by its number (virtual address / 4096); zero
// means that all its bytes are 0, and ok is false where it could not be read. Pages of
// one process are best read one after the other. Why nothing could be read, Err says.
func (p *Pages) Read(pid int, page uint64) (hash uint64, zero, ok bool) {
	if pid != p.pid && !p.open(pid) || p.mem == nil {
		return 0, false, false
	}
	if n, _ := p.mem.ReadAt(p.buf[:], int64(page*pageSize)); n < pageSize {
		return 0, false, false // the page is gone, or the process is
	}
	if p.buf == [pageSize]byte{} {
		return 0, true, true
	}
	return maphash.Bytes(p.seed, p.buf[:]), false, true
}

// open turns to another process.
func (p *Pages) open(pid int) bool {
	p.note(p.Close())
	p.pid = pid
	mem, err := os.Open(p.proc.Process(pid).Path("mem"))
	if err != nil {
		if !procfs.Gone(err) {
			p.note(refused(pid, err))
		}
		return false
	}
	p.mem = mem
	return true
}

func (p *Pages) note(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Err is the first error that is no process' end: mostly that reading is not allowed.
func (p *Pages) Err() error { return p.err }

// Close closes what is open.
func (p *Pages) Close() error {
	if p.mem == nil {
		return nil
	}
	err := p.mem.Close()
	p.mem, p.pid = nil, 0
	return err
}

// refused says what reading another's memory takes.
func refused(pid int, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("read the memory of process %d: %w (run tare as root, or with CAP_SYS_PTRACE)", pid, err)
	}
	return fmt.Errorf("read the memory of process %d: %w", pid, err)
}
