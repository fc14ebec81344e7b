package oci_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/image"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/oci"
)

// A sandbox answers for its program as a container does, but for what the
// host's kernel cannot see into.
func TestSandbox(t *testing.T) {
	state := t.TempDir()
	p := oci.New("runsc", oci.Options{StateDir: state})
	if err := p.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	img := conformance.Image(t)
	// Other tests' victims may have become this program's children.
	before := children(t)
	left := func() { left(t, state, before) }
	launch := func(args ...string) (platform.Instance, *bytes.Buffer) {
		t.Helper()
		var out bytes.Buffer
		inst, err := p.Launch(t.Context(), platform.Spec{Name: "sandbox", Image: img, Args: args, Data: []string{"/data"}, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		return inst, &out
	}
	stop := func(inst platform.Instance) {
		t.Helper()
		if err := inst.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		left()
	}

	inst, out := launch("sh", "-c", "echo to output; ls /data; touch /data/x /tmp/x; exit 3")
	exit, err := inst.Wait(t.Context())
	if exit.Code != 3 || out.String() != "to output\n" || err != nil {
		t.Errorf("exit %+v, %v, output %q", exit, err, out)
	}
	if usage, err := inst.Usage(); usage.CPU <= 0 || err != nil {
		t.Errorf("usage %+v, %v", usage, err)
	}
	stop(inst)

	inst, _ = launch("sleep", "3600")
	pids, err := inst.Processes()
	if err != nil || len(pids) < 2 {
		t.Errorf("processes %v, %v: want the sandbox and its file server", pids, err)
	}
	force, err := inst.InForce()
	if err != nil || !slices.ContainsFunc(force.Cgroups, func(c string) bool { return strings.HasSuffix(c, ":/tare/sandbox") }) {
		t.Errorf("cgroups %v, %v", force.Cgroups, err)
	}
	stop(inst)
	if exit, err := inst.Wait(t.Context()); exit.Code != 137 || err != nil {
		t.Errorf("stopped: %+v, %v", exit, err)
	}

	if _, err := p.Launch(t.Context(), platform.Spec{Name: "sandbox", Image: img, Args: []string{"no-such-program"}}); err == nil {
		t.Error("launched what is not there")
	}
	left()
	broken := image.Image{Name: "broken", Root: t.TempDir()}
	if _, err := p.Launch(t.Context(), platform.Spec{Name: "sandbox", Image: broken, Args: []string{"true"}}); err == nil {
		t.Error("launched from an empty image")
	}
	left()
}

// What runsc is given makes it slower than people run it, and is not left unsaid.
func TestSandboxSaysHowItIsRun(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]struct{ version, why string }{
		"runsc": {"runsc 1.2 --platform=ptrace --ignore-cgroups", "ptrace"},
		"runc":  {"runc 1.2", ""},
	} {
		runtime := filepath.Join(dir, name)
		if err := os.WriteFile(runtime, []byte("#!/bin/sh\necho "+name+" version 1.2\necho spec: 1.0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		p := oci.New(runtime, oci.Options{StateDir: dir})
		if got := p.Version(t.Context()); got != want.version {
			t.Errorf("version %q, want %q", got, want.version)
		}
		says, ok := p.(interface{ NotRepresentative() string })
		if !ok {
			t.Fatal("it does not say whether it is representative")
		}
		if got := says.NotRepresentative(); (got == "") != (want.why == "") || !strings.Contains(got, want.why) {
			t.Errorf("%s says %q, want something of %q", name, got, want.why)
		}
	}
}

func children(t *testing.T) []int {
	t.Helper()
	pids, err := procfs.Host.Process(os.Getpid()).Children()
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func left(t *testing.T, state string, before []int) {
	t.Helper()
	for _, dir := range []string{"trials", "oci/runsc"} {
		entries, err := os.ReadDir(state + "/" + dir)
		for _, e := range entries {
			t.Errorf("%s/%s is left", dir, e.Name())
		}
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	for _, pid := range children(t) {
		if !slices.Contains(before, pid) {
			t.Errorf("child %d is left", pid)
		}
	}
}
