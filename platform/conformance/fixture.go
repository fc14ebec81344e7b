package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"tare/image"
)

// Image makes the image that the suite needs, of one static busybox found on
// this host: a root directory, and the same as an archive that an engine loads.
// It skips the test where there is none.
func Image(t testing.TB) image.Image {
	t.Helper()
	busybox := staticBusybox(t)
	dir := t.TempDir()
	img := image.Image{
		Name: "conformance", Root: filepath.Join(dir, "root"), Archive: filepath.Join(dir, "archive.tar"),
		Config: image.Config{Env: []string{"TARE_IMAGE=conformance", "LANG=C.UTF-8"}},
	}
	if err := furnish(img.Root, busybox); err != nil {
		t.Fatal(err)
	}
	if err := archive(&img); err != nil {
		t.Fatal(err)
	}
	return img
}

// configured is the suite's image with another configuration, made ready.
func (st *stage) configured(config image.Config) image.Image {
	st.Helper()
	img := st.image
	img.Config, img.Archive = config, filepath.Join(st.TempDir(), "archive.tar")
	if err := archive(&img); err != nil {
		st.Fatal(err)
	}
	if err := st.platform.Prepare(st.ctx, img); err != nil {
		st.Fatalf("Prepare: %v", err)
	}
	return img
}

func staticBusybox(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"busybox.static", "busybox"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		// In an empty root, only a static one answers.
		if path, err = filepath.EvalSymlinks(path); err == nil && isStatic(path) {
			return path
		}
	}
	t.Skip("the conformance suite needs a static busybox: apt-get install busybox-static")
	return ""
}

// setUserID is a set-user-ID program of root's that prints ids, where the host has one.
const setUserID = "bin/set-user-id"

// contents of the image's own files; the suite asserts them.
var contents = map[string]string{
	"etc/passwd":      "root:x:0:0:root:/root:/bin/sh\nweighed:x:1234:4321::/srv/seed:\n77:x:88:88::/by-name:\n",
	"etc/group":       "root:x:0:root\naudio:x:29:root,weighed\nown:x:4321:weighed\nvideo:x:44:weighed\n",
	"etc/hosts":       "127.0.0.1\tlocalhost tare\n",
	"www/index.html":  page,
	"srv/seed/inside": "from the image\n",
}

const page = "weighed and found answering\n"

func furnish(root, busybox string) error {
	for dir, mode := range map[string]fs.FileMode{
		"bin": 0o755, "data": 0o755, "dev": 0o755, "etc": 0o755, "proc": 0o555, "run": 0o755, "srv/seed": 0o755, "sys": 0o555,
		"tmp": 0o777 | fs.ModeSticky, "var/tmp": 0o777 | fs.ModeSticky, "www": 0o755,
	} {
		full := filepath.Join(root, dir)
		if err := os.MkdirAll(full, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(full, mode); err != nil {
			return err
		}
	}
	if err := os.Symlink("/srv/seed", filepath.Join(root, "link")); err != nil {
		return err
	}
	for file, text := range contents {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := copyProgram(busybox, filepath.Join(root, "bin/busybox")); err != nil {
		return err
	}
	// It is the host's, since it is run from outside, with the host's libraries.
	if id, err := exec.LookPath("id"); err == nil {
		to := filepath.Join(root, setUserID)
		if err := errors.Join(copyProgram(id, to), os.Chmod(to, 0o755|fs.ModeSetuid)); err != nil {
			return err
		}
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return err
	}
	for _, applet := range strings.Fields(string(applets)) {
		if applet == "busybox" {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			return err
		}
	}
	return nil
}

func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// archive writes the image's archive and names the image by its layer, which is
// canonical, as that of every image is.
func archive(img *image.Image) error {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			_, err := image.WriteLayer(context.Background(), w, img.Root)
			w.CloseWithError(err)
		}()
		return r, nil
	})
	if err != nil {
		return err
	}
	diff, err := layer.DiffID()
	if err != nil {
		return err
	}
	config, err := json.Marshal(img.Config)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(config)
	img.Digest = diff.String()
	img.Reference = "tare.local/conformance:" + diff.Hex[:12] + hex.EncodeToString(sum[:4])
	built, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	built, err = mutate.ConfigFile(built, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}},
		Config: v1.Config{
			Env: img.Config.Env, Entrypoint: img.Config.Entrypoint, Cmd: img.Config.Cmd,
			WorkingDir: img.Config.WorkingDir, User: img.Config.User,
		},
	})
	if err != nil {
		return err
	}
	tag, err := name.NewTag(img.Reference)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(img.Archive, tag, built)
}
