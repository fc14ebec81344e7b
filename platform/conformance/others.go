package conformance

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tare/platform"
	"tare/platform/held"
)

// OpenDir is a directory into which every user may look, as t.TempDir is not: the state
// directory of a host is one.
func OpenDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare") // short: a socket's path has 108 bytes
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// stranger is a user of the host who has nothing to do with tare.
const stranger = 65534

// OthersKeptOut checks that another user of the host reaches nothing in the directories
// below state, a state directory that this user can enter: no program of an image, no
// file of a trial, no socket. It is to be called while something runs there. It
// gives how many files it tried.
func OthersKeptOut(t testing.TB, state string) int {
	t.Helper()
	if len(reached(t, []string{state})) == 0 {
		t.Fatalf("%s is closed to others itself, so that nothing is shown: use OpenDir", state)
	}
	var paths []string
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, _ error) error {
		inside, err := filepath.Rel(state, path)
		if err == nil && d != nil && strings.Contains(inside, "/") && !onTheWay(d) {
			if d.IsDir() {
				path += "/." // to be entered, not only seen
			}
			paths = append(paths, path)
		}
		if d != nil && d.IsDir() && (err != nil || slices.Contains([]string{"proc", "sys"}, d.Name())) {
			return fs.SkipDir // went while it was looked at, or is endless and the kernel's own
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range reached(t, paths) {
		t.Errorf("user %d reaches %s", stranger, path)
	}
	return len(paths)
}

// onTheWay is a directory of root's that everybody may pass, and sees nothing in: the way to
// what a rootless engine's user enters.
func onTheWay(d fs.DirEntry) bool {
	if !d.IsDir() {
		return false
	}
	info, err := d.Info()
	return err == nil && info.Mode().Perm() == 0o711 && info.Sys().(*syscall.Stat_t).Uid == 0
}

// reached gives those of the paths that the stranger can look up.
func reached(t testing.TB, paths []string) []string {
	t.Helper()
	look := exec.Command("/bin/sh", "-c", `while IFS= read -r path; do [ -e "$path" ] && printf '%s\n' "$path"; done; exit 0`)
	look.Dir = "/"
	look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	look.Stdin = strings.NewReader(strings.Join(paths, "\n") + "\n")
	var complaints bytes.Buffer
	look.Stderr = &complaints
	out, err := look.Output()
	if err != nil {
		t.Fatalf("looking as user %d: %v: %s", stranger, err, complaints.String())
	}
	return strings.Fields(string(out))
}

// While a program runs, with a set-user-ID program in its root and in its data, no other
// user of the host reaches any of it: neither below tare's state directory, nor through
// what was mounted for it.
func testOthersKeptOut(t *testing.T, s suite) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, which alone can look as another user")
	}
	for _, storage := range []platform.Storage{platform.StorageLayer, platform.StorageBind, platform.StorageTmpfs} {
		t.Run("storage="+string(storage), func(t *testing.T) {
			st := s.set(t)
			setting := platform.Setting{Storage: storage}
			st.skipUnsupported(setting)
			before := mounted(t)
			spec := st.shell("for d in /tmp /data; do cp /bin/busybox $d/id && chmod 4755 $d/id; done; echo ready; sleep 3600")
			spec.Setting, spec.Data = setting, []string{"/data"}
			out := newLines()
			spec.Stdout = out
			inst := st.launch(spec)
			out.await(st, "ready")
			tried := 0
			for _, e := range st.book.ever() {
				if e.Kind == held.Directory {
					tried += OthersKeptOut(t, filepath.Dir(filepath.Dir(e.ID)))
				}
			}
			var points []string
			for point := range mounted(t) {
				if info, err := os.Stat(point); err == nil && info.IsDir() && !before[point] {
					points = append(points, point+"/.")
				}
			}
			for _, point := range reached(t, points) {
				t.Errorf("user %d enters what is mounted at %s", stranger, point)
			}
			t.Logf("%d files and %d mounts were tried", tried, len(points))
			st.stop(inst, spec.Name)
		})
	}
}

// A user of the host whose id a program has gets no further by it than the program:
// through the program's root (/proc/PID/root), a set-user-ID program does not make him root.
func testSetUserIDFromOutside(t *testing.T, s suite) {
	if os.Geteuid() != 0 || s.has(OtherKernel) {
		t.Skip("needs root, and programs on this host's kernel")
	}
	if _, err := os.Stat(filepath.Join(s.image.Root, setUserID)); err != nil {
		t.Skip("the host has no program id")
	}
	st := s.set(t)
	spec := st.shell("echo ready; sleep 3600")
	spec.User = fmt.Sprintf("%d:%[1]d", stranger)
	out := newLines()
	spec.Stdout = out
	inst := st.launch(spec)
	out.await(st, "ready")
	pids, err := inst.Processes()
	if err != nil || len(pids) == 0 {
		t.Fatalf("its processes: %v, %v", pids, err)
	}
	for _, pid := range pids {
		id := exec.Command(fmt.Sprintf("/proc/%d/root/%s", pid, setUserID), "-u")
		id.Dir = "/"
		id.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
		if uid, err := id.Output(); strings.TrimSpace(string(uid)) == "0" {
			t.Errorf("through process %d user %d becomes root (%v)", pid, stranger, err)
		}
	}
	st.stop(inst, spec.Name)
}

// mounted gives where something is mounted on this host.
func mounted(t *testing.T) map[string]bool {
	t.Helper()
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]bool{}
	for line := range strings.Lines(string(info)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points[fields[4]] = true
		}
	}
	return points
}
