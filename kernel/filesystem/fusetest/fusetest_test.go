package fusetest

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
)

// What is written is read again, and fails where it is to.
func TestFile(t *testing.T) {
	const size, part = 1 << 20, 300 << 10
	s := Mount(t, size)
	f, err := os.OpenFile(s.File(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := bytes.Repeat([]byte("0123456789abcdef"), part/16)
	if _, err := f.WriteAt(want, 4096); err != nil {
		t.Fatal(err)
	}
	have := make([]byte, part)
	if _, err := f.ReadAt(have, 4096); err != nil || !bytes.Equal(have, want) {
		t.Errorf("other bytes are read, %v", err)
	}
	s.Fail(func(write bool, offset, length int64) bool {
		return !write && offset <= size/2 && size/2 < offset+length
	})
	if _, err := f.ReadAt(have[:4096], size/2); !errors.Is(err, syscall.EIO) {
		t.Errorf("read what fails: %v", err)
	}
	if _, err := f.ReadAt(have[:4096], 0); err != nil {
		t.Errorf("read what does not fail: %v", err)
	}
	if _, err := f.WriteAt(want, size/2); err != nil {
		t.Errorf("write: %v", err)
	}
	s.Fail(nil)
	if _, err := f.ReadAt(have, size/2); err != nil || !bytes.Equal(have, want) {
		t.Errorf("other bytes are read, %v", err)
	}
}
