package rootfs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tare/image"
	"tare/kernel/mount"
	"tare/platform"
)

// PointsOf are the directories inside that edits are mounted on: those that they show,
// and those of the files that they show.
func PointsOf(e platform.Edits) []string {
	var points []string
	for _, m := range e.Mounts {
		if point := pointOf(m); !slices.Contains(points, point) {
			points = append(points, point)
		}
	}
	return points
}

func pointOf(m platform.Mount) string {
	if m.Directory {
		return path.Clean(m.Target)
	}
	return path.Dir(path.Clean(m.Target))
}

// Give shows inside what the edits hold: nodes in /dev, where [Tree.MountSystem] has
// mounted, and files and directories at [PointsOf]. Nodes are the host's own, shown and
// not made anew: that may be forbidden where tare itself is contained.
func (t Tree) Give(e platform.Edits) error {
	for _, d := range e.Devices {
		below, ok := strings.CutPrefix(path.Clean(d.Path), "/dev/")
		if !ok {
			return fmt.Errorf("device node %s: want one below /dev", d.Path)
		}
		dev, err := t.point("/dev")
		if err != nil {
			return err
		}
		if err := showFile(d.Path, filepath.Join(dev, below), false); err != nil {
			return err
		}
	}
	shown := map[string]string{} // directories that files are shown in, where they are mounted
	for _, m := range e.Mounts {
		at, ok := shown[pointOf(m)]
		if !ok {
			var err error
			if at, err = t.placeFor(pointOf(m)); err != nil {
				return err
			}
			if m.Directory {
				if err := mount.Bind(m.Source, at, m.ReadOnly); err != nil {
					return err
				}
				continue
			}
			if err := mount.New("tmpfs", at, mount.Options{NoSUID: true, NoDev: true, Data: "mode=755,size=1m"}); err != nil {
				return err
			}
			shown[pointOf(m)] = at
		}
		if err := showFile(m.Source, filepath.Join(at, path.Base(m.Target)), m.ReadOnly); err != nil {
			return err
		}
	}
	return nil
}

// placeFor gives the host's path of a directory inside to mount on, links resolved as the
// program will. One in what was mounted since the root was laid out is made there.
func (t Tree) placeFor(inside string) (string, error) {
	target, err := image.Resolve(t.Root, inside)
	if err != nil {
		return "", err
	}
	if err := makeInside(t.Root, target, 0o755); err != nil {
		return "", err
	}
	return t.point(target)
}

// showFile makes an empty file and binds another, or a node, to it.
func showFile(source, at string, readOnly bool) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(at, nil, 0o644); err != nil {
		return err
	}
	return mount.Bind(source, at, readOnly)
}
