package mount_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tare/kernel/mount"
)

func TestFree(t *testing.T) {
	dir := t.TempDir()
	free, err := mount.Free(dir)
	if err != nil {
		t.Fatal(err)
	}
	// No disk has the 16 EiB that an overflow would make of it.
	if free == 0 || free > 1<<60 {
		t.Errorf("%d bytes are free where tests write", free)
	}
	if none, err := mount.Free("/proc"); err != nil || none != 0 {
		t.Errorf("/proc has %d bytes free (%v)", none, err)
	}
	if _, err := mount.Free(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of what is not there: %v", err)
	}
}
