package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"tare/container"
)

// noticing is a finder beside which directories are watched in which containers come and go
// (inotify(7)), so that a new one is found as soon as its group is made.
type noticing struct {
	*Containers
	changes chan struct{}

	mu      sync.Mutex
	watcher *fsnotify.Watcher // nil where the kernel has none to give: looking now and then has to do
	watched map[string]bool
	closed  bool
	isOwn   func(file string) bool // annexd wrote what a file holds; nil is that it writes none
}

// newWatcher is the library's, but in a test.
var newWatcher = fsnotify.NewWatcher

// notice makes one that watches from its first find on.
func notice(c *Containers) *noticing {
	return &noticing{Containers: c, changes: make(chan struct{}, 1), watched: map[string]bool{}}
}

// begin begins to watch, unless that is so. The caller holds mu.
func (n *noticing) begin() error {
	if n.watcher != nil || n.closed {
		return nil
	}
	w, err := newWatcher()
	if err != nil {
		return err
	}
	n.watcher = w
	go n.run(w)
	return nil
}

// close ends the watching.
func (n *noticing) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Close()
}

func (n *noticing) run(w *fsnotify.Watcher) {
	for {
		select {
		case e, open := <-w.Events:
			if !open {
				return
			}
			if e.Has(fsnotify.Remove) {
				n.forget(e.Name)
			}
			if e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Write) && n.isSetBack(e.Name) {
				n.tell()
			}
		case _, open := <-w.Errors:
			if !open {
				return
			}
			n.tell() // more came than there was room for
		}
	}
}

// isSetBack tells that somebody else has written to a file of a protection: what systemd sets back when
// it is reloaded is soon protected again.
func (n *noticing) isSetBack(file string) bool {
	if filepath.Base(file) != "memory.low" {
		return false
	}
	n.mu.Lock()
	isOwn := n.isOwn
	n.mu.Unlock()
	return isOwn == nil || !isOwn(file)
}

// ignore has writes that are annexd's own not noticed.
func (n *noticing) ignore(isOwn func(file string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isOwn = isOwn
}

// forget notes that a directory is gone: one that is made again under its name is to be watched
// anew. The watch of a control group outlives the group, and is given back.
func (n *noticing) forget(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watched[dir] && n.watcher != nil {
		_ = n.watcher.Remove(dir) // which fails where the kernel has ended it
	}
	delete(n.watched, dir)
}

func (n *noticing) tell() {
	select {
	case n.changes <- struct{}{}:
	default: // one is not taken yet
	}
}

// Find finds containers, and watches where they are from then on. A note says what cannot be
// watched; whoever calls Find now and then finds the same later.
func (n *noticing) Find(ctx context.Context) ([]container.Container, []string, error) {
	all, notes, err := n.Containers.Find(ctx)
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.watch(n.Watched(all)); err != nil {
		notes = append(notes, fmt.Sprintf("new containers are found up to %v late: %s", lookEvery, unwatchable(err)))
	}
	return all, notes, nil
}

// watch watches these directories, and no others. One that is gone by now is looked for at the next
// find. The error is of the first that could not be watched.
func (n *noticing) watch(dirs []string) (first error) {
	if err := n.begin(); err != nil {
		return err
	}
	want := map[string]bool{}
	for _, dir := range dirs {
		want[dir] = true
		if n.watched[dir] {
			continue
		}
		err := n.watcher.Add(dir)
		if err == nil {
			n.watched[dir] = true
		} else if !errors.Is(err, fs.ErrNotExist) {
			first = cmp.Or(first, err)
		}
	}
	for dir := range n.watched {
		if want[dir] {
			continue
		}
		delete(n.watched, dir)
		if err := n.watcher.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
			first = cmp.Or(first, err)
		}
	}
	return first
}

// unwatchable says why a directory is not watched, and which bound of the kernel's is to be raised.
func unwatchable(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "all inotify instances are taken: raise the sysctl fs.inotify.max_user_instances"
	case errors.Is(err, syscall.ENOSPC):
		return "all inotify watches are taken: raise the sysctl fs.inotify.max_user_watches"
	}
	return err.Error()
}
