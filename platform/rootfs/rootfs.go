// Package rootfs lays out the file system that one instance sees, from an
// image that stays untouched: as a directory (the image's own, read-only, with
// writable directories bound where the program writes) or as an overlay over it.
//
// Platforms that drive the kernel themselves share it, so that bare metal and
// containers run from the same bytes. It starts nothing and makes no namespace.
package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tare/image"
	"tare/kernel/file"
	"tare/kernel/mount"
	"tare/platform"
)

// nameShape is what an instance may be called: it becomes a part of paths.
var nameShape = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// Trials is where the directories of instances lie, below tare's state
// directory; it is made, and free of symbolic links. The state directory may
// be reached through links, but its trials may not be one: what lies there is
// removed by name, after crashes, too, and a link would steer that elsewhere.
func Trials(stateDir string) (string, error) {
	state, err := filepath.Abs(stateDir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(state, 0o755); err != nil {
		return "", err
	}
	if state, err = filepath.EvalSymlinks(state); err != nil {
		return "", err
	}
	dir := filepath.Join(state, "trials")
	return dir, file.Private(dir)
}

// realDirectory answers whatever is not a directory itself, such as a link to one.
func realDirectory(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory itself but %s: nothing is made, mounted or removed through it", dir, kindOf(info))
	}
	return nil
}

func kindOf(info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return "a symbolic link"
	case info.Mode().IsRegular():
		return "a file"
	}
	return "of mode " + info.Mode().String()
}

// Place gives the directory for an instance that is to be made. It refuses one
// that exists, which is another instance's and not to be entered or removed as
// this one's.
func Place(stateDir, name string) (trials, dir string, err error) {
	if !nameShape.MatchString(name) {
		return "", "", fmt.Errorf("instance name %q: want lower-case letters, digits and hyphens, at most 63", name)
	}
	if trials, err = Trials(stateDir); err != nil {
		return "", "", err
	}
	dir = filepath.Join(trials, name)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("%s exists: an instance of that name runs, or was left by a crash, and tare clean removes it", dir)
	}
	return trials, dir, nil
}

// Plan is one instance's file system.
type Plan struct {
	// Dir is the instance's own directory on the host, free of symbolic links.
	// [Plan.Build] makes it, [Remove] removes it and what is mounted in it.
	Dir     string
	Image   image.Image
	Kind    platform.Root    // RootDir or RootOverlay
	Storage platform.Storage // behind Data; an empty one is a layer
	Data    []string         // directories inside that the program writes
	Work    string           // directory inside that the program starts in, made where the image has none; "/" if empty
	Points  []string         // directories inside that are mounted on besides
}

// Tree is a file system that was laid out.
type Tree struct {
	// Root is where the instance's root directory is mounted.
	Root string
	// Binds are what is still to be bound into it, by the runtime or by
	// [Tree.Bind]; parents come before what lies in them.
	Binds []Bind
}

// Bind is a writable directory of the host, shown inside.
type Bind struct {
	Source string
	Target string // as seen inside, links resolved
}

// scratch are the directories that every program may write, whatever its root.
var scratch = []string{"/tmp", "/run", "/var/tmp"}

// system are the places that the kernel's own file systems are mounted at.
var system = []string{"/proc", "/sys", "/dev"}

// Build lays the file system out. On an error, [Remove] takes away what was made.
func (p Plan) Build() (Tree, error) {
	if err := p.checkData(); err != nil {
		return Tree{}, err
	}
	if info, err := os.Stat(p.Image.Root); err != nil || !info.IsDir() {
		return Tree{}, fmt.Errorf("image %s: its root file system %s is not there: make the image again", p.Image.Name, p.Image.Root)
	}
	for _, place := range system {
		err := realDirectory(filepath.Join(p.Image.Root, place))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Tree{}, fmt.Errorf("image %s: its %s cannot be mounted on: %w", p.Image.Name, place, err)
		}
	}
	if err := os.Mkdir(p.Dir, 0o700); err != nil {
		return Tree{}, err
	}
	t := Tree{Root: filepath.Join(p.Dir, "root")}
	if err := os.Mkdir(t.Root, 0o755); err != nil {
		return Tree{}, err
	}
	if p.Kind == platform.RootOverlay {
		return p.buildOverlay(t)
	}
	return p.buildDir(t)
}

func (p Plan) buildOverlay(t Tree) (Tree, error) {
	upper, work := filepath.Join(p.Dir, "upper"), filepath.Join(p.Dir, "work")
	// The root's owner and mode are the upper layer's.
	if err := makeLike(p.Image.Root, upper); err != nil {
		return t, err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return t, err
	}
	if err := mount.Overlay(p.Image.Root, upper, work, t.Root); err != nil {
		return t, fmt.Errorf("%w: an overlay's upper layer cannot lie on another overlay or on a network file system: choose another state directory", err)
	}
	for _, dir := range slices.Concat(system, scratch, p.Data, p.Points, []string{p.work()}) {
		target, err := image.Resolve(t.Root, dir)
		if err != nil {
			return t, err
		}
		if err := makeInside(t.Root, target, modeOf(dir)); err != nil {
			return t, err
		}
	}
	if p.inLayer() {
		return t, nil
	}
	return p.addBinds(t, p.Data)
}

func (p Plan) buildDir(t Tree) (Tree, error) {
	dirs := slices.Concat(scratch, p.Data)
	if made, err := p.makesWork(); err != nil {
		return t, err
	} else if made { // writable, as the layer is in which a container has it
		dirs = append(dirs, p.work())
	}
	t, err := p.addBinds(t, dirs)
	if err != nil {
		return t, err
	}
	var needed []string
	for _, point := range p.Points {
		target, err := image.Resolve(p.Image.Root, point)
		if err != nil {
			return t, err
		}
		needed = append(needed, target)
	}
	for _, b := range t.Binds {
		needed = append(needed, b.Target)
	}
	return t, show(p.Image.Root, t.Root, filepath.Join(p.Dir, "points"), slices.Concat(system, needed))
}

// addBinds makes a writable directory for each of dirs, holding what the image
// has there, and adds it to the tree's binds.
func (p Plan) addBinds(t Tree, dirs []string) (Tree, error) {
	var targets, stored []string
	for _, dir := range dirs {
		target, err := image.Resolve(p.Image.Root, dir)
		if err != nil {
			return t, err
		}
		if !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
		if slices.Contains(p.Data, dir) && !slices.Contains(scratch, target) {
			stored = append(stored, target)
		}
	}
	slices.Sort(targets) // parents first
	for i, target := range targets {
		source := filepath.Join(p.Dir, "data", strconv.Itoa(i))
		if err := os.MkdirAll(source, 0o755); err != nil {
			return t, err
		}
		// Scratch directories are plain ones, whatever holds the data.
		if p.Storage == platform.StorageTmpfs && slices.Contains(stored, target) {
			if err := mount.New("tmpfs", source, mount.Options{NoDev: true, NoSUID: true, Data: "mode=755"}); err != nil {
				return t, err
			}
		}
		if err := os.Chmod(source, modeOf(target)); err != nil {
			return t, err
		}
		if err := copyTree(filepath.Join(p.Image.Root, target), source); err != nil {
			return t, fmt.Errorf("copying the image's %s: %w", target, err)
		}
		t.Binds = append(t.Binds, Bind{source, target})
		for _, outer := range t.Binds[:len(t.Binds)-1] {
			if inner, ok := strings.CutPrefix(target, outer.Target+"/"); ok {
				if err := os.MkdirAll(filepath.Join(outer.Source, inner), 0o755); err != nil {
					return t, err
				}
			}
		}
	}
	return t, nil
}

func (p Plan) work() string { return path.Clean("/" + p.Work) }

// makesWork reports whether the image has no directory for the program to start in.
func (p Plan) makesWork() (bool, error) {
	target, err := image.Resolve(p.Image.Root, p.work())
	return len(lacking(p.Image.Root, []string{target})) > 0, err
}

// modeOf is the mode of a directory that the image lacks.
func modeOf(dir string) fs.FileMode {
	if dir == "/tmp" || dir == "/var/tmp" {
		return 0o777 | fs.ModeSticky
	}
	return 0o755
}

// makeInside makes target, links resolved, in a tree that may be written.
// What exists keeps its mode.
func makeInside(root, target string, mode fs.FileMode) error {
	dir := filepath.Join(root, target)
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", target, err)
	}
	return os.Chmod(dir, mode)
}

// Bind binds what [Tree.Binds] lists.
func (t Tree) Bind() error {
	for _, b := range t.Binds {
		at, err := t.point(b.Target)
		if err != nil {
			return err
		}
		if err := mount.Bind(b.Source, at, false); err != nil {
			return err
		}
	}
	return nil
}

// point gives the host's path of a directory inside, to mount on. The kernel
// would follow a link on it as the host's, and the mount would land in the
// host's own tree: so every part must be a directory itself.
func (t Tree) point(inside string) (string, error) {
	at := t.Root
	for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+inside), "/"), "/") {
		at = filepath.Join(at, part)
		if err := realDirectory(at); err != nil {
			return "", fmt.Errorf("mounting at %s of the instance: %w", inside, err)
		}
	}
	return at, nil
}

// Remove unmounts all that is mounted in dir and removes it. It refuses a
// directory that does not lie in parent, and one where something stays
// mounted, through which it would reach what is not the instance's.
func Remove(parent, dir string) error {
	if filepath.Dir(dir) != filepath.Clean(parent) {
		return fmt.Errorf("%s is not an instance's directory in %s: it is left alone", dir, parent)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := realDirectory(parent); err != nil {
		return err
	}
	if err := mount.UnmountBelow(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
