package image

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Relock makes a recipe's lock file anew, from the packages that the archive
// has now for the architecture (Go's name of it): those from which the
// recipe's programs need a file are locked, the others are named as left out.
// It serves image/lock; building images reads only the lock files.
func (s *Store) Relock(ctx context.Context, name, goarch string) (file string, text []byte, err error) {
	r, ok := findRecipe(name)
	if !ok {
		return "", nil, fmt.Errorf("no recipe %q: there are %s", name, strings.Join(LockedRecipes(), ", "))
	}
	if err := needRoot("unpacking packages"); err != nil {
		return "", nil, err
	}
	w, err := s.begin(ctx)
	if err != nil {
		return "", nil, err
	}
	defer w.end()
	lock, err := s.relock(ctx, w, r, debianArch(goarch))
	if err != nil {
		return "", nil, s.fault("lock recipe "+name, err)
	}
	return lockName(name, debianArch(goarch)), lock.Format(name, debianArch(goarch)), nil
}

// LockedRecipes lists the recipes that have a lock file, also those that only
// other recipes use.
func LockedRecipes() []string {
	var names []string
	for _, r := range slices.Concat(recipes, toolRecipes) {
		if len(r.packages) > 0 {
			names = append(names, r.name)
		}
	}
	return names
}

func (s *Store) relock(ctx context.Context, w *work, r recipe, arch string) (Lock, error) {
	release, err := s.lock(ctx, "apt-"+arch)
	if err != nil {
		return Lock{}, err
	}
	defer release()
	apt, err := newAptArchive(s.path("debs", "apt-"+arch), arch)
	if err != nil {
		return Lock{}, err
	}
	s.progress("reading the distribution's package index")
	if err := apt.update(ctx); err != nil {
		return Lock{}, unreachable(err)
	}
	packages, err := apt.resolve(ctx, r.packages)
	if err != nil {
		return Lock{}, unreachable(err)
	}
	fetched, err := w.subdir("fetched")
	if err != nil {
		return Lock{}, err
	}
	s.progress(fmt.Sprintf("fetching %d packages for %s", len(packages), r.name))
	if err := apt.download(ctx, fetched, s.path("debs"), packages); err != nil {
		return Lock{}, unreachable(err)
	}
	s.progress(fmt.Sprintf("unpacking %d packages for %s", len(packages), r.name))
	owners, err := unpackOwned(ctx, s.path("debs"), packages, w.root)
	if err != nil {
		return Lock{}, err
	}
	l, err := split(r, packages, owners, w.root)
	if err != nil {
		return Lock{}, err
	}
	if l.Jars, err = s.relockJars(ctx, w, r); err != nil {
		return Lock{}, err
	}
	if l.Modules, err = s.relockModules(ctx, w, r); err != nil {
		return Lock{}, err
	}
	l.sort()
	return l, nil
}

// unpackOwned unpacks packages into one root and says which brought each file.
func unpackOwned(ctx context.Context, debs string, packages []Package, dir string) (map[string]string, error) {
	if err := mergeUsr(dir); err != nil {
		return nil, err
	}
	owners := map[string]string{}
	for _, p := range packages {
		err := unpackDeb(ctx, debs, p, dir, func(name string) bool {
			if top, _, _ := strings.Cut(name, "/"); slices.Contains(merged, top) {
				name = filepath.Join("usr", name)
			}
			owners[name] = p.Name
			return unneeded(name)
		})
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

// split separates the packages that the recipe's programs need from those that
// only the distribution's bookkeeping does.
func split(r recipe, packages []Package, owners map[string]string, dir string) (Lock, error) {
	needed := map[string]bool{}
	for _, name := range slices.Concat(r.packages, r.keep) {
		needed[name] = true
	}
	found, err := reach(dir, r.programs)
	if err != nil {
		return Lock{}, err
	}
	for file := range found.files {
		if owner, ok := owners[file]; ok {
			needed[owner] = true
		}
	}
	var l Lock
	for _, p := range packages {
		if needed[p.Name] {
			l.Packages = append(l.Packages, p)
		} else {
			l.Without = append(l.Without, p.Name)
		}
	}
	l.sort()
	return l, nil
}
