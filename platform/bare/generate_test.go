package bare_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/conformance"
)

// needs skips where bare metal cannot run.
func needs(t *testing.T) {
	t.Helper()
	if err := bare.New(bare.Options{StateDir: t.TempDir()}).Check(t.Context()); err != nil {
		t.Skip(err)
	}
}

// open counts what a ledger holds.
type open struct{ entries []platform.Entry }

func (o *open) Add(e platform.Entry) (func(), error) {
	o.entries = append(o.entries, e)
	return func() {
		o.entries = slices.DeleteFunc(o.entries, func(x platform.Entry) bool { return x.Kind == e.Kind && x.ID == e.ID })
	}, nil
}

func TestGenerate(t *testing.T) {
	needs(t)
	ledger := &open{}
	spec := bare.GeneratorSpec{
		Options: bare.Options{StateDir: t.TempDir(), Ledger: ledger}, Name: "generate-test", Image: conformance.Image(t), Env: []string{"ADDED=1"},
	}
	run := func(args ...string) (string, error) {
		spec.Args = args
		out, err := bare.Generate(t.Context(), spec)
		if len(ledger.entries) > 0 {
			t.Errorf("%v left %v", args, ledger.entries)
		}
		if entries, err := os.ReadDir(spec.StateDir + "/trials"); len(entries) > 0 || err != nil {
			t.Errorf("%v left %v (%v)", args, entries, err)
		}
		return string(out), err
	}

	// First to die, in a group of its own, in the image's root, with the surroundings.
	out, err := run("sh", "-c", "cat /proc/self/oom_score_adj; cat /proc/self/cgroup; ls /www; echo $ADDED $HOSTNAME; echo unheard >&2")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out, "1000\n") || !strings.Contains(out, "/tare-load/generate-test\n") || !strings.HasSuffix(out, "index.html\n1 tare\n") {
		t.Errorf("printed %q", out)
	}

	out, err = run("sh", "-c", "echo so far; echo the reason >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "status 3: the reason") || out != "so far\n" {
		t.Errorf("a bad end: %q, %v", out, err)
	}
	if _, err = run("sh", "-c", "kill -9 $$"); err == nil || !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("a violent end: %v", err)
	}
	if _, err = run("no-such-load"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no-such-load") {
		t.Errorf("no such program: %v", err)
	}
	// A daemon neither delays the end nor survives it.
	if out, err = run("sh", "-c", "setsid sleep 3600 & echo done"); out != "done\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	spec.Args = []string{"sh", "-c", "sleep 3600 & sleep 3600"}
	if _, err := bare.Generate(ctx, spec); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
	if len(ledger.entries) > 0 {
		t.Errorf("cancelled, it left %v", ledger.entries)
	}
}

// The daemons that a bare program leaves are this program's children, dead or
// alive, until Stop reaps them.
func TestAdoptedDaemonsAreReaped(t *testing.T) {
	needs(t)
	p := bare.New(bare.Options{StateDir: t.TempDir()})
	inst, err := p.Launch(t.Context(), platform.Spec{
		Name: "adopted", Image: conformance.Image(t),
		Args: []string{"sh", "-c", "(setsid true &); (setsid sh -c 'sleep 3600 & sleep 3600' &); (setsid sleep 3600 &); exit 0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	daemons, err := inst.Processes()
	if err != nil || len(daemons) < 2 {
		t.Fatalf("daemons %v (%v), want those that sleep", daemons, err)
	}
	for _, pid := range daemons {
		if !descends(t, pid) {
			t.Errorf("daemon %d is no descendant of this program", pid)
		}
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	children, err := procfs.Host.Process(os.Getpid()).Children()
	if err != nil || len(children) > 0 {
		t.Errorf("children %v are left (%v)", children, err)
	}
}

// descends reports whether this program is among the process' ancestors; one
// that is gone has none to ask for.
func descends(t *testing.T, pid int) bool {
	t.Helper()
	for pid > 1 && pid != os.Getpid() {
		stat, err := procfs.Host.Process(pid).Stat()
		if procfs.Gone(err) {
			return true
		}
		if err != nil {
			t.Fatal(err)
		}
		pid = stat.Parent
	}
	return pid == os.Getpid()
}
