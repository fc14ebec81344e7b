package cgroup_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"tare/kernel/cgroup"
	"tare/kernel/process"
)

// What is enclosed has its own groups for roots, and sees the processes in them alone.
func TestEnclose(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	err = process.OnFreshThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := cgroup.Enclose(); err != nil {
			return err
		}
		f, err := os.Open("/proc/thread-self/cgroup")
		if err != nil {
			return err
		}
		defer f.Close()
		members, err := cgroup.ParseMembership(f)
		for _, m := range members {
			if m.Path != "/" {
				t.Errorf("the thread is in %v, want the root of what it sees", m)
			}
		}
		for _, h := range layout.Hierarchies {
			if _, err := os.Stat(filepath.Join(h.Mount, "cgroup.procs")); err != nil {
				t.Errorf("%+v is not mounted: %v", h, err)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
