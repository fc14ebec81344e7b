// Package host describes what is known of a machine that may explain a
// measurement: the facts of its fingerprint, how noisy it is, and what tare is
// able to do on it, with what mends each lack.
//
// It changes nothing on the machine: an ability is tried on what the probe
// itself makes and lets go of (a thread, a descriptor, a mount namespace).
// Facts are read below a root directory, so that a recorded tree can be read as
// well as this host's.
//
// Sources: the kernel's Documentation/admin-guide (kernel-parameters,
// hw-vuln, mm/ksm, mm/transhuge), Documentation/ABI for /sys, proc(5), os-release(5).
package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"tare/kernel/cgroup"
	"tare/kernel/hugepages"
	"tare/kernel/mount"
	"tare/kernel/procfs"
)

// Facts are what is fixed about a machine, or was while it was measured. A
// text that the machine does not say is "unknown"; what it has not is "none".
type Facts struct {
	Hostname    string
	Machine     string // a hash of /etc/machine-id: it is the same for one installation, and says nothing of it
	Kernel      string // release: "6.1.0-18-amd64"
	OS          string // "Debian GNU/Linux 12 (bookworm)"
	Arch        string // as Go names it: "amd64"
	CPUModel    string
	CPUs        int    // online
	SMT         string // "on", "off", "forceoff", "notsupported", "notimplemented"
	Governor    string // of frequency; several are joined by commas
	NUMANodes   int    // online
	ClockSource string // "tsc", "kvm-clock"
	Memory      int64  // bytes
	Swap        int64  // bytes
	Cgroup      string // "v1", "v2", "hybrid (controllers on v1)"
	THP         string // "always", "madvise", "never"
	Generations string // multi-generational lists of pages: "0x0007"; empty where the kernel has none
	KSM         string // "on", "off", "off, unmerged"
	PSI         bool
	Virtual     string            // hypervisor: "kvm", "xen", ...; "unknown" of an unknown kind; "none"
	LSM         string            // "lockdown,capability,apparmor"
	Mitigations map[string]string // by vulnerability, in the kernel's words
	CommandLine string            // those boot parameters that bear on a measurement
}

const unknown = "unknown"

// tree is a root directory with a proc and a sys in it.
type tree string

// text reads a small file; empty where there is none.
func (t tree) text(name string) string {
	b, err := os.ReadFile(filepath.Join(string(t), name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(bytes.TrimRight(b, "\x00")))
}

func (t tree) or(name, otherwise string) string {
	if s := t.text(name); s != "" {
		return s
	}
	return otherwise
}

// hashed makes of an identifier one that gives nothing of it away; empty of none.
func hashed(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("tare " + id))
	return hex.EncodeToString(sum[:6])
}

// Read reads the facts of the machine whose root directory is fsroot ("/").
// What cannot be read is left "unknown": a host without a file is a host about
// which that much less is known.
func Read(fsroot string) Facts {
	t := tree(fsroot)
	cpu := t.cpuInfo()
	f := Facts{
		Hostname:    t.or("proc/sys/kernel/hostname", unknown),
		Machine:     hashed(t.or("etc/machine-id", "")),
		Kernel:      t.or("proc/sys/kernel/osrelease", unknown),
		OS:          t.operatingSystem(),
		Arch:        runtime.GOARCH,
		CPUModel:    cpu.Model,
		CPUs:        listed(t.text("sys/devices/system/cpu/online"), cpu.Processors),
		SMT:         t.or("sys/devices/system/cpu/smt/control", unknown),
		Governor:    t.governor(),
		NUMANodes:   listed(t.text("sys/devices/system/node/online"), 1),
		ClockSource: t.or("sys/devices/system/clocksource/clocksource0/current_clocksource", unknown),
		Cgroup:      t.cgroupMode(),
		THP:         "none",
		Generations: strings.TrimSpace(t.text("sys/kernel/mm/lru_gen/enabled")),
		KSM:         t.sharing(),
		Virtual:     t.hypervisor(cpu),
		LSM:         t.securityModules(),
		Mitigations: t.mitigations(),
		CommandLine: RelevantParameters(t.text("proc/cmdline")),
	}
	if word, err := hugepages.Directory(filepath.Join(fsroot, "sys/kernel/mm/transparent_hugepage")).InForce(); err == nil {
		f.THP = word
	}
	memory := ParseMemInfo(strings.NewReader(t.text("proc/meminfo")))
	f.Memory, f.Swap = memory["MemTotal"], memory["SwapTotal"]
	_, err := os.Stat(filepath.Join(fsroot, "proc/pressure/cpu"))
	f.PSI = err == nil && t.text("proc/pressure/cpu") != ""
	return f
}

func (t tree) operatingSystem() string {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		for line := range strings.SplitSeq(t.text(name), "\n") {
			if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				return strings.Trim(value, `"'`)
			}
		}
	}
	return unknown
}

func (t tree) cpuInfo() CPUInfo {
	return ParseCPUInfo(strings.NewReader(t.text("proc/cpuinfo")))
}

func (t tree) governor() string {
	files, _ := filepath.Glob(filepath.Join(string(t), "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
	var names []string
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil {
			names = append(names, strings.TrimSpace(string(b)))
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

func (t tree) cgroupMode() string {
	mounts, err := procfs.ParseMountInfo(strings.NewReader(t.text("proc/self/mountinfo")))
	if err != nil {
		return unknown
	}
	return cgroup.NewLayout(mounts).Mode()
}

func (t tree) sharing() string {
	switch t.text("sys/kernel/mm/ksm/run") {
	case "0":
		return "off"
	case "1":
		return "on"
	case "2":
		return "off, unmerged"
	}
	return "none"
}

func (t tree) securityModules() string {
	if list := t.text("sys/kernel/security/lsm"); list != "" {
		return list
	}
	// securityfs may not be mounted; the two that label processes show elsewhere.
	switch {
	case t.text("sys/module/apparmor/parameters/enabled") == "Y":
		return "apparmor"
	case t.text("sys/fs/selinux/enforce") != "":
		return "selinux"
	}
	return unknown
}

func (t tree) mitigations() map[string]string {
	dir := "sys/devices/system/cpu/vulnerabilities"
	entries, err := os.ReadDir(filepath.Join(string(t), dir))
	if err != nil {
		return nil
	}
	m := make(map[string]string, len(entries))
	for _, e := range entries {
		m[e.Name()] = t.or(filepath.Join(dir, e.Name()), unknown)
	}
	return m
}

// chosen is the word in brackets of a list of choices: "always [madvise] never".
func chosen(choices string) string {
	_, rest, ok := strings.Cut(choices, "[")
	word, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return "none"
	}
	return word
}

// listed counts the members of a list such as "0-3,5".
func listed(list string, otherwise int) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.ParseUint(from, 10, 16)
		if err != nil {
			return otherwise
		}
		hi := lo
		if ranged {
			if hi, err = strconv.ParseUint(to, 10, 16); err != nil || hi < lo {
				return otherwise
			}
		}
		n += int(hi-lo) + 1
	}
	return n
}

// FileSystem names the type of file system on which a path of this host lies:
// "ext4", "overlay". The path need not exist: then it is its nearest parent's.
func FileSystem(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the file system: %w", err)
	}
	for {
		id, err := mount.IDUnder("/", path)
		if errors.Is(err, fs.ErrNotExist) && path != "/" {
			path = filepath.Dir(path)
			continue
		}
		if err != nil {
			return "", fmt.Errorf("find the file system of %s: %w", path, err)
		}
		mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
		if err != nil {
			return "", fmt.Errorf("find the file system of %s: %w", path, err)
		}
		for _, m := range mounts {
			if m.ID == id {
				return m.FSType, nil
			}
		}
		return "", fmt.Errorf("find the file system of %s: mount %d is not in the mount table", path, id)
	}
}

// ParseMemInfo reads /proc/meminfo into bytes by name. Lines of another shape
// are passed over: the kernel adds some with each release.
func ParseMemInfo(r io.Reader) map[string]int64 {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	values := map[string]int64{}
	for line := range strings.SplitSeq(string(b), "\n") {
		name, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		if kB, err := strconv.ParseInt(fields[0], 10, 64); err == nil && kB >= 0 && kB < 1<<53 {
			values[name] = kB << 10
		}
	}
	return values
}
