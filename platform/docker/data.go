package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"tare/platform"
)

// layData makes what lies behind the program's data directories and returns
// how the engine is to mount it.
func (i *instance) layData(ctx context.Context) ([]mount.Mount, error) {
	var mounts []mount.Mount
	for n, inside := range i.Spec.Data {
		if !path.IsAbs(inside) || path.Clean(inside) == "/" {
			return nil, fmt.Errorf("data directory %q: want an absolute path below /", inside)
		}
		m := mount.Mount{Target: path.Clean(inside)}
		switch i.Spec.Setting.Storage {
		case platform.StorageBind:
			dir, err := i.bindDirectory(ctx, n, inside)
			if err != nil {
				return nil, err
			}
			m.Type, m.Source = mount.TypeBind, dir
		case platform.StorageVolume:
			name := i.Container + "-" + strconv.Itoa(n)
			if err := i.createVolume(ctx, name); err != nil {
				return nil, err
			}
			m.Type, m.Source = mount.TypeVolume, name // the engine copies in what the image has there
		case platform.StorageTmpfs:
			if empty, err := emptyIn(i.Spec.Image.Root, inside); err != nil {
				return nil, err
			} else if !empty {
				return nil, i.p.unsupported("storage=tmpfs", "the image has files in "+inside+", and the engine's tmpfs starts empty; use bind or volume")
			}
			m.Type = mount.TypeTmpfs
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func (i *instance) createVolume(ctx context.Context, name string) error {
	entry := platform.Entry{
		Platform: i.p.name,
		Kind:     kindVolume,
		ID:       name,
		Attrs:    map[string]string{labelLedger: i.mark},
	}
	return i.acquire(ctx, entry, func(ctx context.Context) error {
		return i.p.call(ctx, "create volume "+name, func(ctx context.Context) error {
			answer, err := i.p.client.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: labels(i.mark)})
			// The engine hands out a volume that exists already as if it were made anew.
			if err == nil && answer.Volume.Labels[labelLedger] != i.mark {
				err = fmt.Errorf("a volume of that name exists already, left by another run: tare clean removes it if it is tare's")
			}
			return err
		})
	})
}

// bindDirectory makes a host directory with what the image has at the data
// directory, owners and modes kept.
func (i *instance) bindDirectory(ctx context.Context, n int, inside string) (string, error) {
	dir := filepath.Join(i.p.stateDir, i.Container+"-"+i.mark)
	target := filepath.Join(dir, strconv.Itoa(n), "data")
	owners, err := i.p.owners(ctx)
	if err != nil {
		return "", err
	}
	fill := func(context.Context) error {
		if err := owners.makeWay(i.p.stateDir, dir, filepath.Dir(target)); err != nil {
			return fmt.Errorf("make a directory to bind: %w", err)
		}
		if err := copyIn(i.Spec.Image.Root, inside, target, owners); err != nil {
			return fmt.Errorf("copy the image's %s into a directory to bind: %w", inside, err)
		}
		return owners.handOver(filepath.Dir(target))
	}
	if n > 0 && i.owns(kindDir, dir) {
		return target, fill(ctx)
	}
	return target, i.acquire(ctx, platform.Entry{Platform: i.p.name, Kind: kindDir, ID: dir}, fill)
}

// emptyIn reports whether the image has nothing in the directory.
func emptyIn(root, inside string) (bool, error) {
	image, err := os.OpenRoot(root)
	if err != nil {
		return false, fmt.Errorf("look into the image for %s: %w", inside, err)
	}
	defer image.Close()
	entries, err := fs.ReadDir(image.FS(), within(inside))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}

// within is an absolute path inside, relative to the root.
func within(inside string) string {
	if p := strings.TrimPrefix(path.Clean(inside), "/"); p != "" {
		return p
	}
	return "."
}

// copyIn copies the image's directory to target, which it makes; an image
// without it gives an empty one. The image's root is opened as a root, so that
// no link in it leads out.
func copyIn(root, inside, target string, owners ids) error {
	image, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer image.Close()
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	from := within(inside)
	if _, err := image.Stat(from); errors.Is(err, fs.ErrNotExist) {
		uid, gid, err := owners.owner(os.Geteuid(), os.Getegid())
		if err == nil {
			err = owners.given(os.Chown(target, uid, gid))
		}
		return err
	}
	to, err := os.OpenRoot(target)
	if err != nil {
		return err
	}
	defer to.Close()
	source, err := image.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return fs.WalkDir(source.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return copyEntry(source, to, name, info, owners)
	})
}

// copyEntry copies one file, directory or link with its owner, mode and times.
func copyEntry(from, to *os.Root, name string, info fs.FileInfo, owners ids) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		if name != "." {
			if err := to.Mkdir(name, 0o700); err != nil {
				return err
			}
		}
	case mode&fs.ModeSymlink != 0:
		link, err := from.Readlink(name)
		if err != nil {
			return err
		}
		if err := to.Symlink(link, name); err != nil {
			return err
		}
	case mode.IsRegular():
		if err := copyFile(from, to, name); err != nil {
			return err
		}
	default:
		return nil // sockets, pipes and devices are made by who uses them
	}
	if uid, gid, ok := owner(info); ok {
		uid, gid, err := owners.owner(uid, gid)
		if err != nil {
			return err
		}
		if err := to.Lchown(name, uid, gid); err != nil {
			return owners.given(err)
		}
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	// After the owner: chown clears the set-user-id bit.
	return to.Chmod(name, info.Mode().Perm()|info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}

func copyFile(from, to *os.Root, name string) (err error) {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = out.ReadFrom(in)
	return err
}

// makeMissing puts the data directories that the image lacks into the
// container's own layer, empty, as every other kind of storage provides them.
func (i *instance) makeMissing(ctx context.Context) error {
	if s := i.Spec.Setting.Storage; s != "" && s != platform.StorageLayer {
		return nil
	}
	missing, err := missingIn(i.Spec.Image.Root, i.Spec.Data)
	if err != nil || len(missing) == 0 {
		return err
	}
	archive, err := archiveOf(missing)
	if err != nil {
		return err
	}
	return i.p.call(ctx, "make data directories in container "+i.Container, func(ctx context.Context) error {
		_, err := i.p.client.CopyToContainer(
			ctx,
			i.id,
			client.CopyToContainerOptions{DestinationPath: "/", Content: archive},
		)
		return err
	})
}

// missingIn lists, parents first, the directories that have to be made.
func missingIn(root string, data []string) ([]string, error) {
	image, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("look into the image for data directories: %w", err)
	}
	defer image.Close()
	var missing []string
	seen := map[string]bool{}
	for _, inside := range data {
		at := ""
		for _, part := range strings.Split(within(inside), "/") {
			at = path.Join(at, part)
			if seen[at] {
				continue
			}
			seen[at] = true
			if _, err := image.Stat(at); errors.Is(err, fs.ErrNotExist) {
				missing = append(missing, at)
			} else if err != nil {
				return nil, fmt.Errorf("look into the image for /%s: %w", at, err)
			}
		}
	}
	return missing, nil
}
