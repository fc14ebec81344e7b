package docker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestOwnersThroughAnIDMap(t *testing.T) {
	m, err := parseIDMap(strings.NewReader("         0       1001          1\n         1     100000      65536\n"))
	if err != nil {
		t.Fatal(err)
	}
	for inside, want := range map[int]int{0: 1001, 1: 100000, 999: 100998, 65536: 165535} {
		if got, known := m.outside(inside); !known || got != want {
			t.Errorf("%d is %d (%v), want %d", inside, got, known, want)
		}
	}
	if got, known := m.outside(65537); known {
		t.Errorf("65537, which is not mapped, is %d", got)
	}
	both := ids{users: m, groups: m[:1]}
	if uid, gid, err := both.owner(7, 0); uid != 100006 || gid != 1001 || err != nil {
		t.Errorf("7:0 is %d:%d, %v", uid, gid, err)
	}
	if _, _, err := both.owner(7, 7); err == nil || !strings.Contains(err.Error(), "/etc/subgid") {
		t.Errorf("a group that is not mapped: %v, want what lends one", err)
	}
	if uid, gid, err := (ids{}).owner(7, 8); uid != 7 || gid != 8 || err != nil {
		t.Errorf("without a map 7:8 is %d:%d, %v", uid, gid, err)
	}
	for _, bad := range []string{"0 1", "0 1 2 3", "a 1 2", "0 -1 2", "0 1 99999999999"} {
		if m, err := parseIDMap(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken for %v", bad, m)
		}
	}
}

func FuzzParseIDMap(f *testing.F) {
	f.Add("0 1001 1\n1 100000 65536\n")
	f.Add("0 4294967295 4294967295")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseIDMap(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range m {
			if r.count == 0 {
				continue
			}
			if out, known := m.outside(int(r.inside + r.count - 1)); !known || out < 0 {
				t.Errorf("the last of %+v is %d, %v", r, out, known)
			}
		}
	})
}

func TestClosedTo(t *testing.T) {
	dir := t.TempDir()
	for _, above := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "open"), 0o755); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(closed, "open", "not there yet")
	const stranger = 64001
	if got := closedTo(stranger, stranger, target); got != "" {
		t.Errorf("%s is reported as closed", got)
	}
	for _, mode := range []os.FileMode{0o754, 0o700} {
		if err := os.Chmod(closed, mode); err != nil {
			t.Fatal(err)
		}
		if got := closedTo(stranger, stranger, target); got != closed {
			t.Errorf("mode %v: closed is %q, want %s", mode, got, closed)
		}
		if got := closedTo(os.Geteuid(), os.Getegid(), target); got != "" {
			t.Errorf("mode %v: %s is closed to its owner", mode, got)
		}
	}
	// Its owner's bits count for the owner, though all others may.
	if err := os.Chmod(closed, 0o677); err != nil {
		t.Fatal(err)
	}
	if got := closedTo(os.Geteuid(), os.Getegid(), target); got != closed {
		t.Errorf("closed to the owner is %q, want %s", got, closed)
	}
}

// asNobody tells the test's own program to copy as an ordinary user, and where.
const asNobody = "TARE_TEST_COPY_AS_NOBODY"

// TestCopyInAsNobody is no test but the program that another runs as nobody.
func TestCopyInAsNobody(t *testing.T) {
	dir := os.Getenv(asNobody)
	if dir == "" {
		t.Skip("is run by TestCopyInWithoutRoot")
	}
	lent := idMap{{0, 1_640_000_000, 1 << 30}}
	for n, inside := range []string{"/data", "/missing"} {
		for m, owners := range []ids{{}, {lent, lent}} {
			if inside == "/missing" && owners.users == nil {
				continue // it is whose makes it
			}
			err := copyIn(filepath.Join(dir, "root"), inside, filepath.Join(dir, strconv.Itoa(2*n+m)), owners)
			if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "run tare as root") {
				t.Errorf("copy of %s: %v, want what mends it", inside, err)
			}
		}
	}
}

func TestCopyInWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files that are not an ordinary user's")
	}
	dir, err := os.MkdirTemp("", "tare")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o777), os.MkdirAll(filepath.Join(dir, "root", "data"), 0o755)); err != nil {
		t.Fatal(err)
	}
	// By the link in /proc: the directory of the test's program is closed to others.
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestCopyInAsNobody$")
	cmd.Env = append(os.Environ(), asNobody+"="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
