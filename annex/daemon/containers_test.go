package daemon

import (
	"net"
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
