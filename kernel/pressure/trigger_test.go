package pressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This test binary is also the program that wants more memory than it may have.
const wantEnv = "TARE_PRESSURE_TEST_READ"

func TestMain(m *testing.M) {
	if file := os.Getenv(wantEnv); file != "" {
		if err := readAgain(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// readAgain reads a file from its beginning to its end, over and over until it is ended.
func readAgain(file string) error {
	var one [1]byte
	if _, err := os.Stdin.Read(one[:]); err != nil { // in its group by then
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	b := make([]byte, 1<<20)
	for {
		for at := int64(0); ; at += int64(len(b)) {
			if n, err := f.ReadAt(b, at); n == 0 {
				if at == 0 {
					return err
				}
				break
			}
		}
	}
}

// anyWindow is one that needs no capability.
const anyWindow = 2 * time.Second

// group makes a control group with a limit of memory, and gives its places to join by
// and the one that has its pressure.
func group(t *testing.T, limit int) (places []string, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	if _, err := Host(Memory).Read(); err != nil {
		t.Skip(err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	limited := false
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line) // what, where, of what type, how
		one := f[2] == "cgroup" && strings.Contains(","+f[3]+",", ",memory,")
		if !one && f[2] != "cgroup2" {
			continue
		}
		place := filepath.Join(f[1], fmt.Sprintf("tare-pressure-test-%d", os.Getpid()))
		if err := os.Mkdir(place, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removeGroup(t, place) })
		file := "memory.max"
		if one {
			file = "memory.limit_in_bytes"
		} else {
			dir = place
		}
		if os.WriteFile(filepath.Join(place, file), []byte(strconv.Itoa(limit)), 0) == nil {
			limited = true
		}
		places = append(places, place)
	}
	if dir == "" || !limited {
		t.Skip("no cgroup version 2, or no memory controller")
	}
	return places, dir
}

// removeGroup removes a group whose last process has been reaped, and may still be
// being torn down, which makes no event.
func removeGroup(t *testing.T, dir string) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			t.Error(err)
			return
		}
	}
}

// next waits for an event, or the end of them.
func next(t *testing.T, events <-chan Event) (Event, bool) {
	t.Helper()
	select {
	case e, ok := <-events:
		return e, ok
	case <-time.After(time.Minute):
		t.Fatal("no event within a minute")
		return Event{}, false
	}
}

func TestTriggerOfAGroup(t *testing.T) {
	const size = 64 << 20
	places, dir := group(t, size/2)
	source := Group(dir, Memory)
	before, err := source.Read()
	if err != nil {
		t.Fatal(err)
	}
	events, err := source.Trigger(t.Context(), Threshold{Stall: time.Millisecond, Window: anyWindow})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	dropped(t, file)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), wantEnv+"="+file)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	for _, place := range places {
		if err := os.WriteFile(filepath.Join(place, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if _, err := in.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it goes on to report
		if e, ok := next(t, events); !ok || e.Err != nil || e.At.Before(began) {
			t.Fatalf("%+v, %v", e, ok)
		}
	}
	after, err := source.Read()
	if err != nil || after.Some.Total-before.Some.Total < time.Millisecond || after.Full.Total > after.Some.Total {
		t.Errorf("from %+v to %+v, %v", before, after, err)
	}
	// The group goes away under the watch.
	end()
	removeGroup(t, dir)
	for {
		e, ok := next(t, events)
		if !ok {
			t.Fatal("the watch ended without a reason")
		}
		var none *NoGroup
		if errors.As(e.Err, &none) && none.Dir == dir {
			break
		}
		if e.Err != nil {
			t.Fatal(e.Err)
		}
	}
	if _, ok := next(t, events); ok {
		t.Error("there is more after the end")
	}
	var none *NoGroup
	if _, err := source.Read(); !errors.As(err, &none) {
		t.Errorf("afterwards: %v", err)
	}
}

// dropped takes a file out of the page cache, so that who reads it is charged for it.
func dropped(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

func TestTriggerEndsWithItsContext(t *testing.T) {
	_, dir := group(t, 1<<30)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := Group(dir, Memory).Trigger(ctx, Threshold{Full: true, Stall: time.Second, Window: anyWindow})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if e, ok := next(t, events); ok {
		t.Errorf("%+v, want the end", e)
	}
}

func TestThreshold(t *testing.T) {
	if _, err := Host(Memory).Read(); err != nil || os.Geteuid() != 0 {
		t.Skipf("a trigger needs PSI (%v) and root", err)
	}
	for _, c := range []Threshold{
		{}, {Stall: time.Second}, {Stall: time.Second, Window: time.Millisecond},
		{Stall: time.Second, Window: time.Minute}, // more than the kernel takes
	} {
		if _, err := Host(Memory).Trigger(t.Context(), c); err == nil || !strings.Contains(err.Error(), c.Window.String()) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
