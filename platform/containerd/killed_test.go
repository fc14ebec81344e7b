package containerd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/engine"
	"tare/platform/held"
)

// A crash is a program of its own that launches and is killed with SIGKILL: at
// each entry in its ledger, just before the thing is made, and at moments after
// the last of them, while containerd, the shim and the runtime are at work.
// What its ledger lists is then removed by another, and nothing may be left.

// victimVariable holds a victim's orders.
const victimVariable = "TARE_TEST_VICTIM"

type victimOrders struct {
	State, Ledger, Name string
	Image               image.Image
	DieAtEntry          int           // from 1; 0 never
	Last                int           // number of the last entry
	DieAfter            time.Duration // the last entry
}

// planned reports whether the victim is to die.
func (o victimOrders) planned() bool { return o.DieAtEntry+o.Last > 0 }

// fileLedger writes a line for each entry ("+") and each crossing out ("-").
type fileLedger struct {
	orders victimOrders
	mu     sync.Mutex
	file   *os.File
	n      int
}

func (l *fileLedger) write(sign string, e platform.Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(l.file, "%s%s\n", sign, b)
	return err
}

func (l *fileLedger) Add(e platform.Entry) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write("+", e); err != nil {
		return nil, err
	}
	l.n++
	if l.n == l.orders.DieAtEntry {
		die()
	}
	if l.n == l.orders.Last {
		time.AfterFunc(l.orders.DieAfter, die)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.write("-", e)
	}, nil
}

func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
}

// victim is the program that crashes.
func victim(text string) int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 2 }
	var o victimOrders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fail(err)
	}
	file, err := os.OpenFile(o.Ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	p := New(Options{StateDir: o.State, Ledger: &fileLedger{orders: o, file: file}})
	if err := p.Prepare(context.Background(), o.Image); err != nil {
		return fail(err)
	}
	inst, err := p.Launch(context.Background(), platform.Spec{
		Name: o.Name, Image: o.Image, Args: []string{"sh", "-c", "setsid sleep 3600 & sleep 3600"}, Data: []string{"/data"},
		Setting: platform.Setting{Memory: 128 << 20, Network: platform.NetworkBridge, Storage: platform.StorageTmpfs},
	})
	if err != nil {
		return fail(err)
	}
	if o.planned() {
		_, _ = inst.Wait(context.Background())
		return 2
	}
	// The one that tells how many entries there are.
	if err := errors.Join(inst.Stop(context.Background()), p.Release(context.Background())); err != nil {
		return fail(err)
	}
	return 0
}

// openEntries reads what a ledger has not crossed out.
func openEntries(t *testing.T, file string) (open []platform.Entry, entered int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var e platform.Entry
		if err := json.Unmarshal(scan.Bytes()[1:], &e); err != nil {
			t.Fatal(err)
		}
		if scan.Bytes()[0] == '+' {
			entered++
			open = append(open, e)
			continue
		}
		open = slices.DeleteFunc(open, func(x platform.Entry) bool { return x.Kind == e.Kind && x.ID == e.ID })
	}
	return open, entered
}

func TestKilledAtAnyMoment(t *testing.T) {
	p := real(t)
	img := conformance.Image(t)
	// Of this test alone, so that the import is the victim's each time.
	state := t.TempDir()
	p.options.StateDir = state
	serial, run := 0, engine.NewMark()
	crash := func(o victimOrders) (entered int) {
		t.Helper()
		serial++
		o.State, o.Image = state, img
		o.Name = fmt.Sprintf("victim-%s-%d", run, serial)
		o.Ledger = filepath.Join(state, o.Name+".ledger")
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), victimVariable+"="+string(text))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) != o.planned() || o.planned() && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the victim ended with %v: %s", err, out)
		}
		open, entered := openEntries(t, o.Ledger)
		for _, e := range slices.Backward(open) {
			if err := p.Remove(t.Context(), e); err != nil {
				t.Errorf("the %s %s, after entry %d, %v: %v", e.Kind, e.ID, o.DieAtEntry, o.DieAfter, err)
			}
		}
		nothingLeft(t, p, o, open)
		return entered
	}
	entries := crash(victimOrders{})
	for n := 1; n <= entries; n++ {
		crash(victimOrders{DieAtEntry: n})
	}
	// Entry 1 is the image: while it is imported and unpacked.
	for _, after := range []time.Duration{2, 10, 30} {
		crash(victimOrders{Last: 1, DieAfter: after * time.Millisecond})
	}
	for _, after := range []time.Duration{1, 4, 16, 32, 64, 128, 1000} {
		crash(victimOrders{Last: entries, DieAfter: after * time.Millisecond})
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
			t.Errorf("%d shims are left of %s, after entry %d, %d and %v", keepers, o.Name, o.DieAtEntry, o.Last, o.DieAfter)
			return
		}
		time.Sleep(10 * time.Millisecond) // there is no event for a shim's end
	}
}
