package gpu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/image"
	"tare/platform"
)

// A program that is started directly finds where its things lie on the host.
func TestDirect(t *testing.T) {
	root, cache := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "gpu"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho \"$CUDA_CACHE_PATH $HOME $1\"\necho said >&2\nexit 7\n"
	if err := os.WriteFile(filepath.Join(root, "gpu", "lu"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p := NewDirect("")
	img := image.Image{Name: "cuda", Root: root}
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	spec := platform.Spec{
		Name: "x", Image: img, Args: []string{"/gpu/lu", "/cache/here"}, Env: []string{"CUDA_CACHE_PATH=/cache"}, Setting: platform.Setting{GPU: "all"}, Stdout: &out, Stderr: &said,
		Edits: platform.Edits{Mounts: []platform.Mount{{Source: cache, Target: "/cache", Directory: true}}},
	}
	inst, err := p.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := inst.Wait(t.Context())
	if err != nil || exit.Code != 7 || exit.Elapsed <= 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	if got, want := out.String(), cache+" / "+cache+"/here\n"; got != want || said.String() != "said\n" {
		t.Errorf("%q and %q, want %q", got, said.String(), want)
	}
	if _, err := inst.InForce(); !errors.Is(err, platform.ErrGone) {
		t.Errorf("%v", err)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Supports(platform.Setting{Memory: 1 << 20}); err == nil {
		t.Error("a limit is granted")
	}
}

// What runs still is ended.
func TestDirectIsStopped(t *testing.T) {
	p := NewDirect("")
	inst, err := p.Launch(t.Context(), platform.Spec{Image: image.Image{Root: t.TempDir()}, Args: []string{"/bin/sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Usage(); err == nil {
		t.Error("the usage of a running program is reported")
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := inst.Wait(t.Context()); err != nil || exit.Code != 137 {
		t.Errorf("%+v, %v", exit, err)
	}
	if _, err := p.Launch(t.Context(), platform.Spec{Image: image.Image{Root: t.TempDir()}, Args: []string{"/no/such"}}); err == nil || !strings.Contains(err.Error(), "/no/such") {
		t.Errorf("%v", err)
	}
}
