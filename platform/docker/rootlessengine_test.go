package docker_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform/conformance"
	"tare/platform/docker"
)

// The user of the test's own rootless engine, and the ids lent to it. They are
// in no file of the host's: the engine sees files of its own in their place.
const (
	rootlessUser = 64357
	firstLent    = 1_640_000_000
	lent         = 65536
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
	if running := processesOfEngine(); len(running) > 0 {
		t.Fatalf("user %d, whose processes the test ends, has some already: %v; let the other run of this test end, or end what it left: kill -9 %s", rootlessUser, running, strings.Trim(fmt.Sprint(running), "[]"))
	}
	dir := conformance.OpenDir(t)
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
		"subuid": fmt.Sprintf("tare-test:%d:%d\n", firstLent, lent),
		"subgid": fmt.Sprintf("tare-test:%d:%d\n", firstLent, lent),
	} {
		host, err := os.ReadFile(filepath.Join("/etc", name))
		if err != nil {
			t.Skipf("needs /etc/%s, to show the engine one with its user: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), append(host, line...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	guard(t, dir)
	log := new(bytes.Buffer)
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", `
		for name in passwd group subuid subgid; do mount --bind "$1/$name" "/etc/$name"; done
		user=$2; script=$3; shift 3
		exec setpriv --reuid="$user" --regid="$user" --clear-groups sh "$script" "$@"`,
		"sh", dir, strconv.Itoa(rootlessUser), script, "--log-level", "error")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(dir, "r")}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Second
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
		if err := endEngine(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	host := "unix://" + filepath.Join(dir, "r", "docker.sock")
	plain, err := client.New(client.WithHost(host))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for until := time.Now().Add(comesUp); ; {
		_, err := plain.Ping(t.Context(), client.PingOptions{})
		if err == nil {
			break
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
	// From here on it is not the host's fault.
	if err := docker.NewRootless(docker.Options{Host: host, StateDir: dir}).Check(t.Context()); err != nil {
		t.Fatalf("a rootless engine answers, and Check: %v", err)
	}
	return host
}

// comesUp is how long a host that can run a rootless engine may take to start it.
const comesUp = 30 * time.Second

// guardedDir tells the test's own program that it is the guard, and of what.
const guardedDir = "TARE_TEST_GUARDED_DIR"

// guard starts a process that outlives this one however it ends, and then ends
// the engine and removes its directory. A signal on the parent's death does not
// do: the kernel forgets it where a process changes its user. Nor does a process
// namespace, in which the engine would tell other ids than the host's.
func guard(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestGuard$")
	cmd.Env = append(os.Environ(), guardedDir+"="+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt from the terminal is not for it
	living, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		living.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the guard of the engine's processes: %v", err)
		}
	})
}

// TestGuard is no test but the program that guard starts.
func TestGuard(t *testing.T) {
	dir := os.Getenv(guardedDir)
	if dir == "" {
		t.Skip("is run beside a rootless engine")
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends when nobody can write any more
	if err := errors.Join(endEngine(), os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err) // what tests print goes nowhere
		t.Fail()
	}
}

// abandoned tells the test's own program that it is the one to be killed.
const abandoned = "TARE_TEST_ABANDONED"

// TestStartAndBeKilled is no test but the program that another kills.
func TestStartAndBeKilled(t *testing.T) {
	if os.Getenv(abandoned) == "" {
		t.Skip("is run by TestRootlessEngineDiesWithItsTest")
	}
	host := rootlessEngine(t)
	fmt.Println("up: " + strings.TrimPrefix(host, "unix://"))
	select {} // until it is killed
}

// TestRootlessEngineDiesWithItsTest: nothing of it is left that would stand in
// the way of the next run.
func TestRootlessEngineDiesWithItsTest(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStartAndBeKilled$", "-test.v")
	cmd.Env = append(os.Environ(), abandoned+"=1")
	said := new(bytes.Buffer)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	socket := ""
	for lines := bufio.NewScanner(io.TeeReader(out, said)); socket == "" && lines.Scan(); {
		if at, is := strings.CutPrefix(lines.Text(), "up: "); is { // and no line that tells why it did not come up
			socket = at
		}
	}
	if socket == "" {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v:\n%s", err, said)
		}
		t.Skipf("needs a rootless engine of its own:\n%s", said)
	}
	var engine []*process.Handle
	for _, pid := range processesOfEngine() {
		id, err := process.Identify(pid)
		if err != nil {
			continue
		}
		if handle, err := id.Open(); err == nil {
			defer handle.Close()
			engine = append(engine, handle)
		}
	}
	if len(engine) == 0 {
		t.Error("no process of the engine's is found")
	}
	_ = cmd.Process.Kill()
	// The guard has this end, too, until it has done its work.
	if complaints, err := io.ReadAll(guarded); err != nil || len(complaints) > 0 {
		t.Errorf("the guard: %s%v", complaints, err)
	}
	_ = cmd.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), comesUp)
	defer cancel()
	for _, handle := range engine {
		if err := handle.Await(ctx); err != nil {
			t.Errorf("a process of the engine's goes on: %v", err)
		}
	}
	if left := processesOfEngine(); len(left) > 0 {
		t.Errorf("processes of the engine's go on: %v", left)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(socket))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the engine's directory is left: %v", err)
	}
}

// processesOfEngine lists the processes of the engine's user and of the ids lent
// to it, which are nobody else's.
func processesOfEngine() []int {
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
		status, err := procfs.Host.Process(pid).Status()
		if err == nil && (status.UID == rootlessUser || status.UID >= firstLent && status.UID < firstLent+lent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endEngine ends what runs of the engine, until nothing does.
func endEngine() error {
	var errs []error
	for until := time.Now().Add(10 * time.Second); ; {
		pids := processesOfEngine()
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("the engine's processes %v go on: %w", pids, errors.Join(errs...))
		}
		errs = nil
		for _, pid := range pids {
			if identity, err := process.Identify(pid); err == nil {
				if err := identity.Kill(context.Background()); err != nil {
					errs = append(errs, fmt.Errorf("end process %d: %w", pid, err))
				}
			}
		}
	}
}
