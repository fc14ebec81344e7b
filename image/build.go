package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// build is one recipe being built.
type build struct {
	store  *Store
	recipe recipe
	work   *work
	root   string // the image's
	tools  string // the root with the tools, while recipe.add runs
}

// run makes the root file system and says what it holds.
func (b *build) run(ctx context.Context) (Image, error) {
	locked, warnings, err := b.unpackPackages(ctx, b.recipe, b.root)
	if err != nil {
		return Image{}, err
	}
	if len(b.recipe.jars) > 0 {
		if len(locked.Jars) == 0 {
			return Image{}, &Missing{
				What: fmt.Sprintf("recipe %s has no lock file for %s, which its Java archives are held to", b.recipe.name, b.store.arch),
				Mend: "go run ./image/lock " + b.recipe.name,
			}
		}
		if err := b.store.fetchJars(ctx, b.work, b.recipe.name, locked.Jars); err != nil {
			return Image{}, err
		}
		if err := b.placeJars(locked.Jars); err != nil {
			return Image{}, err
		}
	}
	if len(b.recipe.modules) > 0 {
		if len(locked.Modules) == 0 {
			return Image{}, &Missing{
				What: fmt.Sprintf("recipe %s has no lock file for %s, which its modules of Node.js are held to", b.recipe.name, b.store.arch),
				Mend: "go run ./image/lock " + b.recipe.name,
			}
		}
		if err := b.store.fetchModules(ctx, b.work, b.recipe.name, locked.Modules); err != nil {
			return Image{}, err
		}
		if err := b.placeModules(locked.Modules); err != nil {
			return Image{}, err
		}
	}
	if len(b.recipe.directories) > 0 {
		if err := b.makeDirectories(b.recipe.directories); err != nil {
			return Image{}, err
		}
	}
	for _, name := range sortedKeys(b.recipe.links) {
		if err := b.link(name, b.recipe.links[name]); err != nil {
			return Image{}, err
		}
	}
	if b.recipe.add != nil {
		more, err := b.addWithTools(ctx)
		if err != nil {
			return Image{}, err
		}
		warnings = append(warnings, more...)
	}
	if err := furnish(b.recipe.name, b.root); err != nil {
		return Image{}, err
	}
	if err := settle(b.root); err != nil {
		return Image{}, err
	}
	return Image{
		Name:     b.recipe.name,
		Config:   b.recipe.config,
		Packages: locked.names(),
		Warnings: warnings,
	}, nil
}

func (b *build) addWithTools(ctx context.Context) (warnings []string, err error) {
	if b.recipe.tools != "" {
		tools, _ := findRecipe(b.recipe.tools)
		b.tools = b.work.path("tools")
		if err := os.Mkdir(b.tools, 0o755); err != nil {
			return nil, err
		}
		if _, warnings, err = b.unpackPackages(ctx, tools, b.tools); err != nil {
			return nil, err
		}
		if err := furnish(b.recipe.tools, b.tools); err != nil {
			return nil, err
		}
	}
	defer b.store.step("making what "+b.recipe.name+" adds to its packages", 0, nil)()
	return warnings, b.recipe.add(ctx, b)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (b *build) makeDirectories(names []string) error {
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		if err := makeDirectories(root, name); err != nil {
			return err
		}
	}
	return nil
}

// link adds a symbolic link, and the directories above it.
func (b *build) link(name, target string) error {
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := makeDirectories(root, path.Dir(name)); err != nil {
		return err
	}
	return root.Symlink(target, name)
}

// unpackPackages fetches a recipe's packages and unpacks them into dir.
func (b *build) unpackPackages(ctx context.Context, r recipe, dir string) (Lock, []string, error) {
	if len(r.packages) == 0 {
		return Lock{}, nil, nil
	}
	locked, warnings, err := b.store.fetch(ctx, b.work, r)
	if err != nil {
		return Lock{}, nil, err
	}
	var unpacked atomic.Int64
	defer b.store.step(
		fmt.Sprintf("unpacking %d packages for %s", len(locked.Packages), r.name),
		len(locked.Packages), func() int { return int(unpacked.Load()) },
	)()
	if err := mergeUsr(dir); err != nil {
		return Lock{}, nil, err
	}
	for _, p := range locked.Packages {
		if err := unpackDeb(ctx, b.store.path("debs"), p, dir, unneeded); err != nil {
			return Lock{}, nil, err
		}
		unpacked.Add(1)
	}
	// What is left out, or a package newer than the lock, may have taken a
	// library along that the programs need: better found here than by a trial.
	found, err := reach(dir, r.programs)
	if err != nil {
		return Lock{}, nil, fmt.Errorf("the packages of %s do not suffice: %w", r.name, err)
	}
	return locked, warnings, linkStrays(dir, found)
}

// fetch puts the recipe's packages into debs: those of the lock where the
// archive has all of them still, else the archive's present ones, and then the
// warnings say how these differ.
func (s *Store) fetch(ctx context.Context, w *work, r recipe) (Lock, []string, error) {
	arch := debianArch(s.arch)
	locked, _, ok, err := readLock(r.lockName(), arch)
	if err != nil {
		return Lock{}, nil, err
	}
	debs := s.path("debs")
	if ok && !slices.ContainsFunc(locked.Packages, func(p Package) bool { return !haveDeb(debs, p) }) {
		return locked, nil, nil
	}
	// apt's own directories serve one at a time.
	release, err := s.lock(ctx, "apt-"+arch)
	if err != nil {
		return Lock{}, nil, err
	}
	defer release()
	apt, err := newAptArchive(filepath.Join(debs, "apt-"+arch), arch)
	if err != nil {
		return Lock{}, nil, err
	}
	got, warnings, err := s.fetchFrom(ctx, apt, w, r, locked, ok)
	if err != nil && diskFull(err) {
		// Half an index is of no use, and takes what room there is.
		err = errors.Join(err, os.RemoveAll(apt.dir))
	}
	return got, warnings, err
}

func (s *Store) fetchFrom(
	ctx context.Context,
	apt *aptArchive,
	w *work,
	r recipe,
	locked Lock,
	isLocked bool,
) (Lock, []string, error) {
	fetched, err := w.subdir("fetched")
	if err != nil {
		return Lock{}, nil, err
	}
	update := func() error {
		defer s.step("reading the distribution's package index", 0, nil)()
		if err := apt.update(ctx); err != nil {
			return unreachable(err)
		}
		return nil
	}
	if _, ok := apt.age(); !ok {
		if err := update(); err != nil {
			return Lock{}, nil, err
		}
	}
	download := func(packages []Package) error {
		done := func() int {
			count := len(downloaded(fetched)) // and what is kept already
			for _, p := range packages {
				if haveDeb(s.path("debs"), p) {
					count++
				}
			}
			return min(count, len(packages))
		}
		defer s.step(fmt.Sprintf("fetching %d packages for %s", len(packages), r.name), len(packages), done)()
		return apt.download(ctx, fetched, s.path("debs"), packages)
	}
	for {
		age, _ := apt.age()
		stale := age > indexAge
		if isLocked && apt.has(ctx, locked.Packages) {
			if err = download(locked.Packages); err == nil {
				return locked, nil, nil
			}
		} else if !stale {
			break
		}
		if err != nil && !stale {
			return Lock{}, nil, unreachable(err)
		}
		// An index that has aged may name files that have gone, or lack the
		// pinned ones that have come: look once more.
		if err = update(); err != nil {
			return Lock{}, nil, err
		}
	}
	present, err := apt.resolve(ctx, r.packages)
	if err != nil {
		return Lock{}, nil, unreachable(err)
	}
	now := Lock{
		Packages: slices.DeleteFunc(present, func(p Package) bool { return slices.Contains(locked.Without, p.Name) }),
		Jars:     locked.Jars,
		Modules:  locked.Modules,
	}
	now.sort()
	if err := download(now.Packages); err != nil {
		return Lock{}, nil, unreachable(err)
	}
	if !isLocked {
		return now, []string{fmt.Sprintf("no lock file for %s on %s: the packages are the archive's present ones", r.name, apt.arch)}, nil
	}
	return now, drift(locked, now), nil
}

// unreachable turns apt's failure to reach the archive into an answer; a full
// disk and a refusal stay what they are.
func unreachable(err error) error {
	var refused *Refused
	if errors.As(err, &refused) || diskFull(err) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Missing{
		What: fmt.Sprintf("the distribution's archive does not give the packages (%s)", err),
		Mend: "check that `apt-get update` works here, or weigh an image or a root file system instead (--image, --image-archive, --rootfs)",
	}
}

// drift says how what the archive has now differs from what is locked.
func drift(locked, now Lock) []string {
	was := map[string]string{}
	for _, p := range locked.Packages {
		was[p.Name] = p.Version
	}
	var out []string
	for _, p := range now.Packages {
		version, known := was[p.Name]
		delete(was, p.Name)
		switch {
		case !known:
			out = append(out, fmt.Sprintf("%s %s, which the lock file does not have", p.Name, p.Version))
		case version != p.Version:
			out = append(out, fmt.Sprintf("%s %s instead of the locked %s", p.Name, p.Version, version))
		}
	}
	for _, name := range sortedKeys(was) {
		out = append(out, fmt.Sprintf("no %s, which is locked at %s", name, was[name]))
	}
	return out
}

// merged are the directories that are links into /usr.
var merged = []string{"bin", "lib", "sbin"}

// mergeUsr makes the links that a Debian root has had since its release 12 and
// that no package brings (they are made when a system is installed).
func mergeUsr(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range merged {
		if err := makeDirectories(root, "usr/"+name); err != nil {
			return err
		}
		if err := root.Symlink("usr/"+name, name); err != nil {
			return err
		}
	}
	return nil
}

// notNeeded are directories that only people read.
var notNeeded = []string{
	"usr/share/doc", "usr/share/doc-base", "usr/share/man", "usr/share/info", "usr/share/locale",
	"usr/share/lintian", "usr/share/bug", "usr/share/menu", "usr/share/applications",
}

func unneeded(name string) bool {
	return slices.ContainsFunc(notNeeded, func(dir string) bool {
		return name == dir || strings.HasPrefix(name, dir+"/")
	})
}

// unpackDeb verifies one package and unpacks its files into dir. None of its
// scripts run.
func unpackDeb(ctx context.Context, debs string, p Package, dir string, skip func(name string) bool) error {
	if err := verifyDeb(debs, p); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", debPath(debs, p.SHA256))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	u, err := newUnpacker(p.String(), dir, &budget{Limits: DefaultLimits}, distribution)
	if err == nil {
		u.skip = skip
		err = u.layer(ctx, out)
		u.close()
	}
	if err != nil {
		_ = out.Close() // ends dpkg-deb, which has nobody to write to
		_ = cmd.Wait()
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("dpkg-deb %s: %w%s", p, err, complaint(complaints.String()))
	}
	return nil
}

// chroot runs a program of a root inside it, in a fixed environment.
func (b *build) chroot(ctx context.Context, root string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Err = nil // the path is inside the root
	cmd.Path = args[0]
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/", "LC_ALL=C", "SOURCE_DATE_EPOCH=946684800"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	out, err := output(cmd)
	if errors.Is(err, fs.ErrPermission) {
		return nil, &Missing{What: "running a program inside an image being built is not permitted", Mend: "run with CAP_SYS_CHROOT, such as by sudo"}
	}
	return out, err
}
