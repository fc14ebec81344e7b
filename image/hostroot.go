package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// HostRoot is a root file system of programs of this host's, with the C library and
// whatever else they link taken from the host, too. It is for programs that only the
// machine can have that they run on, such as those compiled for its device; all others
// have recipes.
type HostRoot struct {
	// Programs are files of the host by their paths inside, both from the root.
	Programs map[string]string
	// Libraries are files of the host that will be shown inside when a program starts: what
	// they link goes in as well, but for what lies beside them.
	Libraries []string
	// Directories are made, empty.
	Directories []string
}

// Lay writes the root into an empty directory, from which [Store.FromRootfs] makes an
// image. Its bytes are the same wherever the host's are.
func (h HostRoot) Lay(to string) error { return h.lay("/", to) }

func (h HostRoot) lay(host, to string) error {
	root, err := os.OpenRoot(host)
	if err != nil {
		return err
	}
	defer root.Close()
	f := follower{root: root, out: &reached{files: map[string]bool{}, strays: map[string]string{}}}
	// A host may have a great many libraries: those in the loader's own directories do.
	if err := f.findDefaults(); err != nil {
		return fmt.Errorf("look for the host's libraries: %w", err)
	}
	own := map[string]bool{}
	for _, inside := range slices.Sorted(maps.Keys(h.Programs)) {
		at, err := f.follow(strings.TrimPrefix(h.Programs[inside], "/"))
		if err != nil {
			return err
		}
		own[at] = true
		if err := f.add(at); err != nil {
			return fmt.Errorf("what %s links: %w", h.Programs[inside], err)
		}
	}
	for _, library := range h.Libraries {
		if err := f.linkedBy(library); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.out.files)) {
		// Where a program lies on the host is nobody's affair inside.
		if own[name] || !strings.Contains(name, ".so") && !systemLink(root, name) {
			continue
		}
		if err := copyOut(root, name, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	for inside, from := range h.Programs {
		at, err := f.follow(strings.TrimPrefix(from, "/"))
		if err != nil {
			return err
		}
		if err := copyOut(root, at, filepath.Join(to, inside)); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(to, inside), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range h.Directories {
		if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// linkedBy adds what a library links, but for what lies beside it, which is shown with it.
func (f *follower) linkedBy(library string) error {
	at, err := f.follow(strings.TrimPrefix(library, "/"))
	if err != nil {
		return err
	}
	file, err := f.root.Open(at)
	if err != nil {
		return err
	}
	defer file.Close()
	object, err := elf.NewFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", library, err)
	}
	defer object.Close()
	needed, err := object.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", library, err)
	}
	for _, soname := range needed {
		if _, err := f.root.Lstat(path.Join(path.Dir(at), soname)); err == nil && strings.HasPrefix(soname, "libnvidia") {
			continue
		}
		// What it lacks here it lacks on the host, and whoever loads it learns so.
		_ = f.library(soname)
	}
	return nil
}

// systemLink reports whether a path is a link at the root's top, such as /lib: one on the
// way to a program is the host's own affair.
func systemLink(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0 && strings.HasPrefix(name, "lib")
}

// copyOut copies a file or a link of a root to a path of the host's.
func copyOut(root *os.Root, name, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, to); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	from, err := root.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm()|0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}
