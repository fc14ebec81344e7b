package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tare/kernel/mount"
)

// diskBound is how long a disk may take from its module's loading, or its plugging in,
// to its being there.
const diskBound = 20 * time.Second

// find looks for the disk; fs.ErrNotExist where it is not there.
func (d device) find() (string, error) {
	found, err := filepath.Glob("/sys/block/vd*/serial")
	if err != nil {
		return "", err
	}
	for _, file := range found {
		serial, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(serial)) == d.serial {
			return openable(filepath.Join("/dev", filepath.Base(filepath.Dir(file))))
		}
	}
	return "", fmt.Errorf("disk %s: %w", d, fs.ErrNotExist)
}

// openable says of a disk that is being added (its name is there before its block device
// is, and opening it then fails with ENXIO) that it is not there yet.
func openable(name string) (string, error) {
	f, err := os.Open(name)
	if errors.Is(err, syscall.ENXIO) {
		return "", fmt.Errorf("%s is being added: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return "", err
	}
	return name, f.Close()
}

// await waits for a disk. The kernel tells of one by an event that needs a listener of
// its own; looking every few milliseconds, and mostly once, is simpler.
func await(d device, bound time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return d.await(ctx)
}

func (d device) await(ctx context.Context) (string, error) {
	for {
		name, err := d.find()
		if !errors.Is(err, fs.ErrNotExist) {
			return name, err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("disk %s is not there: %w", d, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// mountImage mounts the image of that digest from its disk, once, and gives its root.
func mountImage(ctx context.Context, name, digest string) (string, error) {
	d, err := parseDevice(name)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, diskBound)
	defer cancel()
	disk, err := d.await(ctx)
	if err != nil {
		return "", err
	}
	uuid, err := readUUID(disk)
	if err != nil {
		return "", err
	}
	if uuid != uuidOf(digest) {
		return "", fmt.Errorf("disk %s is of another image than %s", name, digest)
	}
	at := filepath.Join("/run/tare/images", SerialOf(digest))
	if mounted, err := mount.Below(at); err != nil || len(mounted) > 0 {
		return at, err
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", err
	}
	return at, mount.Disk(disk, "ext4", at, mount.Options{ReadOnly: true})
}
