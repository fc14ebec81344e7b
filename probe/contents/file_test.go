package contents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/kernel/file"
	"tare/kernel/filesystem/fusetest"
	"tare/kernel/mount"
	"tare/kernel/procfs"
)

// maps makes a process that maps a file, on a file system of that type.
func maps(t *testing.T, path, fsType string) (procfs.FS, Mapped) {
	t.Helper()
	pinned, err := file.Pin(path)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	id, err := pinned.Mount()
	if err != nil {
		t.Fatal(err)
	}
	proc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "7/map_files"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(proc, "7/map_files/1000-2000")); err != nil {
		t.Fatal(err)
	}
	// A device that no real mount has: an overlay that is mounted here too is asked.
	info := fmt.Sprintf("%d 1 0:1048570 / /data rw - %s source rw\n", id, fsType)
	if err := os.WriteFile(filepath.Join(proc, "7/mountinfo"), []byte(info), 0o644); err != nil {
		t.Fatal(err)
	}
	return procfs.FS(proc), Mapped{PID: 7, Start: 0x1000, End: 0x2000}
}

func TestFilesThatAreNotAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "library")
	if err := os.WriteFile(path, []byte("bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	for fsType, want := range map[string]bool{
		"ext4": true, "fusectl": true, "overlay": false, // by whose rights it was mounted is not known
		"fuse": false, "fuseblk": false, "fuse.sshfs": false,
	} {
		proc, m := maps(t, path, fsType)
		length, err := identify(proc, m, nil)
		if (err == nil) != want || want && length != 5 {
			t.Errorf("on %q it has %d bytes, %v", fsType, length, err)
		}
		var untrusted *mount.Untrusted
		if !want && !errors.As(err, &untrusted) {
			t.Errorf("on %q: %v, want that a program may serve it", fsType, err)
		}
	}
	proc, m := maps(t, "/dev/null", "ext4")
	if _, err := identify(proc, m, nil); !errors.Is(err, file.ErrNotRegular) {
		t.Errorf("a device: %v", err)
	}
}

// No file can be looked up that a process maps while its memory is locked.
func TestFilesOfLockedMemory(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	s := fusetest.Mount(t, 4096)
	proc := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.Directory, filepath.Join(proc, "7/map_files")); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	s.Ends(t, "a mapped file", func() {
		if _, err := identify(procfs.FS(proc), Mapped{PID: 7, Start: 0x1000, End: 0x2000}, nil); !errors.Is(err, procfs.ErrLocked) {
			t.Error(err)
		}
	})
}

// A file of many GiB need not have a byte on its disk.
func TestTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(MostRead+1), f.Close()); err != nil {
		t.Skipf("needs a file system with holes: %v", err)
	}
	proc, m := maps(t, path, "ext4")
	_, err = identify(proc, m, func(*os.File, int64) error {
		t.Error("it is read")
		return nil
	})
	var long *TooLong
	if !errors.As(err, &long) || long.Bytes != MostRead+1 {
		t.Errorf("%v, want that it is too long", err)
	}
	if length, err := identify(proc, m, nil); length != MostRead+1 || err != nil {
		t.Errorf("its length is %d, %v", length, err)
	}
}

// endless gives bytes for ever, and gives up its reader's context with the first.
type endless struct{ cancel context.CancelCauseFunc }

var errEnough = errors.New("enough")

func (e endless) Read(p []byte) (int, error) {
	e.cancel(errEnough)
	return len(p), nil
}

type count struct {
	io.Writer
	n int
}

func (c *count) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }
func (c *count) Sum(b []byte) []byte         { return b }
func (c *count) Reset()                      {}
func (c *count) Size() int                   { return 0 }
func (c *count) BlockSize() int              { return 1 }

func TestReadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &count{}
	if err := add(ctx, c, endless{cancel}, MostRead); !errors.Is(err, errEnough) || c.n > 1<<20 {
		t.Errorf("%v after %d bytes", err, c.n)
	}
	if err := add(t.Context(), c, strings.NewReader("short"), 6); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that is cut off: %v", err)
	}
}
