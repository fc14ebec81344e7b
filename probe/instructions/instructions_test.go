package instructions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tare/kernel/cgroup"
	"tare/kernel/perfevent"
	"tare/probe"
)

// A group is looked for by its place in the hierarchy that perf knows.
func TestCounted(t *testing.T) {
	at := t.TempDir()
	for _, dir := range []string{"memory/docker/a", "memory/docker/b", "perf/docker/a", "unified/docker/b"} {
		if err := os.MkdirAll(filepath.Join(at, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	memory := cgroup.Hierarchy{Version: 1, Controllers: []string{"memory"}, Mount: filepath.Join(at, "memory"), Root: "/"}
	perf := cgroup.Hierarchy{Version: 1, Controllers: []string{"perf_event"}, Mount: filepath.Join(at, "perf"), Root: "/"}
	unified := cgroup.Hierarchy{Version: 2, Mount: filepath.Join(at, "unified"), Root: "/"}
	for _, c := range []struct {
		name   string
		layout []cgroup.Hierarchy
		dir    string
		want   string // "" where it is missing
	}{
		{"by version 1", []cgroup.Hierarchy{memory, perf, unified}, "memory/docker/a", "perf/docker/a"},
		{"its own", []cgroup.Hierarchy{memory, perf, unified}, "perf/docker/a", "perf/docker/a"},
		{"by version 2", []cgroup.Hierarchy{memory, unified}, "memory/docker/b", "unified/docker/b"},
		{"not put there", []cgroup.Hierarchy{memory, perf}, "memory/docker/b", ""},
		{"no such hierarchy", []cgroup.Hierarchy{memory}, "memory/docker/a", ""},
		{"the whole tree, elsewhere", []cgroup.Hierarchy{memory, perf}, "memory", ""},
	} {
		got, err := counted(cgroup.Layout{Hierarchies: c.layout}, filepath.Join(at, c.dir))
		if c.want == "" {
			if missing := (*probe.Missing)(nil); !errors.As(err, &missing) || missing.Mend == "" {
				t.Errorf("%s: %q, %v; want a *probe.Missing", c.name, got, err)
			}
			continue
		}
		if err != nil || got != filepath.Join(at, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	if _, err := counted(cgroup.Layout{Hierarchies: []cgroup.Hierarchy{perf}}, filepath.Join(at, "perfect")); err == nil {
		t.Error("a directory whose name begins like a hierarchy's is taken for a group")
	}
}

// Watching counts, or says what the host lacks; with an event that every host has
// it can count in a group of version 2.
func TestWatch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a control group")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	hierarchy, ok := layout.For("perf_event")
	if !ok {
		hierarchy, ok = layout.Unified()
	}
	if !ok {
		t.Skip("no hierarchy carries perf_event")
	}
	place := filepath.Join(hierarchy.Mount, fmt.Sprintf("tare-instructions-test-%d", os.Getpid()))
	if err := os.Mkdir(place, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(place); err != nil {
			t.Error(err)
		}
	})
	for _, event := range []perfevent.Event{perfevent.PageFaults, perfevent.Instructions} {
		c, err := watch(layout, place, event)
		if missing := (*probe.Missing)(nil); errors.As(err, &missing) {
			if missing.Mend == "" {
				t.Errorf("%s: what is missing cannot be mended: %v", event.Name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", event.Name, err)
		}
		if n, err := c.Read(); err != nil || n.Instructions != 0 || n.Share <= 0 {
			t.Errorf("%s in an empty group: %+v, %v", event.Name, n, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
