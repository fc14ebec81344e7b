package oci

import (
	"fmt"
	"path"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"tare/kernel/process"
	"tare/platform"
	"tare/platform/rootfs"
)

// What follows is what the Docker engine gives a container when it is asked for
// nothing (moby/moby, daemon/pkg/oci/defaults.go), so that a bare runtime and
// an engine differ by the engine alone.

// capabilities are those a container's root keeps.
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// masked paths tell of the host and are hidden.
var masked = []string{
	"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
	"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
}

// readOnly paths would change the host.
var readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// devices that the program may use; all others are refused by the cgroup.
func devices() []specs.LinuxDeviceCgroup {
	rules := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	allow := func(major, minor int64) {
		rules = append(rules, specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &major, Minor: &minor, Access: "rwm"})
	}
	for _, d := range [][2]int64{{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 1}, {5, 2}} {
		allow(d[0], d[1])
	}
	return rules
}

func systemMounts() []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
	}
}

// bundle is what a container's configuration is made of.
type bundle struct {
	spec       platform.Spec
	tree       rootfs.Tree
	user       process.User
	cgroupPath string
	// ownCgroupNS hides the rest of the host's groups, as engines do on version 2.
	ownCgroupNS bool
	// netns is the file that keeps the network namespace; empty is the host's.
	netns string
}

// config writes the bundle's config.json.
func (b bundle) config() (*specs.Spec, error) {
	setting := b.spec.Setting
	c := &specs.Spec{
		Version:  "1.0.2",
		Hostname: platform.Surroundings.Hostname,
		Root:     &specs.Root{Path: b.tree.Root, Readonly: setting.Root == platform.RootDir},
		Process:  b.process(),
		Mounts:   systemMounts(),
		Linux: &specs.Linux{
			CgroupsPath:   b.cgroupPath,
			Namespaces:    b.namespaces(),
			Resources:     resources(setting),
			MaskedPaths:   masked,
			ReadonlyPaths: readOnly,
		},
	}
	for _, bind := range b.tree.Binds {
		c.Mounts = append(c.Mounts, specs.Mount{
			Destination: bind.Target, Type: "bind", Source: bind.Source, Options: []string{"bind", "rw", "rprivate"},
		})
	}
	if setting.Seccomp != "unconfined" {
		filter, err := seccomp.GetDefaultProfile(c)
		if err != nil {
			return nil, fmt.Errorf("the default system call filter: %w", err)
		}
		c.Linux.Seccomp = filter
	}
	return c, nil
}

func (b bundle) process() *specs.Process {
	dir := b.spec.Dir
	if dir == "" {
		dir = "/"
	}
	umask, score := uint32(0o022), platform.Surroundings.OOMScore
	groups := make([]uint32, len(b.user.Groups))
	for i, g := range b.user.Groups {
		groups[i] = uint32(g)
	}
	limit := func(kind string, v uint64) specs.POSIXRlimit { return specs.POSIXRlimit{Type: kind, Soft: v, Hard: v} }
	return &specs.Process{
		Args: b.spec.Args,
		Env:  b.spec.Environment(),
		Cwd:  path.Clean(dir),
		User: specs.User{UID: uint32(b.user.UID), GID: uint32(b.user.GID), AdditionalGids: groups, Umask: &umask},
		Capabilities: &specs.LinuxCapabilities{
			Bounding: capabilities, Effective: capabilities, Permitted: capabilities,
		},
		Rlimits: []specs.POSIXRlimit{
			limit("RLIMIT_NOFILE", platform.Surroundings.OpenFiles),
			limit("RLIMIT_CORE", platform.Surroundings.CoreSize),
		},
		OOMScoreAdj: &score,
	}
}

func (b bundle) namespaces() []specs.LinuxNamespace {
	all := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
	}
	if b.netns != "" {
		all = append(all, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: b.netns})
	}
	if b.ownCgroupNS {
		all = append(all, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return all
}

// resources are the limits as the runtime specification has them. The group
// has them already, since runtimes differ in which they know; said here too,
// they are not reset.
func resources(s platform.Setting) *specs.LinuxResources {
	cpu := &specs.LinuxCPU{Cpus: s.CPUSet}
	if quota, period, limited := s.Quota(); limited {
		q, p := quota.Microseconds(), uint64(period.Microseconds())
		cpu.Quota, cpu.Period = &q, &p
	}
	if s.CPUBurst > 0 {
		b := uint64(s.CPUBurst.Microseconds())
		cpu.Burst = &b
	}
	if s.CPUShares > 0 {
		v := uint64(s.CPUShares)
		cpu.Shares = &v
	}
	r := &specs.LinuxResources{Devices: devices(), CPU: cpu}
	if s.Memory > 0 {
		limit, withSwap := s.Memory, 2*s.Memory // as much swap again, as engines do
		r.Memory = &specs.LinuxMemory{Limit: &limit, Swap: &withSwap}
	}
	return r
}
