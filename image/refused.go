package image

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Refused says that an archive, a layout or a directory is hostile or broken,
// and which of its entries shows it. Nothing of it was kept.
type Refused struct {
	Archive string // path or name of what was read
	Entry   string // the entry inside; empty where the whole is at fault
	Reason  string
}

func (r *Refused) Error() string {
	if r.Entry == "" {
		return fmt.Sprintf("%s refused: %s", r.Archive, r.Reason)
	}
	return fmt.Sprintf("%s refused: entry %q: %s", r.Archive, r.Entry, r.Reason)
}

// Missing says what this host lacks to make an image, and what mends it.
type Missing struct {
	What string // "no apt-get on this host"
	Mend string // the command, flag or capability that mends it
}

func (m *Missing) Error() string {
	if m.Mend == "" {
		return m.What
	}
	return m.What + ": " + m.Mend
}

// Full says that the disk behind the store has no room left. What was being
// made has been removed again.
type Full struct {
	Dir string // of the store
	Err error
}

func (f *Full) Error() string {
	return fmt.Sprintf("no space left for images under %s: make room there (nothing of the unfinished image was kept)", f.Dir)
}

func (f *Full) Unwrap() error { return f.Err }

// diskFull recognises a full disk in our own errors and in what the tools that
// we run say about theirs.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(strings.ToLower(err.Error()), "no space left on device") ||
		strings.Contains(err.Error(), "You don't have enough free space")
}
