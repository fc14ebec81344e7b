package gpu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/image"
	"tare/lab/labtest"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/docker"
	"tare/platform/oci"
	programs "tare/programs/gpu"
	"tare/workload"
)

func TestMain(m *testing.M) {
	bare.Reexec()
	os.Exit(m.Run())
}

// livePlatforms are those of this host that need no image to be loaded.
func livePlatforms(t *testing.T) []platform.Platform {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change roots and to mount")
	}
	dir := t.TempDir()
	var all []platform.Platform
	for _, p := range []platform.Platform{bare.New(bare.Options{StateDir: dir}), oci.New("runc", oci.Options{StateDir: dir}), oci.New("crun", oci.Options{StateDir: dir})} {
		if err := p.Check(t.Context()); err != nil {
			t.Logf("%s is passed over: %v", p.Name(), err)
			continue
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Skip("no platform can be used here")
	}
	return all
}

// What a trial is given of the host shows alike on real platforms: a library in its
// directory, a place to write, variables, and where this host has one, a device that no
// container has by itself.
func TestEditsOnRealPlatforms(t *testing.T) {
	platforms := livePlatforms(t)
	root, cache := t.TempDir(), t.TempDir()
	lay := image.HostRoot{Programs: map[string]string{"/bin/sh": "/bin/sh", "/bin/cat": "/bin/cat"}, Directories: append([]string{"/proc", "/dev", "/sys", "/tmp", "/run", "/var/tmp"}, Points...)}
	if err := lay.Lay(root); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(t.TempDir(), "libcuda.so.550.54.15")
	if err := os.WriteFile(library, []byte("the host's library\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	edits := platform.Edits{
		Env:     []string{"LD_LIBRARY_PATH=" + platform.DriverLibraries},
		Devices: []platform.DeviceNode{{Path: "/dev/tty0", Major: 4, Minor: 0, Mode: 0o620}},
		Mounts: []platform.Mount{
			{Source: library, Target: platform.DriverLibraries + "/libcuda.so.1", ReadOnly: true},
			{Source: cache, Target: cacheDirectory, Directory: true},
		},
	}
	if _, err := os.Stat("/dev/tty0"); err != nil {
		edits.Devices = nil
	}
	script := `echo "$LD_LIBRARY_PATH"; cat ` + platform.DriverLibraries + `/libcuda.so.1; echo compiled > /cache/"$1" || exit 9; echo no > ` + platform.DriverLibraries + `/libcuda.so.1 && exit 8; for node in /dev/tty0; do [ -c $node ] && echo node; done; exit 0`
	for i, p := range platforms {
		var out, said bytes.Buffer
		img := image.Image{Name: "edits", Root: root}
		if err := p.Prepare(t.Context(), img); err != nil {
			t.Fatal(err)
		}
		inst, err := p.Launch(t.Context(), platform.Spec{
			Name: "gpu-edits-" + number(i), Image: img, Args: []string{"/bin/sh", "-c", script, "sh", "by-" + number(i)}, Edits: edits, Stdout: &out, Stderr: &said,
		})
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		exit, err := inst.Wait(t.Context())
		if err := errors.Join(err, inst.Stop(t.Context())); err != nil {
			t.Errorf("%s: %v", p.Name(), err)
		}
		want := platform.DriverLibraries + "\nthe host's library\n"
		if len(edits.Devices) > 0 {
			want += "node\n"
		}
		if exit.Code != 0 || out.String() != want {
			t.Errorf("%s: status %d, %q and %q, want %q", p.Name(), exit.Code, out.String(), said.String(), want)
		}
		if text, err := os.ReadFile(filepath.Join(cache, "by-"+number(i))); err != nil || string(text) != "compiled\n" {
			t.Errorf("%s: what it wrote is %q, %v", p.Name(), text, err)
		}
	}
	// What is not here is refused before anything is made.
	for _, p := range platforms {
		_, err := p.Launch(t.Context(), platform.Spec{Name: "gpu-none", Image: image.Image{Name: "edits", Root: root}, Args: []string{"/bin/sh"}, Setting: platform.Setting{GPU: "63"}})
		var missing *platform.Missing
		if !errors.As(err, &missing) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", p.Name(), err)
		}
	}
	if p := docker.NewSwarm(docker.Options{StateDir: t.TempDir()}); p.Supports(platform.Setting{GPU: "all"}) == nil {
		t.Error("a swarm's service is given a device")
	}
}

// A trial of a program that was compiled for the CPU runs on real platforms as a CUDA
// program will, but for the device.
func TestTrialOnRealPlatforms(t *testing.T) {
	platforms := livePlatforms(t)
	built, root := emulatedRoot(t), t.TempDir()
	lay := image.HostRoot{Programs: map[string]string{"/gpu/emulated/stencil": programs.Binary(filepath.Join(built, "gpu"), programs.Emulated, programs.Stencil)}, Directories: append([]string{"/proc", "/dev", "/sys", "/tmp", "/run", "/var/tmp"}, Points...)}
	if err := lay.Lay(root); err != nil {
		t.Fatal(err)
	}
	h, _ := fakeHost(t)
	w := workload.FromCUDA(root)
	params, err := workload.Resolve(w, map[string]string{"program": "stencil", "build": "emulated", "size": "20x18x17", "iterations": "2", "check": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		b := &rooted{labtest.NewBench(p), root}
		b.Of.Platform, b.Of.Params, b.Of.Metrics = p.Name(), params, w.Metrics(params)
		if err := (trial{host: h, program: w, cache: Cold}).run(t.Context(), b); err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		// On bare metal the clock starts when tare learns of the execution, which a busy host
		// may delay: of a program of milliseconds the whole may be the shorter one.
		if len(b.Samples["wall"]) != 1 || len(b.Samples["total"]) != 1 {
			t.Errorf("%s: %v", p.Name(), b.Samples)
		}
	}
}

// rooted is a bench whose image has a root.
type rooted struct {
	*labtest.Bench
	root string
}

func (b *rooted) Image() image.Image { return image.Image{Name: "cuda", Root: b.root} }
