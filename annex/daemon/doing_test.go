package daemon

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/procfs"
)

// sleeper starts a program that sleeps in some groups, until the test ends.
func sleeper(t *testing.T, in ...cgroup.Group) (pid int) {
	t.Helper()
	command := exec.Command("sleep", "600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for _, g := range in {
		if err := g.Add(command.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	return command.Process.Pid
}

// madeGroup makes a control group in one hierarchy, until the test ends.
func madeGroup(t *testing.T, in cgroup.Hierarchy, name string) cgroup.Group {
	t.Helper()
	g := cgroup.Group{Places: []cgroup.Place{{Hierarchy: in, Path: name}}}
	if err := g.Create(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A group of another hierarchy is a container's where nobody else's processes are in it.
func TestGroupsOfAreNotShared(t *testing.T) {
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	memory, has := layout.For("memory")
	freezer, hasToo := layout.For("freezer")
	if !has || !hasToo || memory.Mount == freezer.Mount {
		t.Skip("needs memory and freezer of version 1")
	}
	name := fmt.Sprintf("/tare-daemon-test-%d", os.Getpid())
	own, other := madeGroup(t, memory, name+"-own"), madeGroup(t, freezer, name+"-other")
	c := container.Container{Name: "a", Cgroup: own.Places[0].Dir(), PID: sleeper(t, own, other)}
	of := groups{layout}
	isIn := func() bool { _, is := of.of(c).For("freezer"); return is }
	if !isIn() {
		t.Error("its own group is not found")
	}
	stranger := sleeper(t, other)
	if isIn() {
		t.Error("a group is taken for its own that holds another's process")
	}
	if err := own.Add(stranger); err != nil {
		t.Fatal(err)
	}
	if !isIn() {
		t.Error("its own group is not found, with two processes in it")
	}
}

// A container is frozen while a signal has stopped each of its processes.
func TestStoppedReadsFrozen(t *testing.T) {
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	memory, has := layout.For("memory")
	if !has {
		t.Skip("needs the memory controller")
	}
	own := madeGroup(t, memory, fmt.Sprintf("/tare-daemon-test-%d-stopped", os.Getpid()))
	first, second, stranger := sleeper(t, own), sleeper(t, own), sleeper(t)
	of := groups{layout}
	for _, c := range []struct {
		pid  int
		sent syscall.Signal
		want bool
	}{
		{second, 0, false}, {first, syscall.SIGSTOP, false},
		{second, syscall.SIGSTOP, true}, {first, syscall.SIGCONT, false},
	} {
		process, err := os.FindProcess(c.pid)
		if err == nil {
			err = process.Signal(c.sent)
		}
		if err != nil {
			t.Fatal(err)
		}
		for (stateOf(t, c.pid) == stopped) != (c.sent == syscall.SIGSTOP) {
			time.Sleep(time.Millisecond)
		}
		for _, pid := range []int{0, first, stranger} { // not each engine tells it, or it was of one that has ended
			named := container.Container{Engine: container.Cgroup, Cgroup: own.Places[0].Dir(), PID: pid}
			if is, err := of.frozen(named); is != c.want || err != nil {
				t.Errorf("after signal %d: frozen %t, %v, want %t", c.sent, is, err, c.want)
			}
		}
	}
}

func stateOf(t *testing.T, pid int) byte {
	t.Helper()
	stat, err := procfs.Host.Process(pid).Stat()
	if err != nil {
		t.Fatal(err)
	}
	return stat.State
}
