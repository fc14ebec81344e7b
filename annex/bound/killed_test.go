package bound

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/annex/annextest"
	"tare/annex/guard"
	"tare/container"
	"tare/kernel/process"
)

// A daemon that is killed is this program, started again, which reclaims from a group by
// its limit over and over.

const (
	daemonVariable  = "TARE_BOUND_TEST_DAEMON"
	journalVariable = "TARE_BOUND_TEST_JOURNAL"
)

// reclaimForEver says the id of its guard, and a word before it begins with each reclaim.
func reclaimForEver(directory, journal string) error {
	g, err := guard.Start(context.Background(), guard.Options{Journal: journal})
	if err != nil {
		return err
	}
	fmt.Println(g.PID())
	limit := filepath.Join(directory, "memory.limit_in_bytes")
	for {
		b, err := New(Options{Knobs: g})
		if err != nil {
			return err
		}
		usage, err := b.Container(container.Container{ID: "a", Cgroup: directory})
		if err != nil {
			return err
		}
		fmt.Println("now")
		// Whatever is there goes: it is about the limit, and this is when it is low for long.
		if _, err := g.Momentarily(context.Background(), limit, text(max(4*mib, usage.Usage-16*mib)&^4095)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// Killed at any moment of a reclaim, the daemon leaves no limit low, and no byte is lost.
func TestKilledWhileReclaiming(t *testing.T) {
	area(t, 256*mib)
	g := annextest.Group(t, "bound", "elastic")
	place, _ := g.For("memory")
	if place.Version != 1 {
		t.Skip("on version 2 no limit is lowered")
	}
	if err := g.BoundMemory(192*mib, 256*mib); err != nil {
		t.Skip(err)
	}
	limit := contents(t, place.File("memory.limit_in_bytes"))
	h := hold(t, g, 64*mib)
	for n := range 12 {
		both := n%3 == 2
		journal := filepath.Join(t.TempDir(), "journal")
		daemon := exec.Command("/proc/self/exe")
		daemon.Env = append(os.Environ(), daemonVariable+"="+place.Dir(), journalVariable+"="+journal)
		var complaints strings.Builder
		daemon.Stderr = &complaints
		out, err := daemon.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(out)
		if !said.Scan() {
			t.Fatalf("it said nothing: %s", complaints.String())
		}
		var pid int
		if _, err := fmt.Sscan(said.Text(), &pid); err != nil {
			t.Fatal(err)
		}
		id, err := process.Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		watcher, err := id.Open()
		if err != nil {
			t.Fatal(err)
		}
		if !said.Scan() {
			t.Fatalf("it does not reclaim: %s", complaints.String())
		}
		// Somewhere in the reclaim, which takes some milliseconds.
		time.Sleep(time.Duration(n) * 700 * time.Microsecond)
		if both {
			_ = watcher.Signal(9)
		}
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := watcher.Await(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		_ = watcher.Close()
		if both {
			all, err := guard.Recover(t.Context(), guard.Options{Journal: journal})
			if err != nil {
				t.Error(err)
			}
			t.Logf("both killed: %v", all)
		}
		holds(t, place.File("memory.limit_in_bytes"), limit)
		if answer := h.Check(); answer != "whole" {
			t.Error(answer)
		}
	}
}
