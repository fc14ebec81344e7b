package oci_test

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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/conformance"
	"tare/platform/held"
	"tare/platform/oci"
)

// A crash is a program of its own that launches and is killed with SIGKILL: at
// each entry in its ledger, just before the thing is made, and at moments after
// the last of them, while the runtime is at work. What its ledger lists is
// then removed by another, and nothing may be left.

// victimVariable holds a victim's orders.
const victimVariable = "TARE_TEST_VICTIM"

type victimOrders struct {
	Platform, State, Ledger, Name string
	Image                         image.Image
	DieAtEntry                    int           // from 1; 0 never
	DieAfter                      time.Duration // the last entry
	Last                          int           // number of the last entry
	AtRest                        bool          // die between Create and Start
}

// planned reports whether the victim is to die.
func (o victimOrders) planned() bool { return o.AtRest || o.DieAtEntry+o.Last > 0 }

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
	var o victimOrders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	file, err := os.OpenFile(o.Ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	p := o.platform(&fileLedger{orders: o, file: file})
	if err := p.Prepare(context.Background(), o.Image); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
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
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		die()
		select {} // it takes a moment
	}
	inst, err := p.Launch(context.Background(), spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if !o.planned() { // the one that tells how many entries there are
		_ = inst.Stop(context.Background())
		return 0
	}
	_, _ = inst.Wait(context.Background())
	return 2
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
		same := func(x platform.Entry) bool { return x.Kind == e.Kind && x.ID == e.ID }
		if scan.Bytes()[0] == '+' {
			entered++
			open = append(open, e)
		} else {
			open = slices.DeleteFunc(open, same)
		}
	}
	return open, entered
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
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command("/proc/self/exe")
				cmd.Env = append(os.Environ(), victimVariable+"="+string(text))
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if planned := o.planned(); planned != errors.As(err, &exit) || planned && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the victim ended with %v: %s", err, out)
				}
				open, entered := openEntries(t, o.Ledger)
				for _, e := range slices.Backward(open) {
					if err := p.Remove(t.Context(), e); err != nil {
						t.Errorf("%s after entry %d, %v: %v", e.Kind, o.DieAtEntry, o.DieAfter, err)
					}
				}
				nothingLeft(t, state, o.Name, open)
				return entered
			}
			entries := crash(base)
			for n := 1; n <= entries; n++ {
				o := base
				o.DieAtEntry = n
				crash(o)
			}
			resting := base
			resting.AtRest = true
			crash(resting)
			for _, after := range []time.Duration{1, 2, 4, 8, 16, 32, 200} {
				o := base
				o.Last, o.DieAfter = entries, after*time.Millisecond
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
