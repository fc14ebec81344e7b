package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tare/kernel/file"
)

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func makeDirectory(t *testing.T, path string, mode fs.FileMode, uid int) string {
	t.Helper()
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, uid, -1); err != nil {
		t.Skip("needs root: ", err)
	}
	return path
}

func TestPrivate(t *testing.T) {
	in := t.TempDir()
	at := func(name string) string { return filepath.Join(in, name) }
	for range 2 { // made, and found
		if err := file.Private(at("parent/own")); err != nil {
			t.Fatal(err)
		}
		if mode := modeOf(t, at("parent/own")); mode != 0o700 {
			t.Errorf("made with mode %v", mode)
		}
	}
	// As older versions made it.
	if err := file.Private(makeDirectory(t, at("older"), 0o755, os.Geteuid())); err != nil || modeOf(t, at("older")) != 0o700 {
		t.Errorf("an older one: mode %v, %v", modeOf(t, at("older")), err)
	}
	if err := errors.Join(os.Symlink(at("older"), at("link")), os.WriteFile(at("file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	makeDirectory(t, at("open"), 0o777, os.Geteuid())
	makeDirectory(t, at("another's"), 0o700, 65534)
	for _, name := range []string{"link", "file", "open", "another's"} {
		var exposed *file.Exposed
		if err := file.Private(at(name)); !errors.As(err, &exposed) || exposed.Path != at(name) || exposed.Mend == "" {
			t.Errorf("%s: %v, want an *Exposed that names it", name, err)
		}
	}
	if err := file.Private(at("file/below")); err == nil {
		t.Error("a directory in a file was made")
	}
}

func TestReserved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reserved")
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for range 2 {
		if err := file.Reserved(path, 0, 65534, 0o710); err != nil || modeOf(t, path) != 0o710 {
			t.Errorf("mode %v, %v", modeOf(t, path), err)
		}
	}
}

func TestGuarded(t *testing.T) {
	in := t.TempDir()
	for _, c := range []struct {
		name    string
		mode    fs.FileMode
		uid     int
		guarded bool
	}{
		{"own", 0o755, os.Geteuid(), true},
		{"open", 0o777, os.Geteuid(), false},
		{"of-a-group", 0o775, os.Geteuid(), false},
		{"sticky", 0o777 | fs.ModeSticky, os.Geteuid(), false},
		{"another's", 0o755, 65534, false},
	} {
		dir := makeDirectory(t, filepath.Join(in, c.name), c.mode, c.uid)
		below := makeDirectory(t, filepath.Join(dir, "below"), 0o755, os.Geteuid())
		var exposed *file.Exposed
		if err := file.Guarded(dir); (err == nil) != c.guarded || !c.guarded && (!errors.As(err, &exposed) || exposed.Path != dir) {
			t.Errorf("%s: %v", c.name, err)
		}
		// Nobody can replace in a sticky directory what is another's.
		if err, guarded := file.Guarded(below), c.guarded || c.name == "sticky"; (err == nil) != guarded {
			t.Errorf("%s/below: %v", c.name, err)
		}
	}
	if err := os.Symlink(filepath.Join(in, "another's", "below"), filepath.Join(in, "own", "link")); err != nil {
		t.Fatal(err)
	}
	if err := file.Guarded(filepath.Join(in, "own", "link")); err == nil {
		t.Error("a link into another's directory is guarded")
	}
	// A link that leads to a link of another's, which leads to what is guarded.
	hop, link := filepath.Join(in, "another's", "hop"), filepath.Join(in, "own", "by-hop")
	if err := errors.Join(os.Symlink(filepath.Join(in, "own", "below"), hop), os.Symlink(hop, link)); err != nil {
		t.Fatal(err)
	}
	if err := file.Guarded(link); err == nil {
		t.Error("a path by way of another's link is guarded")
	}
	if err := os.Symlink("../own/below", filepath.Join(in, "own", "relative")); err != nil {
		t.Fatal(err)
	}
	if err := file.Guarded(filepath.Join(in, "own", "relative")); err != nil {
		t.Errorf("a link of one's own: %v", err)
	}
	if err := os.Symlink("loop", filepath.Join(in, "own", "loop")); err != nil {
		t.Fatal(err)
	}
	if err := file.Guarded(filepath.Join(in, "own", "loop")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
	if err := os.Symlink(filepath.Join(in, "own", "below"), filepath.Join(in, "open", "link")); err != nil {
		t.Fatal(err)
	}
	if err := file.Guarded(filepath.Join(in, "open", "link")); err == nil {
		t.Error("a link that others can replace is guarded")
	}
	if err := file.Guarded(filepath.Join(in, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// Nothing is made where another user has laid a link.
func TestMakeDirectory(t *testing.T) {
	in := t.TempDir()
	made := filepath.Join(in, "a/b")
	for range 2 { // made, and found
		if err := file.MakeDirectory(made, 0o700, file.Guarded); err != nil || modeOf(t, made) != 0o700 {
			t.Errorf("mode %v, %v", modeOf(t, made), err)
		}
	}
	link := filepath.Join(in, "link")
	if err := os.Symlink("behind", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, 65534, 65534); err != nil {
		t.Skip("needs root: ", err)
	}
	exposed := new(file.Exposed)
	if err := file.MakeDirectory(filepath.Join(link, "made"), 0o700, file.Guarded); !errors.As(err, &exposed) || exposed.Path != link {
		t.Errorf("through another's link: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(in, "behind")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is behind it: %v", err)
	}
}
