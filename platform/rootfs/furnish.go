package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"tare/image"
	"tare/platform"
)

// BuildData lays out what an instance needs beside a root that an engine
// provides: its own directory and, unless the data lie in the container's
// layer, a directory to bind for each of Data. On an error, [Remove] takes away
// what was made.
func (p Plan) BuildData() (Tree, error) {
	if err := p.checkData(); err != nil {
		return Tree{}, err
	}
	if err := os.Mkdir(p.Dir, 0o700); err != nil {
		return Tree{}, err
	}
	if p.inLayer() {
		return Tree{}, nil
	}
	return p.addBinds(Tree{}, p.Data)
}

// Lacks reports whether the image is without one of the directories that
// [Plan.Furnish] makes.
func (p Plan) Lacks() (bool, error) {
	for _, dir := range p.written() {
		target, err := image.Resolve(p.Image.Root, dir)
		if err != nil {
			return false, err
		}
		info, err := os.Lstat(filepath.Join(p.Image.Root, target))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// Furnish makes, in a root that may be written, the directories that the
// program writes or starts in and the image lacks. What exists keeps its mode.
func (p Plan) Furnish(root string) error {
	for _, dir := range p.written() {
		target, err := image.Resolve(root, dir)
		if err != nil {
			return err
		}
		if err := makeInside(root, target, modeOf(dir)); err != nil {
			return err
		}
	}
	return nil
}

// written are the directories in the root itself that the program writes, or starts in.
func (p Plan) written() []string {
	dirs := append(slices.Clone(scratch), p.work())
	if p.inLayer() {
		return append(dirs, p.Data...)
	}
	return dirs
}

func (p Plan) inLayer() bool { return p.Storage == "" || p.Storage == platform.StorageLayer }

func (p Plan) checkData() error {
	for _, d := range p.Data {
		if !path.IsAbs(d) || path.Clean(d) == "/" {
			return fmt.Errorf("data directory %q: want an absolute path below /", d)
		}
	}
	return nil
}
