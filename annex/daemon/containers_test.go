package daemon

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/annex"
	"tare/annex/config"
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
