package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"tare/kernel/module"
)

// The recipes of what a virtual machine is made of. They are no workloads, and so in
// no list that people choose one from.

// GuestPart is one part of a virtual machine.
type GuestPart string

const (
	// GuestKernel is the distribution's kernel for virtual machines, at GuestKernelFile,
	// and of its modules those that tare's machines load, all in GuestModules.
	GuestKernel GuestPart = "guest-kernel"
	// GuestTools are the OCI runtimes, with the libraries that they need.
	GuestTools GuestPart = "guest-tools"
	// GuestDebian is the distribution as people run it: systemd, engines and two kernels. Tests
	// alone boot it.
	GuestDebian GuestPart = "guest-debian"
)

// Where the kernel's recipe puts things.
const (
	GuestKernelFile = "boot/kernel"
	GuestModules    = "usr/lib/modules" // in a directory named by the kernel's release
)

var guestKernelRecipe = recipe{
	name:     string(GuestKernel),
	packages: []string{"linux-image-cloud-amd64"},
	programs: []string{"/boot/vmlinuz-*"},
	sources:  func() ([]byte, error) { return []byte("layout 1\n" + strings.Join(cloudModules, "\n")), nil },
	add:      func(ctx context.Context, b *build) error { return b.layKernel(ctx) },
}

// cloudModules are the disks, the channel and the network of a machine, what containers
// in it ask for, and compressed swap with its compressors. All other drivers are built
// in, or for other machines.
var cloudModules = []string{
	"virtio_pci", "virtio_blk", "virtio_console", "virtio_net", "virtio_rng",
	"overlay", "veth", "bridge",
	"zram", "lzo", "lzo_rle", "lz4", "lz4hc", "zstd",
}

var guestToolsRecipe = recipe{
	name:     string(GuestTools),
	packages: []string{"runc", "crun"},
	programs: []string{"/usr/sbin/runc", "/usr/bin/crun"},
}

// Guest gives a part of virtual machines, and builds it first where the store does not
// have it yet. Errors are [Missing] and [Full].
func (s *Store) Guest(ctx context.Context, part GuestPart) (Image, error) {
	if s.arch != "amd64" {
		return Image{}, &Missing{What: "virtual machines are made for amd64, and this host is " + s.arch}
	}
	r, ok := findRecipe(string(part))
	if !ok || !strings.HasPrefix(r.name, "guest-") {
		return Image{}, fmt.Errorf("virtual machines have no part %q", part)
	}
	return s.recipe(ctx, r)
}

// layKernel leaves of the kernel's packages the kernel itself and [cloudModules] with all
// that those need.
func (b *build) layKernel(ctx context.Context) error {
	file, err := onlyMatch(b.root, "boot/vmlinuz-*")
	if err != nil {
		return err
	}
	from, err := onlyMatch(b.root, "usr/lib/modules/*")
	if err != nil {
		return err
	}
	release := filepath.Base(from)
	kept := b.work.path("kernel")
	if err := os.MkdirAll(filepath.Join(kept, GuestModules, release), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(kept, filepath.Dir(GuestKernelFile)), 0o755); err != nil {
		return err
	}
	if err := copyProgram(file, filepath.Join(kept, GuestKernelFile)); err != nil {
		return err
	}
	if err := layModules(ctx, from, filepath.Join(kept, GuestModules, release), cloudModules); err != nil {
		return err
	}
	return replaceRoot(b.root, kept)
}

// onlyMatch is the one path that a pattern has in a root: packages of two kernels would
// leave it open which one is meant.
func onlyMatch(root, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the packages bring %d of /%s, and one is needed", len(found), pattern)
	}
	return found[0], nil
}

// layModules copies the wanted modules and what they need, uncompressed, side by side.
func layModules(ctx context.Context, from, to string, wanted []string) error {
	files := map[string]string{}
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ".ko") {
			files[module.Name(name)] = name
		}
		return err
	})
	if err != nil {
		return err
	}
	all := map[string]module.Info{}
	for pending := slices.Clone(wanted); len(pending) > 0; {
		name := module.Name(pending[0])
		pending = pending[1:]
		file, there := files[name]
		if _, done := all[name]; done || !there {
			continue // what is not there, Order reports with who needs it
		}
		target := filepath.Join(to, name+".ko")
		if err := plainModule(ctx, file, target); err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		info, err := readModule(target)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		all[name] = info
		pending = append(append(pending, info.Depends...), info.Before...)
	}
	_, err = module.Order(all, wanted)
	return err
}

func readModule(file string) (module.Info, error) {
	f, err := os.Open(file)
	if err != nil {
		return module.Info{}, err
	}
	defer f.Close()
	return module.Read(f)
}

// plainModule copies a module's file, decompressed. A distribution chooses one of the
// kernel's ways of compressing modules (CONFIG_MODULE_COMPRESS_*), and not every kernel
// undoes its own.
func plainModule(ctx context.Context, from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	var content io.Reader = in
	switch filepath.Ext(from) {
	case ".ko":
	case ".gz":
		if content, err = gzip.NewReader(in); err != nil {
			return err
		}
	case ".zst":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(largestWindow))
		if err != nil {
			return err
		}
		defer z.Close()
		content = z
	case ".xz":
		if _, err := exec.LookPath("xz"); err != nil {
			return &Missing{What: "the kernel's modules are compressed by xz, which is not on this host", Mend: "apt-get install xz-utils"}
		}
		out, err := output(exec.CommandContext(ctx, "xz", "-dc", from))
		if err != nil {
			return err
		}
		content = strings.NewReader(string(out))
	default:
		return fmt.Errorf("%s: compressed in a way that is not known", filepath.Base(from))
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close(), os.Chmod(to, 0o644))
}

// replaceRoot makes the content of a root that of kept.
func replaceRoot(root, kept string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
			return err
		}
	}
	if entries, err = os.ReadDir(kept); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(kept, e.Name()), filepath.Join(root, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
