package image

import (
	"os"
	"path"
)

// walk is a way down from a root with each directory on it open. A step costs the same
// however deep it is, which one by a whole path does not.
type walk struct {
	root *os.Root
	open []*os.Root // below root
	path []string   // of each, from root
}

// at is the path of where the walk is, from the root.
func (w *walk) at() string {
	if len(w.path) == 0 {
		return "."
	}
	return w.path[len(w.path)-1]
}

// dir is where the walk is.
func (w *walk) dir() *os.Root {
	if len(w.open) == 0 {
		return w.root
	}
	return w.open[len(w.open)-1]
}

// down enters a directory, which is no link.
func (w *walk) down(name string) error {
	next, err := w.dir().OpenRoot(name)
	if err != nil {
		return err
	}
	w.open, w.path = append(w.open, next), append(w.path, path.Join(w.at(), name))
	return nil
}

// up leaves a directory; it reports false at the root.
func (w *walk) up() bool {
	last := len(w.open) - 1
	if last < 0 {
		return false
	}
	_ = w.open[last].Close()
	w.open, w.path = w.open[:last], w.path[:last]
	return true
}

// top goes back to the root, and closes what was opened.
func (w *walk) top() {
	for w.up() {
	}
}
