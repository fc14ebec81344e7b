package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/annex"
	"tare/annex/config"
	"tare/container"
	"tare/kernel/cgroup"
)

// Engines are missed only by rules that ask for what they alone know.
func TestWhoAsksEngines(t *testing.T) {
	for _, c := range []struct {
		rules []config.Rule
		asks  bool
	}{
		{nil, false},
		{[]config.Rule{{Cgroup: "/a/*"}, {Cgroup: "/b"}}, false},
		{[]config.Rule{{Cgroup: "/a/*"}, {Cgroup: "/b", Name: "web"}}, true},
		{[]config.Rule{{Label: "tier"}}, true},
		{[]config.Rule{{Image: "*"}}, true},
	} {
		if got := asksEngines(c.rules); got != c.asks {
			t.Errorf("%+v: %t", c.rules, got)
		}
	}
}

// What moves pages does not move its own: the container that this program runs in is none that
// is found.
func TestOwnContainerIsNotFound(t *testing.T) {
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	name := fmt.Sprintf("tare-daemon-test-%d", os.Getpid())
	outer, inner := layout.At("/lxc.payload."+name), layout.At("/lxc.payload."+name+"/below")
	if err := inner.Create(); err != nil {
		t.Skip(err)
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
		if err := errors.Join(inner.Remove(context.Background()), outer.Remove(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if err := inner.Add(sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}
	c, err := FindContainers(func() config.Config { return config.Config{} })
	if err != nil {
		t.Skip(err)
	}
	for self, want := range map[int]bool{os.Getpid(): true, sleeper.Process.Pid: false} {
		c.self = self
		all, _, err := c.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(all, func(one container.Container) bool { return one.Name == name }); got != want {
			t.Errorf("for a program in its group %t, it is found %t", !want, got)
		}
	}
	c.self = os.Getpid()
	for pid, want := range map[int]bool{os.Getpid(): true, sleeper.Process.Pid: false} {
		if got, err := c.runsIn(container.Container{PID: pid}, nil); err != nil || got != want {
			t.Errorf("this program runs in process %d: %t, %v, want %t", pid, got, err, want)
		}
	}
}

// A user may have anything answer at a socket of his own: it is not asked, even where it is named.
func TestUsersEnginesAreNotAsked(t *testing.T) {
	dir := fmt.Sprintf("/run/user/%d", 4_000_000_000+os.Getpid()) // no user's
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan struct{})
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return // it was closed
		}
		close(asked)
		_ = conn.Close()
	}()
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	c, err := FindContainers(func() config.Config {
		return config.Config{Rules: []config.Rule{{Class: annex.Elastic, Name: "*"}}}
	})
	if err != nil {
		t.Skip(err)
	}
	if _, _, err := c.Find(t.Context()); err != nil {
		t.Skip(err)
	}
	select {
	case <-asked:
		t.Error("it was asked")
	default:
	}
}

// An engine whose socket was not there at the start is asked from when it is.
func TestEnginesThatStartLater(t *testing.T) {
	c, err := FindContainers(func() config.Config {
		return config.Config{Rules: []config.Rule{{Class: annex.Elastic, Name: "web"}}}
	})
	if err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "docker.sock")
	t.Setenv("DOCKER_HOST", "unix://"+socket) // among the usual ones
	asked := func() bool {
		_, notes, err := c.Find(t.Context())
		if err != nil {
			t.Skip(err)
		}
		return slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, socket) })
	}
	if asked() {
		t.Fatal("one that is not there is asked")
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // it refuses, and so has nothing to tell but that it was asked
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !asked() {
		t.Error("one that started later is not asked")
	}
}

// While an engine does not answer, what it told of a container holds, as long as that has the same
// control group; and another engine below it does not rename it.
func TestSilentEngine(t *testing.T) {
	group := filepath.Join(t.TempDir(), "docker", "4d3c")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	reported := container.Container{Engine: container.Docker, ID: "4d3c", Name: "booking", Image: "booking:1", Labels: map[string]string{"tier": "idle"}, PID: 7, Cgroup: group, Told: true}
	silent := container.Container{Engine: container.Docker, ID: "4d3c", Name: "4d3c", PID: 7, Cgroup: group}
	below := container.Container{Engine: container.Docker, ID: "4d3c", Name: "4d3c", Labels: map[string]string{"com.docker/engine": "moby"}, PID: 7, Cgroup: group}
	renamed := reported
	renamed.Name = "booking-old"
	nowhere := container.Container{Engine: container.Process, ID: "9", Name: "nowhere"}
	var c Containers
	look := func(one container.Container) container.Container {
		all := []container.Container{nowhere, one}
		kept := c.remember(all)
		if same := one.Name == all[1].Name && one.Engine == all[1].Engine; same != (kept == "") || kept != "" && !strings.Contains(kept, all[1].Name) {
			t.Errorf("of %s, found as %s, it notes %q", all[1].Name, one.Name, kept)
		}
		if all[0].Name != nowhere.Name {
			t.Errorf("one without a group: %+v", all[0])
		}
		return all[1]
	}
	same := func(a, b container.Container) bool {
		return a.Engine == b.Engine && a.ID == b.ID && a.Name == b.Name && a.Image == b.Image && a.Labels["tier"] == b.Labels["tier"]
	}
	for n, s := range []struct{ found, want container.Container }{
		{silent, silent}, // nobody has told of it yet
		{below, below},
		{reported, reported}, // Docker knows better
		{silent, reported},
		{silent, reported},
		{below, reported},
		{renamed, renamed},
		{silent, renamed},
	} {
		if got := look(s.found); !same(got, s.want) {
			t.Errorf("look %d: %+v, want %+v", n, got, s.want)
		}
	}
	// Another container at that place.
	for _, err := range []error{os.Rename(group, group+"-old"), os.Mkdir(group, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := look(silent); !same(got, silent) {
		t.Errorf("another at the place of one that has ended: %+v", got)
	}
	// What is gone is forgotten.
	c.remember(nil)
	if len(c.reported) != 0 {
		t.Errorf("%d are remembered of none", len(c.reported))
	}
}
