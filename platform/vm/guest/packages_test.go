package guest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/image"
	"tare/platform/vm/guest"
)

// The guest runs control groups of version 2 alone, which a host with version 1 beside
// it cannot: there the packages that know both run their own tests. With TARE_TEST_GUEST,
// of any value, the platforms do all of theirs too, which takes minutes more: without it
// the suite of package vm holds bare metal and runc to the same in a machine, but for
// what it cannot see from outside.
func TestPackagesInGuest(t *testing.T) {
	boot := built(t, guest.Cloud)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go on PATH")
	}
	whole := os.Getenv("TARE_TEST_GUEST") != ""
	suites := slices.Clone(inGuest)
	for i := range suites {
		if whole {
			suites[i].brief = ""
		}
	}
	disk, device := programs(t, suites)
	m := start(t, guest.Cloud, boot, guest.Order{Run: &guest.Run{
		Device: device,
		Args:   []string{guest.RunDirectory + "/bin/busybox", "sh", guest.RunDirectory + "/run"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + guest.RunDirectory + "/bin",
			"TARE_TEST_OWN_KERNEL=1"}, // whose settings are nobody else's
	}}, disk)
	limit := 8 * time.Minute
	if whole {
		limit = 25 * time.Minute
	}
	m.end(limit)
	for _, s := range suites {
		t.Run(s.pkg, func(t *testing.T) { judge(t, s.pkg, m.console.String()) })
	}
}

// suite is the tests of a package.
type suite struct {
	pkg   string
	brief string // those that run where not all are to (-run); empty is all
}

var inGuest = []suite{
	{pkg: "kernel/cgroup"},
	{pkg: "platform/held"},
	{pkg: "platform/rootfs"},
	{pkg: "platform/linked"},
	{pkg: "kernel/swap", brief: "SwapTo"},
	{pkg: "kernel/pressure"},
	{pkg: "platform/box", brief: "Others"},
	{pkg: "platform/bare", brief: "Conformance.*/Group"},
	{pkg: "platform/oci", brief: "Conformance.*/Group"},
}

// programs makes a disk with the packages' tests as programs, a busybox, and a script
// that runs them one after the other.
func programs(t *testing.T, suites []suite) (disk [2]string, device string) {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	install(t, staticBusybox(t), filepath.Join(root, "bin/busybox"))
	// A machine has no shell; some tests make programs of a few lines for one.
	for _, name := range []string{"sh", "true", "false", "sleep", "cat", "echo", "kill", "mount", "umount"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	var script strings.Builder
	fmt.Fprintf(&script, "busybox mount -t overlay -o lowerdir=%s/bin:/usr/bin none /usr/bin\n", guest.RunDirectory)
	for _, s := range suites {
		dir := filepath.Join(root, s.pkg)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, "test"), "tare/"+s.pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build.Args, err, out)
		}
		fmt.Fprintf(&script, "cd %s/%s; echo '%s%s'; ./test -test.v -test.timeout 20m -test.run '%s'; echo '%s' $?\n",
			guest.RunDirectory, s.pkg, begins, s.pkg, s.brief, ends)
	}
	if err := os.WriteFile(filepath.Join(root, "run"), []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "disk")
	const digest = "sha256:programs"
	if err := guest.ImageDisk(t.Context(), image.Image{Name: "programs", Root: root, Digest: digest}, path); err != nil {
		t.Fatal(err)
	}
	serial := guest.SerialOf(digest)
	return [2]string{serial, path}, guest.Device(guest.Cloud, serial, 2)
}

const begins, ends = "== tests of ", "== exit status"

// judge reports, of what the console holds of a package, each test that failed.
func judge(t *testing.T, pkg, text string) {
	t.Helper()
	var passed, skipped int
	status, within := "none: the machine ended before", false
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		switch trimmed := strings.TrimLeft(line, " "); {
		case strings.HasPrefix(line, begins):
			within = line == begins+pkg
		case !within:
		case strings.HasPrefix(line, ends):
			status, within = strings.TrimSpace(strings.TrimPrefix(line, ends)), false
		case strings.HasPrefix(trimmed, "--- FAIL: "), strings.HasPrefix(line, "panic: "):
			t.Error(trimmed)
		case strings.HasPrefix(trimmed, "--- PASS: "):
			passed++
		case strings.HasPrefix(trimmed, "--- SKIP: "):
			skipped++
		}
	}
	if status != "0" {
		t.Errorf("exit status %s", status)
	}
	if passed == 0 {
		t.Error("no test passed: this says nothing")
	}
	t.Logf("%d tests passed, %d were skipped", passed, skipped)
	if testing.Verbose() {
		t.Log(text)
	}
}

func install(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}
