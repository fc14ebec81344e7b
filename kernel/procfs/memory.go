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

// kept are the files of which a read has not come back, by path. Each keeps a thread until it does, and is not
// read again meanwhile.
var kept sync.Map

// readOfMemory is [Process.readMost] of such a file.
func (p Process) readOfMemory(name string, most int) ([]byte, error) {
	path := p.Path(name)
	if _, is := kept.Load(path); is {
		return nil, fmt.Errorf("process %d: %w", p.PID, ErrLocked)
	}
	type answer struct {
		b   []byte
		err error
	}
	came := make(chan answer, 1)
	go func() {
		b, err := p.readMost(name, most)
		came <- answer{b, err}
		kept.Delete(path)
	}()
	late := time.NewTimer(memoryWithin)
	defer late.Stop()
	select {
	case a := <-came:
		return a.b, a.err
	case <-late.C:
	}
	kept.Store(path, true)
	select {
	case a := <-came: // just now, and its path may have been forgotten before it was kept
		kept.Delete(path)
		return a.b, a.err
	default:
		return nil, fmt.Errorf("process %d: %w", p.PID, ErrLocked)
	}
}
