package contents

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"tare/kernel/procfs"
)

// Mapped is a file as a process maps it.
type Mapped struct {
	PID        int
	Start, End uint64 // of the mapping, virtual bytes
}

// Length identifies a file by its length alone, which reads nothing.
func Length(m Mapped) (string, error) { return identify(procfs.Host, m, false) }

// Digest identifies a file by its length and the SHA-256 of its bytes, all of
// which are read.
func Digest(m Mapped) (string, error) { return identify(procfs.Host, m, true) }

// identify finds the file through the mapping itself, so that it is the one
// mapped, whatever its path is in which container, and whether it has one still.
// It is looked at before it is opened: opening a device can do anything.
func identify(proc procfs.FS, m Mapped, read bool) (id string, err error) {
	name := proc.Process(m.PID).Path(fmt.Sprintf("map_files/%x-%x", m.Start, m.End))
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("look at what process %d maps: %w (run tare as root: it takes CAP_CHECKPOINT_RESTORE)", m.PID, err)
	case err != nil:
		return "", fmt.Errorf("look at what process %d maps: %w", m.PID, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("what process %d maps at %x is no regular file", m.PID, m.Start)
	}
	id = fmt.Sprintf("%d bytes", info.Size())
	if !read {
		return id, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("open what process %d maps: %w", m.PID, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read what process %d maps: %w", m.PID, err)
	}
	return fmt.Sprintf("%s, sha256:%x", id, h.Sum(nil)), nil
}
