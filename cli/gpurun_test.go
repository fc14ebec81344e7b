package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/kernel/nvidia"
	programs "tare/programs/gpu"
	"tare/study/gpu"
)

// recordedDevice names the tree of a recorded host with a device, for a process that acts as tare.
const recordedDevice = "TARE_TEST_RECORDED_DEVICE"

// recordDevice makes the tree of a host that has a device, and skips where programs that were
// compiled for the CPU cannot stand for CUDA programs on it.
func recordDevice(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("measuring needs root")
	}
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++ here, which compiles the CUDA programs for the CPU")
	}
	if gpu.Lacks(nvidia.Host{}) == nil {
		t.Skip("this host has a device, which the programs would be given")
	}
	lib := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu"
	if _, err := os.Stat("/usr/lib/" + lib + "/libm.so.6"); err != nil {
		t.Skip("no C library where a recorded driver's library could stand for it")
	}
	tree := t.TempDir()
	for name, text := range map[string]string{
		"proc/driver/nvidia/version":                       "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n",
		"proc/driver/nvidia/gpus/0000:0a:00.0/information": "Model: \t\t synthetic\nGPU UUID: \t GPU-0\nBus Location: \t 0000:0a:00.0\nDevice Minor: \t 0\n",
		"dev/nvidia0": "c 195 0 0666 0 0", "dev/nvidiactl": "c 195 255 0666 0 0", "dev/nvidia-uvm": "c 510 0 0666 0 0",
		"usr/lib/" + lib + "/libm.so.6": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What stands for the driver's library has a file on this host, whose needs can be read.
	if err := os.Symlink("libm.so.6", filepath.Join(tree, "usr/lib", lib, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	return tree
}

// The whole command, on a recorded host that has a device and with programs that were
// compiled for the CPU: it looks, lays out the root, makes the image, tries the platforms,
// finds that none can give the program the recorded device, runs directly, and says so.
func TestGPURunsDirectlyWhereNothingElseCan(t *testing.T) {
	tree := recordDevice(t)
	built := t.TempDir()
	if err := programs.Compile(t.Context(), built, programs.CompileOptions{Kinds: []programs.Kind{programs.Emulated}, Programs: []string{programs.Stencil, programs.DeviceLimits}}); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	line := []string{"--program", "stencil", "--build", "emulated", "--memory", "pageable", "--probe=false", "--platform", "bare,oci:runc", "--programs", built, "--size", "stencil=20x18x17", "--iterations", "stencil=2",
		"--size", "devicelimits=65536", "--iterations", "devicelimits=1", "--blocks", "3", "--seed", "7"}
	a := &app{out: &out, err: &said, args: append([]string{"tare", "gpu"}, line...), home: t.TempDir()}
	cmd, s := gpuCommandOn(nvidia.Host{Root: tree})
	if err := cmd.ParseFlags(line); err != nil {
		t.Fatal(err)
	}
	cmd.SetContext(t.Context())
	err := a.runSub(cmd, gpu.Name, s, nil)
	if exitCode(err) == exitHost {
		t.Skip(err) // another tare measures
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	for _, want := range []string{"These programs ran on a CPU, for a test", "programs are started directly: gpu=all: no GPU for CUDA", "oci:runc is left out: gpu=all: no GPU for CUDA", "stencil: emulated", "Kernels against the limits of the device"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("the screen does not say %q:\n%s", want, out.String())
		}
	}
}

// What fails in a phase of the script ends neither the phase nor the script.
func TestBenchScriptWhereAllFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("measuring needs root")
	}
	dir := t.TempDir()
	text, err := os.ReadFile("../scripts/bench-gpu.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"bench-gpu.sh": string(text), "tare": "#!/bin/sh\nexit 3\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	said, err := exec.CommandContext(t.Context(), filepath.Join(dir, "bench-gpu.sh"), "run", filepath.Join(dir, "out"), "60", "check", "limits").CombinedOutput()
	for _, want := range []string{"doctor: exit status 3", "limits: exit status 3", "== end, "} {
		if err != nil || !strings.Contains(string(said), want) {
			t.Errorf("%v: it does not say %q:\n%s", err, want, said)
		}
	}
}

// The script that measures a device runs whole, with its limits of time, where programs for the
// CPU stand for those for a device: each phase leaves its file, and there are no more than 8.
func TestBenchScriptOnAStandIn(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("takes five minutes: make test-all runs it")
	}
	tree, dir := recordDevice(t), t.TempDir()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "STAND_IN=1", "TARE="+own, actAsTare+"=1", recordedDevice+"="+tree)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	archive, out := filepath.Join(dir, "archive"), filepath.Join(dir, "out")
	script("../scripts/bench-gpu.sh", "pack", archive, "9.0")
	script("tar", "-C", dir, "-xzf", archive)
	const seconds = 300
	began := time.Now()
	said := script(filepath.Join(dir, "bench-gpu.sh"), "run", out, strconv.Itoa(seconds))
	if took := time.Since(began); took > (seconds+20)*time.Second {
		t.Errorf("it took %v, and was given %d s", took, seconds)
	}
	files, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	want := []string{"check.json", "copies.json", "limits.json", "log.txt", "matrix.json", "share.json", "tare.db", "torch.json"}
	if !slices.Equal(names, want) {
		t.Errorf("files are %q, want %q", names, want)
	}
	for _, want := range []string{"correct: emulated lu --size 515: status 0", "namespaces: yes", "is left out: gpu=all: no GPU for CUDA", "== end, "} {
		if !strings.Contains(strings.Join(strings.Fields(said), " "), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}
