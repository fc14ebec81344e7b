package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/image"
	"tare/kernel/nvidia"
	"tare/platform"
	programs "tare/programs/gpu"
	"tare/study/kit/kittest"
)

// A host without a device says so in one line, whoever asks.
func TestLacks(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	var lacks *platform.Missing
	kittest.Refused(t, Lacks(nvidia.Host{Root: root}), &lacks, "no GPU for CUDA: there is no device of NVIDIA's on the PCI bus: run on a host that has one")
	_, err := Look(t.Context(), Looking{Host: nvidia.Host{Root: root}, Dir: t.TempDir()})
	kittest.Refused(t, err, &lacks, "no GPU for CUDA")
}

// Each cause that the programs know is the host's to mend, or not, and stays one line.
func TestLacking(t *testing.T) {
	for _, c := range programs.Causes {
		err := lacking(programs.NewFailure("devicelimits", c.Code, ""))
		var lacks *platform.Missing
		is := errors.As(err, &lacks)
		if want := c.Name != "failed" && c.Name != "usage" && c.Name != "wrong"; is != want || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), c.Do) {
			t.Errorf("%s: the host's is %t: %v", c.Name, is, err)
		}
	}
	if lacking(nil) != nil {
		t.Error("nothing is lacking")
	}
	var lacks *platform.Missing
	kittest.Refused(t, lacking(fmt.Errorf("no nvcc: %w", programs.ErrMissing)), &lacks, "no nvcc")
}

// scripted is a directory of programs that are scripts: each prints a synthetic result, or
// fails.
func scripted(t *testing.T, kinds []programs.Kind, names []string, status int, line string) string {
	t.Helper()
	dir := t.TempDir()
	for _, kind := range kinds {
		for _, name := range names {
			r := synthetic([]string{"/gpu/" + string(kind) + "/" + name, "--size", "65536", "--iterations", "1", "--warmup", "0"})
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", text)
			if status != 0 {
				script = fmt.Sprintf("#!/bin/sh\necho '%s' >&2\nexit %d\n", line, status)
			}
			at := programs.Binary(dir, kind, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestProgramsThatAreBrought(t *testing.T) {
	names := []string{programs.DeviceLimits, programs.LeNet}
	l := Looking{Programs: scripted(t, []programs.Kind{programs.Exact, programs.PTX}, names, 0, ""), Kinds: programs.Kinds, Names: []string{"lenet-training", "lenet-inference"}}
	f := &Found{}
	dir, err := l.programs(t.Context(), f)
	if err != nil || dir != l.Programs || !slices.Equal(f.Kinds, []programs.Kind{programs.Exact, programs.PTX}) {
		t.Errorf("%s, %v, %v", dir, f.Kinds, err)
	}
	if err := f.preflight(t.Context(), dir); err != nil || f.Device.Name != "synthetic device" {
		t.Errorf("%+v, %v", f.Device, err)
	}
	if len(f.NoKind) != 0 || len(f.Kinds) != 2 {
		t.Errorf("left out %q of %q", f.NoKind, f.Kinds)
	}
	// PTX that the driver cannot compile is left out, and why is kept.
	newer := scripted(t, []programs.Kind{programs.PTX}, names, 14, "devicelimits: the driver cannot compile PTX, which is of CUDA 13.5")
	at := programs.Binary(l.Programs, programs.PTX, programs.DeviceLimits)
	if err := os.Rename(programs.Binary(newer, programs.PTX, programs.DeviceLimits), at); err != nil {
		t.Fatal(err)
	}
	if err := f.preflight(t.Context(), l.Programs); err != nil || !slices.Equal(f.Kinds, []programs.Kind{programs.Exact}) || !strings.Contains(f.NoKind[programs.PTX], "of CUDA 13.5") {
		t.Errorf("%q, left out %q, %v", f.Kinds, f.NoKind, err)
	}
	l.Names = []string{programs.LU}
	_, err = l.programs(t.Context(), &Found{})
	var lacks *platform.Missing
	kittest.Refused(t, err, &lacks, "lacks some of the CUDA programs devicelimits, lu")
	failing := scripted(t, []programs.Kind{programs.Exact}, names, 11, "devicelimits: the driver serves CUDA 11.4, the program needs 12.8: install a newer driver")
	kittest.Refused(t, lacking(f.preflight(t.Context(), failing)), &lacks, "the driver serves CUDA 11.4")
}

// A probe that sees nothing of a program is left out before anything is measured.
func TestProbeIsTried(t *testing.T) {
	dir := scripted(t, []programs.Kind{programs.Exact}, []string{programs.DeviceLimits}, 0, "")
	f := &Found{Kinds: []programs.Kind{programs.Exact}, Library: t.TempDir()}
	if err := f.tryProbe(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "left no trace") {
		t.Errorf("%v", err)
	}
	f.Library, f.NoProbe = "", "there is no compiler"
	if err := f.tryProbe(t.Context(), dir); err == nil || err.Error() != f.NoProbe {
		t.Errorf("%v", err)
	}
}

// Each platform is tried, and why one cannot be used is kept for the page.
func TestTry(t *testing.T) {
	h, platforms := fakeHost(t, "oci:runc", "docker")
	platforms["oci:runc"].exit, platforms["oci:runc"].stderr = platform.Exit{Code: 12}, "devicelimits: no CUDA device is shown\n"
	platforms["docker"].change = func(_ int, r *programs.Result) { r.Device.UUID = "GPU-1" }
	n := 0
	try := func(f *Found, names ...string) {
		t.Helper()
		if err := f.Try(t.Context(), names, "all", h.Platform, image.Image{}, func() string { n++; return fmt.Sprint("try-", n) }); err != nil {
			t.Fatal(err)
		}
	}
	f := found()
	try(f, Bare, "oci:runc", "docker", "containerd")
	for name, says := range map[string]string{"oci:runc": "no CUDA device is shown", "docker": "GPU-1", "containerd": "no containerd: install it"} {
		if !strings.Contains(f.Unusable[name], says) {
			t.Errorf("%s: %q, want what says %q", name, f.Unusable[name], says)
		}
	}
	if f.Direct || f.Unusable[Bare] != "" {
		t.Errorf("bare metal: %q", f.Unusable[Bare])
	}
	platforms[Bare].launch = errors.New("mount: operation\nnot permitted")
	f = found()
	try(f, "docker")
	if !f.Direct || f.Unusable[Bare] != "mount: operation not permitted" {
		t.Errorf("%t, %q", f.Direct, f.Unusable[Bare])
	}
	for _, p := range platforms {
		if p.running != 0 {
			t.Errorf("%s: %d are left", p.name, p.running)
		}
	}
}

// PyTorch's root has the program, the host's links, and a place for all that is shown.
func TestLayTorch(t *testing.T) {
	host, dir := t.TempDir(), t.TempDir()
	for _, d := range []string{"usr/bin", "usr/local/lib", "usr/local/nvidia/lib64", "opt/conda/bin", "opt/conda/lib/python3.12/site-packages/torch", "lib64"} {
		if err := os.MkdirAll(filepath.Join(host, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("usr/bin", filepath.Join(host, "bin")); err != nil {
		t.Fatal(err)
	}
	got, err := layTorch(dir, host, installed{Version: "2.5", CUDA: "12.4", Executable: "/opt/conda/bin/python3", Paths: []string{"/opt/conda", "/opt/conda/lib/python3.12/site-packages/torch", "/opt/conda/lib/python312.zip", "relative"}})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range got.Mounts {
		shown = append(shown, m.Target)
		if !m.ReadOnly || !m.Directory || m.Source != filepath.Join(host, m.Target) {
			t.Errorf("%+v", m)
		}
		if info, err := os.Stat(filepath.Join(got.Root, m.Target)); err != nil || !info.IsDir() {
			t.Errorf("no place for %s: %v", m.Target, err)
		}
	}
	if want := []string{"/lib64", "/opt/conda", "/usr/bin", "/usr/local/lib"}; !slices.Equal(shown, want) {
		t.Errorf("shown %q, want %q", shown, want)
	}
	if target, err := os.Readlink(filepath.Join(got.Root, "bin")); err != nil || target != "usr/bin" {
		t.Errorf("/bin leads to %q, %v", target, err)
	}
	if text, err := os.ReadFile(filepath.Join(got.Root, "torch/cnn.py")); err != nil || len(text) == 0 {
		t.Errorf("the program: %v", err)
	}
	if _, err := layTorch(t.TempDir(), host, installed{Executable: "/usr/bin/python3", Paths: []string{"/"}}); err == nil {
		t.Error("the host's root is shown as a whole")
	}
}

// Root may look for PyTorch while it is in a directory in which another user has modules of the names that are asked for.
func TestWorkingDirectoryHasNoModules(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	for _, module := range []string{"json.py", "torch.py"} {
		if err := os.WriteFile(filepath.Join(dir, module), fmt.Appendf(nil, "open(%q, 'w')", ran), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	_, _ = lookTorch(t.Context(), t.TempDir()) // whether it is there is nothing to this test
	if _, err := os.Stat(ran); err == nil {
		t.Error("a module of the working directory was run")
	}
}
