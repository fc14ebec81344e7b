package daemon

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/kernel/cgroup"
)

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
	n, err := notice(c)
	if err != nil {
		t.Fatal(err)
	}
	defer n.watcher.Close()
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
