package guest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/platform/vm/guest"
)

// oldSteps are all that is done there: this test's program, and the end.
const oldSteps = `#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t tracefs tracing /sys/kernel/tracing
$b mount -t bpf bpf /sys/fs/bpf
$b mount -t cgroup2 cgroup /sys/fs/cgroup
echo '` + begins + `objects'
/test -test.v -test.run '^TestEachObjectLoads$'
echo '` + ends + `' $?
$b poweroff -f
`

// The oldest kernel that is supported, that of the release before, takes each BPF object or says
// that it is too old.
func TestObjectsOnOldKernel(t *testing.T) {
	if os.Getenv("TARE_TEST_VM") == "" {
		t.Skip("boots an emulated machine: set TARE_TEST_VM=1")
	}
	if _, err := exec.LookPath(emulator); err != nil {
		t.Skip("no " + emulator + " here: apt-get install --no-install-recommends qemu-system-x86")
	}
	kernel, initrd := oldKernel(t), filepath.Join(t.TempDir(), "initrd")
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := guest.WriteInitrd(initrd, staticBusybox(t), oldSteps, map[string]string{"test": own}); err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, console: newConsole(t), ended: make(chan error, 1)}
	m.run(exec.Command(emulator, "-M", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-display", "none", "-nodefaults", "-no-reboot",
		"-serial", "stdio", "-kernel", kernel, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1"))
	m.end(2 * bound)
	judge(t, "objects", m.console.String())
}

// oldKernel gives the kernel of the release before, whose packages the host's own sources do not
// name: their archive does, at the same place.
func oldKernel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cache(t), "bullseye")
	if found, err := filepath.Glob(filepath.Join(dir, "boot/vmlinuz-5.10.*")); err == nil && len(found) > 0 {
		return found[0]
	}
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "debs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(command string) string {
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C", "APT_CONFIG="+filepath.Join(dir, "apt.conf"))
		out, err := cmd.Output()
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			t.Skipf("the archive does not give Linux 5.10: %s: %v\n%s", command, err, exit.Stderr)
		}
		return strings.TrimSpace(string(out))
	}
	archive := ask(`apt-get indextargets --format '$(REPO_URI)' | grep '/debian/$' | sort -u | head -n 1`)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("sources.list", "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "+archive+" bullseye main\n")
	write("apt.conf", `Dir::Etc::SourceList "`+dir+`/sources.list"; Dir::Etc::SourceParts "/dev/null"; Dir::State::Lists "`+dir+`/lists"; `+
		`Dir::Cache "`+dir+`/cache"; APT::Sandbox::User "root"; Acquire::Languages "none";`+"\n")
	ask("apt-get -q update")
	name := ask(`apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: //p'`)
	ask("cd debs && apt-get -q download " + name + " && dpkg-deb --fsys-tarfile " + name + "_*.deb | tar -x -C .. --wildcards './boot/vmlinuz-*'")
	return onlyOne(t, filepath.Join(dir, "boot/vmlinuz-5.10.*"))
}
