// Package ocispec writes the configuration of a container in the words of the
// OCI runtime specification: one configuration for one program, whoever hands
// it to the runtime, so that a runtime alone and an engine that calls it differ
// by the engine and by nothing that the runtime is given.
//
// It makes nothing on the host and reads nothing of it: files, groups and
// networks are laid out by the platforms, which say here where they lie.
package ocispec

import (
	"fmt"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

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

// Mounts are the kernel's own file systems in a container, /proc first.
func Mounts() []specs.Mount {
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

// Container is what a configuration is made of.
type Container struct {
	Spec platform.Spec
	// Process is the spec's.
	Process platform.Process
	// Tree is the container's root, where the runtime finds it, and what is bound
	// into it.
	Tree rootfs.Tree
	// CgroupPath is the container's group, from the root of each hierarchy.
	CgroupPath string
	// OwnCgroupNS hides the rest of the host's groups, as engines do on version 2.
	OwnCgroupNS bool
	// NetNS is the file that keeps the network namespace; empty is the host's.
	NetNS string
}

// Config is the bundle's config.json.
func (c Container) Config() (*specs.Spec, error) {
	setting := c.Spec.Setting
	config := &specs.Spec{
		Version:  "1.0.2",
		Hostname: platform.Surroundings.Hostname,
		Root:     &specs.Root{Path: c.Tree.Root, Readonly: setting.Root == platform.RootDir},
		Process:  c.process(),
		Mounts:   Mounts(),
		Linux: &specs.Linux{
			CgroupsPath:   c.CgroupPath,
			Namespaces:    c.namespaces(),
			Resources:     resources(setting),
			MaskedPaths:   masked,
			ReadonlyPaths: readOnly,
		},
	}
	for _, bind := range c.Tree.Binds {
		config.Mounts = append(config.Mounts, specs.Mount{
			Destination: bind.Target, Type: "bind", Source: bind.Source, Options: []string{"bind", "rw", "rprivate"},
		})
	}
	c.edit(config)
	if setting.Seccomp != "unconfined" {
		filter, err := seccomp.GetDefaultProfile(config)
		if err != nil {
			return nil, fmt.Errorf("the default system call filter: %w", err)
		}
		config.Linux.Seccomp = filter
	}
	return config, nil
}

// edit adds what the spec is given of the host: nodes, which the container's group is
// let use, and mounts. Their variables are in the environment already.
func (c Container) edit(config *specs.Spec) {
	for _, d := range c.Spec.Edits.Devices {
		mode, uid, gid := d.Mode, uint32(d.UID), uint32(d.GID)
		major, minor := int64(d.Major), int64(d.Minor)
		config.Linux.Devices = append(config.Linux.Devices, specs.LinuxDevice{
			Path: d.Path, Type: "c", Major: major, Minor: minor, FileMode: &mode, UID: &uid, GID: &gid,
		})
		config.Linux.Resources.Devices = append(config.Linux.Resources.Devices, specs.LinuxDeviceCgroup{
			Allow: true, Type: "c", Major: &major, Minor: &minor, Access: "rw",
		})
	}
	for _, m := range c.Spec.Edits.Mounts {
		write := "rw"
		if m.ReadOnly {
			write = "ro"
		}
		config.Mounts = append(config.Mounts, specs.Mount{
			Destination: m.Target, Type: "bind", Source: m.Source, Options: []string{"rbind", write, "nosuid", "nodev", "rprivate"},
		})
	}
}

func (c Container) process() *specs.Process {
	user := c.Process.User
	umask, score := uint32(0o022), platform.Surroundings.OOMScore
	groups := make([]uint32, len(user.Groups))
	for i, g := range user.Groups {
		groups[i] = uint32(g)
	}
	limit := func(kind string, v uint64) specs.POSIXRlimit { return specs.POSIXRlimit{Type: kind, Soft: v, Hard: v} }
	may := &specs.LinuxCapabilities{Bounding: capabilities}
	if user.UID == 0 { // no other user has any left after the program's execution
		may.Effective, may.Permitted = capabilities, capabilities
	}
	return &specs.Process{
		Args:         c.Process.Args,
		Env:          c.Process.Env,
		Cwd:          c.Process.Dir,
		User:         specs.User{UID: uint32(user.UID), GID: uint32(user.GID), AdditionalGids: groups, Umask: &umask},
		Capabilities: may,
		Rlimits: []specs.POSIXRlimit{
			limit("RLIMIT_NOFILE", platform.Surroundings.OpenFiles),
			limit("RLIMIT_CORE", platform.Surroundings.CoreSize),
		},
		OOMScoreAdj: &score,
	}
}

func (c Container) namespaces() []specs.LinuxNamespace {
	all := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace},
		{Type: specs.MountNamespace},
		{Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace},
	}
	if c.NetNS != "" {
		all = append(all, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: c.NetNS})
	}
	if c.OwnCgroupNS {
		all = append(all, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return all
}

// resources are the limits as the runtime specification has them. Where a
// platform has made the group, that has them already, since runtimes differ in
// which they know; said here too, they are not reset.
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
