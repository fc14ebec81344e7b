package containerd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/client"

	"tare/image"
	"tare/kernel/accounting"
	"tare/kernel/cgroup"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/crashtest"
	"tare/platform/engine"
	"tare/platform/oci"
)

// keeps lists what containerd has of a container.
func (p *Platform) keeps(ctx context.Context, id string) (kept []string, err error) {
	for _, look := range []struct {
		what string
		ask  func(context.Context, *client.Client) error
	}{
		{"container", func(ctx context.Context, c *client.Client) error {
			_, err := c.ContainerService().Get(ctx, id)
			return err
		}},
		{"snapshot", func(ctx context.Context, c *client.Client) error {
			_, err := c.SnapshotService(snapshotter).Stat(ctx, id)
			return err
		}},
	} {
		switch err := p.call(ctx, "look for "+look.what+" "+id, look.ask); {
		case err == nil:
			kept = append(kept, look.what)
		case !gone(err):
			return kept, err
		}
	}
	return kept, nil
}

// prepared is real with an image, released at the end.
func prepared(t *testing.T) (*Platform, platform.Spec) {
	t.Helper()
	p := real(t)
	img := conformance.Image(t)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Release(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return p, platform.Spec{Name: "test-" + engine.NewMark(), Image: img, Args: []string{"sleep", "3600"}}
}

func launched(t *testing.T, p platform.Platform, spec platform.Spec) platform.Instance {
	t.Helper()
	inst, err := p.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return inst
}

func TestVersion(t *testing.T) {
	v := real(t).Version(t.Context())
	if !strings.HasPrefix(v, "containerd ") || !strings.Contains(v, ", runc ") || strings.ContainsAny(v, "~+\n") {
		t.Errorf("%q", v)
	}
}

// What was made by somebody else, or for another entry, is left alone.
func TestRemoveAsksForTheMark(t *testing.T) {
	p, spec := prepared(t)
	inst := launched(t, p, spec)
	for _, e := range []platform.Entry{
		{Kind: kindContainer, ID: spec.Name}, {Kind: kindContainer, ID: spec.Name, Attrs: map[string]string{labelLedger: engine.NewMark()}},
		{Kind: kindImage, ID: spec.Image.Reference}, {Kind: kindImage, ID: spec.Image.Reference, Attrs: map[string]string{labelLedger: engine.NewMark()}},
	} {
		e.Platform = Name
		if err := p.Remove(t.Context(), e); (err != nil) != (e.Attrs == nil) {
			t.Errorf("%s %v: %v", e.Kind, e.Attrs, err)
		}
	}
	if kept, err := p.keeps(t.Context(), spec.Name); len(kept) != 2 || err != nil {
		t.Errorf("of somebody's container is left only %v (%v)", kept, err)
	}
	if _, err := inst.Processes(); err != nil {
		t.Error(err)
	}
	if there, err := p.holds(t.Context(), spec.Image.Reference); !there || err != nil {
		t.Errorf("somebody's image is gone (%v)", err)
	}
}

// Another tare, with a state directory of its own, cannot take a name that is
// in use, at rest or running, and leaves what it met as it was.
func TestNameInUse(t *testing.T) {
	p, spec := prepared(t)
	other := New(Options{StateDir: t.TempDir(), Ledger: &book{}})
	refused := func(what string) {
		t.Helper()
		c, err := other.Create(t.Context(), spec)
		if err == nil {
			_ = c.Stop(t.Context())
			t.Errorf("%s: created", what)
		} else if !strings.Contains(err.Error(), "tare clean") {
			t.Errorf("%s: %v, want the mend", what, err)
		}
		if left := other.options.Ledger.(*book).left(); len(left) > 0 {
			t.Errorf("%s: in the ledger are still %v", what, left)
		}
	}
	c, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	refused("at rest")
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("running")
	inst, err := c.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := inst.Processes(); len(pids) != 1 || err != nil {
		t.Errorf("the first is disturbed: %v, %v", pids, err)
	}
}

// An image that containerd has is exported so that the store of images takes it. Of one that it has not, it says so.
func TestExport(t *testing.T) {
	p, spec := prepared(t)
	stream, err := p.Export(t.Context(), spec.Image.Reference)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	store, err := image.OpenStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.FromReader(t.Context(), "exported", stream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(img.Root, "bin/busybox")); err != nil {
		t.Error(err)
	}
	if _, err := p.Export(t.Context(), "tare.local/never-imported:0"); !errors.As(err, new(*UnknownImage)) {
		t.Errorf("of an unknown image: %v", err)
	}
	if _, err := p.Export(t.Context(), "No:Name:At:All"); err == nil {
		t.Error("of no name")
	}
}

func TestImageNotPrepared(t *testing.T) {
	p := real(t)
	img := conformance.Image(t)
	img.Reference = "tare.local/never-imported:0"
	_, err := p.Create(t.Context(), platform.Spec{Name: "test-" + engine.NewMark(), Image: img, Args: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), img.Reference) || !strings.Contains(err.Error(), "not prepared") {
		t.Errorf("%v", err)
	}
	if left := p.options.Ledger.(*book).left(); len(left) > 0 {
		t.Errorf("in the ledger are still %v", left)
	}
}

// The engine's processes are the daemon, and a shim for each of our containers.
func TestEnginePIDs(t *testing.T) {
	p, spec := prepared(t)
	before := p.EnginePIDs(t.Context())
	if len(before) != 1 {
		t.Fatalf("at rest: %v, want the daemon", before)
	}
	stat, err := procfs.Host.Process(before[0]).Stat()
	if err != nil || !strings.HasPrefix(stat.Comm, "containerd") && stat.Comm != "k3s-server" {
		t.Errorf("the daemon is %q (%v)", stat.Comm, err)
	}
	inst := launched(t, p, spec)
	// A shim of an earlier test may have ended and wait to be reaped.
	during := slices.DeleteFunc(p.EnginePIDs(t.Context()), func(pid int) bool {
		args, err := procfs.Host.Process(pid).Args()
		return err != nil || len(args) == 0
	})
	if len(during) != 2 || !slices.Contains(during, before[0]) {
		t.Fatalf("with one container: %v, want the daemon and a shim", during)
	}
	for _, pid := range during {
		if pid == before[0] {
			continue
		}
		args, err := procfs.Host.Process(pid).Args()
		if err != nil || !slices.Contains(args, spec.Name) {
			t.Errorf("the shim is %q (%v)", args, err)
		}
	}
	if p.options.Address == "" && os.Getenv(addressVariable) == "" {
		if err := reachable(t.Context(), p.shimSocket(spec.Name)); err != nil {
			t.Errorf("the shim's socket is not where containerd's rule has it: %v", err)
		}
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := p.EnginePIDs(t.Context()); !slices.Equal(after, before) {
		t.Errorf("afterwards: %v, want %v", after, before)
	}
}

// Another runtime below the same shim, where it can work on this host; where
// not, the setting is answered as one that means nothing here.
func TestOtherRuntime(t *testing.T) {
	p, spec := prepared(t)
	spec.Setting.Runtime = "crun"
	if err := p.Supports(spec.Setting); err != nil {
		t.Skip(err)
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	inst, err := p.Launch(t.Context(), spec)
	if err != nil {
		var unsupported *platform.Unsupported
		if !errors.As(err, &unsupported) || unsupported.Key != "runtime=crun" {
			t.Fatalf("%v, want a *platform.Unsupported", err)
		}
		if mode := layout.Mode(); !strings.HasPrefix(mode, "hybrid") {
			t.Errorf("refused for the cgroups, which are %s: %v", mode, err)
		}
		nothingKept(t, p, spec.Name)
		return
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A program has the same surroundings as below a bare runtime, and the same
// namespaces, filter and capabilities: one configuration serves both.
func TestEqualToBareRuntime(t *testing.T) {
	p, spec := prepared(t)
	bare := oci.New("runc", oci.Options{StateDir: t.TempDir()})
	if err := bare.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	spec.Data = []string{"/data"}
	spec.Setting = platform.Setting{Network: platform.NetworkBridge, Storage: platform.StorageTmpfs, Memory: 64 << 20}
	want, err := launched(t, bare, spec).InForce()
	if err != nil {
		t.Fatal(err)
	}
	spec.Name += "-too"
	got, err := launched(t, p, spec).InForce()
	if err != nil {
		t.Fatal(err)
	}
	if diff := conformance.Difference(want, got); diff != "" {
		t.Errorf("surroundings (-oci +containerd):\n%s", diff)
	}
	if got.Seccomp != want.Seccomp || got.Capability != want.Capability || got.RootFS != want.RootFS || got.Memory != want.Memory ||
		!slices.Equal(got.Namespaces, want.Namespaces) || !slices.Equal(got.DataFS, want.DataFS) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// What the program wrote at its very end is handed on, by a program that has
// ended before anybody took hold of it, too.
func TestOutputOfOneThatEndsAtOnce(t *testing.T) {
	p, spec := prepared(t)
	var out bytes.Buffer
	spec.Args, spec.Stdout = []string{"echo", "so short"}, &out
	c, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Its end is seen by what it leaves: a group without a process.
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	group := layout.At(platform.CgroupParent).Child(spec.Name)
	for pids, err := group.Processes(); len(pids) > 0 || err != nil; pids, err = group.Processes() {
		if err != nil {
			t.Fatal(err)
		}
	}
	inst, err := c.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exit, err := inst.Wait(t.Context())
	if err != nil || exit.Code != 0 || exit.Elapsed <= 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	if out.String() != "so short\n" {
		t.Errorf("it printed %q", out.String())
	}
	if usage, err := inst.Usage(); err != nil || usage.CPU <= 0 {
		t.Errorf("it used %+v (%v)", usage, err)
	}
}

func TestMain(m *testing.M) {
	if code, ours := crashtest.Main(victim); ours {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func TestShimServes(t *testing.T) {
	for _, c := range []struct {
		args []string
		id   string
		ours bool
	}{
		{[]string{"/usr/bin/containerd-shim-runc-v2", "-namespace", "tare", "-id", "redis-1", "-address", "/run/s"}, "redis-1", true},
		{[]string{"containerd-shim-runc-v2", "-namespace", "tare", "-address", "/run/s", "-id", "redis-1", "start"}, "redis-1", true},
		{[]string{"containerd-shim-runc-v2", "-namespace", "moby", "-id", "redis-1"}, "redis-1", false},
		{[]string{"containerd-shim-runc-v2", "-namespace", "tare", "-id"}, "", false},
		{nil, "", false},
	} {
		if id, ours := shimServes(c.args, namespace); id != c.id || ours != c.ours {
			t.Errorf("%q: %q, %v", c.args, id, ours)
		}
	}
}

// TestShimsAreContainerds: what only calls itself a shim is none.
func TestShimsAreContainerds(t *testing.T) {
	const id = "posing-1"
	cmd := exec.Command("/bin/sh", "-c", `echo containerd-shim > /proc/$$/comm; echo ready; read end`, "shim", "-namespace", namespace, "-id", id)
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	all, err := accounting.Take("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if all.Processes[cmd.Process.Pid].Command != shimCommand {
		t.Fatalf("it calls itself %q", all.Processes[cmd.Process.Pid].Command)
	}
	if got := shims(all, namespace, func(of string) bool { return of == id }); len(got) > 0 {
		t.Errorf("process %d passes for a shim", cmd.Process.Pid)
	}
}
