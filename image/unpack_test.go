package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/continuity/sysx"
)

// unpackLayers unpacks layers, one upon another, and gives the root.
func unpackLayers(t testing.TB, kind trust, layers ...[]byte) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: layers have numeric owners")
	}
	root := t.TempDir()
	u, err := newUnpacker("test", root, &budget{Limits: DefaultLimits}, kind)
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	for _, l := range layers {
		if err := u.layer(t.Context(), bytes.NewReader(l)); err != nil {
			return root, err
		}
	}
	return root, nil
}

// tree lists what is below a directory: directories with '/', links with
// their target, files with their content.
func tree(t testing.TB, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		name, _ := filepath.Rel(root, p)
		switch {
		case d.IsDir():
			name += "/"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			name += " -> " + target
		case d.Type().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			name += "=" + string(data)
		}
		out = append(out, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is expected where a later layer names something below a link, and below what is no
// directory, is what Docker's overlay2 makes of the same layers.
func TestLayersUponLayers(t *testing.T) {
	type layer = []*tar.Header
	for _, c := range []struct {
		name   string
		layers []layer
		want   []string
	}{
		{"later replaces", []layer{{file("a", "1")}, {file("a", "2")}}, []string{"a=2"}},
		{"the same layer twice", []layer{{dir("d"), file("d/a", "1")}, {dir("d"), file("d/a", "1")}}, []string{"d/", "d/a=1"}},
		{"removal", []layer{{dir("d"), file("d/a", "1"), file("d/b", "1")}, {file("d/.wh.a", "")}}, []string{"d/", "d/b=1"}},
		{"removal of a directory", []layer{{dir("d"), file("d/a", "1")}, {file(".wh.d", "")}}, nil},
		{"removal of what is not there", []layer{{file("a", "1")}, {file("no/.wh.x", ""), file(".wh.y", "")}}, []string{"a=1", "no/"}},
		{"a removal hides lower layers only, before", []layer{{file("a", "1")}, {file(".wh.a", ""), file("a", "2")}}, []string{"a=2"}},
		{"a removal hides lower layers only, after", []layer{{file("a", "1")}, {file("a", "2"), file(".wh.a", "")}}, []string{"a=2"}},
		{"removal of a directory that its layer fills anew", []layer{{dir("d"), file("d/old", "1")}, {file("d/new", "2"), file(".wh.d", "")}}, []string{"d/", "d/new=2"}},
		{"opaque", []layer{{dir("d"), file("d/a", "1"), dir("d/s"), file("d/s/b", "1")}, {dir("d"), file("d/.wh..wh..opq", ""), file("d/c", "2")}}, []string{"d/", "d/c=2"}},
		{"opaque, after its layer's own", []layer{{dir("d"), file("d/a", "1"), dir("d/s"), file("d/s/b", "1")}, {dir("d"), dir("d/s"), file("d/s/c", "2"), file("d/.wh..wh..opq", "")}}, []string{"d/", "d/s/", "d/s/c=2"}},
		{"opaque in the first layer", []layer{{dir("d"), file("d/.wh..wh..opq", ""), file("d/a", "1")}}, []string{"d/", "d/a=1"}},
		{"opaque twice", []layer{{dir("d"), file("d/a", "1")}, {file("d/.wh..wh..opq", ""), file("d/b", "2"), file("d/.wh..wh..opq", ""), file(".wh.d", "")}}, []string{"d/", "d/b=2"}},
		{"opaque root", []layer{{file("a", "1")}, {file(".wh..wh..opq", ""), file("b", "2")}}, []string{"b=2"}},
		{"a third layer brings back", []layer{{file("a", "1")}, {file(".wh.a", "")}, {file("a", "3")}}, []string{"a=3"}},
		{"aufs bookkeeping", []layer{{file(".wh..wh.plnk", ""), file("a", "1")}}, []string{"a=1"}},
		{"directory over file", []layer{{file("a", "1")}, {dir("a"), file("a/b", "2")}}, []string{"a/", "a/b=2"}},
		{"file over directory", []layer{{dir("a"), file("a/b", "1")}, {file("a", "2")}}, []string{"a=2"}},
		{"directory over link", []layer{{dir("r"), file("r/x", "1"), symlink("l", "r")}, {dir("l"), file("l/y", "2")}}, []string{"l/", "l/y=2", "r/", "r/x=1"}},
		{"link over directory", []layer{{dir("a"), file("a/b", "1")}, {symlink("a", "elsewhere")}}, []string{"a -> elsewhere"}},
		{"file over link leaves the target", []layer{{file("t", "1"), symlink("l", "t")}, {file("l", "2")}}, []string{"l=2", "t=1"}},
		{"through its own link", []layer{{dir("usr/lib"), symlink("lib", "usr/lib"), file("lib/x", "2")}}, []string{"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/x=2"}},
		{"through its own absolute link, as a program inside sees it", []layer{{dir("run"), symlink("var/run", "/run"), file("var/run/x", "2")}}, []string{"run/", "run/x=2", "var/", "var/run -> /run"}},
		{"a directory in place of a lower link", []layer{{dir("usr/lib"), symlink("lib", "usr/lib")}, {file("lib/x", "2")}}, []string{"lib/", "lib/x=2", "usr/", "usr/lib/"}},
		{"a directory in place of a lower link out", []layer{{symlink("l", "/etc")}, {file("l/x", "2")}}, []string{"l/", "l/x=2"}},
		{"a directory in place of a lower file", []layer{{file("f", "1")}, {file("f/x", "2")}}, []string{"f/", "f/x=2"}},
		{"through its own link to a lower one", []layer{{dir("run"), symlink("r", "run")}, {symlink("own", "r"), file("own/x", "2")}}, []string{"own -> r", "r/", "r/x=2", "run/"}},
		{"through a link upwards within", []layer{{dir("a/b"), dir("c"), symlink("a/b/l", "../../c"), file("a/b/l/x", "1")}}, []string{"a/", "a/b/", "a/b/l -> ../../c", "c/", "c/x=1"}},
		{"removal below a lower link", []layer{{dir("run"), file("run/x", "1"), symlink("r", "run")}, {file("r/.wh.x", "")}}, []string{"r/", "run/", "run/x=1"}},
		{"opaque below a lower link", []layer{{dir("run"), file("run/x", "1"), symlink("r", "/run")}, {file("r/.wh..wh..opq", ""), dir("r"), file("r/y", "2")}}, []string{"r/", "r/y=2", "run/", "run/x=1"}},
		{"opaque below a lower link, further down", []layer{{dir("run/d"), file("run/d/x", "1"), symlink("r", "run")}, {file("r/d/.wh..wh..opq", "")}}, []string{"r/", "r/d/", "run/", "run/d/", "run/d/x=1"}},
		{"removal of a lower link", []layer{{dir("run"), file("run/x", "1"), symlink("r", "run")}, {file(".wh.r", "")}}, []string{"run/", "run/x=1"}},
		{"removal through its own link", []layer{{dir("run"), file("run/x", "1")}, {symlink("r", "run"), file("r/.wh.x", "")}}, []string{"r -> run", "run/"}},
		{"absolute link as such", []layer{{symlink("l", "/etc/passwd")}}, []string{"l -> /etc/passwd"}},
		{"names with a dot", []layer{{dir("./"), dir("./d/"), file("./d/a", "1")}}, []string{"d/", "d/a=1"}},
		{"absolute names", []layer{{dir("/"), file("/opt/a", "1"), hardlink("/opt/b", "/opt/a")}, {file("/opt/.wh.a", "")}}, []string{"opt/", "opt/b=1"}},
		{"directories that no entry makes", []layer{{file("a/b/c", "1")}}, []string{"a/", "a/b/", "a/b/c=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range c.layers {
				layers = append(layers, makeTar(t, l...))
			}
			root, err := unpackLayers(t, foreign, layers...)
			if err != nil {
				t.Fatal(err)
			}
			if got := tree(t, root); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestModesOwnersAndKinds(t *testing.T) {
	withCapability := file("ping", "program")
	withCapability.PAXRecords = map[string]string{
		// cap_net_raw=ep, revision 2
		xattrRecord + "security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		xattrRecord + "security.selinux":    "the host's own",
	}
	root, err := unpackLayers(t, foreign, makeTar(t,
		&tar.Header{Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755, Uid: 0, Gid: 12},
		&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, Uid: 1000, Gid: 1001},
		&tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o640, Uid: 5},
		&tar.Header{Typeflag: tar.TypeReg, Name: "secret", Mode: 0o000, Uid: 70000},
		hardlink("su2", "su"),
		&tar.Header{Typeflag: tar.TypeChar, Name: "/dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		withCapability,
	))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		mode     fs.FileMode
		uid, gid uint32
		links    uint64
	}{
		{"su", fs.ModeSetuid | 0o755, 0, 12, 2},
		{"su2", fs.ModeSetuid | 0o755, 0, 12, 2},
		{"tmp", fs.ModeDir | fs.ModeSticky | 0o777, 1000, 1001, 0},
		{"pipe", fs.ModeNamedPipe | 0o640, 5, 0, 1},
		{"secret", 0, 70000, 0, 1},
		{"dev/null", fs.ModeDevice | fs.ModeCharDevice | 0o666, 0, 0, 1},
	} {
		info, err := os.Lstat(filepath.Join(root, c.name))
		if err != nil {
			t.Error(err)
			continue
		}
		stat := info.Sys().(*syscall.Stat_t)
		if info.Mode() != c.mode || stat.Uid != c.uid || stat.Gid != c.gid || c.links != 0 && uint64(stat.Nlink) != c.links {
			t.Errorf("%s: %v, %d:%d, %d links, want %v, %d:%d, %d", c.name, info.Mode(), stat.Uid, stat.Gid, stat.Nlink, c.mode, c.uid, c.gid, c.links)
		}
	}
	ping := filepath.Join(root, "ping")
	if got, err := sysx.LGetxattr(ping, "security.capability"); err != nil || string(got) != withCapability.PAXRecords[xattrRecord+"security.capability"] {
		t.Errorf("the capability came out as %q, %v", got, err)
	}
	if got, err := sysx.LGetxattr(ping, "security.selinux"); err == nil && string(got) == "the host's own" {
		t.Error("a label of the archive's host was taken over")
	}
}

// Packages share directories that the root has as links.
func TestPackagesKeepDirectoryLinks(t *testing.T) {
	root, err := unpackLayers(t, distribution,
		makeTar(t, dir("usr/lib"), symlink("lib", "usr/lib")),
		makeTar(t, dir("./lib/"), file("./lib/libx.so", "x"), file("./.wh.name", "an ordinary file")))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".wh.name=an ordinary file", "lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/libx.so=x"}
	if got := tree(t, root); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A link makes a short name lead deep, and the host opens whole paths.
func TestPathsThatLinksMakeLong(t *testing.T) {
	for _, c := range []struct {
		part        string
		below, more int
		reason      string
	}{
		{"d/", 200, 100, "lands deeper"},
		{strings.Repeat("n", 250) + "/", 10, 10, "too long"},
	} {
		deep := strings.Repeat(c.part, c.below)
		entries := []*tar.Header{dir(deep), symlink("l", deep)}
		for i := range c.more {
			entries = append(entries, dir("l/"+strings.Repeat(c.part, i+1)))
		}
		_, err := unpackLayers(t, foreign, makeTar(t, entries...))
		var refused *Refused
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.reason) {
			t.Errorf("%d of %d bytes: %v, want a refusal with %q", c.below+c.more, len(c.part), err, c.reason)
		}
	}
}

// An attribute that a file system has no room for is no full disk.
func TestAttributesThatDoNotFit(t *testing.T) {
	for _, length := range []int{1000, 30_000, 65_536} {
		h := file("f", "")
		h.PAXRecords = map[string]string{xattrRecord + "user.a": strings.Repeat("v", length)}
		_, err := unpackLayers(t, foreign, makeTar(t, h))
		var refused *Refused
		if err != nil && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, `"user.a"`)) {
			t.Errorf("%d bytes: %v, want them stored, or a refusal", length, err)
		}
	}
}

func TestTruncatedLayerNamesItsEntry(t *testing.T) {
	whole := makeTar(t, file("first", "1"), file("second", strings.Repeat("x", 4000)))
	_, err := unpackLayers(t, foreign, whole[:3*512])
	var refused *Refused
	if !errors.As(err, &refused) || refused.Entry != "second" && refused.Entry != "first" {
		t.Fatalf("%v, want a refusal that names where it ends", err)
	}
	_, err = unpackLayers(t, foreign, whole[:3*512+700])
	if !errors.As(err, &refused) || refused.Entry != "second" {
		t.Fatalf("%v, want a refusal that names second", err)
	}
}

// The canonical form is the same however and in whatever order a tree was made.
func TestCanonicalFormDependsOnContentAlone(t *testing.T) {
	digest := func(layers ...[]byte) string {
		t.Helper()
		root, err := unpackLayers(t, foreign, layers...)
		if err != nil {
			t.Fatal(err)
		}
		l, err := writeCanonical(t.Context(), io.Discard, root)
		if err != nil {
			t.Fatal(err)
		}
		return l.digest
	}
	late := file("b", "2")
	late.ModTime = canonicalTime.AddDate(1, 2, 3)
	late.Uname, late.Gname = "someone", "some"
	one := digest(makeTar(t, dir("d"), file("d/a", "1"), file("b", "2")))
	if other := digest(makeTar(t, late, file("extra", "")), makeTar(t, dir("d"), file("d/a", "1"), file(".wh.extra", ""))); other != one {
		t.Errorf("equal trees: %s and %s", one, other)
	}
	for what, h := range map[string]*tar.Header{
		"content": file("b", "3"),
		"mode":    {Typeflag: tar.TypeReg, Name: "b", Mode: 0o600, Size: 1, Linkname: "2"},
		"owner":   {Typeflag: tar.TypeReg, Name: "b", Mode: 0o644, Uid: 1, Size: 1, Linkname: "2"},
		"name":    file("c", "2"),
		"kind":    symlink("b", "2"),
	} {
		if other := digest(makeTar(t, dir("d"), file("d/a", "1"), h)); other == one {
			t.Errorf("another %s, the same digest", what)
		}
	}
}

func TestCanonicalFormIsReadBack(t *testing.T) {
	first, err := unpackLayers(t, foreign, makeTar(t, dir("d"), file("d/a", "1"), hardlink("d/b", "d/a"), hardlink("z", "d/a"),
		symlink("l", "d/a"), typed(tar.TypeFifo, "pipe"), file(strings.Repeat("n", 200)+"/"+strings.Repeat("m", 200), "long")))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	one, err := writeCanonical(t.Context(), &b, first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := unpackLayers(t, foreign, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	two, err := writeCanonical(t.Context(), io.Discard, second)
	if err != nil || two != one {
		t.Errorf("%+v read back is %+v, %v", one, two, err)
	}
	if one.size != int64(len("1")+len("long")) {
		t.Errorf("size %d counts linked files more than once", one.size)
	}
}

// Nothing that any bytes say may reach outside, panic, or be left unanswered.
func FuzzLayer(f *testing.F) {
	if os.Geteuid() != 0 {
		f.Skip("needs root: layers have numeric owners")
	}
	for _, headers := range [][]*tar.Header{
		{dir("d"), file("d/a", "1"), hardlink("h", "d/a"), symlink("l", "d"), file("l/b", "2")},
		{symlink("l", "/tmp"), file("l/x", "1")},
		{symlink("d", "/tmp"), dir("t"), file("t/x", "1"), symlink("l", "t")},
		{file("../x", "1")},
		{dir("d"), file("d/.wh..wh..opq", ""), file(".wh.d", "")},
		{typed(tar.TypeFifo, "p"), typed(tar.TypeChar, "c")},
		{symlink("a", "b"), symlink("b", "../c"), file("a/x", "1")},
	} {
		f.Add(makeTar(f, headers...), makeTar(f, file("d/l/x", "later")))
		f.Add(makeTar(f, headers...), makeTar(f, file("d/.wh..wh..opq", ""), file("l/.wh.x", "")))
	}
	for _, format := range sparseFormats {
		f.Add(sparseTar(f, 1<<19, format...), []byte{})
	}
	limits := DefaultLimits
	limits.Bytes, limits.Entries = 1<<20, 200
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		around := t.TempDir()
		root := filepath.Join(around, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		u, err := newUnpacker("fuzz", root, &budget{Limits: limits}, foreign)
		if err != nil {
			t.Fatal(err)
		}
		defer u.close()
		for _, l := range [][]byte{lower, upper} {
			if err := u.layer(t.Context(), bytes.NewReader(l)); err != nil {
				var refused *Refused
				if !errors.As(err, &refused) {
					t.Fatalf("not a refusal: %v", err)
				}
				break
			}
		}
		names, err := os.ReadDir(around)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) != 1 {
			t.Fatalf("outside the root: %v", names)
		}
		err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeDevice != 0 && filepath.Dir(p) != filepath.Join(root, "dev") {
				err = fmt.Errorf("device node %s", p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzArchive(f *testing.F) {
	if os.Geteuid() != 0 {
		f.Skip("needs root: images have numeric owners")
	}
	layer := makeTar(f, dir("d"), file("d/a", "1"))
	f.Add(dockerArchive(f, layer))
	f.Add(layoutTar(f, ociLayout(f, func(b []byte) []byte { return gzipped(f, b) }, layer)))
	f.Add(gzipped(f, dockerArchive(f, layer, layer)))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := OpenStore(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Limits.Bytes, s.Limits.Entries, s.Limits.Document = 1<<20, 200, 1<<16
		img, err := s.FromReader(t.Context(), "fuzz", bytes.NewReader(data))
		var refused *Refused
		switch {
		case err == nil:
			if err := s.Remove(t.Context(), img.Digest); err != nil {
				t.Fatal(err)
			}
		case !errors.As(err, &refused):
			t.Fatalf("not a refusal: %v", err)
		}
		for _, left := range []string{"roots", "archives", "index", "tmp"} {
			if names, _ := os.ReadDir(s.path(left)); len(names) != 0 {
				t.Fatalf("left behind in %s: %v", left, names)
			}
		}
	})
}
