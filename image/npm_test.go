package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeNPM puts an npm on PATH that does what the lines say, in a shell.
func fakeNPM(t *testing.T, lines ...string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte("#!/bin/sh\n"+strings.Join(lines, "\n")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// moduleArchive is a module as the registry has it.
func moduleArchive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := archive.Write([]byte(h.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// someModule is one that another alone needs, and its archive.
func someModule(t *testing.T) (Module, []byte) {
	packed := moduleArchive(t, tar.Header{Name: "package/index.js"}, tar.Header{Name: "package/lib/", Typeflag: tar.TypeDir},
		tar.Header{Name: "package/lib/a.js"}, tar.Header{Name: "package/README.md"}, tar.Header{Name: "package/lib/a.d.ts"})
	return Module{Path: "send/node_modules/@scope/thing", Version: "1.2.3", SHA256: bytesSum(packed)}, packed
}

func fetchModuleAs(t *testing.T, s *Store, m Module) error {
	t.Helper()
	w, err := s.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	return s.fetchModules(t.Context(), w, "test", []Module{m})
}

func TestFetchModules(t *testing.T) {
	s := openTestStore(t)
	m, packed := someModule(t)
	archive := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(archive, packed, 0o644); err != nil {
		t.Fatal(err)
	}
	fakeNPM(t, `test "$1 $2" = 'pack @scope/thing@1.2.3' || exit 1`, "cp "+archive+" scope-thing-1.2.3.tgz")
	if err := fetchModuleAs(t, s, m); err != nil {
		t.Fatal(err)
	}
	// What is there is not fetched again.
	fakeNPM(t, "exit 1")
	if err := fetchModuleAs(t, s, m); err != nil {
		t.Error(err)
	}
	b := build{store: s, root: t.TempDir()}
	if err := b.placeModules([]Module{m}); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(b.root, moduleDirectory, "send/node_modules/@scope/thing")
	if got, err := os.ReadFile(filepath.Join(at, "lib/a.js")); err != nil || string(got) != "package/lib/a.js" {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"README.md", "lib/a.d.ts"} {
		if exists(t, filepath.Join(at, name)) {
			t.Errorf("%s is there, which no program reads", name)
		}
	}
}

func TestFetchedModulesAreHeldToTheirSums(t *testing.T) {
	s := openTestStore(t)
	m, _ := someModule(t)
	fakeNPM(t, "echo another > scope-thing-1.2.3.tgz")
	var refused *Refused
	if err := fetchModuleAs(t, s, m); !errors.As(err, &refused) || !strings.Contains(err.Error(), bytesSum([]byte("another\n"))) {
		t.Errorf("%v, want a refusal that names the sum", err)
	}
	fakeNPM(t, "true")
	if err := fetchModuleAs(t, s, m); err == nil || !strings.Contains(err.Error(), "did not fetch send/node_modules/@scope/thing 1.2.3") {
		t.Errorf("%v", err)
	}
	kept := modulePath(s.path("debs"), m.SHA256)
	if err := os.WriteFile(kept, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := build{store: s, root: t.TempDir()}
	if err := b.placeModules([]Module{m}); !errors.As(err, &refused) {
		t.Errorf("a damaged archive: %v", err)
	}
	if exists(t, kept) {
		t.Error("it is kept, and the next build fails the same way")
	}
}

func TestNPMThatFails(t *testing.T) {
	s := openTestStore(t)
	m, _ := someModule(t)
	fakeNPM(t, "echo 'npm error code E404' >&2", "echo 'npm error 404 Not Found' >&2", "exit 1")
	var missing *Missing
	if err := fetchModuleAs(t, s, m); !errors.As(err, &missing) || !strings.Contains(err.Error(), "404 Not Found") || !strings.Contains(err.Error(), ".npmrc") {
		t.Errorf("%v, want what npm says, and what to do", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := fetchModuleAs(t, s, m); !errors.As(err, &missing) || !strings.Contains(err.Error(), "no npm") {
		t.Errorf("%v, want that npm is missing", err)
	}
}

func TestResolvedModules(t *testing.T) {
	modules, err := readModules([]byte(`{"lockfileVersion": 3, "packages": {"": {"name": "recipe"},
		"node_modules/send": {"version": "0.19.0"}, "node_modules/send/node_modules/ms": {"version": "2.1.3"},
		"node_modules/@scope/thing": {"version": "1.0.0-rc.1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range modules {
		got = append(got, m.String()+" "+m.name()+" "+m.file())
	}
	want := []string{
		"@scope/thing 1.0.0-rc.1 @scope/thing scope-thing-1.0.0-rc.1.tgz", "send 0.19.0 send send-0.19.0.tgz",
		"send/node_modules/ms 2.1.3 ms ms-2.1.3.tgz",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, wrong := range []string{
		`{`, `{"packages": {"elsewhere": {"version": "1.0.0"}}}`, `{"packages": {"node_modules/a": {"version": "1.0.0", "link": true}}}`,
		`{"packages": {"node_modules/a": {"version": "1.0.0", "name": "b"}}}`, `{"packages": {"node_modules/a": {"version": "file:../b"}}}`,
		`{"packages": {"node_modules/../b": {"version": "1.0.0"}}}`,
	} {
		if modules, err := readModules([]byte(wrong)); err == nil {
			t.Errorf("%s passes as %v", wrong, modules)
		}
	}
}

func TestModulesThatReachOut(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "package/../../etc/passwd"}, {Name: "package//etc/passwd"}, {Name: "index.js"},
		{Name: "package/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: "package/link", Typeflag: tar.TypeLink, Linkname: "package/a"},
	} {
		if files, err := unpackModule(bytes.NewReader(moduleArchive(t, h))); err == nil {
			t.Errorf("%s passes: %q", h.Name, sortedKeys(files))
		}
	}
}

func FuzzUnpackModule(f *testing.F) {
	f.Add([]byte("package/a.js"), byte(tar.TypeReg), []byte("text"))
	f.Add([]byte("package/../a"), byte(tar.TypeReg), []byte{})
	f.Add([]byte("package/a"), byte(tar.TypeSymlink), []byte{})
	f.Fuzz(func(t *testing.T, name []byte, kind byte, rest []byte) {
		var packed bytes.Buffer
		compressed := gzip.NewWriter(&packed)
		archive := tar.NewWriter(compressed)
		_ = archive.WriteHeader(&tar.Header{Name: string(name), Typeflag: kind, Size: int64(len(rest))})
		_, _ = archive.Write(rest)
		_ = archive.Flush()
		_, _ = compressed.Write(rest) // and no archive's end
		compressed.Close()
		for _, data := range [][]byte{packed.Bytes(), rest} {
			files, err := unpackModule(bytes.NewReader(data))
			if err != nil {
				continue
			}
			for name := range files {
				if !filepath.IsLocal(name) {
					t.Errorf("%q is placed", name)
				}
			}
		}
	})
}

func FuzzReadModules(f *testing.F) {
	f.Add([]byte(`{"packages": {"node_modules/send/node_modules/ms": {"version": "2.1.3"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		modules, err := readModules(data)
		if err != nil {
			return
		}
		l := Lock{Modules: modules}
		for i := range l.Modules {
			l.Modules[i].SHA256 = someSum
		}
		// What npm resolves, a lock can hold.
		again, err := ParseLock(bytes.NewReader(l.Format("test", "amd64")))
		if err != nil || !slices.Equal(again.Modules, l.Modules) {
			t.Errorf("%v became %v: %v", l.Modules, again.Modules, err)
		}
	})
}
