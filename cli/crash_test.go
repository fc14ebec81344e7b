package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/platform/docker"
)

// actAsTare makes this test binary act as tare (TestMain).
const actAsTare = "TARE_TEST_ACT_AS_TARE"

// leftovers lists everything on the host that looks like ours.
func leftovers(t *testing.T, home string) []string {
	t.Helper()
	var found []string
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/tare") {
			found = append(found, "cgroup "+path)
		}
		return nil
	})
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(mounts)) {
		if strings.Contains(row, home) {
			found = append(found, "mount "+strings.TrimSpace(row))
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/root")
	for _, p := range procs {
		if root, err := os.Readlink(p); err == nil && strings.HasPrefix(root, home) {
			found = append(found, "process "+p+" in "+root)
		}
	}
	links, _ := os.ReadDir("/sys/class/net")
	for _, l := range links {
		if strings.HasPrefix(l.Name(), "tare") {
			found = append(found, "link "+l.Name())
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(home, "trials", "*"))
	for _, d := range dirs {
		found = append(found, "directory "+d)
	}
	if docker.New(docker.Options{}).Check(context.Background()) == nil {
		for _, args := range [][]string{{"ps", "-aq", "--filter", "label=tare"}, {"images", "-q", "tare.local/*"}, {"volume", "ls", "-q", "--filter", "label=tare"}} {
			out, err := exec.Command("docker", args...).Output()
			if err == nil && len(bytes.TrimSpace(out)) > 0 {
				found = append(found, fmt.Sprintf("docker %s: %s", args[0], bytes.TrimSpace(out)))
			}
		}
	}
	for _, socket := range []string{"/run/containerd/containerd.sock", "/var/run/docker/containerd/containerd.sock"} {
		out, err := exec.Command("ctr", "--address", socket, "--namespace", "tare", "containers", "list", "--quiet").Output()
		if err == nil && len(bytes.TrimSpace(out)) > 0 {
			found = append(found, fmt.Sprintf("containerd: %s", bytes.TrimSpace(out)))
		}
	}
	sort.Strings(found)
	return found
}

// A tare that is killed at any moment leaves a ledger from which clean removes
// everything, and only that.
func TestCleanAfterKill(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	home := t.TempDir() // one, so that an image is made once
	// Each kill is a run of its own; what one entry of the ledger after another leaves is
	// tried by the platforms' own tests.
	all := os.Getenv("TARE_TEST_ALL") != ""
	moments := 2
	if all {
		moments = 6
	}
	// Of runtimes and of engines one serves, where not all are asked for.
	some := func(names []string) []string {
		if all {
			return names
		}
		return slices.DeleteFunc(names, func(name string) bool { return name == "cgroup" || name == "oci:crun" || name == "containerd" })
	}
	t.Run("weigh", func(t *testing.T) {
		platforms := some(usable(t, "weigh", "redis", "--vary", "payload=3"))
		cleanAfterKill(t, home, moments, "weigh", "redis", "--blocks", "1", "--param", "requests=5000", "--platform", strings.Join(platforms, ","))
	})
	t.Run("startup", func(t *testing.T) {
		if !all {
			t.Skip("set TARE_TEST_ALL=1")
		}
		platforms := some(usable(t, "startup", "redis"))
		if len(platforms) == 0 {
			t.Skip("no platform here can start what it created")
		}
		cleanAfterKill(t, home, moments, "startup", "redis", "--blocks", "1", "--rate", "20", "--count", "8", "--knee=false", "--platform", strings.Join(platforms, ","))
	})
}

// closed checks what other users of the host find in a state directory: results that
// they may read, and directories that they cannot enter.
func closed(t *testing.T, home string) {
	t.Helper()
	open := []string{storeFile, storeFile + "-wal", storeFile + "-shm", "reports"}
	entries, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Error(err)
		} else if !slices.Contains(open, e.Name()) && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: other users can look into it", e.Name(), info.Mode())
		}
	}
}

func cleanAfterKill(t *testing.T, home string, moments int, args ...string) {
	// What others left (or another tare is using) is not this test's concern.
	before := map[string]bool{}
	for _, thing := range leftovers(t, home) {
		before[thing] = true
	}
	left := func() string {
		var ours []string
		for _, thing := range leftovers(t, home) {
			if !before[thing] {
				ours = append(ours, thing)
			}
		}
		return strings.Join(ours, "\n")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func() (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(self, append([]string{"--home", home}, args...)...)
		cmd.Env = append(os.Environ(), actAsTare+"=1")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &out
	}
	// The images are made first, so that the moments below fall into the run.
	runs := 1
	if made, _ := filepath.Glob(filepath.Join(home, "images", "index", "*")); len(made) == 0 {
		runs++
	}
	var took time.Duration
	for range runs {
		whole, out := start()
		began := time.Now()
		if err := whole.Wait(); err != nil {
			t.Fatalf("the run that is not killed: %v\n%s", err, out)
		}
		took = time.Since(began)
	}
	if things := left(); things != "" {
		t.Fatalf("a run that ended left:\n%s", things)
	}
	closed(t, home)
	for i := range moments {
		cmd, _ := start()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(took * time.Duration(2*i+1) / time.Duration(2*moments)):
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-ended
		}
		code, stdout, stderr := tare(t, home, "clean")
		if code != exitSuccess {
			t.Errorf("moment %d: clean: code %d: %s", i, code, stderr)
		}
		if things := left(); things != "" {
			t.Errorf("moment %d: clean said %q and left:\n%s", i, stdout, things)
		}
	}
}

// usable lists the platforms on which this host carries out a command.
func usable(t *testing.T, args ...string) []string {
	t.Helper()
	var names []string
	for _, name := range []string{"bare", "cgroup", "oci:runc", "oci:crun", "containerd", "docker"} {
		platforms := name
		if args[0] == "weigh" && name != "bare" {
			platforms = "bare," + name // something to compare with
		}
		code, _, _ := tare(t, filepath.Join(t.TempDir(), "x"), append(args, "--platform", platforms, "--blocks", "1", "--dry-run")...)
		if args[0] == "weigh" && name == "bare" || code == exitSuccess {
			names = append(names, name)
		}
	}
	return names
}
