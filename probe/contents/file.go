package contents

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"tare/kernel/file"
	"tare/kernel/mount"
	"tare/kernel/procfs"
)

// Mapped is a file as a process maps it.
type Mapped struct {
	PID        int
	Start, End uint64 // of the mapping, virtual bytes
}

// MostRead is how long a file may be that is read, in bytes. Programs and
// libraries are shorter; a data file that is longer would take the page cache for itself.
const MostRead = 1 << 30

// TooLong says that a file is longer than MostRead.
type TooLong struct{ Bytes int64 }

func (t *TooLong) Error() string {
	return fmt.Sprintf("a file of %d MiB: files of at most %d MiB are read", t.Bytes>>20, MostRead>>20)
}

// Length identifies a file by its length alone, which reads nothing. Its errors are
// those of [Size].
func Length(m Mapped) (string, error) {
	length, err := Size(m)
	if err != nil {
		return "", err
	}
	return lengthOf(length), nil
}

func lengthOf(bytes int64) string { return fmt.Sprintf("%d bytes", bytes) }

// Size is the length of a file in bytes. Its error is a [*mount.Untrusted] of files that
// are not asked.
func Size(m Mapped) (int64, error) {
	length, err := identify(procfs.Host, m, nil)
	return length, about(m, err)
}

// Digest identifies a file by its length and the SHA-256 of its bytes, all of
// which are read. Its error is a [*mount.Untrusted] or [*TooLong] of files that are not read, or
// ctx's, which is looked at after every 1 MiB.
func Digest(ctx context.Context, m Mapped) (string, error) {
	h := sha256.New()
	length, err := identify(procfs.Host, m, func(f *os.File, length int64) error { return add(ctx, h, f, length) })
	if err != nil {
		return "", about(m, err)
	}
	return fmt.Sprintf("%s, sha256:%x", lengthOf(length), h.Sum(nil)), nil
}

// about says which mapping an error is about.
func about(m Mapped, err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("look at what process %d maps at %x: %w (run tare as root: it takes CAP_CHECKPOINT_RESTORE)", m.PID, m.Start, err)
	case err != nil:
		return fmt.Errorf("look at what process %d maps at %x: %w", m.PID, m.Start, err)
	}
	return nil
}

// identify gives the length of a file, and lets it be read. It finds the file through the
// mapping itself, so that it is the one mapped, whatever its path is in which container,
// and whether it has one still.
// Its file system is asked about nothing before it is known to be the kernel's own.
func identify(proc procfs.FS, m Mapped, read func(f *os.File, length int64) error) (length int64, err error) {
	process := proc.Process(m.PID)
	pinned, err := procfs.OfMemory(process, "map_files", func() (*file.Pinned, error) {
		return file.Pin(process.Path(fmt.Sprintf("map_files/%x-%x", m.Start, m.End)))
	})
	if err != nil {
		return 0, err
	}
	defer pinned.Close()
	if err := mount.Trust(process, pinned); err != nil {
		return 0, err
	}
	info, err := pinned.Stat()
	if err != nil {
		return 0, err
	}
	length = info.Size()
	switch {
	case read == nil:
		return length, nil
	case length > MostRead:
		return 0, &TooLong{length}
	}
	f, err := pinned.Open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return length, read(f, length)
}

// add hashes the bytes of a file of that length.
func add(ctx context.Context, h hash.Hash, f io.Reader, length int64) error {
	const chunk = 1 << 20
	for left := length; left > 0; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n, err := io.CopyN(h, f, min(left, chunk))
		left -= n
		switch {
		case err == io.EOF:
			return fmt.Errorf("it was cut off while it was read: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return err
		}
	}
	return nil
}
