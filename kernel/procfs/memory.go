package procfs

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// memoryWithin is how long a file is waited for that the kernel reads with the process' memory locked
// (mmap_lock). It takes microseconds.
const memoryWithin = time.Second

// ErrLocked is the error of such a file while the memory stays locked. One thread that hangs in the kernel with
// that lock, as of a file system that does not answer, keeps all who ask: root's commands, too.
var ErrLocked = errors.New("its memory stays locked, as by a thread that hangs in the kernel")

// kept has the files whose read has not returned, by path. Each holds a thread until it does, and is not read
// again meanwhile.
var kept = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// mostKept bounds the threads that wait. Go ends a program of 10,000.
const mostKept = 1000

// readOfMemory is [Process.readMost] of such a file.
func (p Process) readOfMemory(name string, most int) ([]byte, error) {
	return OfMemory(p, name, func() ([]byte, error) { return p.readMost(name, most) })
}

// OfMemory looks at such a file, or into such a directory, as map_files is. While one look has not returned, its
// error is an [ErrLocked].
func OfMemory[T any](p Process, name string, look func() (T, error)) (T, error) {
	var none T
	path := p.Path(name)
	locked := func() error { return fmt.Errorf("process %d: %w", p.PID, ErrLocked) }
	kept.Lock()
	isKept, others := kept.paths[path], len(kept.paths)
	kept.Unlock()
	if isKept || others >= mostKept {
		return none, locked()
	}
	type answer struct {
		found T
		err   error
	}
	came := make(chan answer, 1)
	go func() {
		found, err := look()
		kept.Lock()
		defer kept.Unlock()
		came <- answer{found, err}
		delete(kept.paths, path)
	}()
	// The more are kept, the shorter each is waited for: a user may have many such processes.
	late := time.NewTimer(max(memoryWithin/time.Duration(1+others), memoryWithin/10))
	defer late.Stop()
	select {
	case a := <-came:
		return a.found, a.err
	case <-late.C:
	}
	kept.Lock()
	defer kept.Unlock()
	select {
	case a := <-came:
		return a.found, a.err
	default:
		kept.paths[path] = true
		return none, locked()
	}
}

// Locked reports whether the process' memory stays locked, which a reader of its page tables would wait for. It
// reads a few entries of those: that touches none of the process' pages.
func (p Process) Locked() bool {
	_, err := p.readOfMemory("pagemap", 0)
	return errors.Is(err, ErrLocked)
}
