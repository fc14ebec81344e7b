package guest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/image"
	"tare/platform/vm/guest"
)

// The guests of these tests are the distribution as people run it: systemd is the first process,
// all controllers are version 2's, and the kernel is one of several. Nothing of tare's own is in
// them but what a test copies in. They are emulated where there is no KVM, and so are behind
// TARE_TEST_VM.

// debian is a guest to boot.
type debian struct {
	kernel string // begins its release: "6.1."
	cpus   int
	phases []phase
}

// phase is tests of a package that run there as one program, after those before it and whatever
// became of them.
type phase struct {
	name  string
	pkg   string
	tests string        // -test.run
	first string        // shell lines that make the system ready for them
	bound time.Duration // a test that is over by itself takes a small part of it
}

// own is a phase of this package: one of the tests that only run in the guest.
func own(name string, bound time.Duration) phase {
	return phase{name: name, pkg: "platform/vm/guest", tests: "^TestInDebian$/^" + name + "$", bound: bound}
}

const programsAt = "/opt/test"

// debianRoot gives the distribution's root, or skips.
func debianRoot(t *testing.T) string {
	t.Helper()
	if os.Getenv("TARE_TEST_VM") == "" {
		t.Skip("boots an emulated machine: set TARE_TEST_VM=1")
	}
	if _, err := exec.LookPath(emulator); err != nil {
		t.Skip("no " + emulator + " here: apt-get install --no-install-recommends qemu-system-x86")
	}
	store, err := image.OpenStore(filepath.Join(cache(t), "images"), func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Guest(t.Context(), image.GuestDebian)
	if missing := new(image.Missing); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range img.Warnings {
		t.Log(w)
	}
	return img.Root
}

// run boots a guest, and holds that all tests of each phase pass.
func (d debian) run(t *testing.T) {
	t.Helper()
	root, dir, programsDir := debianRoot(t), t.TempDir(), t.TempDir()
	kernel := onlyOne(t, filepath.Join(root, "boot/vmlinuz-"+d.kernel+"*"))
	release := strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-")
	initrd := filepath.Join(dir, "initrd")
	d.writeInitrd(t, root, release, initrd)
	disk := filepath.Join(dir, "root")
	writableDisk(t, root, disk)
	buildPrograms(t, programsDir)
	if err := os.WriteFile(filepath.Join(programsDir, "run"), []byte(d.script(t, programsDir)), 0o755); err != nil {
		t.Fatal(err)
	}
	programs, _ := programDisk(t, programsDir)
	words := "console=ttyS0 quiet panic=-1 systemd.show_status=0 systemd.run=" + programsAt + "/run"
	m := &machine{t: t, console: newConsole(t), ended: make(chan error, 1)}
	m.run(exec.Command(emulator,
		"-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", strconv.Itoa(d.cpus), "-m", "2048",
		"-display", "none", "-nodefaults", "-no-reboot",
		"-serial", "stdio", "-device", "virtio-rng-pci", "-kernel", kernel, "-initrd", initrd,
		"-drive", "if=none,format=raw,id=root,file="+disk, "-device", "virtio-blk-pci,drive=root",
		"-drive", "if=none,format=raw,id=programs,readonly=on,file="+programs[1], "-device", "virtio-blk-pci,drive=programs",
		"-append", words))
	bound := 5 * time.Minute // to boot and to end
	for _, p := range d.phases {
		bound += p.bound + time.Minute
	}
	m.progress(begins, ends)
	m.end(bound)
	for _, p := range d.phases {
		t.Run(p.name, func(t *testing.T) { judge(t, p.name, m.console.String()) })
	}
}

// script is what systemd starts when the system is up.
func (d debian) script(t *testing.T, dir string) string {
	t.Helper()
	script := "#!/bin/bash\nexec </dev/null >/dev/ttyS0 2>&1\n" +
		"export " + inDebianVariable + "=1 TARE_TEST_OWN_KERNEL=1 HOME=/root " +
		wholeVariable + "=" + os.Getenv(wholeVariable) +
		" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:" + programsAt + "/bin\n"
	built := map[string]bool{}
	for _, p := range d.phases {
		if !built[p.pkg] {
			buildTests(t, p.pkg, filepath.Join(dir, p.pkg))
			built[p.pkg] = true
		}
		script += fmt.Sprintf("echo '%s%s'\n(cd %s/%s; %s\n./test -test.v -test.timeout %v -test.run '%s')\necho '%s' $?\n",
			begins, p.name, programsAt, p.pkg, p.first, p.bound, p.tests, ends)
	}
	return script
}

// firstSteps are those of the initial root: modules, disks, and over to systemd.
const firstSteps = `#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
for m in virtio_pci virtio_blk; do $b modprobe $m 2>/dev/null; done
n=0
until [ -b /dev/vda ] && [ -b /dev/vdb ] || [ $n -gt 600 ]; do $b sleep 0.1; n=$((n+1)); done
$b mount -t ext4 /dev/vda /root
$b mkdir -p /root%s
$b mount -t ext4 -o ro /dev/vdb /root%[1]s
for at in dev proc sys; do $b mount --move /$at /root/$at; done
exec $b switch_root /root /sbin/init
`

func (d debian) writeInitrd(t *testing.T, root, release, name string) {
	t.Helper()
	modules := filepath.Join(root, "usr/lib/modules", release)
	files := map[string]string{}
	for _, dir := range []string{"kernel/drivers/virtio", "kernel/drivers/block", "modules.dep"} {
		err := filepath.WalkDir(filepath.Join(modules, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && (strings.HasPrefix(e.Name(), "virtio") || e.Name() == dir) && e.Type().IsRegular() {
				files[strings.TrimPrefix(path, filepath.Join(root, "usr")+"/")] = path
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := guest.WriteInitrd(name, staticBusybox(t), fmt.Sprintf(firstSteps, programsAt), files); err != nil {
		t.Fatal(err)
	}
}

// writableDisk makes a disk of a root, with room for engines' images and swap. It is sparse.
func writableDisk(t *testing.T, root, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(f.Truncate(8<<30), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mkfs.ext4", "-q", "-F", "-d", root, "-E", "root_owner=0:0", path).CombinedOutput()
	if err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
}

func onlyOne(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s is %q, %v", pattern, found, err)
	}
	return found[0]
}

// kernels are the packaged ones, each by how its release begins.
var kernels = []string{"6.1.", "6.12."}

// inDebianVariable tells this test's program that it runs in such a guest.
const inDebianVariable = "TARE_TEST_IN_DEBIAN"

// TestInDebian is what of this package runs in such guests.
func TestInDebian(t *testing.T) {
	if os.Getenv(inDebianVariable) == "" {
		t.Skip("runs in the guests of the other tests")
	}
	for name, do := range map[string]func(*testing.T){
		"systemd": isDebian, "objects": TestEachObjectLoads, "doctor": doctorInDebian, "weigh": weighInDebian,
		"annexd": annexdUnderSystemd, "slice": sliceUnderSystemd, "podman-containers": podmanUnderSystemd,
		"mapped-users": mappedUsers, "rootless": rootlessUnderSystemd, "diagnose": diagnoseInDebian,
	} {
		t.Run(name, do)
	}
}

// Each kernel boots into systemd, where BPF objects load, doctor is right, and a weighing and annexd
// do their work and leave nothing.
func TestDebian(t *testing.T) {
	annexd := own("annexd", 15*time.Minute)
	if os.Getenv(wholeVariable) != "" {
		annexd.bound = 90 * time.Minute
	}
	for _, kernel := range kernels {
		t.Run(kernel, func(t *testing.T) {
			debian{kernel: kernel, cpus: 1, phases: []phase{
				own("systemd", 2*time.Minute), own("objects", 5*time.Minute), own("doctor", 10*time.Minute),
				own("weigh", 10*time.Minute), own("diagnose", 10*time.Minute), annexd,
			}}.run(t)
		})
	}
}

// buildPrograms lays out what is copied into a guest.
func buildPrograms(t *testing.T, dir string) {
	t.Helper()
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir+"/", "tare/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	install(t, "/proc/self/exe", filepath.Join(dir, "test"))
	for _, sub := range []string{"bin", "rootfs/bin"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
		install(t, staticBusybox(t), filepath.Join(dir, sub, "busybox"))
	}
	if err := os.Symlink("busybox", filepath.Join(dir, "rootfs/bin/sh")); err != nil {
		t.Fatal(err)
	}
	install(t, "../../../contrib/annexd.service", filepath.Join(dir, "annexd.service"))
}

// isDebian holds that the guest is what it is meant to be.
func isDebian(t *testing.T) {
	for _, c := range []struct{ of, want string }{
		{"cat /proc/1/comm", "systemd"},
		{"stat -f -c %T /sys/fs/cgroup", "cgroup2fs"},
		{"systemctl --failed --no-legend", ""},
		{"readlink /var/run", "/run"},
	} {
		out, err := exec.Command("sh", "-c", c.of).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%s says %q, %v, want %q", c.of, got, err, c.want)
		}
	}
	controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil || !slices.Contains(strings.Fields(string(controllers)), "memory") {
		t.Errorf("controllers of version 2: %s, %v", controllers, err)
	}
}

// tareInDebian runs tare in the guest.
func tareInDebian(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, programsAt+"/tare", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("tare %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func doctorInDebian(t *testing.T) {
	said := tareInDebian(t, "doctor", "--quick")
	for _, want := range []string{`bare +yes`, `cgroup +yes`, `oci:runc +yes`, `oci:crun +yes`,
		`cgroup controllers +yes +v2: .*memory`, `PSI +yes`, `BPF +yes`} {
		if !regexp.MustCompile(`(?m)^ +` + want).MatchString(said) {
			t.Errorf("doctor does not say %q:\n%s", want, said)
		}
	}
}

// Of two services, diagnose names the one that its quota throttles, and says nothing of the other.
func diagnoseInDebian(t *testing.T) {
	for unit, c := range map[string]struct {
		quota, program string
		findings       []string
	}{
		"squeezed": {"CPUQuota=20%", "while :; do :; done", []string{"throttled"}},
		// Without a process for each wait: where all is emulated, on one CPU, those wait for each other.
		"healthy": {"CPUQuota=", "busybox mkfifo /run/healthy; exec 3<>/run/healthy; while :; do read -t 0.2 -u 3 x; done", nil},
	} {
		t.Run(unit, func(t *testing.T) {
			u := underSystemd{t}
			u.do("systemd-run", "--quiet", "--unit="+unit, "--property="+c.quota, programsAt+"/bin/busybox", "sh", "-c", c.program)
			t.Cleanup(func() { u.try("systemctl", "stop", unit) })
			report := filepath.Join(t.TempDir(), "report")
			tareInDebian(t, "diagnose", "--for", "5s", "--json", report, "/system.slice/"+unit+".service")
			text, err := os.ReadFile(report)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Findings []struct{ Kind string } }
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, f := range got.Findings {
				kinds = append(kinds, f.Kind)
			}
			if !slices.Equal(kinds, c.findings) {
				t.Errorf("findings are %q, want %q:\n%s", kinds, c.findings, text)
			}
		})
	}
}

// A weighing takes its groups beside systemd's, and leaves none.
func weighInDebian(t *testing.T) {
	groups := func() string {
		var all []string
		found, err := filepath.Glob("/sys/fs/cgroup/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				all = append(all, name)
			}
		}
		return strings.Join(all, " ")
	}
	before := groups()
	said := tareInDebian(t, "weigh", "--platform", "bare,cgroup,oci:runc,oci:crun", "--quick", "--yes",
		"--rootfs", programsAt+"/rootfs", "--", "/bin/sh", "-c", "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done")
	for _, want := range []string{"bare", "cgroup", "oci:runc", "oci:crun"} {
		if !regexp.MustCompile(`(?m)^` + want + ` +[0-9.]+`).MatchString(said) {
			t.Errorf("it measured no %s:\n%s", want, said)
		}
	}
	if after := groups(); after != before {
		t.Errorf("the groups are %s, and were %s", after, before)
	}
	for _, dir := range []string{"/var/lib/tare/trials", "/var/lib/tare/ledger"} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
}
