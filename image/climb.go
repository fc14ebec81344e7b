package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// refuseClimbingLinks refuses a root that holds a relative symbolic link which
// leads above it, through whatever other links. It looks at the finished tree,
// since neither the text of a link shows that (d/s -> . makes d/l -> s/../../x
// climb), nor the entry that brought it (a hard link puts the same link
// elsewhere).
//
// A way that comes to an absolute link ends there: such a link is harmless to
// programs inside, and no reader on the host may follow it at all.
func refuseClimbingLinks(ctx context.Context, source, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		above, err := leadsAbove(root, path.Dir(name), target)
		if err == nil && above {
			err = &Refused{Archive: source, Entry: name, Reason: fmt.Sprintf("a link out of the root, to %q", target)}
		}
		return err
	})
}

// leadsAbove follows target from dir, which is free of links, as the kernel
// does for who reads the tree from the host, and reports whether the way leads
// above the root. Where the kernel would stop, the way ends.
func leadsAbove(root *os.Root, dir, target string) (bool, error) {
	if path.IsAbs(target) {
		return false, nil
	}
	w := walk{root: root}
	defer w.top()
	rest := slices.Concat(strings.Split(dir, "/"), strings.Split(target, "/"))
	for followed := 1; len(rest) > 0; {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			if !w.up() {
				return true, nil
			}
			continue
		}
		info, err := w.dir().Lstat(next)
		switch {
		case err != nil:
			return false, nil // nothing there
		case info.IsDir():
			if err := w.down(next); err != nil {
				return false, err
			}
		case info.Mode()&fs.ModeSymlink == 0:
			return false, nil // nothing lies below a file
		default:
			target, err := w.dir().Readlink(next)
			if followed++; err != nil || followed > mostLinks || path.IsAbs(target) {
				return false, nil
			}
			rest = append(strings.Split(target, "/"), rest...)
		}
	}
	return false, nil
}
