package image

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// smallImage imports a root file system of one file.
func smallImage(t testing.TB, s *Store, name, content string) Image {
	t.Helper()
	root := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/x"), []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	img, err := s.FromRootfs(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func exists(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestRemove(t *testing.T) {
	s := openTestStore(t)
	kept, gone := smallImage(t, s, "kept", "1"), smallImage(t, s, "gone", "2")
	for range 2 { // what is gone is gone
		if err := s.Remove(t.Context(), gone.Digest); err != nil {
			t.Fatal(err)
		}
		if exists(t, gone.Root) || exists(t, gone.Archive) {
			t.Error("the removed image is there still")
		}
	}
	if !exists(t, kept.Root) || !exists(t, kept.Archive) {
		t.Error("another image went with it")
	}
	for _, wrong := range []string{"", "sha256:", "../../x", "sha256:" + strings.Repeat("z", 64)} {
		if err := s.Remove(t.Context(), wrong); err == nil {
			t.Errorf("%q passes for a digest", wrong)
		}
	}
}

// Images that differ in nothing but a name have one root, and two references.
func TestEqualRootsAreOne(t *testing.T) {
	s := openTestStore(t)
	one, two := smallImage(t, s, "one", "same"), smallImage(t, s, "two", "same")
	if one.Root != two.Root || one.Digest != two.Digest {
		t.Errorf("roots %s and %s", one.Root, two.Root)
	}
	if one.Reference == two.Reference || one.Archive == two.Archive {
		t.Errorf("both are %s in %s", one.Reference, one.Archive)
	}
}

func TestReferenceName(t *testing.T) {
	for name, want := range map[string]string{
		"redis":                    "redis",
		"alpine:3.20":              "alpine-3-20",
		"Registry.Example/a_b/C@x": "registry-example-a-b-c-x",
		"--":                       "image",
		"":                         "image",
		"ünïx":                     "n-x",
	} {
		if got := referenceName(name); got != want {
			t.Errorf("referenceName(%q) = %q, want %q", name, got, want)
		}
	}
	if got := referenceName(strings.Repeat("a.", 200)); len(got) > 128 || strings.HasSuffix(got, "-") {
		t.Errorf("a long name becomes %q", got)
	}
}

// A torn root, as a power cut may leave one, is not taken for an image.
func TestRootWithoutDescriptionIsReplaced(t *testing.T) {
	s := openTestStore(t)
	img := smallImage(t, s, "app", "1")
	descriptions, err := filepath.Glob(s.path("index", "*.json"))
	if err != nil || len(descriptions) != 1 {
		t.Fatal(descriptions, err)
	}
	if err := os.Remove(descriptions[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(img.Root, "bin/x"), []byte("torn"), 0o755); err != nil {
		t.Fatal(err)
	}
	img = smallImage(t, s, "app", "1")
	if got, err := os.ReadFile(filepath.Join(img.Root, "bin/x")); string(got) != "1" {
		t.Errorf("bin/x is %q, %v", got, err)
	}
}

// TestMain lets this binary be the process that is killed in mid-work.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TARE_TEST_WORK_IN"); dir != "" {
		if err := workUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	code := m.Run()
	if packages.dir != "" {
		_ = os.RemoveAll(packages.dir)
	}
	os.Exit(code)
}

// workUntilKilled begins an image, says so, and waits for its end.
func workUntilKilled(dir string) error {
	s, err := OpenStore(dir, nil)
	if err != nil {
		return err
	}
	w, err := s.begin(context.Background())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.root, "half"), []byte("done"), 0o644); err != nil {
		return err
	}
	fmt.Println(w.dir)
	_, err = bufio.NewReader(os.Stdin).ReadByte()
	return err
}

func TestKilledWorkIsSweptAndLiveWorkIsNot(t *testing.T) {
	s := openTestStore(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "TARE_TEST_WORK_IN="+s.dir)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	work := strings.TrimSpace(line)
	if _, err := OpenStore(s.dir, nil); err != nil {
		t.Fatal(err)
	}
	if !exists(t, filepath.Join(work, "root/half")) {
		t.Error("opening the store swept another process's work")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // "signal: killed"
	if _, err := OpenStore(s.dir, nil); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(s.path("tmp"))
	if err != nil || len(names) != 0 {
		t.Errorf("left in tmp: %v, %v", names, err)
	}
}

func TestSameImageFromManySides(t *testing.T) {
	dir := openTestStore(t).dir
	archive := dockerArchive(t, makeTar(t, file("a", strings.Repeat("x", 1<<20))))
	var group sync.WaitGroup
	digests := make([]string, 8)
	for i := range digests {
		group.Go(func() {
			s, err := OpenStore(dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			img, err := s.FromReader(t.Context(), "app", bytes.NewReader(archive))
			if err != nil {
				t.Error(err)
			}
			digests[i] = img.Digest
		})
	}
	group.Wait()
	if len(slices.Compact(digests)) != 1 {
		t.Errorf("digests %q", digests)
	}
}

func TestRootfs(t *testing.T) {
	s := openTestStore(t)
	root := t.TempDir()
	for name, content := range map[string]string{"etc/hosts": "10.0.0.1 own\n", "bin/x": "program", "deep/.wh.x": "ordinary"} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(root, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	img, err := s.FromRootfs(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if exists(t, filepath.Join(img.Root, "socket")) {
		t.Error("a socket was copied")
	}
	for _, name := range []string{"proc", "sys", "tmp", "dev/null", "etc/resolv.conf", "deep/.wh.x"} {
		if !exists(t, filepath.Join(img.Root, name)) {
			t.Errorf("no %s in the image", name)
		}
	}
	if got, err := os.ReadFile(filepath.Join(img.Root, "etc/hosts")); string(got) != "10.0.0.1 own\n" {
		t.Errorf("the root's own /etc/hosts became %q, %v", got, err)
	}
	// The copy is a copy.
	if err := os.WriteFile(filepath.Join(root, "bin/x"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(img.Root, "bin/x")); string(got) != "program" {
		t.Errorf("the image follows its source: %q, %v", got, err)
	}
}

func TestRootfsInUseIsRefused(t *testing.T) {
	s := openTestStore(t)
	mounted := t.TempDir()
	if err := os.Mkdir(filepath.Join(mounted, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	mountTmpfs(t, filepath.Join(mounted, "data"), "64k")
	withProc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(withProc, "proc/1"), 0o755); err != nil {
		t.Fatal(err)
	}
	withDevice := t.TempDir()
	if out, err := exec.Command("mknod", filepath.Join(withDevice, "disk"), "b", "7", "200").CombinedOutput(); err != nil {
		t.Skipf("needs mknod: %v: %s", err, out)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, entry string }{
		{"/", ""}, {link, ""}, {s.dir, ""}, {filepath.Dir(s.dir), ""},
		{"/etc/passwd", ""}, {mounted, "data"}, {withProc, "proc"}, {withDevice, "disk"},
	} {
		_, err := s.FromRootfs(t.Context(), c.dir)
		var refused *Refused
		if !errors.As(err, &refused) || refused.Entry != c.entry {
			t.Errorf("%s: %v, want a refusal that names %q", c.dir, err, c.entry)
		}
	}
	mustBeEmpty(t, s)
	if _, err := s.FromRootfs(t.Context(), filepath.Join(s.dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// mountTmpfs mounts a small file system for the length of a test, or skips.
func mountTmpfs(t *testing.T, at, size string) {
	t.Helper()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,size="+size, "tare-test", at).CombinedOutput()
	if err != nil {
		t.Skipf("needs to mount a tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", at, err, out)
		}
	})
}

func TestFullDiskLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	at := t.TempDir()
	mountTmpfs(t, at, "3m")
	s, err := OpenStore(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	big := makeTar(t, file("big", strings.Repeat("0123456789abcdef", 256<<10)))
	full := func(what string, err error) {
		t.Helper()
		var f *Full
		if !errors.As(err, &f) || f.Dir != at {
			t.Errorf("%s: %v, want one that says that %s is full", what, err, at)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %q", what, err)
		}
		mustBeEmpty(t, s)
	}
	_, err = s.FromReader(t.Context(), "big", bytes.NewReader(dockerArchive(t, big)))
	full("stream", err)
	_, err = s.FromArchive(t.Context(), writeLayout(t, ociLayout(t, func(b []byte) []byte { return gzipped(t, b) }, big)))
	full("layout", err)
	// Room for the root, none for the archive besides.
	_, err = s.FromArchive(t.Context(), inFile(t, "m.tar", dockerArchive(t, big[:len(big)/2+1024-len(big)/2%512])))
	if err == nil {
		t.Error("half an archive passes")
	}
	mustBeEmpty(t, s)
}

func TestCancelledImportLeavesNothing(t *testing.T) {
	s := openTestStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.FromReader(ctx, "app", bytes.NewReader(dockerArchive(t, makeTar(t, file("a", "1")))))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
	mustBeEmpty(t, s)
}

// The engine and we agree about what an archive holds.
func TestEngineLoadsArchive(t *testing.T) {
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		t.Skipf("needs a Docker engine: %v: %s", err, out)
	}
	s := openTestStore(t)
	// A name of its own, so that no other test's image is meant.
	img := smallImage(t, s, "archive-test", t.Name()+t.TempDir())
	if out, err := exec.Command("docker", "load", "-i", img.Archive).CombinedOutput(); err != nil {
		t.Fatalf("docker load: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", img.Reference).CombinedOutput(); err != nil {
			t.Errorf("docker rmi: %v: %s", err, out)
		}
	})
	out, err := exec.Command("docker", "image", "inspect", "-f", "{{.Id}} {{range .RootFS.Layers}}{{.}}{{end}}", img.Reference).CombinedOutput()
	if err != nil {
		t.Fatalf("docker image inspect: %v: %s", err, out)
	}
	if got, want := strings.TrimSpace(string(out)), "sha256:"+idOf(img)+" "+img.Digest; got != want {
		t.Errorf("the engine has %s, want %s", got, want)
	}
}
