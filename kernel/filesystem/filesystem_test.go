package filesystem_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/filesystem"
)

func TestAt(t *testing.T) {
	dir := t.TempDir()
	there, err := filesystem.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	if major, minor, ok := strings.Cut(there.Device, ":"); !ok || major == "" || minor == "" {
		t.Errorf("device %q", there.Device)
	}
	// What will be made lies where its parent does.
	later, err := filesystem.At(filepath.Join(dir, "not", "yet"))
	if err != nil || later.Device != there.Device {
		t.Errorf("below a directory on %s: %+v, %v", there.Device, later, err)
	}
	proc, err := filesystem.At("/proc")
	if err != nil || proc.Device == there.Device {
		t.Errorf("/proc: %+v, %v; the directory: %+v", proc, err, there)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := filesystem.At(filepath.Join(file, "below")); err == nil {
		t.Error("below a file there is a file system")
	}
}

func TestAtMemory(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mounts), " /dev/shm tmpfs ") {
		t.Skip("no tmpfs at /dev/shm")
	}
	if shm, err := filesystem.At("/dev/shm"); err != nil || !shm.Memory {
		t.Errorf("/dev/shm: %+v, %v", shm, err)
	}
}

func TestSync(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "file"), filepath.Join(dir, "not", "yet")} {
		if err := filesystem.Sync(t.Context(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	// What is below a file can never be there.
	below := filepath.Join(dir, "file", "below")
	if err := filesystem.Sync(t.Context(), below); !errors.Is(err, unix.ENOTDIR) || !strings.Contains(err.Error(), below) {
		t.Errorf("below a file: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := filesystem.Sync(ended, dir); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), dir) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// A disk may take its time. What stands for it is a pipe, which is not open before
// somebody writes to it.
func TestSyncGivesUp(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- filesystem.Sync(ctx, pipe) }()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), pipe) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits beyond the end of its context")
	}
	// Let go of what still waits.
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestParseDirty(t *testing.T) {
	const whole = "nr_free_pages 12\nnr_dirty 109\nnr_writeback 1\nnr_writeback_temp 7\nnr_dirty_threshold 1000\nnr_dirty_background_threshold 500\n"
	d, err := filesystem.ParseDirty(strings.NewReader(whole), 4096)
	if want := (filesystem.Dirty{Waiting: 109 * 4096, Writing: 4096, Background: 500 * 4096, Limit: 1000 * 4096}); err != nil || d != want || d.Left() != 110*4096 {
		t.Errorf("%+v, %v, want %+v", d, err, want)
	}
	for name, text := range map[string]string{
		"nr_dirty_threshold": strings.Replace(whole, "nr_dirty_threshold", "nr_other", 1),
		"nr_writeback is":    strings.Replace(whole, "nr_writeback 1", "nr_writeback -1", 1),
		"nr_dirty is":        strings.Replace(whole, "109", "many", 1),
	} {
		if _, err := filesystem.ParseDirty(strings.NewReader(text), 4096); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := filesystem.ReadDirty(); err != nil {
		t.Errorf("this host: %v", err)
	}
}

func FuzzParseDirty(f *testing.F) {
	f.Add("nr_dirty 109\nnr_writeback 0\nnr_dirty_threshold 1190558\nnr_dirty_background_threshold 594552\n")
	f.Add("nr_dirty 9223372036854775807\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := filesystem.ParseDirty(strings.NewReader(text), 4096)
		if err == nil && (d.Waiting < 0 || d.Writing < 0 || d.Limit < 0 || d.Background < 0 || d.Left() < 0) {
			t.Errorf("%q: %+v", text, d)
		}
	})
}
