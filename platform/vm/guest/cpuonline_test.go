package guest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/kernel/cpuonline"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/vm/guest"
)

// inMachineVar tells this test's program that it runs in the machine, where a CPU may go.
const inMachineVar = "TARE_TEST_CPU_OFF_LINE"

// Package cpuonline takes a CPU off line and brings it back, on a kernel. A machine's is
// nobody else's: on the host the CPU would be missing to all.
func TestACPUGoesOffLineAndComesBack(t *testing.T) {
	if os.Getenv(inMachineVar) != "" {
		takeCPU(t)
		return
	}
	if os.Getenv("TARE_TEST_VM") == "" {
		t.Skip("boots an emulated machine: set TARE_TEST_VM=1")
	}
	boot := built(t)
	root := t.TempDir()
	install(t, "/proc/self/exe", filepath.Join(root, "test"))
	disk, device := programDisk(t, root)
	m := start(t, boot, guest.Order{Run: &guest.Run{
		Device: device,
		Args:   []string{guest.RunDirectory + "/test", "-test.run=^" + t.Name() + "$", "-test.v"},
		Env:    []string{inMachineVar + "=1"},
	}}, disk)
	m.end(bound)
	for _, want := range []string{"--- PASS: " + t.Name(), guest.ExitLine + "0"} {
		if !strings.Contains(m.console.String(), want) {
			t.Errorf("the console does not show %q", want)
		}
	}
}

// takeCPU takes the second of the machine's two CPUs and brings it back. It runs in a
// group with a cpuset of its own, which loses the CPU and has it again.
func takeCPU(t *testing.T) {
	group := "/sys/fs/cgroup/off-line"
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []struct{ name, text string }{{"cpuset.cpus", "0-1"}, {"cgroup.procs", "0"}} {
		if err := os.WriteFile(filepath.Join(group, file.name), []byte(file.text), 0); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when, want string) {
		t.Helper()
		for _, file := range []string{"/sys/devices/system/cpu/online", filepath.Join(group, "cpuset.cpus.effective")} {
			text, err := os.ReadFile(file)
			if got := strings.TrimSpace(string(text)); err != nil || got != want {
				t.Errorf("%s, %s is %q (%v), want %s", when, file, got, err, want)
			}
		}
		own, err := process.Affinity()
		if got := platform.FormatCPUList(own); err != nil || got != want {
			t.Errorf("%s, this process may run on CPUs %q (%v), want %s", when, got, err, want)
		}
	}
	var host cpuonline.Host
	state, err := host.Look([]int{1})
	if err != nil {
		t.Fatal(err)
	}
	expect("before", "0-1")
	if err := host.Take(state); err != nil {
		t.Fatal(err)
	}
	expect("with CPU 1 off line", "0")
	if err := host.Restore(state); err != nil {
		t.Fatal(err)
	}
	expect("with CPU 1 back", "0-1")
}
