package keyvalue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/accounting"
	"tare/lab"
	"tare/platform"
	metal "tare/platform/bare"
	"tare/record"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/workload"
)

func TestMain(m *testing.M) {
	metal.Reexec()
	os.Exit(m.Run())
}

// The smallest design that has all that is asked below, carried out by the lab on the
// engine of this host and on bare metal: a cell without persistence, over both
// networks, and one with it, and the disk floors beside that.
func TestOnAnEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("runs Redis on the engine: left out by -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	state := t.TempDir()
	session, _, err := lab.OpenSession(t.Context(), filepath.Join(state, "lock"), state, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	engine, err := session.Platforms("docker")
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	// Bare metal and the host's network have one port between them.
	l, err := net.Listen("tcp", "0.0.0.0:6379")
	if err != nil {
		t.Skipf("Redis' port is taken: %v", err)
	}
	l.Close()
	images, err := image.OpenStore(filepath.Join(os.TempDir(), "tare-test-images"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, recipe := range []string{"redis", "fio"} {
		if _, err := images.Recipe(t.Context(), recipe); err != nil {
			if missing := (*image.Missing)(nil); errors.As(err, &missing) {
				t.Skip(err)
			}
			t.Fatal(err)
		}
	}
	store, err := record.Open(filepath.Join(state, "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()

	o := Quick()
	o.Commands, o.Pipelines, o.Clients, o.Requests, o.Syncs = []string{"get"}, []int{1}, 20, 1000, leastSyncs
	o.Storages, o.AppendOnly = []platform.Storage{platform.StorageVolume}, []string{appendNo, appendAlways}
	o.Plan = record.Plan{Blocks: 1, Level: 0.95, SmallestEffect: 0.02}
	o.Host = place.Host{Host: kit.Host{Platform: session.Platforms, Check: func(p platform.Platform) error { return p.Check(t.Context()) }}}
	generated := 0
	bench := &lab.Lab{
		Store: store, Platforms: session.Platforms,
		Image: func(ctx context.Context, src workload.Source) (image.Image, error) {
			return images.Recipe(ctx, src.Recipe)
		},
		// Whether it goes is asked here, and not how fast: a busy host repeats nothing.
		Judge: func(accounting.Interval, float64, bool) []string { return nil },
		Generate: func(ctx context.Context, img image.Image, netns string, args []string) ([]byte, error) {
			generated++
			return metal.Generate(ctx, metal.GeneratorSpec{Options: metal.Options{StateDir: state, Ledger: session.Ledger},
				Name: fmt.Sprintf("load-%d-%d", os.Getpid(), generated), Image: img, Args: args, NetNS: netns})
		},
	}
	began := time.Now()
	run, err := bench.Run(t.Context(), designed(t, o), record.Run{ID: record.NewID(place.Study, began, 1), Study: place.Study, Started: began, Status: record.Running})
	if err != nil {
		t.Fatal(err)
	}
	r := read(run)
	if len(r.memory) != 1 || len(r.persistent) != 1 {
		t.Fatalf("%d cells and %d with persistence", len(r.memory), len(r.persistent))
	}
	for _, c := range append(r.memory, r.persistent...) {
		for _, at := range append(c.places, c.base) {
			if v := r.rate(c, at).Value; !(v > 0) {
				t.Errorf("%s on %s: %v requests a second", c.name(), at.Label, v)
			}
		}
		for _, f := range c.floors {
			if v := r.Value(f, floorSyncs).Value; !(v > 0) {
				t.Errorf("%s: %v writes a second", f.Label, v)
			}
		}
	}
	if got := len(r.separate("docker")); got != 1 {
		t.Errorf("%d cells are separated, want 1", got)
	}
	// What was written is in the append-only file: the server was configured so, and fio's floor
	// writes as much at a time.
	c := r.persistent[0]
	if size := c.floors[0].Params["size"]; size != "900" { // 20 clients' SET of three bytes
		t.Errorf("the floor writes %s bytes at a time", size)
	}
	if parts := Parts(run); len(parts) < 4 {
		t.Errorf("a page of %d parts", len(parts))
	}
}
