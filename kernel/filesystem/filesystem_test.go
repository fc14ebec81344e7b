package filesystem_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// What was written is dirty no more after its file system was brought to the disk.
// The count is the whole host's, to which others add meanwhile: hence several tries.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	if at, err := filesystem.At(dir); err != nil || at.Memory {
		t.Skipf("%s lies in memory (%v), which has no disk", dir, err)
	}
	if err := filesystem.Sync(filepath.Join(dir, "not", "yet")); err != nil {
		t.Error(err)
	}
	const size = 32 << 20
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ {
		if err := filesystem.Sync(dir); err != nil {
			t.Fatal(err)
		}
		dirty, err := filesystem.ReadDirty()
		if err != nil {
			t.Fatal(err)
		}
		if dirty.Left() < size {
			return
		}
		if try == 20 {
			t.Fatalf("%d bytes are left after all was brought to the disk", dirty.Left())
		}
	}
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
