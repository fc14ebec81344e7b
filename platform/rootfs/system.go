package rootfs

import (
	"os"
	"path/filepath"
	"slices"

	"tare/kernel/mount"
)

// MountSystem mounts what a container runtime mounts for a container: /proc,
// /sys with the control groups, and a small /dev with terminals and shared
// memory. The options are those that engines use.
func (t Tree) MountSystem() error {
	at := map[string]string{}
	for _, place := range system {
		// All before the first, so that a root that is refused has no mounts.
		point, err := t.point(place)
		if err != nil {
			return err
		}
		at[place] = point
	}
	closed := mount.Options{NoSUID: true, NoExec: true, NoDev: true}
	if err := mount.New("proc", at["/proc"], closed); err != nil {
		return err
	}
	sys := closed
	sys.ReadOnly = true
	if err := mount.New("sysfs", at["/sys"], sys); err != nil {
		return err
	}
	if err := t.bindCgroups(); err != nil {
		return err
	}
	if err := mount.New("tmpfs", at["/dev"], mount.Options{NoSUID: true, Data: "mode=755,size=65536k"}); err != nil {
		return err
	}
	return fillDev(at["/dev"])
}

// bindCgroups shows the host's control groups read-only, since programs look
// there for what they may use (a Java machine for its heap).
func (t Tree) bindCgroups() error {
	points, err := mount.Below("/sys/fs/cgroup")
	if err != nil {
		return err
	}
	slices.Reverse(points) // parents first
	for _, p := range slices.Compact(points) {
		at, err := t.point(p)
		if err != nil {
			return err
		}
		if err := mount.Bind(p, at, true); err != nil {
			return err
		}
	}
	return nil
}

// devices are those that the OCI runtime specification has in every container.
var devices = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

func fillDev(dev string) error {
	for _, d := range devices {
		if err := mount.Device(filepath.Join(dev, d.name), 0o666, d.major, d.minor); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		name, fsType string
		options      mount.Options
	}{
		{"pts", "devpts", mount.Options{NoSUID: true, NoExec: true, Data: "newinstance,ptmxmode=0666,mode=0620,gid=5"}},
		{"shm", "tmpfs", mount.Options{NoSUID: true, NoExec: true, NoDev: true, Data: "mode=1777,size=65536k"}},
		{"mqueue", "mqueue", mount.Options{NoSUID: true, NoExec: true, NoDev: true}},
	} {
		point := filepath.Join(dev, m.name)
		if err := os.Mkdir(point, 0o755); err != nil {
			return err
		}
		if err := mount.New(m.fsType, point, m.options); err != nil {
			return err
		}
	}
	return nil
}
