package calls

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"tare/probe"
)

func TestLayoutsAgree(t *testing.T) {
	spec, err := loadObject()
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]uintptr{
		objectMapCountsOf: unsafe.Sizeof(Counts{}), objectMapNamesOf: nameSize,
	} {
		if got := spec.Maps[name].ValueSize; uintptr(got) != size {
			t.Errorf("%s has %d bytes in the program and %d here", name, got, size)
		}
	}
}

// Whoever has the id of a process that ended, before a window or in it, is not taken for that.
func TestUsedAgainIDs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs requires root")
	}
	counter, err := Open(1)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	lists := 0
	first := func() [][]int { // this process has the id of one that was there the first time
		if lists++; lists == 1 {
			return [][]int{{os.Getpid()}}
		}
		return [][]int{nil}
	}
	if err := counter.Watch(t.Context(), first, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if seen := counter.Seen()[0]; seen.Calls > 0 {
		t.Errorf("%d calls of a process that is not the target's any more", seen.Calls)
	}
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	lists = 0
	err = counter.Watch(ctx, func() [][]int {
		if lists++; lists == 2 { // its end is seen from here on
			go func() {
				_ = sleep.Process.Kill()
				_, _ = sleep.Process.Wait()
				cancel()
			}()
		}
		return [][]int{{sleep.Process.Pid}}
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var pid int32
	var target uint32
	for all := counter.collection.Maps[objectMapFollowed].Iterate(); all.Next(&pid, &target); {
		t.Errorf("process %d, which ended in the window, is followed", pid)
	}
}

// What this process looks up while windows are open is counted, and some names are kept.
func TestWindows(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs requires root")
	}
	counter, err := Open(2)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	name := filepath.Join(t.TempDir(), "looked up")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var opened atomic.Uint64
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if f, err := os.Open(name); err == nil {
				_ = f.Close()
				opened.Add(1)
			}
		}
	}()
	before := opened.Load()
	for range 2 {
		processes := func() [][]int { return [][]int{{1 << 22}, {os.Getpid()}} }
		if err := counter.Watch(t.Context(), processes, 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	most := opened.Load() - before
	close(stop)
	<-stopped
	none, own := counter.Seen()[0], counter.Seen()[1]
	if none.Calls != 0 || len(none.Names) > 0 {
		t.Errorf("%+v of a process that does not exist", none)
	}
	if own.Opens == 0 || own.Opens > most+2 || own.Lookups < own.Opens || own.Calls < own.Lookups+own.Opens-2 {
		t.Errorf("%d calls, %d lookups and %d opens, of at most %d", own.Calls, own.Lookups, own.Opens, most)
	}
	if !slices.ContainsFunc(own.Names, func(n Name) bool { return n.Text == name && n.PID == os.Getpid() && n.Directory < 0 }) {
		t.Errorf("names %+v, want %s among them", own.Names, name)
	}
	if len(own.Names) > 2*namesEach {
		t.Errorf("%d names, want at most %d a window", len(own.Names), namesEach)
	}
	if rate, half := own.PerSecond(own.Opens); rate <= 0 || half <= 0 || half >= rate {
		t.Errorf("%v opens a second, half-width %v", rate, half)
	}
}
