package guest_test

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/platform/vm/guest"
)

// wholeVariable asks for what takes minutes more in machines.
const wholeVariable = "TARE_TEST_GUEST"

// The guest runs control groups of version 2 alone, which a host with version 1 beside
// it cannot: there the packages that know both run their own tests. With TARE_TEST_GUEST,
// of any value, the platforms do all of theirs too, which takes minutes more: without it
// the suite of package vm holds bare metal and runc to the same in a machine, but for
// what it cannot see from outside.
func TestPackagesInGuest(t *testing.T) {
	boot := built(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go on PATH")
	}
	whole := os.Getenv(wholeVariable) != ""
	// By how many CPUs their machine has.
	suites := map[int][]suite{}
	for _, s := range inGuest {
		if s.alone && !whole {
			continue
		}
		if whole {
			s.brief = ""
		}
		cpus := cmp.Or(s.cpus, 2)
		suites[cpus] = append(suites[cpus], s)
	}
	for _, cpus := range slices.Backward(slices.Sorted(maps.Keys(suites))) {
		t.Run(fmt.Sprintf("%d CPUs", cpus), func(t *testing.T) { runIn(t, boot, cpus, suites[cpus], whole) })
	}
}

// runIn runs packages' tests in a machine.
func runIn(t *testing.T, boot guest.Boot, cpus int, suites []suite, whole bool) {
	disk, device := programs(t, suites)
	m := startOn(t, cpus, boot, guest.Order{Run: &guest.Run{
		Device: device,
		Args:   []string{guest.RunDirectory + "/bin/busybox", "sh", guest.RunDirectory + "/run"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + guest.RunDirectory + "/bin",
			"TARE_TEST_OWN_KERNEL=1"}, // whose settings are nobody else's
	}}, disk)
	limit := 8 * time.Minute
	if whole {
		limit = 45 * time.Minute
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
	alone bool   // it runs only where all do
	cpus  int    // of its machine; 0 is two
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
	{pkg: "annex/bound", brief: "Reclaim|Protect|Watch"},
	{pkg: "annex/guard", alone: true},
	{pkg: "annex/media", alone: true},
	{pkg: "annex/daemon", alone: true},
	// Where they attach to the kernel's tracepoints it changes its own code as it runs, which
	// QEMU's emulation of several processors does not always see: one of them may be stuck then
	// (a soft lockup in text_poke_bp).
	{pkg: "annex/monitor", alone: true, cpus: 1},
	{pkg: "probe/faults", alone: true, cpus: 1},
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
		buildTests(t, s.pkg, filepath.Join(root, s.pkg))
		fmt.Fprintf(&script, "cd %s/%s; echo '%s%s'; ./test -test.v -test.timeout 20m -test.run '%s'; echo '%s' $?\n",
			guest.RunDirectory, s.pkg, begins, s.pkg, s.brief, ends)
	}
	if err := os.WriteFile(filepath.Join(root, "run"), []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return programDisk(t, root)
}

// buildTests makes a package's tests a program in a directory, with what they read beside it.
func buildTests(t *testing.T, pkg, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, "test"), "tare/"+pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	surround(t, pkg, dir)
}

// surround lays beside a package's tests what they read of its directory, and makes of each C
// program there one that needs no compiler.
func surround(t *testing.T, pkg, dir string) {
	t.Helper()
	from, to := filepath.Join("../../..", pkg, "testdata"), filepath.Join(dir, "testdata")
	if _, err := os.Stat(from); err != nil {
		return
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(filepath.Join(to, "*.c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range programs {
		if out, err := exec.Command("cc", "-O1", "-static", "-pthread", "-o", strings.TrimSuffix(c, ".c"), c).CombinedOutput(); err != nil {
			t.Logf("%s is not made, and what needs it is skipped: %v\n%s", c, err, out)
		}
	}
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
