package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/crashtest"
	"tare/platform/engine"
	"tare/platform/held"
)

// victimOrders are of a program that launches and is killed: at each entry in its ledger, and
// after the last of them, while containerd, the shim and the runtime are at work.
type victimOrders struct {
	State, Ledger, Name string
	Image               image.Image
	crashtest.Moment
}

// victim is the program that crashes.
func victim(o victimOrders) error {
	ledger, err := crashtest.Open(o.Ledger, o.Moment)
	if err != nil {
		return err
	}
	p := New(Options{StateDir: o.State, Ledger: ledger})
	if err := p.Prepare(context.Background(), o.Image); err != nil {
		return err
	}
	inst, err := p.Launch(context.Background(), platform.Spec{
		Name: o.Name, Image: o.Image, Args: []string{"sh", "-c", "setsid sleep 3600 & sleep 3600"}, Data: []string{"/data"},
		Setting: platform.Setting{Memory: 128 << 20, Network: platform.NetworkBridge, Storage: platform.StorageTmpfs},
	})
	if err != nil {
		return err
	}
	if o.Never() { // the one that tells how many entries there are
		return errors.Join(inst.Stop(context.Background()), p.Release(context.Background()))
	}
	_, err = inst.Wait(context.Background())
	return errors.Join(errors.New("it lives"), err)
}

func TestKilledAtAnyMoment(t *testing.T) {
	p := real(t)
	img := conformance.Image(t)
	// Of this test alone, so that the import is the victim's each time.
	state := t.TempDir()
	p.options.StateDir = state
	serial, run := 0, engine.NewMark()
	crash := func(m crashtest.Moment) (entered int) {
		t.Helper()
		serial++
		o := victimOrders{State: state, Image: img, Name: fmt.Sprintf("victim-%s-%d", run, serial), Moment: m}
		o.Ledger = filepath.Join(state, o.Name+".ledger")
		crashtest.Run(t, o, !m.Never())
		open, entered := crashtest.Remove(t, p, o.Ledger)
		nothingLeft(t, p, o, open)
		return entered
	}
	entries := crash(crashtest.Moment{})
	for n := 1; n <= entries; n++ {
		crash(crashtest.Moment{At: n})
	}
	// Entry 1 is the image: while it is imported and unpacked.
	for _, after := range []time.Duration{2, 10, 30} {
		crash(crashtest.Moment{Last: 1, After: after * time.Millisecond})
	}
	for _, after := range []time.Duration{1, 4, 16, 32, 64, 128, 1000} {
		crash(crashtest.Moment{Last: entries, After: after * time.Millisecond})
	}
}

func nothingLeft(t *testing.T, p *Platform, o victimOrders, entries []platform.Entry) {
	t.Helper()
	nothingKept(t, p, o.Name)
	if there, err := p.holds(t.Context(), o.Image.Reference); there || err != nil {
		t.Errorf("the image is left (%v)", err)
	}
	if points, err := mount.Below(o.State); len(points) > 0 || err != nil {
		t.Errorf("mounted: %v, %v", points, err)
	}
	if _, err := os.Stat(filepath.Join(o.State, "trials", o.Name)); err == nil {
		t.Error("its directory is left")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch e.Kind {
		case held.Cgroup:
			if layout.At(e.ID).Exists() {
				t.Errorf("cgroup %s is left", e.ID)
			}
		case held.Link:
			if e.ID == "tare0" {
				continue // shared with whoever else tests on this host
			}
			if link, err := netns.Exists(e.ID); link || err != nil {
				t.Errorf("device %s is left (%v)", e.ID, err)
			}
		}
	}
	if socket := p.shimSocket(o.Name); reachable(t.Context(), socket) == nil {
		t.Errorf("its shim listens at %s", socket)
	} else if _, err := os.Lstat(socket); err == nil {
		t.Errorf("its shim's socket %s is left", socket)
	}
	p.enter(o.Name)
	defer p.leave(o.Name)
	// A shim goes a moment after its last task.
	for until := time.Now().Add(10 * time.Second); ; {
		keepers := len(p.EnginePIDs(t.Context())) - 1
		if keepers == 0 {
			return
		}
		if time.Now().After(until) {
			t.Errorf("%d shims are left of %s, killed at %+v", keepers, o.Name, o.Moment)
			return
		}
		time.Sleep(10 * time.Millisecond) // there is no event for a shim's end
	}
}
