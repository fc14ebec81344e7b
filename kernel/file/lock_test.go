package file

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A lock is held by whoever has a copy of the file, and free with the last of them.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	heir := exec.Command("cat")
	heir.ExtraFiles = []*os.File{first}
	in, err := heir.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := heir.Start(); err != nil {
		t.Skipf("cat: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var locked *Locked
	if _, err := Lock(path); !errors.As(err, &locked) {
		t.Errorf("while another holds it: %v", err)
	}
	in.Close()
	if err := heir.Wait(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
