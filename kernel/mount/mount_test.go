package mount_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare/kernel/mount"
	"tare/kernel/procfs"
)

// scratch gives a directory to mount in, and checks that the test leaves no
// mount there.
func scratch(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mount.UnmountBelow(dir); err != nil {
			t.Error(err)
		}
	})
	if err := mount.New("tmpfs", dir, mount.Options{}); errors.Is(err, fs.ErrPermission) {
		t.Skipf("may not mount here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return dir
}

func makeDirs(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.MkdirAll(filepath.Join(dir, n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBindReadOnly(t *testing.T) {
	dir := scratch(t)
	makeDirs(t, dir, "from", "to")
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := mount.Bind(from, to, true); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(to, "f")); string(b) != "x" {
		t.Errorf("read %q, %v", b, err)
	}
	if err := os.WriteFile(filepath.Join(to, "g"), nil, 0o644); err == nil {
		t.Error("wrote through a read-only binding")
	}
}

func TestBindAll(t *testing.T) {
	dir := scratch(t)
	makeDirs(t, dir, "from/below", "to")
	if err := mount.New("tmpfs", filepath.Join(dir, "from/below"), mount.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "from/below/f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := mount.BindAll(filepath.Join(dir, "from"), filepath.Join(dir, "to")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "to/below/f")); err != nil {
		t.Errorf("what is mounted below is not shown: %v", err)
	}
}

func TestOverlay(t *testing.T) {
	dir := scratch(t)
	// A separator in a name must not be taken for one between layers.
	lower := "lo:w,er"
	makeDirs(t, dir, lower, "upper", "work", "to")
	if err := os.WriteFile(filepath.Join(dir, lower, "f"), []byte("below"), 0o644); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "to")
	if err := mount.Overlay(filepath.Join(dir, lower), filepath.Join(dir, "upper"), filepath.Join(dir, "work"), to); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "f"), []byte("above"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, lower, "f")); string(b) != "below" {
		t.Errorf("the lower layer was written to: %q", b)
	}
	root, err := mount.IDUnder(to, "/")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if m.ID == root && m.FSType != "overlay" {
			t.Errorf("found %s", m.FSType)
		}
	}
}

// A link inside a root leads where a process rooted there would go.
func TestIDUnderFollowsLinksInside(t *testing.T) {
	dir := scratch(t)
	makeDirs(t, dir, "root/run")
	root := filepath.Join(dir, "root")
	if err := os.Symlink("/run", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := mount.New("tmpfs", filepath.Join(root, "run"), mount.Options{}); err != nil {
		t.Fatal(err)
	}
	direct, err := mount.IDUnder(root, "/run")
	if err != nil {
		t.Fatal(err)
	}
	linked, err := mount.IDUnder(root, "/link")
	if err != nil || linked != direct {
		t.Errorf("by the link %d (%v), directly %d", linked, err, direct)
	}
}

func TestUnmountBelowTakesNestedAndStacked(t *testing.T) {
	dir := scratch(t)
	makeDirs(t, dir, "a")
	a := filepath.Join(dir, "a")
	for range 2 {
		if err := mount.New("tmpfs", a, mount.Options{}); err != nil {
			t.Fatal(err)
		}
		makeDirs(t, a, "b")
		if err := mount.New("tmpfs", filepath.Join(a, "b"), mount.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if points, err := mount.Below(a); len(points) != 4 || err != nil {
		t.Fatalf("%v, %v: want four", points, err)
	}
	if err := mount.UnmountBelow(a); err != nil {
		t.Fatal(err)
	}
	if err := mount.Unmount(a); err != nil {
		t.Errorf("unmounting what is not mounted: %v", err)
	}
}

func TestHiding(t *testing.T) {
	dir := scratch(t)
	for range 2 { // stacked
		if err := mount.New("tmpfs", dir, mount.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	seenBy := func() string {
		out, err := exec.Command("cat", "/proc/self/mountinfo").Output()
		if err != nil {
			t.Error(err)
		}
		return string(out)
	}
	var inside string
	want := errors.New("handed back")
	if err := mount.Hiding([]string{dir, filepath.Join(dir, "absent")}, func() error { inside = seenBy(); return want }); err != want {
		if errors.Is(err, fs.ErrPermission) {
			t.Skip(err)
		}
		t.Fatalf("error %v", err)
	}
	if strings.Contains(inside, " "+dir+" ") {
		t.Error("a process started inside sees the hidden mount")
	}
	if !strings.Contains(seenBy(), " "+dir+" ") {
		t.Error("the mount is gone outside too")
	}
}

// A set-user-ID program gives nobody root, in whichever mount it lies, and the mounts
// keep their other flags.
func TestIgnoreSetUserID(t *testing.T) {
	dir := scratch(t)
	for _, open := range []string{filepath.Dir(dir), dir} { // which a test's directory is not
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	makeDirs(t, dir, "from", "readonly", "inner")
	id, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Skip("needs /usr/bin/id: ", err)
	}
	from := filepath.Join(dir, "from/id")
	if err := errors.Join(os.WriteFile(from, id, 0o755), os.Chmod(from, 0o755|fs.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	for to, readOnly := range map[string]bool{"readonly": true, "inner": false} {
		if err := mount.Bind(filepath.Join(dir, "from"), filepath.Join(dir, to), readOnly); err != nil {
			t.Fatal(err)
		}
	}
	asNobody := func(program string) string {
		cmd := exec.Command("./"+program, "-u")
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", program, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, program := range []string{"from/id", "readonly/id", "inner/id"} {
		if uid := asNobody(program); uid != "0" {
			t.Fatalf("%s, set-user-ID root, runs as %s already", program, uid)
		}
	}
	if err := mount.IgnoreSetUserID(dir); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"from/id", "readonly/id", "inner/id"} {
		if uid := asNobody(program); uid != "65534" {
			t.Errorf("%s runs as %s", program, uid)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "readonly/new"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing to what was bound read-only: %v", err)
	}
}
