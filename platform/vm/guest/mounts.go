package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tare/kernel/mount"
)

// system are the file systems of the kernel that programs and platforms look for, in
// the order in which they are mounted.
var system = []struct {
	fsType, at, data string
	// optional ones are not in every kernel; without them there is an ability less,
	// which those who need it say.
	optional bool
}{
	{fsType: "devtmpfs", at: "/dev", data: "mode=755"},
	{fsType: "proc", at: "/proc"},
	{fsType: "sysfs", at: "/sys"},
	{fsType: "tmpfs", at: "/run", data: "mode=755"},
	{fsType: "devpts", at: "/dev/pts", data: "gid=5,mode=620,ptmxmode=666"},
	{fsType: "tmpfs", at: "/dev/shm", data: "mode=1777"},
	{fsType: "mqueue", at: "/dev/mqueue", optional: true},
	{fsType: "cgroup2", at: "/sys/fs/cgroup"},
	{fsType: "bpf", at: "/sys/fs/bpf", data: "mode=700", optional: true},
	{fsType: "tracefs", at: "/sys/kernel/tracing", optional: true},
	{fsType: "securityfs", at: "/sys/kernel/security", optional: true},
}

func mountSystem() error {
	for _, m := range system {
		err := mountOne(m.fsType, m.at, m.data)
		if err != nil && !m.optional {
			return err
		}
	}
	for name, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	} {
		// Where it is there already, the kernel or an earlier start made it.
		if err := os.Symlink(target, name); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return enableControllers("/sys/fs/cgroup")
}

func mountOne(fsType, at, data string) error {
	if strings.HasPrefix(at, "/dev/") {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	}
	if _, err := os.Stat(at); err != nil {
		return err
	}
	return mount.New(fsType, at, mount.Options{Data: data})
}

// enableControllers hands every controller of version 2 down from the root, as service
// managers do: whichever is made there first finds the same.
func enableControllers(root string) error {
	list, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+name), 0o644); err != nil {
			return fmt.Errorf("handing down the %s controller: %w", name, err)
		}
	}
	return nil
}

// mountScratch mounts what programs write to at [StateDir], and a part of it at /tmp
// and /var/tmp.
func mountScratch(name string) error {
	if err := mountState(name); err != nil {
		return err
	}
	for _, at := range []string{"/tmp", "/var/tmp"} {
		dir := filepath.Join(StateDir, strings.ReplaceAll(at[1:], "/", "-"))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			return err
		}
		if err := mount.Bind(dir, at, false); err != nil {
			return err
		}
	}
	return nil
}

func mountState(name string) error {
	if name == "" {
		return mount.New("tmpfs", StateDir, mount.Options{Data: "mode=755"})
	}
	disk, err := parseDevice(name)
	if err != nil {
		return err
	}
	path, err := await(disk, diskBound)
	if err != nil {
		return err
	}
	// No thread of the kernel's is to work beside programs: the inode tables are left as
	// mkfs left them (see ScratchDisk), and bitmaps are read when they are needed.
	return mount.Disk(path, "ext4", StateDir, mount.Options{Data: "noinit_itable,no_prefetch_block_bitmaps"})
}
