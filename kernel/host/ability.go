package host

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// Ability is something that tare can, or cannot, do on this host.
type Ability struct {
	Name   string
	OK     bool
	Detail string // what was found, one line
	Mend   string // where not OK: the command or capability that mends it, or why nothing does
}

// probe tries one ability.
type probe struct {
	name string
	try  func() (detail string, err error)
	mend string
}

// lack is a probe's error that brings a better mend than the probe's own.
type lack struct{ what, mend string }

func (l *lack) Error() string { return l.what }

// Abilities tries every ability, for real, in the order in which they are best
// read. It leaves nothing behind.
func Abilities() []Ability {
	abilities := make([]Ability, 0, len(probes))
	for _, p := range probes {
		abilities = append(abilities, p.ability())
	}
	return abilities
}

func (p probe) ability() Ability {
	detail, err := p.try()
	if err == nil {
		return Ability{Name: p.name, OK: true, Detail: detail}
	}
	a := Ability{Name: p.name, Detail: err.Error(), Mend: p.mend}
	if better := new(lack); errors.As(err, &better) {
		a.Mend = better.mend
	}
	return a
}

var probes = []probe{
	{"root", tryRoot, "run as root: sudo tare ..."},
	{"CAP_SYS_ADMIN", tryCapability(unix.CAP_SYS_ADMIN), "run as root outside of a container, or with --cap-add SYS_ADMIN"},
	{"cgroup controllers", tryControllers, "mount them (systemd does so at boot), or take cgroup_disable= off the kernel's command line"},
	{"overlayfs", tryOverlay, "modprobe overlay; in a container, CAP_SYS_ADMIN"},
	{"network namespaces", tryNetworkNamespace, "CAP_SYS_ADMIN, and a kernel with CONFIG_NET_NS"},
	{"seccomp", trySeccomp, "a kernel with CONFIG_SECCOMP_FILTER"},
	{"PSI", tryPSI, "boot with psi=1 (kernel with CONFIG_PSI)"},
	{"hardware counters", tryHardwareCounters, "CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0"},
	{"BPF", tryBPF, "CAP_BPF (or root); a locked-down kernel refuses some programs, not all"},
	{"userfaultfd", tryUserfaultfd, "CAP_SYS_PTRACE, or sysctl vm.unprivileged_userfaultfd=1"},
	{"KVM", tryKVM, "modprobe kvm_intel or kvm_amd (or nested virtualisation from the host's owner), and access to /dev/kvm"},
	{"swap", trySwap, "fallocate -l 2G /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile"},
	{"page frame numbers", tryPageFrames, "CAP_SYS_ADMIN"},
	{"CPU frequency", tryFrequency, "none inside a virtual machine; on bare metal load the processor's cpufreq driver"},
	{"real-time scheduling", tryRealTime, "CAP_SYS_NICE; on cgroup v1 also cpu.rt_runtime_us of our group"},
	{"dropping caches", tryDropCaches, "run as root, with /proc/sys writable"},
}

func tryRoot() (string, error) {
	if uid := os.Geteuid(); uid != 0 {
		return "", fmt.Errorf("running as user %d", uid)
	}
	return "running as user 0", nil
}

func tryCapability(number uint) func() (string, error) {
	return func() (string, error) {
		status := tree("/").text("proc/self/status")
		_, rest, ok := strings.Cut(status, "\nCapEff:")
		line, _, _ := strings.Cut(rest, "\n")
		effective, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
		if !ok || err != nil {
			return "", errors.New("/proc/self/status does not have the effective capabilities")
		}
		if effective&(1<<number) == 0 {
			return "", fmt.Errorf("not among the effective capabilities (%x)", effective)
		}
		return fmt.Sprintf("among the effective capabilities (%x)", effective), nil
	}
}

func tryPSI() (string, error) {
	// With psi=0 the files exist and refuse to be read.
	b, err := os.ReadFile("/proc/pressure/memory")
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return "memory: " + line, nil
}

func trySwap() (string, error) {
	b, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) < 2 {
		return "", errors.New("no swap is in use")
	}
	var names []string
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(line, " ") // blanks in it are escaped
		names = append(names, procfs.Unescape(name))
	}
	return strings.Join(names, ", "), nil
}

func tryFrequency() (string, error) {
	const file = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
	kHz, err := strconv.ParseUint(tree("/").text(file), 10, 64)
	if err != nil {
		return "", errors.New("/" + file + " says nothing")
	}
	return fmt.Sprintf("CPU 0 at %d MHz", kHz/1000), nil
}

// tryDropCaches asks for permission and writes nothing.
func tryDropCaches() (string, error) {
	const file = "/proc/sys/vm/drop_caches"
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.W_OK, unix.AT_EACCESS); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return file + " is writable (tare leaves it alone)", nil
}
