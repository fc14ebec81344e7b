// Package filelock takes advisory locks on whole files (flock(2)). The kernel
// drops such a lock when its holder dies, however it dies, so a lock that can
// be taken belongs to nobody alive.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Held says that somebody alive has the lock.
type Held struct {
	Path   string
	Holder string // what the holder wrote into the file; may be empty
}

func (h *Held) Error() string {
	if h.Holder == "" {
		return h.Path + " is locked by another process"
	}
	return h.Path + " is locked by " + h.Holder
}

// Lock is a lock held by this process until Release or death.
type Lock struct {
	file *os.File
}

// Take locks path at once or fails with *Held. The file is made if needed and
// then says holder, for the eyes of others. Its bytes are otherwise untouched
// where holder is empty.
func Take(path, holder string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			text, _ := io.ReadAll(io.LimitReader(file, 256))
			return nil, &Held{Path: path, Holder: strings.TrimSpace(string(text))}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Between open and flock a former holder may have removed the name: such a
	// lock would guard nothing.
	var mine, named unix.Stat_t
	if unix.Fstat(int(file.Fd()), &mine) != nil || unix.Stat(path, &named) != nil || mine.Ino != named.Ino || mine.Dev != named.Dev {
		file.Close()
		return nil, &Held{Path: path}
	}
	if holder != "" {
		if err := file.Truncate(0); err == nil {
			_, err = file.WriteAt([]byte(holder+"\n"), 0)
			if err != nil {
				file.Close()
				return nil, fmt.Errorf("write %s: %w", path, err)
			}
		}
	}
	return &Lock{file: file}, nil
}

// File is the locked file, for reading and writing its contents.
func (l *Lock) File() *os.File { return l.file }

// Release gives the lock back. The file stays.
func (l *Lock) Release() error { return l.file.Close() }
