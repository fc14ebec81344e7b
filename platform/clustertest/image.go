package clustertest

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Busybox is an image that every node has. Sandboxes run it, and tests may run its tools.
const Busybox = "tare.test/busybox:1"

// busyboxProgram is the host's busybox where it is static, and so needs no library; else empty.
func busyboxProgram() string {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return ""
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return ""
	}
	program, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer program.Close()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return ""
	}
	return path
}

// WriteImage writes the archive of an image of one static program. The image has it in /bin, and runs
// it with those arguments.
func WriteImage(archive, reference, program string, args ...string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	inside := "bin/" + filepath.Base(program)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range []*tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: inside, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(text))},
	} {
		if err := w.WriteHeader(h); err != nil {
			return err
		}
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	opened, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, opened)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: append([]string{"/" + inside}, args...), WorkingDir: "/"}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, img)
}

// Load imports the archive of an image, such as [WriteImage] writes and image.Image has, into the
// node's containerd. A pod uses it by its reference, with imagePullPolicy Never.
func (n *Node) Load(ctx context.Context, archive string) error {
	out, err := exec.CommandContext(ctx, ctrProgram, "--address", n.Path(containerdSocket), "--namespace", "k8s.io",
		"images", "import", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("importing %s on %s: %w: %s", archive, n.Name, err, bytes.TrimSpace(out))
	}
	return nil
}
