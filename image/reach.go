package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// reached is what the wanted programs of a root need in order to start.
type reached struct {
	files map[string]bool // resolved paths, and the links that led to them
	// strays are libraries outside the loader's default directories: soname to
	// path. Packages that offer a choice of libraries (BLAS) put them there and
	// have a script, which does not run here, link one of them.
	strays map[string]string
	dir    string // the loader's first default directory
}

// reach follows programs (paths or glob patterns) through links, loaders and
// shared libraries. What a program opens by name while it runs is not seen;
// recipes name that in keep.
func reach(dir string, programs []string) (*reached, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f := follower{root: root, out: &reached{files: map[string]bool{}, strays: map[string]string{}}}
	if err := f.indexLibraries(); err != nil {
		return nil, err
	}
	for _, pattern := range programs {
		names, err := fs.Glob(root.FS(), strings.TrimPrefix(pattern, "/"))
		if err != nil {
			return nil, err
		}
		// A link that is absolute is not seen by Glob, but a plain name is.
		if len(names) == 0 && !strings.ContainsAny(pattern, "*?[") {
			names = []string{strings.TrimPrefix(pattern, "/")}
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("no package brings %s", pattern)
		}
		for _, name := range names {
			if err := f.add(name); err != nil {
				return nil, fmt.Errorf("%s: %w", pattern, err)
			}
		}
	}
	return f.out, nil
}

type follower struct {
	root      *os.Root
	out       *reached
	defaults  []string            // the loader's directories
	libraries map[string][]string // base name to paths
}

func (f *follower) indexLibraries() error {
	f.libraries = map[string][]string{}
	err := fs.WalkDir(f.root.FS(), "usr/lib", func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), ".so") {
			f.libraries[d.Name()] = append(f.libraries[d.Name()], p)
		}
		return err
	})
	if err != nil {
		return err
	}
	return f.findDefaults()
}

// findDefaults finds the loader's directories.
func (f *follower) findDefaults() (err error) {
	f.defaults, err = fs.Glob(f.root.FS(), "usr/lib/*-linux-gnu*")
	if len(f.defaults) > 0 {
		f.out.dir = f.defaults[0]
	}
	f.defaults = append(f.defaults, "usr/lib", "usr/lib64", "lib64")
	return err
}

// add enters a file and all that it needs.
func (f *follower) add(name string) error {
	at, err := f.follow(name)
	if err != nil {
		return err
	}
	if f.out.files[at] {
		return nil
	}
	f.out.files[at] = true
	file, err := f.root.Open(at)
	if err != nil {
		return err
	}
	defer file.Close()
	program, err := elf.NewFile(file)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, fs.ErrInvalid) {
		return nil // a script
	}
	if err != nil {
		return fmt.Errorf("/%s: %w", at, err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader := make([]byte, p.Filesz)
		if _, err := p.ReadAt(loader, 0); err != nil {
			return fmt.Errorf("/%s: read the loader's name: %w", at, err)
		}
		if err := f.add(strings.Trim(string(loader), "/\x00")); err != nil {
			return fmt.Errorf("/%s: its loader: %w", at, err)
		}
	}
	needed, err := program.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("/%s: %w", at, err)
	}
	for _, soname := range needed {
		if err := f.library(soname); err != nil {
			return fmt.Errorf("/%s: %w", at, err)
		}
	}
	return nil
}

func (f *follower) library(soname string) error {
	candidates := f.libraries[soname]
	for _, dir := range f.defaults {
		if slices.Contains(candidates, path.Join(dir, soname)) {
			return f.add(path.Join(dir, soname))
		}
	}
	if len(candidates) == 0 {
		// The loader itself is asked for by name, too, and lies where it lies.
		for _, dir := range f.defaults {
			if _, err := f.root.Lstat(path.Join(dir, soname)); err == nil {
				return f.add(path.Join(dir, soname))
			}
		}
		return fmt.Errorf("no package brings the library %s", soname)
	}
	f.out.strays[soname] = candidates[0]
	return f.add(candidates[0])
}

// follow resolves links as a program inside the root would, and enters each.
func (f *follower) follow(name string) (string, error) {
	at := "."
	rest := strings.Split(name, "/")
	for followed := 0; len(rest) > 0; {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		step := path.Join(at, next)
		info, err := f.root.Lstat(step)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = step
			continue
		}
		if followed++; followed > mostLinks {
			return "", fmt.Errorf("/%s leads through more than %d links", name, mostLinks)
		}
		f.out.files[step] = true
		target, err := f.root.Readlink(step)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			at = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// linkStrays links each stray library into the loader's default directory.
func linkStrays(dir string, r *reached) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, soname := range sortedKeys(r.strays) {
		target := strings.TrimPrefix(r.strays[soname], r.dir+"/")
		if target == r.strays[soname] {
			target = "/" + target
		}
		if err := root.Symlink(target, path.Join(r.dir, soname)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
