package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/container"
	"tare/kernel/cgroup"
)

// Where inotify is used up containers are found all the same, and a note names the bound; it is tried again.
func TestFoundWithoutInotify(t *testing.T) {
	c, err := FindContainers(func() config.Config { return config.Config{} })
	if err != nil {
		t.Skip(err)
	}
	defer func() { newWatcher = fsnotify.NewWatcher }()
	n := notice(c)
	defer n.close()
	for _, one := range []struct {
		open func() (*fsnotify.Watcher, error)
		says string
	}{
		{func() (*fsnotify.Watcher, error) { return nil, os.NewSyscallError("inotify_init1", syscall.EMFILE) }, "fs.inotify.max_user_instances"},
		{fsnotify.NewWatcher, ""},
	} {
		newWatcher = one.open
		_, notes, err := n.Find(t.Context())
		text := strings.Join(notes, "\n")
		if err != nil || !strings.Contains(text, one.says) || strings.Contains(text, "found up to") != (one.says != "") {
			t.Errorf("%q, %v; want %q", notes, err, one.says)
		}
	}
	if text := unwatchable(syscall.ENOSPC); !strings.Contains(text, "fs.inotify.max_user_watches") {
		t.Error(text)
	}
}

// That somebody else sets a critical group's protection, or one above it, is noticed; an elastic one's
// is not.
func TestProtectionSetBackIsNoticed(t *testing.T) {
	root := t.TempDir()
	layout := cgroup.Layout{Hierarchies: []cgroup.Hierarchy{{Version: 2, Controllers: []string{"memory"}, Mount: root, Root: "/"}}}
	rules := []config.Rule{{Class: annex.Critical, Name: "db"}, {Class: annex.Elastic, Name: "web"}}
	n := notice(&Containers{layout: layout, config: func() config.Config { return config.Config{Rules: rules} }})
	defer n.close()
	var found []container.Container
	for _, name := range []string{"db", "web"} {
		dir := root + "/" + name + ".slice/" + name
		put(t, root, name+".slice/memory.low", "0")
		put(t, dir, "memory.low", "0")
		found = append(found, container.Container{Name: name, Cgroup: dir, Engine: container.Docker})
	}
	if err := n.watch(n.Watched(found)); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		file    string
		isOwn   bool
		noticed bool
	}{
		{"web.slice/web/memory.low", false, false},
		{"db.slice/db/memory.high", false, false},
		{"db.slice/db/memory.low", false, true},
		{"db.slice/memory.low", false, true},
		{"db.slice/db/memory.low", true, false},
	} {
		n.ignore(func(file string) bool {
			if file != filepath.Join(root, c.file) {
				t.Errorf("it asks whether %s is its own", file)
			}
			return c.isOwn
		})
		if c.file == "db.slice/db/memory.high" {
			put(t, root, c.file, "max") // made first
			<-n.changes
		}
		put(t, root, c.file, "0")
		wait := 10 * time.Second
		if !c.noticed {
			wait = 50 * time.Millisecond
		}
		select {
		case <-n.changes:
			if !c.noticed {
				t.Errorf("%s is noticed", c.file)
			}
		case <-time.After(wait):
			if c.noticed {
				t.Errorf("%s is not noticed", c.file)
			}
		}
		for quiet := false; !quiet; { // a write is two: the file is emptied first
			select {
			case <-n.changes:
			case <-time.After(50 * time.Millisecond):
				quiet = true
			}
		}
	}
}

// What systemctl show says of a unit.
func TestParseUnit(t *testing.T) {
	for text, want := range map[string]bound.Unit{
		"ControlGroup=/system.slice/docker-1.scope\nMemoryLow=67108864\n": {Group: "/system.slice/docker-1.scope", MemoryLow: "67108864"},
		"MemoryLow=infinity\nControlGroup=\n":                             {MemoryLow: "infinity"},
		"":                                                                {},
	} {
		if got := parseUnit(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// A directory that is removed and made again is watched again, with nothing found in between.
func TestADirectoryMadeAgainIsNoticed(t *testing.T) {
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	name := fmt.Sprintf("/tare-daemon-test-%d-again", os.Getpid())
	slice, inner := layout.At(name), layout.At(name+"/web")
	if err := slice.Create("memory"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		for _, g := range []cgroup.Group{inner, slice} {
			if err := g.Remove(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	c, err := FindContainers(func() config.Config {
		return config.Config{Rules: []config.Rule{{Class: annex.Elastic, Cgroup: name + "/*"}}}
	})
	if err != nil {
		t.Skip(err)
	}
	n := notice(c)
	defer n.close()
	find := func() {
		t.Helper()
		if _, _, err := n.Find(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	noticed := func(what string) {
		t.Helper()
		select {
		case <-n.changes:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s was not noticed", what)
		}
		for quiet := false; !quiet; {
			select {
			case <-n.changes:
			case <-time.After(100 * time.Millisecond):
				quiet = true
			}
		}
	}
	find()
	if err := slice.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The kernel ends no watch of a control group that is gone.
	noticed("a group that is gone")
	if place, _ := slice.For("memory"); slices.Contains(n.watcher.WatchList(), place.Dir()) {
		t.Error("the watch of a group that is gone is kept")
	}
	find()
	if err := slice.Create("memory"); err != nil {
		t.Fatal(err)
	}
	noticed("a group made again")
	find()
	if err := inner.Create("memory"); err != nil {
		t.Fatal(err)
	}
	noticed("a group in it")
}
