package profile

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tare/kernel/filesystem/fusetest"
	"tare/kernel/mount"
	"tare/probe"
	"tare/probe/symbol"
)

// copyOf copies a file to a path below a root.
func copyOf(t *testing.T, file, root, path string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// elfs are two programs that are here for certain: this test's and Go's, with
// their build ids, which may be empty.
func elfs(t *testing.T) (one, other, id string) {
	t.Helper()
	one, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	libraries, _ := filepath.Glob("/lib/*/libc.so.6")
	if len(libraries) == 0 {
		t.Skip("needs a libc at /lib/*/libc.so.6, for a second ELF file")
	}
	library, err := filepath.EvalSymlinks(libraries[0]) // as the kernel reports it
	if err != nil {
		t.Fatal(err)
	}
	buildID, err := symbol.OpenBuildID(library)
	if err != nil || len(buildID) == 0 {
		t.Skipf("%s has no build id (%v)", library, err)
	}
	return one, library, key(buildID)
}

// A container may lay a link where a file was that it maps: it leads neither to the host's files nor to a file system
// that never answers.
func TestLinksInContainersAreNotFollowed(t *testing.T) {
	_, library, id := elfs(t)
	for laid, target := range map[string]string{"lib.so": library, "lib": filepath.Dir(library)} {
		image := t.TempDir()
		if err := os.Symlink(target, filepath.Join(image, laid)); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{"/lib.so", "/lib/" + filepath.Base(library)} {
			f := newFiles([]string{image})
			if at != library && f.find(&probe.Process{PID: -1, Contained: true}, &mapping{file: at, buildID: id}) != nil {
				t.Errorf("the link %s was followed to find %s", laid, at)
			}
		}
	}
}

// Neither a root, nor a mount of a single file, nor another path of the same file is asked that does not answer.
func TestServedFilesAreNotAsked(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	s := fusetest.Mount(t, 4096)
	bound := filepath.Join(t.TempDir(), "bound")
	if err := errors.Join(os.WriteFile(bound, nil, 0o644), mount.Bind(s.File(), bound, false)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mount.Unmount(bound); err != nil {
			t.Error(err)
		}
	})
	s.Silence()
	for _, c := range []struct {
		what        string
		roots       []string
		mapped, too string
	}{
		{"a root", []string{s.Directory}, "/" + fusetest.Name, ""},
		{"a file that is a mount", nil, bound, ""},
		{"another path", nil, "/absent", s.File()},
	} {
		f := newFiles(c.roots)
		f.seen("0123", c.too)
		m := mapping{file: c.mapped, buildID: "0123"}
		s.Ends(t, c.what, func() {
			if f.find(&probe.Process{PID: os.Getpid(), Contained: true}, &m) != nil {
				t.Errorf("%s is found", c.what)
			}
		})
	}
}

func TestFilesAreFoundByBuildID(t *testing.T) {
	program, library, id := elfs(t)
	image, stranger := t.TempDir(), t.TempDir()
	copyOf(t, library, image, "/opt/lib.so")
	copyOf(t, program, stranger, "/opt/lib.so") // of that name, and another file
	ended := &probe.Process{PID: -1, Contained: true}
	for _, c := range []struct {
		name  string
		roots []string
		seen  string // where the build id was mapped too
		m     mapping
		found bool
	}{
		{"in an image", []string{stranger, image}, "", mapping{file: "/opt/lib.so", buildID: id}, true},
		{"in no image", []string{stranger}, "", mapping{file: "/opt/lib.so", buildID: id}, false},
		{"on the host", nil, "", mapping{file: library, buildID: id}, true},
		{"on the host, but another", nil, "", mapping{file: library, buildID: "0123"}, false},
		{"replaced since", nil, "", mapping{file: library + " (deleted)", buildID: id}, true},
		{"a copy in memory", nil, library, mapping{file: "/memfd:copy_cloned:/proc/self/exe (deleted)", buildID: id}, true},
		{"a copy in memory of a file in an image", []string{image}, "/opt/lib.so", mapping{file: "/memfd:x (deleted)", buildID: id}, true},
		{"a copy without a name", nil, library, mapping{file: "/", buildID: id}, true},
		{"a copy of nothing known", nil, "", mapping{file: "/", buildID: id}, false},
		{"no program at all", nil, "", mapping{file: "/dev/zero"}, false},
	} {
		f := newFiles(c.roots)
		if c.seen != "" {
			f.seen(id, c.seen)
		}
		if got := f.find(ended, &c.m); (got != nil) != c.found {
			t.Errorf("%s: found: %v", c.name, got != nil)
		}
		if (len(f.missing) == 0) != c.found {
			t.Errorf("%s: missing are %v", c.name, f.missing)
		}
	}
}

// TestWithoutBuildIDImagesComeFirst, for what is in containers: the host may have
// a file of the same path.
func TestWithoutBuildIDImagesComeFirst(t *testing.T) {
	program, library, _ := elfs(t)
	image := t.TempDir()
	copyOf(t, program, image, library) // the image has another file there
	contained, host := &probe.Process{PID: -1, Contained: true}, &probe.Process{PID: -1}
	f := newFiles([]string{image})
	m := codeOf(t, program, library)
	if found := f.find(contained, &m); found == nil || !found.Go {
		t.Errorf("a container's %s is not the image's", library)
	}
	m = codeOf(t, library, library)
	if found := f.find(host, &m); found == nil || found.Go {
		t.Errorf("the host's %s is not the host's", library)
	}
	if found := newFiles(nil).find(contained, &mapping{file: library, end: 1 << 40}); found != nil {
		t.Errorf("%s is taken for a file that it cannot be", library)
	}
}

func TestFewFilesAreRead(t *testing.T) {
	program, library, id := elfs(t)
	f := newFiles(nil)
	f.left = 1
	host := &probe.Process{PID: -1}
	m := codeOf(t, program, program)
	if found := f.find(host, &m); found == nil {
		t.Error("the first is not read")
	}
	if found := f.find(host, &mapping{file: library, buildID: id}); found != nil {
		t.Error("one more is read")
	}
}

// codeOf is the mapping of a file's code, as a process has it that calls it so.
func codeOf(t *testing.T, file, called string) mapping {
	t.Helper()
	e, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			return mapping{file: called, offset: p.Off, start: 0x400000, end: 0x400000 + p.Filesz}
		}
	}
	t.Fatalf("%s has no code", file)
	return mapping{}
}

func TestNamesOfWhatIsInNoFile(t *testing.T) {
	f := newFiles(nil)
	for file, want := range map[string]string{
		"[vdso]":                        "[vdso]",
		"//anon":                        "[anonymous]",
		"":                              "[anonymous]",
		"anon_inode:x":                  "[anonymous]",
		"/memfd:jit (deleted)":          "[jit+0x20]",
		"/":                             "[nameless+0x20]",
		"/nonexistent/a b.so (deleted)": "[a b.so+0x20]",
	} {
		if got := f.function(&probe.Process{PID: -1}, &mapping{file: file}, 0x20); got != want {
			t.Errorf("%q is shown as %s, want %s", file, got, want)
		}
	}
}
