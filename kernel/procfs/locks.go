package procfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// FileLock is a lock that a process holds on a whole file (flock(2)) or a range of it.
type FileLock struct {
	Class        string // "FLOCK", "POSIX", "OFDLCK", "LEASE"
	PID          int    // of the process that took it; -1 of a range that goes with a file
	Major, Minor uint32 // of the file's device
	Inode        uint64
}

// FileLocks gives the locks that are held on a file. It takes none, and needs no more than
// that the file may be looked at. Locks of processes in other PID namespaces are not listed.
func (f FS) FileLocks(path string) ([]FileLock, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(string(f) + "/locks")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, err := ParseFileLocks(file)
	if err != nil {
		return nil, err
	}
	st := info.Sys().(*syscall.Stat_t)
	var own []FileLock
	for _, l := range all {
		if l.Inode == st.Ino && l.Major == unix.Major(st.Dev) && l.Minor == unix.Minor(st.Dev) {
			own = append(own, l)
		}
	}
	return own, nil
}

// ParseFileLocks reads /proc/locks (proc_locks(5)). Those who wait for a lock are left out.
func ParseFileLocks(r io.Reader) ([]FileLock, error) {
	var all []FileLock
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 1 && fields[1] == "->" {
			continue
		}
		if len(fields) < 6 {
			return nil, fmt.Errorf("/proc/locks: %q: want six fields", lines.Text())
		}
		l := FileLock{Class: fields[1]}
		if _, err := fmt.Sscanf(fields[4]+" "+fields[5], "%d %x:%x:%d", &l.PID, &l.Major, &l.Minor, &l.Inode); err != nil {
			return nil, fmt.Errorf("/proc/locks: %q: %w", lines.Text(), err)
		}
		all = append(all, l)
	}
	return all, lines.Err()
}
