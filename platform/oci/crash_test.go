package oci_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/conformance"
	"tare/platform/crashtest"
	"tare/platform/held"
	"tare/platform/oci"
)

// victimOrders are of a program that launches and is killed: at each entry in its ledger, and
// after the last of them, while the runtime is at work.
type victimOrders struct {
	Platform, State, Ledger, Name string
	Image                         image.Image
	crashtest.Moment
	AtRest bool // die between Create and Start
}

func (o victimOrders) platform(l platform.Ledger) platform.Platform {
	switch name := o.Platform; name {
	case bare.Bare:
		return bare.New(bare.Options{StateDir: o.State, Ledger: l})
	case bare.Cgroup:
		return bare.NewInCgroup(bare.Options{StateDir: o.State, Ledger: l})
	default:
		return oci.New(strings.TrimPrefix(name, "oci:"), oci.Options{StateDir: o.State, Ledger: l})
	}
}

// victim is the program that crashes.
func victim(o victimOrders) error {
	ledger, err := crashtest.Open(o.Ledger, o.Moment)
	if err != nil {
		return err
	}
	p := o.platform(ledger)
	if err := p.Prepare(context.Background(), o.Image); err != nil {
		return err
	}
	setting := platform.Setting{Memory: 128 << 20, Network: platform.NetworkBridge, Storage: platform.StorageTmpfs}
	if p.Supports(setting) != nil {
		setting = platform.Setting{Storage: platform.StorageTmpfs}
	}
	spec := platform.Spec{
		Name: o.Name, Image: o.Image, Args: []string{"sh", "-c", "setsid sleep 3600 & sleep 3600"}, Data: []string{"/data"}, Setting: setting,
	}
	if o.AtRest {
		if _, err := p.(platform.Creator).Create(context.Background(), spec); err != nil {
			return err
		}
		crashtest.Die()
	}
	inst, err := p.Launch(context.Background(), spec)
	if err != nil {
		return err
	}
	if o.Never() { // the one that tells how many entries there are
		return inst.Stop(context.Background())
	}
	_, err = inst.Wait(context.Background())
	return errors.Join(errors.New("it lives"), err)
}

func TestKilledAtAnyMoment(t *testing.T) {
	img := conformance.Image(t)
	for _, name := range []string{bare.Bare, bare.Cgroup, "oci:runc", "oci:crun"} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			base := victimOrders{Platform: name, State: state, Image: img}
			p := base.platform(nil)
			if err := p.Check(t.Context()); err != nil {
				t.Skip(err)
			}
			serial := 0
			crash := func(o victimOrders) (entered int) {
				t.Helper()
				serial++
				o.Name = fmt.Sprintf("victim-%d-%d", os.Getpid(), serial)
				o.Ledger = filepath.Join(state, o.Name+".ledger")
				crashtest.Run(t, o, o.AtRest || !o.Never())
				open, entered := crashtest.Remove(t, p, o.Ledger)
				nothingLeft(t, state, o.Name, open)
				return entered
			}
			entries := crash(base)
			for n := 1; n <= entries; n++ {
				o := base
				o.At = n
				crash(o)
			}
			resting := base
			resting.AtRest = true
			crash(resting)
			for _, after := range []time.Duration{1, 2, 4, 8, 16, 32, 200} {
				o := base
				o.Last, o.After = entries, after*time.Millisecond
				crash(o)
			}
		})
	}
}

func nothingLeft(t *testing.T, state, name string, entries []platform.Entry) {
	t.Helper()
	if points, err := mount.Below(state); len(points) > 0 || err != nil {
		t.Errorf("mounted: %v, %v", points, err)
	}
	if _, err := os.Stat(filepath.Join(state, "trials", name)); err == nil {
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
			// Another test on this host may have taken the name since.
			if address, err := os.ReadFile(filepath.Join("/sys/class/net", e.ID, "address")); err == nil && strings.TrimSpace(string(address)) == e.Attrs[held.MAC] {
				t.Errorf("device %s is left", e.ID)
			}
		}
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		process := procfs.Host.Process(pid)
		// A zombie is the host's init's to reap, in its own time.
		if stat, err := process.Stat(); err != nil || stat.Zombie() {
			continue
		}
		if b, err := os.ReadFile(process.Path("cgroup")); err == nil && strings.Contains(string(b), "/"+name+"\n") {
			args, _ := process.Args()
			t.Errorf("process %d (%q) is left", pid, args)
		}
	}
	notes, _ := filepath.Glob(filepath.Join(state, "oci", "*", name+"*"))
	if len(notes) > 0 {
		t.Errorf("the runtime still knows %v", notes)
	}
}
