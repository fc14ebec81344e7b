package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/platform/docker"
	"tare/record"
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
		if _, err := os.Stat(socket); err != nil {
			continue // ctr would wait for it
		}
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
		if all {
			platforms := usable(t, "weigh", "redis", "--vary", "payload=3")
			cleanAfterKill(t, home, moments, "weigh", "redis", "--blocks", "1", "--param", "requests=5000", "--platform", strings.Join(platforms, ","))
			return
		}
		root := version(t, filepath.Join(t.TempDir(), "root"), 1000)
		platforms := some(usable(t, "weigh", "empty"))
		cleanAfterKill(t, home, moments, "weigh", "--rootfs", root, "--blocks", "1", "--yes", "--platform", strings.Join(platforms, ","), "--", "/bin/count")
	})
	t.Run("rounds", func(t *testing.T) {
		platforms := some(usable(t, "weigh", "redis"))
		roundsAfterKill(t, home, "weigh", "redis", "--design", "rounds", "--blocks", "2", "--budget", "10s", "--param", "commands=get", "--platform", strings.Join(platforms, ","))
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
	open := []string{storeFile, "reports"}
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

// leftBy lists what a test leaves on the host, from now on: what others left, or another
// tare is using, is not its concern.
func leftBy(t *testing.T, home string) func() string {
	before := map[string]bool{}
	for _, thing := range leftovers(t, home) {
		before[thing] = true
	}
	return func() string {
		var ours []string
		for _, thing := range leftovers(t, home) {
			if !before[thing] {
				ours = append(ours, thing)
			}
		}
		return strings.Join(ours, "\n")
	}
}

// start runs tare as a process of its own.
func start(t *testing.T, home string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"--home", home}, args...)...)
	cmd.Env = append(os.Environ(), actAsTare+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &out
}

// frozen counts the groups of ours whose processes stand still.
func frozen() (count int) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !strings.Contains(path, "/tare") {
			return nil // a group that is gone meanwhile
		}
		events, _ := os.ReadFile(filepath.Join(path, "cgroup.events"))
		state, _ := os.ReadFile(filepath.Join(path, "freezer.state"))
		if bytes.Contains(events, []byte("frozen 1")) || bytes.HasPrefix(state, []byte("FROZEN")) {
			count++
		}
		return nil
	})
	return count
}

// killWhen kills a tare as soon as something has come true.
func killWhen(t *testing.T, cmd *exec.Cmd, out *bytes.Buffer, what string, is func() bool) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case err := <-ended:
			t.Fatalf("it ended before %s: %v\n%s", what, err, out)
		case <-look.C:
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// roundsAfterKill kills a run in rounds: while instances are frozen, of which clean leaves
// nothing; and after strips have been kept, with which it is resumed.
func roundsAfterKill(t *testing.T, home string, args ...string) {
	left := leftBy(t, home)
	others := frozen()
	cmd, out := start(t, home, args...)
	killWhen(t, cmd, out, "two instances were frozen", func() bool { return frozen() >= others+2 })
	if frozen() <= others {
		t.Error("nothing is frozen any more")
	}
	if code, _, stderr := tare(t, home, "clean"); code != exitSuccess {
		t.Errorf("clean: code %d: %s", code, stderr)
	}
	if things := left(); things != "" {
		t.Fatalf("clean left:\n%s", things)
	}

	latest := func() (last record.Run, slices int) {
		store, err := record.Open(filepath.Join(home, storeFile))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		runs, err := store.Runs()
		if err != nil || len(runs) == 0 {
			t.Fatalf("%d runs: %v", len(runs), err)
		}
		newest := runs[0]
		for _, r := range runs {
			if r.Started.After(newest.Started) {
				newest = r
			}
		}
		if last, err = store.Run(newest.ID); err != nil {
			t.Fatal(err)
		}
		for _, trial := range last.Trials {
			if trial.Block > 0 {
				slices += len(trial.Slices)
			}
		}
		return last, slices
	}
	first, _ := latest()
	cmd, out = start(t, home, args...)
	killWhen(t, cmd, out, "a strip was kept", func() bool {
		run, slices := latest()
		return run.ID != first.ID && slices > 0
	})
	killed, kept := latest()
	code, stdout, stderr := tare(t, home, "resume", killed.ID)
	if code != exitSuccess {
		t.Fatalf("resume: code %d\n%s%s", code, stdout, stderr)
	}
	resumed, all := latest()
	if resumed.ID != killed.ID || resumed.Status != record.Complete || all <= kept {
		t.Errorf("run %s, resumed as %s (%s): %d slices after %d", killed.ID, resumed.ID, resumed.Status, all, kept)
	}
	if !reflect.DeepEqual(resumed.Plan.Rounds, killed.Plan.Rounds) {
		t.Errorf("the pilot's choices were %+v and are %+v", killed.Plan.Rounds, resumed.Plan.Rounds)
	}
	for i, trial := range killed.Trials {
		if again := resumed.Trials[i]; again.ID != trial.ID || len(again.Slices) != len(trial.Slices) {
			t.Errorf("trial %d had %d slices and has %d", trial.ID, len(trial.Slices), len(again.Slices))
		}
	}
	if things := left(); things != "" {
		t.Errorf("resume left:\n%s", things)
	}
}

func cleanAfterKill(t *testing.T, home string, moments int, args ...string) {
	left := leftBy(t, home)
	// The images are made first, so that the moments below fall into the run.
	runs := 1
	if made, _ := filepath.Glob(filepath.Join(home, "images", "index", "*")); len(made) == 0 {
		runs++
	}
	var took time.Duration
	for range runs {
		whole, out := start(t, home, args...)
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
		cmd, _ := start(t, home, args...)
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
