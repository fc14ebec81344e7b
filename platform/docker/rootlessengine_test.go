package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform/docker"
)

// The user of the test's own rootless engine, and the ids lent to it. They are
// in no file of the host's: the engine sees files of its own in their place.
const (
	rootlessUser = 64357
	firstLent    = 1_640_000_000
)

// rootlessEngine starts a rootless engine of the test's own, for a user that is
// nobody else's, in a mount namespace in which that user has an entry and ids
// lent to it. It gives the engine's address.
func rootlessEngine(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start a rootless engine as a user of its own")
	}
	script := "/usr/share/docker.io/contrib/dockerd-rootless.sh"
	if found, err := exec.LookPath("dockerd-rootless.sh"); err == nil {
		script = found
	} else if _, err := os.Stat(script); err != nil {
		t.Skip("needs dockerd-rootless.sh, to start a rootless engine of its own: apt-get install docker.io")
	}
	for _, program := range []string{"rootlesskit", "newuidmap", "slirp4netns", "setpriv", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s, to start a rootless engine of its own: apt-get install rootlesskit uidmap slirp4netns util-linux", program)
		}
	}
	if running := processesOfUser(rootlessUser); len(running) > 0 {
		t.Skipf("user %d, whose processes the test would end, has some already: %v", rootlessUser, running)
	}
	dir := openDir(t)
	home := filepath.Join(dir, "h")
	for _, own := range []string{home, filepath.Join(dir, "r")} {
		if err := os.Mkdir(own, 0o711); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(own, rootlessUser, rootlessUser); err != nil {
			t.Fatal(err)
		}
	}
	for name, line := range map[string]string{
		"passwd": fmt.Sprintf("tare-test:x:%d:%[1]d::%s:/bin/sh\n", rootlessUser, home),
		"group":  fmt.Sprintf("tare-test:x:%d:\n", rootlessUser),
		"subuid": fmt.Sprintf("tare-test:%d:65536\n", firstLent),
		"subgid": fmt.Sprintf("tare-test:%d:65536\n", firstLent),
	} {
		host, err := os.ReadFile(filepath.Join("/etc", name))
		if err != nil {
			t.Skipf("needs /etc/%s, to show the engine one with its user: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), append(host, line...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := new(bytes.Buffer)
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", `
		for name in passwd group subuid subgid; do mount --bind "$1/$name" "/etc/$name"; done
		user=$2; script=$3; shift 3
		exec setpriv --reuid="$user" --regid="$user" --clear-groups sh "$script" "$@"`,
		"sh", dir, strconv.Itoa(rootlessUser), script, "--log-level", "error")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(dir, "r")}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
		}
		endUser(t, rootlessUser)
		<-ended
	})
	host := "unix://" + filepath.Join(dir, "r", "docker.sock")
	probe := docker.NewRootless(docker.Options{Host: host, StateDir: dir})
	for until := time.Now().Add(time.Minute); ; {
		err := probe.Check(t.Context())
		if err == nil {
			return host
		}
		select {
		case <-ended:
			t.Skipf("needs a rootless engine of its own, and it does not come up: %s", log)
		case <-time.After(20 * time.Millisecond): // an engine has no event to tell that it listens
		}
		if time.Now().After(until) {
			t.Skipf("needs a rootless engine of its own, and it does not answer: %v", err)
		}
	}
}

// processesOfUser lists the processes of a user of the host's.
func processesOfUser(uid int) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		stat, err := procfs.Host.Process(pid).Stat()
		if err != nil || stat.Zombie() {
			continue
		}
		if status, err := procfs.Host.Process(pid).Status(); err == nil && status.UID == uid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endUser ends what a user has left running; it is the test's own.
func endUser(t *testing.T, uid int) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); ; {
		pids := processesOfUser(uid)
		if len(pids) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Errorf("the engine's processes go on: %v", pids)
			return
		}
		for _, pid := range pids {
			if identity, err := process.Identify(pid); err == nil {
				if err := identity.Kill(context.Background()); err != nil {
					t.Errorf("end process %d: %v", pid, err)
				}
			}
		}
	}
}
