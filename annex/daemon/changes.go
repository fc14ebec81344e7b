package daemon

import (
	"context"
	"errors"
	"sync"

	"github.com/fsnotify/fsnotify"

	"tare/container"
)

// noticing is a finder beside which directories are watched in which containers come and go
// (inotify(7)), so that a new one is found as soon as its group is made.
type noticing struct {
	*Containers
	watcher *fsnotify.Watcher
	changes chan struct{}

	mu      sync.Mutex
	watched map[string]bool
}

// notice begins to watch. It ends when the watcher is closed.
func notice(c *Containers) (*noticing, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	n := &noticing{Containers: c, watcher: w, changes: make(chan struct{}, 1), watched: map[string]bool{}}
	go n.run()
	return n, nil
}

func (n *noticing) run() {
	defer close(n.changes)
	for {
		select {
		case e, open := <-n.watcher.Events:
			if !open {
				return
			}
			if e.Has(fsnotify.Remove) {
				n.forget(e.Name)
			}
			if e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) {
				n.tell()
			}
		case _, open := <-n.watcher.Errors:
			if !open {
				return
			}
			n.tell() // more came than there was room for
		}
	}
}

// forget notes that a directory is gone, and the kernel's watch of it: one that is made again
// under its name is to be watched anew.
func (n *noticing) forget(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.watched, dir)
}

func (n *noticing) tell() {
	select {
	case n.changes <- struct{}{}:
	default: // one is not taken yet
	}
}

// Find finds containers, and watches where they are from then on.
func (n *noticing) Find(ctx context.Context) ([]container.Container, []string, error) {
	all, notes, err := n.Containers.Find(ctx)
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	want := map[string]bool{}
	for _, dir := range n.Watched(all) {
		want[dir] = true
		if n.watched[dir] {
			continue
		}
		// One that is gone by now is looked for at the next find; one that cannot be
		// watched, for want of inotify watches, is found by looking.
		if n.watcher.Add(dir) == nil {
			n.watched[dir] = true
		}
	}
	for dir := range n.watched {
		if !want[dir] {
			delete(n.watched, dir)
			if err := n.watcher.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
				notes = append(notes, err.Error())
			}
		}
	}
	return all, notes, nil
}
