package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/probe"
	"tare/probe/breakdown"
)

// record makes the recordings anew on which probe/breakdown is tested:
//
//	go test ./probe/profile -run TestRecord -record ../breakdown/testdata
var (
	record = flag.String("record", "", "directory to write recordings of real starts to")
	starts = flag.Int("starts", 8, "containers that each recording starts")
)

// TestRecord records starts of every way to start a container that is here.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("makes files: asked for by -record")
	}
	root := busyboxRoot(t)
	for _, c := range []struct {
		name  string
		start func(t *testing.T, root string) func() error
	}{
		{"docker", dockerStarts},
		{"runc", runtimeStarts("runc")},
		{"crun", runtimeStarts("crun")},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := c.start(t, root)
			recording := recordStarts(t, start, *starts, root)
			t.Logf("%d samples, %d idle, lost %d, throttled %d; %q", len(recording.Samples), recording.Idle, recording.Lost, recording.Throttled, recording.Cautions)
			save(t, filepath.Join(*record, c.name+".json.gz"), ours(recording.Stacks(), c.name == "docker"))
		})
	}
}

func recordStarts(t *testing.T, start func() error, n int, roots ...string) *Recording {
	t.Helper()
	if err := start(); err != nil { // once beforehand: what is only done the first time
		t.Fatal(err)
	}
	r := startOrSkip(t, Options{Roots: roots})
	for range n {
		if err := start(); err != nil {
			r.Discard()
			t.Fatal(err)
		}
	}
	recording, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return recording
}

func startOrSkip(t testing.TB, o Options) *Recorder {
	t.Helper()
	r, err := Start(t.Context(), o)
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// busyboxRoot is a root file system that holds nothing but a static busybox.
func busyboxRoot(t testing.TB) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox (busybox-static)")
	}
	root := t.TempDir()
	for _, dir := range []string{"bin", "dev", "etc", "proc", "sys", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/busybox"), b, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func quiet(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// dockerStarts starts containers of an image that is made of the root.
func dockerStarts(t *testing.T, root string) func() error {
	t.Helper()
	if err := quiet("docker", "version"); err != nil {
		t.Skipf("needs a Docker engine: %v", err)
	}
	image := fmt.Sprintf("tare-profile-test-%d", os.Getpid())
	tar := exec.Command("tar", "-C", root, "-c", ".")
	load := exec.Command("docker", "import", "-", image)
	var err error
	if load.Stdin, err = tar.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := tar.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
	if err := tar.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := quiet("docker", "rmi", image); err != nil {
			t.Error(err)
		}
	})
	return func() error { return quiet("docker", "run", "--rm", image, "/bin/busybox", "true") }
}

// runtimeStarts runs a bundle by a runtime's own command line.
func runtimeStarts(runtime string) func(t *testing.T, root string) func() error {
	return func(t *testing.T, root string) func() error {
		t.Helper()
		if _, err := exec.LookPath(runtime); err != nil {
			t.Skipf("needs %s", runtime)
		}
		if os.Geteuid() != 0 {
			t.Skipf("%s needs root", runtime)
		}
		bundle, state := t.TempDir(), t.TempDir()
		spec := exec.Command("runc", "spec")
		spec.Dir = bundle
		if out, err := spec.CombinedOutput(); err != nil {
			t.Skipf("runc spec: %v\n%s", err, out)
		}
		config := filepath.Join(bundle, "config.json")
		b, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		var c map[string]any
		if err := json.Unmarshal(b, &c); err != nil {
			t.Fatal(err)
		}
		c["root"] = map[string]any{"path": root}
		process := c["process"].(map[string]any)
		process["terminal"], process["args"] = false, []string{"/bin/busybox", "true"}
		if b, err = json.Marshal(c); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, b, 0o644); err != nil {
			t.Fatal(err)
		}
		n := 0
		return func() error {
			n++
			name := fmt.Sprintf("tare-profile-test-%d-%d", os.Getpid(), n)
			if runtime != "crun" {
				return quiet(runtime, "--root", state, "run", "--bundle", bundle, name)
			}
			// crun refuses a host with both versions of cgroups, and gets one
			// that seems to have version 2 alone.
			script := `if [ -d /sys/fs/cgroup/unified ]; then umount /sys/fs/cgroup/unified || exit; fi; exec "$@"`
			return quiet("unshare", "--mount", "sh", "-c", script, "crun", "crun", "--root", state, "run", "--bundle", bundle, name)
		}
	}
}

func save(t *testing.T, file string, stacks []breakdown.Stack) {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeStacks(z, stacks); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d stacks, %d KiB", file, len(stacks), b.Len()>>10)
}

// ours leaves out what has no part in these starts: other programs, other
// containers' and, where none was asked, the engine.
func ours(stacks []breakdown.Stack, engine bool) []breakdown.Stack {
	return slices.DeleteFunc(stacks, func(s breakdown.Stack) bool {
		switch probe.ComponentOf(s.Process, os.Getpid()) {
		case probe.Other:
			return true
		case probe.Client:
			return !engine || s.Process.Comm != "docker"
		case probe.Application:
			return s.Process.Comm != "busybox"
		case probe.Engine, probe.Containerd, probe.Shim:
			return !engine
		}
		return false
	})
}

// writeStacks writes a stack a line. Of processes it writes what distinguishes the
// component; the rest is of this machine, and makes stacks differ.
func writeStacks(w io.Writer, stacks []breakdown.Stack) error {
	var lines []string
	weights := map[string]float64{}
	for _, s := range stacks {
		weight := s.Weight
		s.Process.PID, s.Process.Parent, s.Weight = 1, 0, 0
		s.Process.Args = s.Process.Args[:min(1, len(s.Process.Args))]
		b, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if _, ok := weights[string(b)]; !ok {
			lines = append(lines, string(b))
		}
		weights[string(b)] += weight
	}
	// Alike ones side by side are compressed best.
	slices.Sort(lines)
	for _, line := range lines {
		if _, err := fmt.Fprintf(w, "%s%.3f}\n", strings.TrimSuffix(line, "0}"), weights[line]); err != nil {
			return err
		}
	}
	return nil
}
