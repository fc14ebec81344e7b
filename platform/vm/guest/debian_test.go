package guest_test

import (
	"errors"
	"fmt"
	"io/fs"
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

// The guests of these tests are the distribution as people run it: systemd is the first process,
// all controllers are version 2's, and the kernel is one of several. Nothing of tare's own is in
// them but what a test copies in. They are emulated where there is no KVM, and so are behind
// TARE_TEST_VM.

// debian is a guest to boot.
type debian struct {
	kernel string   // begins its release: "6.1."
	words  []string // for its kernel's command line
	memory string   // in MiB; empty is 1536
	// run is a shell script, which systemd starts when the system is up. programs is the
	// directory that it lies in, at programsAt in the guest.
	run      string
	programs string
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

// boot runs a guest until it powers off, and gives what its serial line said.
func (d debian) boot(t *testing.T, bound time.Duration) string {
	t.Helper()
	root, dir := debianRoot(t), t.TempDir()
	kernel := onlyOne(t, filepath.Join(root, "boot/vmlinuz-"+d.kernel+"*"))
	release := strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-")
	initrd := filepath.Join(dir, "initrd")
	d.writeInitrd(t, root, release, initrd)
	disk := filepath.Join(dir, "root")
	writableDisk(t, root, disk)
	script := "#!/bin/sh\nexec </dev/null >/dev/ttyS0 2>&1\n" + d.run
	if err := os.WriteFile(filepath.Join(d.programs, "run"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	programs, _ := programDisk(t, d.programs)
	memory := d.memory
	if memory == "" {
		memory = "1536"
	}
	words := append([]string{"console=ttyS0", "quiet", "panic=-1", "systemd.run=" + programsAt + "/run", "systemd.show_status=0"}, d.words...)
	m := &machine{t: t, console: newConsole(t), ended: make(chan error, 1)}
	cmd := exec.Command(emulator,
		"-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", memory, "-display", "none", "-nodefaults", "-no-reboot",
		"-serial", "stdio", "-device", "virtio-rng-pci", "-kernel", kernel, "-initrd", initrd,
		"-drive", "if=none,format=raw,id=root,file="+disk, "-device", "virtio-blk-pci,drive=root",
		"-drive", "if=none,format=raw,id=programs,readonly=on,file="+programs[1], "-device", "virtio-blk-pci,drive=programs",
		"-append", strings.Join(words, " "))
	m.run(cmd)
	m.end(bound)
	return m.console.String()
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
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-d", root, "-E", "root_owner=0:0", path).CombinedOutput(); err != nil {
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

// Each kernel boots into systemd, with all controllers of version 2 and nothing failed.
func TestDebianBoots(t *testing.T) {
	for _, kernel := range kernels {
		t.Run(kernel, func(t *testing.T) {
			d := debian{kernel: kernel, programs: t.TempDir(), run: "cat /proc/1/comm; stat -f -c %T /sys/fs/cgroup; uname -r; " +
				"cat /sys/fs/cgroup/cgroup.controllers /sys/kernel/mm/lru_gen/enabled; systemctl --failed --no-legend; echo done\n"}
			said := d.boot(t, bound)
			for _, want := range []string{"systemd", "cgroup2fs", "memory", "done"} {
				if !slices.Contains(strings.Fields(said), want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
			if strings.Contains(said, "failed") {
				t.Errorf("a unit has failed:\n%s", said)
			}
			t.Log(said)
		})
	}
}
