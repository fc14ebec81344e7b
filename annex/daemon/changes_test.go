package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"tare/annex"
	"tare/annex/config"
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
