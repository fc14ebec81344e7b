package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// openTestStore opens an empty store, or skips where images cannot be made.
func openTestStore(t testing.TB) *Store {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: images have numeric owners")
	}
	s, err := OpenStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Shorthand for entries of test layers.

func file(name, content string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), Linkname: content}
}

func dir(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}

func symlink(name, target string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}
}

func hardlink(name, target string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}
}

func typed(kind byte, name string) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: 0o644}
}

// makeTar makes a tar; a file's content stands in its Linkname.
func makeTar(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		own := *h
		content := ""
		if own.Typeflag == tar.TypeReg {
			content, own.Linkname = own.Linkname, ""
		}
		if err := w.WriteHeader(&own); err != nil {
			t.Fatalf("%s: %v", own.Name, err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func configFor(t testing.TB, layers ...[]byte) []byte {
	ids := []string{}
	for _, l := range layers {
		ids = append(ids, "sha256:"+hexSum(l))
	}
	return asJSON(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Env": []string{"A=b"}, "Cmd": []string{"/bin/x"}, "User": "7",
			"ExposedPorts": map[string]any{"80/tcp": struct{}{}, "53/udp": struct{}{}},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
}

// dockerArchive makes what "docker save" writes.
func dockerArchive(t testing.TB, layers ...[]byte) []byte {
	t.Helper()
	config := configFor(t, layers...)
	var names []string
	entries := []*tar.Header{file(hexSum(config)+".json", string(config))}
	for i, l := range layers {
		name := fmt.Sprintf("%d/layer.tar", i)
		names = append(names, name)
		entries = append(entries, file(name, string(l)))
	}
	manifest := asJSON(t, []any{map[string]any{"Config": hexSum(config) + ".json", "RepoTags": []string{"app:1"}, "Layers": names}})
	return makeTar(t, append(entries, file("manifest.json", string(manifest)))...)
}

// ociLayout makes the files of an OCI layout; pack compresses its layers.
func ociLayout(t testing.TB, pack func([]byte) []byte, layers ...[]byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	put := func(kind string, data []byte) map[string]any {
		files["blobs/sha256/"+hexSum(data)] = data
		return map[string]any{"mediaType": kind, "digest": "sha256:" + hexSum(data), "size": len(data)}
	}
	var parts []any
	for _, l := range layers {
		parts = append(parts, put("application/vnd.oci.image.layer.v1.tar+gzip", pack(l)))
	}
	manifest := put("application/vnd.oci.image.manifest.v1+json", asJSON(t, map[string]any{
		"schemaVersion": 2,
		"config":        put("application/vnd.oci.image.config.v1+json", configFor(t, layers...)),
		"layers":        parts,
	}))
	manifest["annotations"] = map[string]string{"org.opencontainers.image.ref.name": "app:2"}
	files["index.json"] = asJSON(t, map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})
	return files
}

// artifact is an OCI layout of what is no image.
func artifact(t testing.TB) map[string][]byte {
	files := map[string][]byte{}
	put := func(kind string, data []byte) map[string]any {
		files["blobs/sha256/"+hexSum(data)] = data
		return map[string]any{"mediaType": kind, "digest": "sha256:" + hexSum(data), "size": len(data)}
	}
	manifest := put("application/vnd.oci.image.manifest.v1+json", asJSON(t, map[string]any{
		"config": put("application/vnd.cncf.helm.config.v1+json", []byte(`{"name":"chart"}`)),
		"layers": []any{put("application/vnd.cncf.helm.chart.content.v1.tar+gzip", []byte("chart"))},
	}))
	files["index.json"] = asJSON(t, map[string]any{"manifests": []any{manifest}})
	return files
}

func writeLayout(t testing.TB, files map[string][]byte) string {
	t.Helper()
	at := t.TempDir()
	for name, data := range files {
		name = filepath.Join(at, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

func layoutTar(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var entries []*tar.Header
	for name, data := range files {
		entries = append(entries, file(name, string(data)))
	}
	slices.SortFunc(entries, func(a, b *tar.Header) int { return strings.Compare(a.Name, b.Name) })
	return makeTar(t, entries...)
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// oddlyCompressed are ways of packing that no ordinary compressor has, and engines read.
func oddlyCompressed(t testing.TB) map[string]func([]byte) []byte {
	skippable := []byte("\x5a\x2a\x4d\x18\x05\x00\x00\x00any!!")
	parts := func(pack func(testing.TB, []byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte {
			return slices.Concat(pack(t, nil), pack(t, b[:700]), pack(t, b[700:]))
		}
	}
	return map[string]func([]byte) []byte{
		"several gzip members":             parts(gzipped),
		"several zstd frames":              parts(zstandard),
		"zstd after a skippable frame":     func(b []byte) []byte { return slices.Concat(skippable, zstandard(t, b)) },
		"zstd with skippable frames about": func(b []byte) []byte { return slices.Concat(skippable, skippable, zstandard(t, b), skippable) },
	}
}

func inFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustBeEmpty checks that a refused image left nothing in the store.
func mustBeEmpty(t *testing.T, s *Store) {
	t.Helper()
	for _, d := range []string{"roots", "archives", "index", "tmp"} {
		names, err := os.ReadDir(s.path(d))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			t.Errorf("left behind: %s/%s", d, n.Name())
		}
	}
}

// The same file system has the same digest whichever way it comes.
func TestFormatsAgree(t *testing.T) {
	s := openTestStore(t)
	layers := [][]byte{
		makeTar(t, dir("bin/"), file("bin/x", "program"), file("gone", "old"), symlink("sbin", "/bin")),
		makeTar(t, file("etc/app.conf", "k=v\n"), file(".wh.gone", "")),
	}
	gz := func(b []byte) []byte { return gzipped(t, b) }
	zst := func(b []byte) []byte { return zstandard(t, b) }
	same := func(b []byte) []byte { return b }

	var digests []string
	add := func(what, name string, img Image, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if img.Name != name {
			t.Errorf("%s: named %q, want %q", what, img.Name, name)
		}
		if c := img.Config; c.User != "7" || !slices.Equal(c.Ports, []int{80}) || !slices.Equal(c.Cmd, []string{"/bin/x"}) || !slices.Equal(c.Env, []string{"A=b"}) {
			t.Errorf("%s: config %+v", what, c)
		}
		digests = append(digests, img.Digest)
	}
	archive := dockerArchive(t, layers...)
	img, err := s.FromArchive(t.Context(), inFile(t, "app.tar", archive))
	add("docker archive", "app:1", img, err)
	img, err = s.FromArchive(t.Context(), inFile(t, "app.tar.gz", gzipped(t, archive)))
	add("docker archive, compressed", "app:1", img, err)
	img, err = s.FromReader(t.Context(), "stream", bytes.NewReader(archive))
	add("docker archive, streamed", "app:1", img, err)
	img, err = s.FromArchive(t.Context(), writeLayout(t, ociLayout(t, gz, layers...)))
	add("layout directory", "app:2", img, err)
	img, err = s.FromArchive(t.Context(), inFile(t, "oci.tar", layoutTar(t, ociLayout(t, zst, layers...))))
	add("layout tar", "app:2", img, err)
	for name, pack := range oddlyCompressed(t) {
		img, err = s.FromArchive(t.Context(), inFile(t, "oci.tar", layoutTar(t, ociLayout(t, pack, layers...))))
		add("layers of "+name, "app:2", img, err)
		img, err = s.FromReader(t.Context(), "stream", bytes.NewReader(pack(archive)))
		add("archive of "+name, "app:1", img, err)
		img, err = s.FromArchive(t.Context(), inFile(t, "app.tar", pack(archive)))
		add("file of "+name, "app:1", img, err)
	}
	img, err = s.FromArchive(t.Context(), inFile(t, "oci.tar.zst", zstandard(t, layoutTar(t, ociLayout(t, same, layers...)))))
	add("layout tar, compressed", "app:2", img, err)

	if len(slices.Compact(digests)) != 1 {
		t.Errorf("digests differ: %s", digests)
	}
	if _, err := os.Lstat(filepath.Join(img.Root, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that the second layer removes is there: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(img.Root, "etc/app.conf")); string(got) != "k=v\n" {
		t.Errorf("etc/app.conf: %q, %v", got, err)
	}

	// Our own archive and root are images, too, and the same one.
	elsewhere, err := openTestStore(t).FromArchive(t.Context(), img.Archive)
	if err != nil || elsewhere.Digest != img.Digest {
		t.Errorf("own archive: %s, %v, want %s", elsewhere.Digest, err, img.Digest)
	}
	again, err := s.FromRootfs(t.Context(), img.Root)
	if err != nil || again.Digest != img.Digest {
		t.Errorf("own root: %s, %v, want %s", again.Digest, err, img.Digest)
	}
}

func TestHostileLayersAreRefused(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("d/", 300) + "f"
	withAttribute := func(name, value string) *tar.Header {
		h := file("f", "")
		h.PAXRecords = map[string]string{xattrRecord + name: value}
		return h
	}
	for _, c := range []struct {
		name   string
		layers [][]*tar.Header
		entry  string // named by the refusal
		reason string
	}{
		{"name upwards", [][]*tar.Header{{file("../evil", "x")}}, "../evil", "upwards"},
		{"name upwards within", [][]*tar.Header{{dir("a"), file("a/../../evil", "x")}}, "a/../../evil", "upwards"},
		{"absolute name upwards", [][]*tar.Header{{file("/../evil", "x")}}, "/../evil", "upwards"},
		{"through an absolute link", [][]*tar.Header{{symlink("l", outside), file("l/evil", "x")}}, "l/evil", "link"},
		{"through an absolute link, later layer", [][]*tar.Header{{symlink("k", outside)}, {symlink("l", outside), file("l/evil", "x")}}, "l/evil", "link"},
		{"directory through a link", [][]*tar.Header{{symlink("l", outside), dir("l/sub/")}}, "l/sub/", "link"},
		{"link through a link", [][]*tar.Header{{symlink("l", outside), symlink("l/evil", "x")}}, "l/evil", "link"},
		{"through a link to what no name can be", [][]*tar.Header{{symlink("l", strings.Repeat("n", 300)), file("l/evil", "x")}}, "l/evil", "link"},
		{"through a chain of links", [][]*tar.Header{{symlink("a", "b"), symlink("b", outside), file("a/evil", "x")}}, "a/evil", "link"},
		{"through a link to itself", [][]*tar.Header{{symlink("a", "a"), file("a/evil", "x")}}, "a/evil", "links"},
		{"relative link out", [][]*tar.Header{{symlink("a/l", "../../../evil")}}, "a/l", "out of the root"},
		{"link out through a link", [][]*tar.Header{{dir("d"), symlink("d/s", "."), symlink("d/l", "s/../../etc/x")}}, "d/l", "out of the root"},
		{"link out through a link upwards", [][]*tar.Header{{dir("d"), symlink("d/s", ".."), symlink("d/l", "s/../x")}}, "d/l", "out of the root"},
		{"link out through a link of a later layer", [][]*tar.Header{{dir("d/s"), symlink("d/l", "s/../../etc/x")}, {symlink("d/s", ".")}}, "d/l", "out of the root"},
		{"link moved upwards by a hard link", [][]*tar.Header{{dir("a/b"), file("x", ""), symlink("a/b/l", "../../x"), hardlink("m", "a/b/l")}}, "m", "out of the root"},
		{"link for proc", [][]*tar.Header{{symlink("proc", "/etc")}}, "proc", "/etc"},
		{"link for sys", [][]*tar.Header{{dir("etc"), symlink("sys", "etc")}}, "sys", "link"},
		{"link out of the root for sys", [][]*tar.Header{{symlink("sys", "../../etc")}}, "sys", "out of the root"},
		{"link for dev", [][]*tar.Header{{dir("etc"), symlink("dev", "/etc")}}, "dev", "/etc"},
		{"link for dev/shm", [][]*tar.Header{{dir("dev"), symlink("dev/shm", "/run")}}, "dev/shm", "/run"},
		{"link for dev/pts, later layer", [][]*tar.Header{{dir("dev/pts")}, {symlink("dev/pts", "/run")}}, "dev/pts", "/run"},
		{"file for proc", [][]*tar.Header{{file("proc", "x")}}, "proc", "no directory"},
		{"below a file", [][]*tar.Header{{file("f", "x"), file("f/evil", "x")}}, "f/evil", "not a directory"},
		{"hard link upwards", [][]*tar.Header{{hardlink("h", "../../etc/passwd")}}, "h", "upwards"},
		{"absolute hard link", [][]*tar.Header{{hardlink("h", "/etc/passwd")}}, "h", "not there"},
		{"hard link through a link", [][]*tar.Header{{symlink("l", outside), hardlink("h", "l/x")}}, "h", "link"},
		{"hard link to nothing", [][]*tar.Header{{hardlink("h", "nothing")}}, "h", "not there"},
		{"hard link to a directory", [][]*tar.Header{{dir("d"), hardlink("h", "d")}}, "h", "directory"},
		{"hard link to itself", [][]*tar.Header{{file("h", "x"), hardlink("h", "h")}}, "h", "itself"},
		{"character device", [][]*tar.Header{{typed(tar.TypeChar, "dev/mem")}}, "dev/mem", "device"},
		{"block device", [][]*tar.Header{{typed(tar.TypeBlock, "sda")}}, "sda", "device"},
		{"overlay's whiteout", [][]*tar.Header{{&tar.Header{Typeflag: tar.TypeChar, Name: "w", Devmajor: 0, Devminor: 0}}}, "w", "device"},
		{"unknown type", [][]*tar.Header{{typed('Z', "z")}}, "z", "type"},
		{"deep name", [][]*tar.Header{{file(deep, "x")}}, deep, "deeper"},
		{"long part", [][]*tar.Header{{file(strings.Repeat("n", 300), "x")}}, strings.Repeat("n", 300), "longer"},
		{"root as a file", [][]*tar.Header{{symlink(".", "x")}}, ".", "root"},
		{"removal mark upwards", [][]*tar.Header{{file(".wh...", "")}}, ".wh...", "names nothing"},
		{"removal mark of nothing", [][]*tar.Header{{file(".wh.", "")}}, ".wh.", "names nothing"},
		{"removal through a link", [][]*tar.Header{{symlink("l", outside), file("l/.wh.keep", "")}}, "l/.wh.keep", "link"},
		{"attribute too long", [][]*tar.Header{{withAttribute("user.a", strings.Repeat("v", 100_000))}}, "f", "of 100000 bytes"},
		{"attribute of too long a name", [][]*tar.Header{{withAttribute("user."+strings.Repeat("n", 300), "v")}}, "f", "cannot be stored"},
		{"capability that is none", [][]*tar.Header{{withAttribute("security.capability", "v")}}, "f", "invalid argument"},
		{"no such user", [][]*tar.Header{{&tar.Header{Typeflag: tar.TypeDir, Name: "d", Uid: 1 << 33}}}, "d", "no user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openTestStore(t)
			if err := os.WriteFile(filepath.Join(outside, "keep"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			var layers [][]byte
			for _, l := range c.layers {
				layers = append(layers, makeTar(t, l...))
			}
			path := inFile(t, "evil.tar", dockerArchive(t, layers...))
			_, err := s.FromArchive(t.Context(), path)
			var refused *Refused
			if !errors.As(err, &refused) {
				t.Fatalf("%v, want a refusal", err)
			}
			if strings.TrimSuffix(refused.Entry, "/") != strings.TrimSuffix(c.entry, "/") || refused.Archive != path {
				t.Errorf("names %q of %q, want %q of %q", refused.Entry, refused.Archive, c.entry, path)
			}
			if !strings.Contains(refused.Reason, c.reason) {
				t.Errorf("reason %q, want one with %q", refused.Reason, c.reason)
			}
			mustBeEmpty(t, s)
			if names, _ := filepath.Glob(outside + "/*"); len(names) != 1 {
				t.Errorf("outside the root: %q", names)
			}
		})
	}
}

// Links that go up and down again within the root are ordinary.
func TestLinksWithinAreKept(t *testing.T) {
	s := openTestStore(t)
	path := inFile(t, "links.tar", dockerArchive(t, makeTar(t, dir("usr/lib/y"), file("usr/lib/z", "z"),
		symlink("lib", "usr/lib"), symlink("usr/lib/x", "y/../z"), symlink("usr/lib/up", "../../lib/y/../z"), symlink("usr/lib/top", "../.."),
		symlink("usr/r", "/"), symlink("usr/lib/beyond", "../r/../lib/z"), symlink("self", "self"), symlink("nowhere", "no/../such"))))
	if _, err := s.FromArchive(t.Context(), path); err != nil {
		t.Error(err)
	}
}

// A directory is held to the same as an archive.
func TestHostileRootsAreRefused(t *testing.T) {
	for _, c := range []struct{ name, target string }{
		{"proc", "/etc"}, {"sys", "/etc"}, {"dev", "/run"}, {"dev/shm", "/run"}, {"dev/pts", "/run"}, {"l", "../x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openTestStore(t)
			root := t.TempDir()
			at := filepath.Join(root, c.name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(c.target, at)); err != nil {
				t.Fatal(err)
			}
			_, err := s.FromRootfs(t.Context(), root)
			var refused *Refused
			if !errors.As(err, &refused) || refused.Entry != c.name || !strings.Contains(refused.Reason, c.target) {
				t.Errorf("%v, want a refusal of %s for its target", err, c.name)
			}
			mustBeEmpty(t, s)
		})
	}
}

func TestBrokenArchivesAreRefused(t *testing.T) {
	layer := makeTar(t, file("a", strings.Repeat("content ", 1000)), file("b", "x"))
	good := dockerArchive(t, layer)
	config := configFor(t, layer)
	part := func(name string, data []byte) *tar.Header { return file(name, string(data)) }
	manifest := func(configName string, layers ...string) *tar.Header {
		return part("manifest.json", asJSON(t, []any{map[string]any{"Config": configName, "Layers": layers}}))
	}
	gz := func(b []byte) []byte { return gzipped(t, b) }
	flipped := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	layout := func(change func(files map[string][]byte)) []byte {
		files := ociLayout(t, gz, layer)
		change(files)
		return layoutTar(t, files)
	}
	blob := func(files map[string][]byte, holding string) string {
		for name, data := range files {
			if strings.HasPrefix(name, "blobs/") && bytes.Contains(data, []byte(holding)) {
				return name
			}
		}
		t.Fatalf("no blob holds %q", holding)
		return ""
	}
	gzipMagic := "\x1f\x8b"
	index := func(manifests ...string) func(map[string][]byte) {
		return func(f map[string][]byte) {
			f["index.json"] = []byte(`{"manifests":[` + strings.Join(manifests, ",") + `]}`)
		}
	}
	zeros := strings.Repeat("0", 64)
	manifestOf := func(name, arch, variant string) string {
		return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":1,
			"annotations":{"org.opencontainers.image.ref.name":%q},"platform":{"os":"linux","architecture":%q,"variant":%q}}`, zeros, name, arch, variant)
	}
	other := func(manifest string) string { return strings.Replace(manifest, zeros, strings.Repeat("1", 64), 1) }
	for _, c := range []struct {
		name    string
		archive []byte
		reason  string
	}{
		{"empty", nil, "neither"},
		{"text", []byte(strings.Repeat("no archive at all\n", 100)), "not a tar"},
		{"cut in the manifest", good[:len(good)-1500], ""},
		{"cut in the layer", good[:4096], "ends in the middle"},
		{"cut gzip", gz(good)[:200], "cut off"},
		{"damaged gzip", flipped(gz(good), 100), ""},
		{"xz", []byte("\xfd7zXZ\x00 and so on"), "xz"},
		{"no manifest", makeTar(t, part("0/layer.tar", layer)), "neither"},
		{"manifest is no JSON", makeTar(t, file("manifest.json", "[{")), "document"},
		{"manifest is empty", makeTar(t, file("manifest.json", "[]")), "names no image"},
		{"two images", makeTar(t, file("manifest.json", `[{"RepoTags":["a:1"]},{"RepoTags":["b:1"]}]`)), "2 images (a:1, b:1)"},
		{"two images, one without a name", makeTar(t, file("manifest.json", `[{"RepoTags":["a:1"]},{"Config":"c.json"}]`)), "(a:1, one without a name, c.json)"},
		{"config missing", makeTar(t, manifest("c.json", "l")), "not there"},
		{"config of another digest", makeTar(t, part(hexSum(layer)+".json", config), part("l", layer), manifest(hexSum(layer)+".json", "l")), "SHA-256"},
		{"layer missing", makeTar(t, part("c.json", config), manifest("c.json", "l")), "not there"},
		{"layer of another digest", makeTar(t, part("c.json", config), part("l", makeTar(t, file("a", "other"))), manifest("c.json", "l")), "SHA-256"},
		{"more layers than digests", makeTar(t, part("c.json", config), part("l", layer), manifest("c.json", "l", "l")), "digests for 1 layers"},
		{"layer outside", makeTar(t, part("c.json", config), manifest("c.json", "../../etc/passwd")), "not there"},
		{"layer through a link outside", makeTar(t, part("c.json", config), symlink("l", "/etc/passwd"), manifest("c.json", "l")), "out of the archive"},
		{"layer is a link to itself", makeTar(t, part("c.json", config), symlink("l", "l"), manifest("c.json", "l")), "links"},
		{"part stands twice", makeTar(t, part("c.json", config), part("c.json", config)), "twice"},
		{"part is a device", makeTar(t, typed(tar.TypeChar, "c")), "neither a file"},
		{"part's name leads upwards", makeTar(t, part("../manifest.json", config)), "upwards"},
		{"no layers", makeTar(t, part("c.json", configFor(t)), manifest("c.json")), "without layers"},
		{"another architecture", makeTar(t, file("c.json", `{"os":"linux","architecture":"pdp11"}`), manifest("c.json", "l")), "pdp11"},
		{"garbage behind the layer", dockerArchive(t, append(bytes.Clone(layer[:600]), "garbage"...)), ""},
		{"garbage behind a compressed layer", layoutTar(t, ociLayout(t, func(b []byte) []byte { return append(gz(b), "garbage, and more of it"...) }, layer)), "what follows its files"},
		{"endless name", makeTar(t, part("c.json", config), file("manifest.json", `[{"Config":"c.json","Layers":["l"],"RepoTags":["`+strings.Repeat("a", 5000)+`"]}]`)), "5000 bytes"},
		{"layout blob damaged", layout(func(f map[string][]byte) {
			name := blob(f, gzipMagic)
			f[name] = flipped(f[name], len(f[name])-30)
		}), ""},
		{"layout blob cut", layout(func(f map[string][]byte) {
			name := blob(f, gzipMagic)
			f[name] = f[name][:len(f[name])-1]
		}), "bytes"},
		{"layout manifest damaged", layout(func(f map[string][]byte) {
			name := blob(f, `"layers":[`)
			f[name] = bytes.Replace(f[name], []byte(`"schemaVersion":2`), []byte(`"schemaVersion":1`), 1)
		}), "SHA-256"},
		{"layout without manifests", layout(func(f map[string][]byte) { f["index.json"] = []byte(`{"manifests":[]}`) }), "no image"},
		{"layout for another architecture", layout(index(manifestOf("a", "s390x", ""), manifestOf("", "arm", "v7"))),
			"no image for linux/" + runtime.GOARCH + ", but a for linux/s390x, sha256:" + zeros + " for linux/arm/v7"},
		{"layout of two", layout(index(manifestOf("a", runtime.GOARCH, ""), other(manifestOf("b", runtime.GOARCH, "v9")))),
			"2 images for linux/" + runtime.GOARCH + " (a for linux/" + runtime.GOARCH + ", b for linux/" + runtime.GOARCH + "/v9)"},
		{"layout of something else", layout(index(`{"mediaType":"text/x"}`)), `but something of type "text/x"`},
		{"layout of an artifact", layout(func(f map[string][]byte) { clear(f); maps.Copy(f, artifact(t)) }), `an artifact of type "application/vnd.cncf.helm.config.v1+json"`},
		{"sparse member", sparseTar(t, 1<<20, sparseFormats[0]...), "without --sparse"},
		{"sparse member, PAX", sparseTar(t, 1<<20, sparseFormats[3]...), "without --sparse"},
		{"layout index within itself", layout(func(f map[string][]byte) {
			f["index.json"] = []byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:../../x","size":1}]}`)
		}), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openTestStore(t)
			for _, way := range []string{"file", "stream"} {
				var err error
				if way == "file" {
					_, err = s.FromArchive(t.Context(), inFile(t, "broken.tar", c.archive))
				} else {
					_, err = s.FromReader(t.Context(), "broken", bytes.NewReader(c.archive))
				}
				var refused *Refused
				if !errors.As(err, &refused) {
					t.Fatalf("%s: %v, want a refusal", way, err)
				}
				if !strings.Contains(refused.Error(), c.reason) {
					t.Errorf("%s: %q, want something about %q", way, refused, c.reason)
				}
				mustBeEmpty(t, s)
			}
		})
	}
}

func TestSizeBombsAreRefused(t *testing.T) {
	zeros := strings.Repeat("\x00", 4<<20)
	many := func(n int) []*tar.Header {
		var out []*tar.Header
		for i := range n {
			out = append(out, dir(fmt.Sprintf("d%d", i)))
		}
		return out
	}
	for _, c := range []struct {
		name   string
		limits func(*Limits)
		pack   func([]byte) []byte
		layers [][]byte
		reason string
	}{
		{"content", func(l *Limits) { l.Bytes = 1 << 20 }, nil, [][]byte{makeTar(t, file("zeros", zeros))}, "bytes of content"},
		{"content over layers", func(l *Limits) { l.Bytes = 6 << 20 }, nil,
			[][]byte{makeTar(t, file("zeros", zeros)), makeTar(t, file("zeros", zeros))}, "bytes of content"},
		{"entries", func(l *Limits) { l.Entries = 50 }, nil, [][]byte{makeTar(t, many(60)...)}, "entries"},
		{"layers", func(l *Limits) { l.Layers = 2 }, nil, [][]byte{makeTar(t), makeTar(t), makeTar(t)}, "layers"},
		{"ratio, gzip", func(l *Limits) { l.RatioFloor = 1 << 20 }, func(b []byte) []byte { return gzipped(t, b) },
			[][]byte{makeTar(t, file("zeros", zeros))}, "times as much"},
		{"ratio, zstd", func(l *Limits) { l.RatioFloor = 1 << 20 }, func(b []byte) []byte { return zstandard(t, b) },
			[][]byte{makeTar(t, file("zeros", zeros))}, "times as much"},
		{"directories that no entry makes", func(l *Limits) { l.Entries = 50 }, nil, [][]byte{makeTar(t, file(strings.Repeat("d/", 60)+"f", ""))}, "entries"},
		{"attributes", func(l *Limits) { l.Bytes = 100 }, nil, [][]byte{makeTar(t, &tar.Header{Typeflag: tar.TypeReg, Name: "f",
			PAXRecords: map[string]string{xattrRecord + "user.a": strings.Repeat("v", 200)}})}, "bytes of content"},
		{"holes", func(l *Limits) { l.Bytes = 1 << 20 }, nil, [][]byte{sparseTar(t, 1<<30, sparseFormats[0]...)}, "bytes of content"},
		{"documents", func(l *Limits) { l.Document = 10 }, nil, [][]byte{makeTar(t)}, "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openTestStore(t)
			c.limits(&s.Limits)
			pack := c.pack
			if pack == nil {
				pack = func(b []byte) []byte { return b }
			}
			_, err := s.FromArchive(t.Context(), writeLayout(t, ociLayout(t, pack, c.layers...)))
			var refused *Refused
			if !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.reason) {
				t.Fatalf("%v, want a refusal with %q", err, c.reason)
			}
			mustBeEmpty(t, s)
		})
	}
}
