package bandwidth

import (
	"context"
	"errors"
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

// A small design, carried out by the lab on bare metal and on what this host has of
// containers: with more processes than it has CPUs, and in a network of none.
func TestOnThisHost(t *testing.T) {
	if testing.Short() {
		t.Skip("makes images and runs MPI: left out by -short")
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
	images, err := image.OpenStore(filepath.Join(os.TempDir(), "tare-test-images"), nil)
	if err != nil {
		t.Fatal(err)
	}
	recipes := []string{program}
	if _, err := images.Recipe(t.Context(), peer); err == nil {
		recipes = append(recipes, peer)
	}
	for _, recipe := range recipes {
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

	o := Quick(0)
	o.Platforms, o.Storages = nil, []platform.Storage{platform.StorageBind} // volumes are an engine's
	for _, name := range []string{"oci:runc", "docker"} {
		if p, err := session.Platforms(name); err == nil && p.Check(t.Context()) == nil {
			o.Platforms = append(o.Platforms, name)
			if name == "docker" {
				o.Storages = []platform.Storage{platform.StorageVolume}
			}
		} else {
			t.Logf("without %s", name)
		}
	}
	if len(o.Platforms) == 0 {
		t.Skip("neither an OCI runtime nor an engine")
	}
	o.Elements, o.Processes, o.Repetitions = []int64{leastElements}, []int{2, 17}, 2
	o.Peer = len(recipes) > 1
	o.Plan = record.Plan{Blocks: 1, Level: 0.95, SmallestEffect: 0.02}
	o.Host = place.Host{Host: kit.Host{CPUs: []int{0, 1}, Platform: session.Platforms, Check: func(p platform.Platform) error { return p.Check(t.Context()) }}}
	d := designed(t, o)
	for i := range d.Groups {
		d.Groups[i].Once = true // bare metal too
		for j := range d.Groups[i].Conditions {
			if c := &d.Groups[i].Conditions[j]; c.Platform != place.Bare {
				c.Setting.Network = platform.NetworkNone
			}
		}
	}
	bench := &lab.Lab{
		Store: store, Platforms: session.Platforms,
		Image: func(ctx context.Context, src workload.Source) (image.Image, error) {
			return images.Recipe(ctx, src.Recipe)
		},
		// Whether it goes is asked here, and not how fast: a busy host repeats nothing.
		Judge: func(accounting.Interval, float64, bool) []string { return nil },
	}
	began := time.Now()
	run, err := bench.Run(t.Context(), d, record.Run{ID: record.NewID(place.Study, began, 1), Study: place.Study, Started: began, Status: record.Running})
	if err != nil {
		t.Fatal(err)
	}
	r := read(run)
	if len(r.spots) != 2 {
		t.Fatalf("%d cells, want 2", len(r.spots))
	}
	for _, s := range r.spots {
		for _, c := range append(s.contained(), s.base) {
			for _, kernel := range kernels {
				// Where a kernel went by once they are the same, but for how each was rounded.
				if best, whole := r.Value(c, kernel).Value, r.Value(c, kernel+average).Value; !(whole > 0) || best < whole*(1-1e-9) {
					t.Errorf("%s on %s: %s at best %g B/s, on average %g", s.text(), c.Label, kernel, best, whole)
				}
			}
		}
		if !s.reported {
			t.Errorf("%s: nobody says whether caches hold it", s.text())
		}
	}
	if c, ok := r.spots[0].peer(); o.Peer && (!ok || !(r.Value(c, "triad"+average).Value > 0)) {
		t.Error("the peer has no figure")
	}
	if parts := Parts(run); len(parts) < 2 {
		t.Errorf("a page of %d parts", len(parts))
	}
}
