package rootfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tare/kernel/mount"
)

// show mounts the image's directory at root, read-only, so that every one of
// the directories needed exists there to mount on. An image that has them all
// is bound as it is. Where one is missing, the directory that should hold it
// cannot be written, being the image's: then a plain directory (made at
// points) stands in for it, with each of its entries bound to the image's.
func show(from, root, points string, needed []string) error {
	if len(lacking(from, needed)) == 0 {
		return mount.Bind(from, root, true)
	}
	if err := os.Mkdir(points, 0o755); err != nil {
		return err
	}
	if err := mount.Bind(points, root, false); err != nil {
		return err
	}
	if err := mirror(from, root, needed); err != nil {
		return err
	}
	return mount.Freeze(root)
}

// lacking lists those of the directories (relative, absolute within from) that
// are not there.
func lacking(from string, needed []string) []string {
	var missing []string
	for _, n := range needed {
		if info, err := os.Lstat(filepath.Join(from, n)); err != nil || !info.IsDir() {
			missing = append(missing, n)
		}
	}
	return missing
}

// mirror fills to, a plain directory, with the entries of from and the
// directories needed.
func mirror(from, to string, needed []string) error {
	if err := likeness(from, to); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case e.IsDir():
			err = mirrorDir(source, target, within(e.Name(), needed))
		case e.Type() == fs.ModeSymlink:
			err = copyLink(source, target)
		case e.Type().IsRegular():
			if err = os.WriteFile(target, nil, 0o600); err == nil {
				err = mount.Bind(source, target, true)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, n := range needed {
		dir := filepath.Join(to, n)
		if _, err := os.Lstat(dir); err == nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a place for %s: %w", n, err)
		}
	}
	return nil
}

func mirrorDir(from, to string, needed []string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	if len(lacking(from, needed)) == 0 {
		return mount.Bind(from, to, true)
	}
	return mirror(from, to, needed)
}

// within gives those of the paths that lie below the entry, relative to it.
func within(entry string, paths []string) []string {
	var below []string
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, "/"+entry+"/"); ok {
			below = append(below, "/"+rest)
		}
	}
	return below
}
