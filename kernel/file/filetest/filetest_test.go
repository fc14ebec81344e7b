package filetest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOwn(t *testing.T) {
	in := t.TempDir()
	at := func(name string) string { return filepath.Join(in, name) }
	for range 2 { // made, and taken
		if err := Own(at("own")); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(at("own"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try(os.Symlink(at("own"), at("link")))
	try(os.WriteFile(at("file"), nil, 0o600))
	try(os.Mkdir(at("open"), 0o700))
	try(os.Chmod(at("open"), 0o777))
	refused := []string{"link", "file", "open", "none/below"}
	if os.Geteuid() == 0 {
		try(os.Mkdir(at("another's"), 0o700))
		try(os.Chown(at("another's"), 65534, 65534))
		refused = append(refused, "another's")
	}
	for _, name := range refused {
		if err := Own(at(name)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
