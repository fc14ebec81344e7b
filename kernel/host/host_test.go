package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/host"
)

// plant writes a tree of small files.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFactsOfAServer(t *testing.T) {
	root := plant(t, map[string]string{
		"proc/sys/kernel/hostname":  "rack7\n",
		"proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
		"etc/os-release":            "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"proc/cpuinfo":              "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: fpu tsc\n\nprocessor\t: 1\n",
		"proc/meminfo":              "MemTotal:       1024 kB\nHugePages_Total:       0\nSwapTotal:      2048 kB\n",
		"proc/pressure/cpu":         "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"proc/self/mountinfo":       "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n",
		"proc/cmdline":              "BOOT_IMAGE=/vmlinuz root=UUID=1234 isolcpus=nohz,domain,2-3 mitigations=off quiet\n",

		"sys/devices/system/cpu/online":                                   "0-2,4\n",
		"sys/devices/system/cpu/smt/control":                              "on\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "powersave\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":            "performance\n",
		"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor":            "powersave\n",
		"sys/devices/system/cpu/vulnerabilities/meltdown":                 "Mitigation: PTI\n",
		"sys/devices/system/node/online":                                  "0-1\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                      "always [madvise] never\n",
		"sys/kernel/mm/ksm/run":                                           "0\n",
		"sys/kernel/security/lsm":                                         "lockdown,capability,apparmor",
		"sys/class/dmi/id/sys_vendor":                                     "Amazon EC2\n", // bare metal there says so too
	})
	got := host.Read(root)
	want := host.Facts{
		Hostname: "rack7", Kernel: "6.1.0-18-amd64", OS: "Debian GNU/Linux 12 (bookworm)", Arch: got.Arch,
		CPUModel: "Xeon", CPUs: 4, SMT: "on", Governor: "performance,powersave", NUMANodes: 2, ClockSource: "tsc",
		Memory: 1 << 20, Swap: 2 << 20, Cgroup: "v2", THP: "madvise", KSM: "off", PSI: true, Virtual: "none",
		LSM: "lockdown,capability,apparmor", Mitigations: map[string]string{"meltdown": "Mitigation: PTI"},
		CommandLine: "isolcpus=nohz,domain,2-3 mitigations=off",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFactsOfAnEmptyTree(t *testing.T) {
	got := host.Read(t.TempDir())
	want := host.Facts{
		Hostname: "unknown", Kernel: "unknown", OS: "unknown", Arch: got.Arch, CPUModel: "unknown", SMT: "unknown",
		Governor: "none", NUMANodes: 1, ClockSource: "unknown", Cgroup: "none", THP: "none", KSM: "none", Virtual: "none", LSM: "unknown",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestVirtual(t *testing.T) {
	const virtual = "processor: 0\nvendor_id: GenuineIntel\nflags: fpu hypervisor\n"
	for want, files := range map[string]map[string]string{
		"uml":              {"proc/cpuinfo": "processor: 0\nvendor_id: User Mode Linux\n"},
		"xen":              {"proc/cpuinfo": virtual, "sys/hypervisor/type": "xen\n"},
		"kvm":              {"proc/cpuinfo": virtual, "sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock\n"},
		"qemu":             {"proc/cpuinfo": virtual, "sys/class/dmi/id/sys_vendor": "QEMU\n"},
		"kvm (Amazon EC2)": {"proc/cpuinfo": virtual, "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"},
		"vmware":           {"proc/cpuinfo": virtual, "sys/class/dmi/id/product_name": "VMware7,1\n"},
		"unknown":          {"proc/cpuinfo": virtual},
		"none":             {"proc/cpuinfo": "processor: 0\nvendor_id: AuthenticAMD\nflags: fpu\n", "sys/class/dmi/id/sys_vendor": "Xen Computers Inc\n"},
		"kvm (OpenStack)":  {"proc/cpuinfo": "processor: 0\nCPU implementer: 0x41\nCPU part: 0xd0c\n", "sys/class/dmi/id/product_name": "OpenStack Nova\n"},
	} {
		if got := host.Read(plant(t, files)).Virtual; got != want {
			t.Errorf("%v: %q, want %q", files, got, want)
		}
	}
}

func TestARMHasNoModelName(t *testing.T) {
	c := host.ParseCPUInfo(strings.NewReader("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"))
	if c.Model != "implementer 0x41 part 0xd0c" || c.Processors != 1 {
		t.Errorf("%+v", c)
	}
}

func TestRelevantParameters(t *testing.T) {
	for line, want := range map[string]string{
		"":                                "",
		"root=/dev/sda1 quiet":            "",
		"nohz_full=1-7 rcu-nocbs=1-7:2/4": "nohz_full=1-7 rcu_nocbs=1-7:2/4",
		"nosmt=force psi=1 -- --token=secret psi=0":      "nosmt=force psi=1",
		`note="isolcpus=1 mitigations=off" psi=1`:        "psi=1",
		"mitigations=http://192.0.2.1/x lsm=10.0.0.1":    "mitigations=... lsm=...",
		"nosmt ip=192.0.2.7::192.0.2.1 systemd.token=ab": "nosmt",
	} {
		if got := host.RelevantParameters(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestThisHost(t *testing.T) {
	f := host.Read("/")
	if f.CPUs < 1 || f.Memory <= 0 || f.Kernel == "unknown" || f.Cgroup == "none" {
		t.Errorf("%+v", f)
	}
	fs, err := host.FileSystem(t.TempDir())
	if err != nil || fs == "" {
		t.Errorf("file system %q, %v", fs, err)
	}
	below, err := host.FileSystem(filepath.Join(t.TempDir(), "not", "made", "yet"))
	if err != nil || below != fs {
		t.Errorf("file system of what is to be made there: %q, %v; want %q", below, err, fs)
	}
	if proc, err := host.FileSystem("/proc/self"); err != nil || proc != "proc" {
		t.Errorf("file system of /proc/self: %q, %v", proc, err)
	}
}

func FuzzParseCPUInfo(f *testing.F) {
	f.Add("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: EPYC\nflags\t: hypervisor\n")
	f.Add("CPU implementer: 0x41\n:\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := host.ParseCPUInfo(strings.NewReader(text))
		if c.Model == "" && !strings.Contains(text, "model name") {
			t.Errorf("no model, and it does not say so: %+v", c)
		}
		if c.Processors > strings.Count(text, "\n")+1 {
			t.Errorf("%d processors in %d lines", c.Processors, strings.Count(text, "\n")+1)
		}
	})
}

func FuzzParseMemInfo(f *testing.F) {
	f.Add("MemTotal:       24686108 kB\nSwapTotal: 0 kB\nHugePages_Total: 0\n")
	f.Add("MemTotal: -1 kB\nMemTotal: 99999999999999999999 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, bytes := range host.ParseMemInfo(strings.NewReader(text)) {
			if bytes < 0 || bytes%1024 != 0 {
				t.Errorf("%s: %d bytes", name, bytes)
			}
		}
	})
}

func FuzzRelevantParameters(f *testing.F) {
	f.Add("BOOT_IMAGE=/vmlinuz isolcpus=1-3 mitigations=auto,nosmt psi=1 -- --token x")
	f.Add(`lsm="a b" audit=10.1.2.3`)
	f.Fuzz(func(t *testing.T, line string) {
		kept := host.RelevantParameters(line)
		for word := range strings.FieldsSeq(kept) {
			if _, value, _ := strings.Cut(word, "="); value != "..." && strings.Contains(value, ".") {
				t.Errorf("%q lets %q through", line, word)
			}
		}
		if again := host.RelevantParameters(kept); again != kept {
			t.Errorf("%q, and of that %q", kept, again)
		}
	})
}
