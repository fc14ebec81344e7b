package mount_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"tare/kernel/file"
	"tare/kernel/filesystem/fusetest"
	"tare/kernel/mount"
	"tare/kernel/procfs"
)

// trusts asks for the mount of a path in the root of a process.
func trusts(t *testing.T, p procfs.Process, path string) error {
	t.Helper()
	pinned, err := file.Pin(filepath.Join(p.Path("root"), path))
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	return mount.Trust(p, pinned)
}

// unshared starts a shell in namespaces of its own, which runs a script and waits.
func unshared(t *testing.T, script string, attributes *syscall.SysProcAttr) procfs.Process {
	t.Helper()
	cmd := exec.Command("sh", "-c", script+"\necho ready; read end")
	cmd.SysProcAttr, cmd.Stderr = attributes, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("namespaces of its own: %v", err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Skipf("the shell says %q", line)
	}
	return procfs.Host.Process(cmd.Process.Pid)
}

// An overlay is trusted where it took root to mount it, or where it is mounted here too.
func TestOverlaysOfUsersAreNotTrusted(t *testing.T) {
	dir := scratch(t)
	for _, name := range []string{"a", "b", "upper", "work", "ours", "theirs"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := mount.Overlay(at("a"), at("upper"), at("work"), at("ours")); err != nil {
		t.Skip(err)
	}
	script := "mount -t overlay -o lowerdir=" + at("a") + ":" + at("b") + " overlay " + at("theirs")
	one := []syscall.SysProcIDMap{{Size: 1}}
	user := unshared(t, script, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: one, GidMappings: one,
	})
	root := unshared(t, script, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})
	for _, c := range []struct {
		name  string
		in    procfs.Process
		trust bool
	}{{"ours", user, true}, {"a", user, true}, {"theirs", user, false}, {"ours", root, true}, {"theirs", root, true}} {
		err := trusts(t, c.in, at(c.name))
		if untrusted := new(mount.Untrusted); (err == nil) != c.trust || err != nil && !errors.As(err, &untrusted) {
			t.Errorf("%s of process %d: %v", c.name, c.in.PID, err)
		}
	}
}

func TestServedMountsAreNotTrusted(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	s := fusetest.Mount(t, 4096)
	self := procfs.Host.Process(os.Getpid())
	untrusted := new(mount.Untrusted)
	if err := trusts(t, self, s.Directory); !errors.As(err, &untrusted) || untrusted.FSType != "fuse" {
		t.Errorf("a file that a program serves: %v", err)
	}
	if err := trusts(t, self, "/proc"); err != nil {
		t.Errorf("one of the kernel's: %v", err)
	}
	gone := scratch(t)
	taken, err := file.Pin(gone)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := mount.Unmount(gone); err != nil {
		t.Fatal(err)
	}
	if err := mount.Trust(self, taken); err == nil {
		t.Error("a mount that was taken away is trusted")
	}
}

// On the way to a file, no file system is asked that does not answer, wherever it is mounted.
func TestPin(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	below := fusetest.Mount(t, 4096)
	s := fusetest.Mount(t, 4096)
	dir := scratch(t)
	plain, bound := filepath.Join(dir, "plain"), filepath.Join(dir, "bound")
	for _, path := range []string{plain, bound} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(mount.Bind(s.File(), bound, false), mount.Bind(plain, below.File(), false)); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	below.Silence()
	for _, c := range []struct {
		dir, path string
		trust     bool
	}{
		{"/", plain, true}, {dir, "plain", true}, {"/", s.File(), false}, {s.Directory, fusetest.Name, false},
		{"/", s.Directory, false}, {"/", bound, false}, {dir, "bound", false}, {"/", below.File(), false},
	} {
		s.Ends(t, c.path, func() {
			pinned, err := mount.Pin(procfs.Host.Process(os.Getpid()), c.dir, c.path)
			if untrusted := new(mount.Untrusted); (err == nil) != c.trust || err != nil && !errors.As(err, &untrusted) {
				t.Errorf("%s in %s: %v", c.path, c.dir, err)
			}
			if err == nil {
				_ = pinned.Close()
			}
		})
	}
}
