package file_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/kernel/file"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	regular := write(t, filepath.Join(dir, "regular"), "its bytes")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(regular, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{regular, link} {
		f, err := file.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(f); string(b) != "its bytes" || err != nil {
			t.Errorf("%s: read %q, %v", path, b, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := file.Open(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}

// A pipe that nobody writes to would hold up whoever opens it for ever.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Skipf("needs mkfifo: %v: %s", err, out)
	}
	link := filepath.Join(dir, "regular")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir, "/dev/null"} {
		if f, err := file.Open(path); !errors.Is(err, file.ErrNotRegular) {
			t.Errorf("%s is opened: %v", path, err)
			if f != nil {
				f.Close()
			}
		}
	}
}

// What is opened is what was looked at, whatever its path leads to by then.
func TestWhatIsPinnedStays(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "one"), "one")
	p, err := file.Pin(path)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := os.Rename(write(t, filepath.Join(dir, "two"), "the other"), path); err != nil {
		t.Fatal(err)
	}
	if info, err := p.Stat(); err != nil || info.Size() != int64(len("one")) {
		t.Errorf("it is %+v, %v", info, err)
	}
	f, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "one" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestPinBelow(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "root/deep/file"), "below")
	outside := write(t, filepath.Join(dir, "outside"), "outside")
	root := filepath.Join(dir, "root")
	for name, to := range map[string]string{"linked": outside, "up": "../outside", "within": "deep/file", "directory": "deep"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{
		"/deep/file": true, "deep/file": true,
		"linked": false, "up": false, "within": false, "directory/file": false, "../outside": false, "absent": false,
	} {
		p, err := file.PinBelow(root, path)
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if p != nil {
			p.Close()
		}
	}
	// /proc is a mount of its own on every host.
	if p, err := file.PinBelow("/", "proc/self/status"); err == nil {
		p.Close()
		t.Error("another mount is entered")
	}
	p, err := file.PinBelow(outside, "")
	if err != nil {
		t.Fatalf("a single file that is mounted: %v", err)
	}
	p.Close()
}

// A path is followed as a process with that root would follow it.
func TestPinIn(t *testing.T) {
	dir := t.TempDir()
	inside := write(t, filepath.Join(dir, "root/etc/file"), "inside")
	write(t, filepath.Join(dir, "etc/file"), "outside")
	root := filepath.Join(dir, "root")
	for name, to := range map[string]string{"absolute": "/etc/file", "climbing": "../../../etc/file", "out": filepath.Join(dir, "etc/file"), "magic": "/proc/self/exe"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.Stat(inside)
	if err != nil {
		t.Fatal(err)
	}
	for path, found := range map[string]bool{
		"/etc/file": true, "etc/file": true, "/../etc/file": true, "absolute": true, "climbing": true, "out": false, "magic": false, "absent": false,
	} {
		p, err := file.PinIn(root, path)
		if (err == nil) != found {
			t.Errorf("%s: %v", path, err)
		}
		if p == nil {
			continue
		}
		if got, err := p.Stat(); err != nil || !os.SameFile(got, want) {
			t.Errorf("%s leads elsewhere: %v", path, err)
		}
		p.Close()
	}
}

func TestMount(t *testing.T) {
	p, err := file.Pin("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	id, err := p.Mount()
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.HasPrefix(line, strconv.Itoa(id)+" ") {
			if !strings.Contains(line, " - proc ") {
				t.Errorf("/proc lies on %s", line)
			}
			return
		}
	}
	t.Errorf("no mount has the id %d", id)
}

// An entry is what lies in a directory itself, whatever was laid on the way or in its place.
func TestEntries(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.MkdirAll(at("a/b"), 0o755), os.WriteFile(at("a/b/file"), []byte("text"), 0o600),
		os.Symlink("a", at("link")), os.Symlink(strings.Repeat("x/", 600), at("long")))
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.PinEntry(dir, "/a/./b//file")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	f, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	for _, path := range []string{"link/b/file", "a/../a/b/file", "a/b/file/x", "none"} {
		if p, err := file.PinEntry(dir, path); err == nil {
			t.Errorf("%s is found", path)
			p.Close()
		}
	}
	for name, want := range map[string]string{"link": "a", "long": strings.Repeat("x/", 600)} {
		link, err := file.PinEntry(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		defer link.Close()
		if target, err := link.Readlink(); err != nil || target != want {
			t.Errorf("%s leads to %q, %v", name, target, err)
		}
		if _, err := link.Open(); !errors.Is(err, file.ErrNotRegular) {
			t.Errorf("%s is opened: %v", name, err)
		}
	}
	held, err := file.Pin(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for most, want := range map[int]int{0: 0, 2: 2, 3: 3, 4: 3} {
		names, isCut, err := held.Entries(most)
		if err != nil || len(names) != want || isCut != (most < 3) || !slices.IsSorted(names) {
			t.Errorf("at most %d: %v, cut %t, %v", most, names, isCut, err)
		}
	}
	if _, err := held.Entry("a/b"); err == nil {
		t.Error("a path is taken for an entry")
	}
}
