package guest

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"tare/image"
	"tare/kernel/file"
)

// Boot is what a machine boots from. Its files are shared by all machines and are
// never written.
type Boot struct {
	// Kernel is the file to boot, a bzImage.
	Kernel string `json:"-"`
	// Initrd is the initial root, a cpio archive.
	Initrd string `json:"-"`
	// Root is the machine's root disk, read-only: to be attached as the first disk,
	// with serial [RootSerial].
	Root string `json:"-"`
	// Cmdline are the words of the kernel's command line that every machine has; the
	// engine adds its console and the order ([Order.Argument]).
	Cmdline []string `json:"cmdline"`
	// Release is the kernel's, as uname gives it: "6.1.0-56-cloud-amd64".
	Release string `json:"release"`
	// Digest is over everything that the files were made of.
	Digest string `json:"digest"`
	// Warnings tell where the packages are not the locked ones.
	Warnings []string `json:"warnings,omitempty"`
}

// BuildOptions say what to make.
type BuildOptions struct {
	Store *image.Store
	// Agent is the path of a static tare; empty is this program.
	Agent string
	// Dir keeps what was made, for the next time.
	Dir string
}

// buildFormat is raised when the way of building changes what is built.
const buildFormat = 2

// buildName begins the names of builds' directories and of their lock. The distribution
// calls its kernel for virtual machines so.
const buildName = "cloud"

// description is the file that tells a whole build from a torn one.
const description = "boot.json"

// Build makes what a machine boots from, or finds it made. The error is an
// [image.Missing] where the host cannot have it, or the agent's program cannot be one.
func Build(ctx context.Context, o BuildOptions) (Boot, error) {
	boot, err := build(ctx, o)
	if err != nil {
		return Boot{}, fmt.Errorf("what virtual machines boot from: %w", err)
	}
	return boot, nil
}

func build(ctx context.Context, o BuildOptions) (Boot, error) {
	if o.Agent == "" {
		own, err := os.Executable()
		if err != nil {
			return Boot{}, err
		}
		o.Agent = own
	}
	if err := checkAgent(o.Agent); err != nil {
		return Boot{}, err
	}
	kernel, err := o.Store.Guest(ctx, image.GuestKernel)
	if err != nil {
		return Boot{}, err
	}
	tools, err := o.Store.Guest(ctx, image.GuestTools)
	if err != nil {
		return Boot{}, err
	}
	if err := file.Private(o.Dir); err != nil {
		return Boot{}, err
	}
	release, err := hold(ctx, filepath.Join(o.Dir, buildName+".lock"))
	if err != nil {
		return Boot{}, err
	}
	defer release()
	sum, err := sumOf(o.Agent)
	if err != nil {
		return Boot{}, err
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%d %s %s %s %s", buildFormat, buildName, kernel.Digest, tools.Digest, sum))
	b := builder{
		agent:      o.Agent,
		kernelRoot: kernel.Root,
		toolsRoot:  tools.Root,
		boot: Boot{
			Digest:   "sha256:" + hex.EncodeToString(digest[:]),
			Warnings: slices.Concat(kernel.Warnings, tools.Warnings),
		},
	}
	dir := filepath.Join(o.Dir, buildName+"-"+hex.EncodeToString(digest[:8]))
	if boot, err := load(dir); err == nil {
		now := time.Now()
		_ = os.Chtimes(dir, now, now) // which were used last is what is kept
		return boot, nil
	}
	if err := b.make(ctx, o.Dir, dir); err != nil {
		return Boot{}, err
	}
	prune(o.Dir)
	return load(dir)
}

// hold waits for a lock that goes with the process.
func hold(ctx context.Context, name string) (release func(), err error) {
	l := flock.New(name)
	if _, err := l.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, fmt.Errorf("wait for lock %s: %w", name, err)
	}
	return func() { _ = l.Close() }, nil
}

// load gives a build that is there, whole.
func load(dir string) (Boot, error) {
	text, err := os.ReadFile(filepath.Join(dir, description))
	if err != nil {
		return Boot{}, err
	}
	var boot Boot
	if err := json.Unmarshal(text, &boot); err != nil {
		return Boot{}, fmt.Errorf("%s: %w", dir, err)
	}
	boot.Kernel, boot.Initrd, boot.Root = filepath.Join(dir, "kernel"), filepath.Join(dir, "initrd"), filepath.Join(dir, "root.ext4")
	for _, f := range []string{boot.Kernel, boot.Initrd, boot.Root} {
		if _, err := os.Stat(f); err != nil {
			return Boot{}, err
		}
	}
	return boot, nil
}

// keptBuilds is how many builds stay: each new tare makes one.
const keptBuilds = 3

// prune removes the builds that were not used for longest. A machine that runs keeps
// the files that it has open.
func prune(dir string) {
	found, err := filepath.Glob(filepath.Join(dir, buildName+"-*"))
	if err != nil {
		return
	}
	used := map[string]time.Time{}
	found = slices.DeleteFunc(found, func(name string) bool {
		info, err := os.Stat(name)
		if err != nil || !info.IsDir() {
			return true
		}
		used[name] = info.ModTime()
		return false
	})
	slices.SortFunc(found, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, name := range found[min(keptBuilds, len(found)):] {
		_ = os.RemoveAll(name) // tried again with the next build
	}
}

// checkAgent refuses a program that needs a loader: the machine has no libraries for
// it. `go test` and `go run` make such ones where cgo is on.
func checkAgent(name string) error {
	dynamic, err := needsLoader(name)
	if err != nil {
		return fmt.Errorf("the agent's program: %w", err)
	}
	if !dynamic {
		return nil
	}
	return &image.Missing{
		What: name + " is not a static program, and a virtual machine boots with it as its first process",
		Mend: "make build (CGO_ENABLED=0 go build)",
	}
}

// needsLoader reports whether a program names a loader: a static one does not.
func needsLoader(name string) (bool, error) {
	f, err := elf.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), nil
}

func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// builder makes one build.
type builder struct {
	agent, kernelRoot, toolsRoot string
	boot                         Boot
}

// make makes the build in a directory beside its own, and renames that.
func (b *builder) make(ctx context.Context, parent, dir string) (err error) {
	work, err := os.MkdirTemp(parent, ".build-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	kernel := filepath.Join(b.kernelRoot, image.GuestKernelFile)
	m, err := findModules(filepath.Join(b.kernelRoot, image.GuestModules))
	if err != nil {
		return err
	}
	made := filepath.Join(work, "made")
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	if err := copyFile(kernel, filepath.Join(made, "kernel"), 0o755); err != nil {
		return err
	}
	b.boot.Release = m.release
	early, late, err := m.split()
	if err != nil {
		return err
	}
	// A CPU that is stuck in the kernel for 20 seconds, as emulation once in a while
	// brings about, ends the machine with a trace on its console: better than a
	// program that never ends.
	b.boot.Cmdline = []string{"rdinit=" + Program, "quiet", "panic=-1", "softlockup_panic=1"}
	if err := b.writeInitrd(filepath.Join(made, "initrd"), m, early); err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	if err := b.layRoot(root, m, late); err != nil {
		return err
	}
	if err := rootDisk(ctx, root, uuidOf(b.boot.Digest), filepath.Join(made, "root.ext4")); err != nil {
		return err
	}
	text, err := json.MarshalIndent(b.boot, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made, description), text, 0o644); err != nil {
		return err
	}
	// What stands there is torn, or it would have been found.
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(made, dir)
}

// writeInitrd writes the initial root: this program, and the modules that the root
// disk is reached by.
func (b *builder) writeInitrd(name string, m modules, early []string) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := archive{w: f}
	for _, dir := range []string{"dev", "proc", "sys", "root", "modules"} {
		a.directory(dir, 0o755)
	}
	a.device("dev/console", 0o600, 5, 1)
	a.device("dev/null", 0o666, 1, 3)
	list := strings.Join(early, "\n")
	a.file("modules/"+orderFile, 0o644, int64(len(list)), strings.NewReader(list))
	for _, module := range early {
		a.copy("modules/"+module+".ko", filepath.Join(m.dir, module+".ko"), 0o644)
	}
	a.copy(Program, b.agent, 0o755)
	return a.end()
}

// copy writes a file of the host's.
func (a *archive) copy(name, from string, mode uint32) {
	f, err := os.Open(from)
	if err != nil {
		a.fail(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.fail(err)
		return
	}
	a.file(name, mode, info.Size(), f)
}

// layRoot lays out the machine's root: the runtimes with their libraries, this
// program, the modules that are left, and directories to mount on.
func (b *builder) layRoot(dir string, m modules, late []string) error {
	if err := copyTree(b.toolsRoot, dir); err != nil {
		return err
	}
	for _, name := range []string{"dev", "proc", "sys", "run", "tmp", "var/tmp", "root", strings.TrimPrefix(StateDir, "/"), "usr/lib/modules/" + m.release} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	at := filepath.Join(dir, "usr/lib/modules", m.release)
	for _, module := range late {
		if err := copyFile(filepath.Join(m.dir, module+".ko"), filepath.Join(at, module+".ko"), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(at, orderFile), []byte(strings.Join(late, "\n")), 0o644); err != nil {
		return err
	}
	return copyFile(b.agent, filepath.Join(dir, Program), 0o755)
}

// copyTree copies directories, files and links. Device nodes stay behind: the machine
// has its own.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(name, from))
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type() == fs.ModeSymlink:
			link, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case d.Type().IsRegular():
			return copyFile(name, target, info.Mode().Perm())
		}
		return nil
	})
}

func copyFile(from, to string, mode fs.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chmod(to, mode))
}
