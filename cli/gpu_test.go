package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/image"
	"tare/kernel/nvidia"
	"tare/study/gpu"
	"tare/workload"
)

// The design is reported wherever there is a device or none, and nothing is touched.
func TestGPUDryRun(t *testing.T) {
	home := filepath.Join(t.TempDir(), "never")
	code, stdout, stderr := tare(t, home, "gpu", "--dry-run", "--program", "stencil,lenet-inference", "--platform", "bare", "--share", "1,4", "--blocks", "3", "--seed", "7")
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for _, word := range []string{"gpu[program=stencil]", "gpu[program=lenet,task=inference]", "gpu[program=stencil,shared]", "bare exact  (baseline, twice in each block)", "bare ptx cold probed", "bare x 4", "gpu[program=devicelimits]", "seed 7", "3 blocks"} {
		if !strings.Contains(stdout, word) {
			t.Errorf("the design does not say %q:\n%s", word, stdout)
		}
	}
	if lacks := gpu.Lacks(nvidia.Host{}); lacks != nil && !strings.Contains(stdout, "this host cannot run it: "+lacks.Error()) {
		t.Errorf("what is missing is not reported:\n%s", stdout)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("the state directory was made")
	}
}

// A host without a device says so in one line, and ends as where other things are missing.
func TestGPUWithoutADevice(t *testing.T) {
	if gpu.Lacks(nvidia.Host{}) == nil {
		t.Skip("this host has a device")
	}
	if os.Geteuid() != 0 {
		t.Skip("who is not root learns that first")
	}
	home := filepath.Join(t.TempDir(), "never")
	code, stdout, stderr := tare(t, home, "gpu", "--quick")
	if code != exitHost || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tare: no GPU for CUDA: ") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("the state directory was made")
	}
}

func TestGPUUsage(t *testing.T) {
	for _, c := range []struct {
		line, says string
	}{
		{"gpu stencil", "name programs by --program stencil"},
		{"gpu --dry-run --program matrix", "--program matrix: want lu"},
		{"gpu --dry-run --build fat", "--build fat"},
		{"gpu --dry-run --platform vm/oci", "another kernel's"},
		{"gpu --dry-run --size 512", "--size 512: want PROGRAM=N"},
		{"gpu --dry-run --share 0", "--share 0"},
		{"gpu --dry-run --gpu none", "--gpu none"},
		{"gpu --dry-run --quick --blocks 3", "--quick is a plan of its own"},
	} {
		code, _, stderr := tare(t, t.TempDir(), strings.Fields(c.line)...)
		if code != exitUsage || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("tare %s: code %d: %s", c.line, code, stderr)
		}
	}
}

// Where a root cannot be made an image of, programs still start from it.
func TestGPUImageAsItLies(t *testing.T) {
	refuse := func(context.Context, workload.Source) (image.Image, error) {
		return image.Image{}, &image.Missing{What: "making dev/null in an image is not permitted", Mend: "run with CAP_MKNOD"}
	}
	img, err := orAsItLies(refuse)(t.Context(), workload.Source{Rootfs: "/srv/cuda"})
	if err != nil || img.Root != "/srv/cuda" || len(img.Warnings) != 1 {
		t.Errorf("%+v, %v", img, err)
	}
	if _, err := orAsItLies(refuse)(t.Context(), workload.Source{Recipe: "redis"}); err == nil {
		t.Error("an image that was not made is there")
	}
}
