package procfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare/kernel/filesystem/fusetest"
)

// What the text of maps leaves open, the kernel says.
func TestSettle(t *testing.T) {
	dir := t.TempDir()
	var want []Mapping
	for _, c := range []struct {
		name string
		then func(path string) error // after it was mapped
		now  string
		gone bool
	}{
		{name: "plain"},
		{name: "with\nnewline"},
		{name: `back\012slash`},
		{name: "both\n" + `\012`},
		{name: "ends (deleted)"},
		{name: "gone", then: os.Remove, gone: true},
		{name: `gone\012`, then: os.Remove, gone: true},
		{name: "gone (deleted)", then: os.Remove, gone: true},
		{name: "linked", then: unlinkOneOfTwo, gone: true},
		{name: "moved", then: func(path string) error { return os.Rename(path, path+" (deleted)") }, now: "moved (deleted)"},
		{name: "another", then: replaceByLikeness, gone: true},
	} {
		path := filepath.Join(dir, c.name)
		mapFile(t, path)
		if c.then != nil {
			if err := c.then(path); err != nil {
				t.Fatal(err)
			}
		}
		if c.now != "" {
			path = filepath.Join(dir, c.now)
		}
		want = append(want, Mapping{Path: path, Deleted: c.gone})
	}
	if _, err := os.Stat("/proc/self/map_files"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root, to follow map_files")
	}
	maps, err := Host.Process(os.Getpid()).Maps()
	if err != nil {
		t.Fatal(err)
	}
	found := map[Mapping]bool{}
	for _, m := range maps {
		if strings.HasPrefix(m.Path, dir) {
			found[Mapping{Path: m.Path, Deleted: m.Deleted}] = true
		}
	}
	for _, m := range want {
		if !found[m] {
			t.Errorf("%q, deleted: %t, is not among %+v", m.Path, m.Deleted, found)
		}
		delete(found, m)
	}
	if len(found) > 0 {
		t.Errorf("not mapped: %+v", found)
	}
}

func mapFile(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := os.Getpagesize()
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	})
}

// unlinkOneOfTwo leaves the file under another name.
func unlinkOneOfTwo(path string) error {
	if err := os.Link(path, path+"-too"); err != nil {
		return err
	}
	return os.Remove(path)
}

// replaceByLikeness removes the file, and makes another whose name is as the kernel prints the
// removed one's.
func replaceByLikeness(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path+" (deleted)", nil, 0o600)
}

// The files that a process maps cannot be looked up while its memory is locked.
func TestSettleWithLockedMemory(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	s := fusetest.Mount(t, 4096)
	p := FS(t.TempDir()).Process(7)
	if err := errors.Join(os.Mkdir(p.Path(""), 0o755), os.Symlink(s.Directory, p.Path("map_files"))); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	maps := []Mapping{{Path: "/one", Deleted: true}, {Path: "/other", Deleted: true}}
	s.Ends(t, "a mapped file", func() { p.Settle(maps) })
	if !maps[0].Deleted || maps[1].Path != "/other" {
		t.Errorf("they are %+v", maps)
	}
}
