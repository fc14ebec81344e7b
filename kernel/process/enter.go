package process

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// EnterHost executes this program anew, with the command line and the environment that it began with, in
// the mount and control group namespaces of the host's first process. It returns nil where the program is
// there already. In a container, the first process is the host's only if the container shares the host's
// process ids.
//
// It needs CAP_SYS_PTRACE, CAP_SYS_CHROOT and CAP_SYS_ADMIN.
func EnterHost() error {
	host, inside, err := ofHost()
	if err != nil || inside {
		return err
	}
	// Of PATH, the directories may have been left out by now that the container lacks.
	env, err := procfs.Host.Process(os.Getpid()).Environ()
	if err != nil {
		return err
	}
	// A namespace is a thread's, and execution ends all other threads.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare(CLONE_FS)", err)
	}
	for _, kind := range []struct {
		name string
		flag int
	}{{"cgroup", unix.CLONE_NEWCGROUP}, {"mnt", unix.CLONE_NEWNS}} {
		if err := join(filepath.Join(host, kind.name), kind.flag); err != nil {
			return err
		}
	}
	// The file is the container's, which has no path here.
	return os.NewSyscallError("execve", unix.Exec("/proc/self/exe", os.Args, env))
}

// ofHost finds the directory of the host's namespaces, and whether this program has its mount namespace. A
// first process may be closed even to root. The parent is taken then: a container's is the runtime's shim.
func ofHost() (dir string, inside bool, err error) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return "", false, err
	}
	var host string
	for _, pid := range []int{1, os.Getppid()} {
		dir = fmt.Sprintf("/proc/%d/ns", pid)
		if host, err = os.Readlink(filepath.Join(dir, "mnt")); err == nil {
			return dir, own == host, nil
		}
	}
	return "", false, fmt.Errorf("finding the host's namespaces, which needs CAP_SYS_PTRACE: %w", err)
}

func join(path string, flag int) error {
	namespace, err := os.Open(path)
	if err != nil {
		return err
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), flag); err != nil {
		return fmt.Errorf("entering %s: %w", path, os.NewSyscallError("setns", err))
	}
	return nil
}
