package ocispec

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"tare/kernel/process"
	"tare/platform"
	"tare/platform/rootfs"
)

func TestConfig(t *testing.T) {
	b := Container{
		Spec: platform.Spec{
			Name:    "x",
			Setting: platform.Setting{CPUs: 1.5, CPUPeriod: 10 * time.Millisecond, CPUBurst: 2 * time.Millisecond, CPUShares: 512, CPUSet: "0-1", Memory: 64 << 20, Root: platform.RootDir},
		},
		Tree: rootfs.Tree{Root: "/state/root", Binds: []rootfs.Bind{{Source: "/state/data/0", Target: "/data"}}},
		Process: platform.Process{
			Args: []string{"redis-server"}, Env: []string{"B=1", "A=1"}, Dir: "/data",
			User: process.User{UID: 999, GID: 998, Groups: []int{998, 29}},
		},
		CgroupPath: "/tare/x", OwnCgroupNS: true, NetNS: "/state/netns",
	}
	c, err := b.Config()
	if err != nil {
		t.Fatal(err)
	}
	if got := *c.Linux.Resources.CPU; *got.Quota != 15000 || *got.Period != 10000 || *got.Burst != 2000 || *got.Shares != 512 || got.Cpus != "0-1" {
		t.Errorf("CPU %+v", got)
	}
	if m := c.Linux.Resources.Memory; *m.Limit != 64<<20 || *m.Swap != 128<<20 {
		t.Errorf("memory %d, with swap %d", *m.Limit, *m.Swap)
	}
	if !c.Root.Readonly || c.Root.Path != "/state/root" || c.Process.Cwd != "/data" || c.Process.User.UID != 999 || !slices.Equal(c.Process.User.AdditionalGids, []uint32{998, 29}) {
		t.Errorf("root %+v, directory %s, user %+v", c.Root, c.Process.Cwd, c.Process.User)
	}
	if !slices.Equal(c.Process.Args, b.Process.Args) || !slices.Equal(c.Process.Env, b.Process.Env) {
		t.Errorf("command %q, environment %q", c.Process.Args, c.Process.Env)
	}
	if may := c.Process.Capabilities; len(may.Effective) > 0 || len(may.Bounding) == 0 {
		t.Errorf("another user than root has the capabilities %+v", may)
	}
	b.Process.User = process.User{}
	if asRoot, err := b.Config(); err != nil || len(asRoot.Process.Capabilities.Effective) == 0 {
		t.Errorf("root has no capabilities: %v", err)
	}
	if c.Process.NoNewPrivileges {
		t.Error("no new privileges, which the engine does not set either")
	}
	kinds := map[specs.LinuxNamespaceType]string{}
	for _, n := range c.Linux.Namespaces {
		kinds[n.Type] = n.Path
	}
	for _, k := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.MountNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.CgroupNamespace} {
		if path, ok := kinds[k]; !ok || path != "" {
			t.Errorf("namespace %s: %v %q, want a new one", k, ok, path)
		}
	}
	if kinds[specs.NetworkNamespace] != "/state/netns" {
		t.Errorf("network namespace at %q", kinds[specs.NetworkNamespace])
	}
	last := c.Mounts[len(c.Mounts)-1]
	if last.Destination != "/data" || last.Source != "/state/data/0" || !slices.Contains(last.Options, "rw") {
		t.Errorf("data is mounted as %+v", last)
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
}

// What a program is given of the host it sees, and its group may use.
func TestConfigGivesEdits(t *testing.T) {
	c, err := Container{Spec: platform.Spec{Args: []string{"lu"}, Edits: platform.Edits{
		Devices: []platform.DeviceNode{{Path: "/dev/nvidia0", Major: 195, Minor: 0, Mode: 0o660, GID: 44}},
		Mounts: []platform.Mount{
			{Source: "/usr/lib64/libcuda.so.550.54.15", Target: platform.DriverLibraries + "/libcuda.so.1", ReadOnly: true},
			{Source: "/state/cache", Target: "/cache", Directory: true},
		},
	}}}.Config()
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Linux.Devices; len(d) != 1 || d[0].Path != "/dev/nvidia0" || d[0].Type != "c" || d[0].Major != 195 || *d[0].FileMode != 0o660 || *d[0].GID != 44 {
		t.Errorf("devices %+v", d)
	}
	rules := c.Linux.Resources.Devices
	if last := rules[len(rules)-1]; !last.Allow || *last.Major != 195 || *last.Minor != 0 || rules[0].Allow {
		t.Errorf("rules %+v", rules)
	}
	library, cache := c.Mounts[len(c.Mounts)-2], c.Mounts[len(c.Mounts)-1]
	if !slices.Contains(library.Options, "ro") || library.Destination != platform.DriverLibraries+"/libcuda.so.1" || !slices.Contains(cache.Options, "rw") || cache.Source != "/state/cache" {
		t.Errorf("mounts %+v, %+v", library, cache)
	}
}

func TestConfigOfNothing(t *testing.T) {
	c, err := Container{Process: platform.Process{Args: []string{"true"}, Dir: "/"}}.Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Linux.Namespaces {
		if n.Type == specs.NetworkNamespace || n.Type == specs.CgroupNamespace {
			t.Errorf("a %s namespace that was not asked for", n.Type)
		}
	}
	if cpu := c.Linux.Resources.CPU; cpu.Quota != nil || cpu.Shares != nil || c.Linux.Resources.Memory != nil {
		t.Error("limits that were not asked for")
	}
	if c.Process.Cwd != "/" || c.Root.Readonly {
		t.Errorf("directory %q, read-only %v", c.Process.Cwd, c.Root.Readonly)
	}
}

// The default filter must be one for these capabilities: it refuses what only
// an administrator may do, and lets through what every program needs.
func TestSeccompFilter(t *testing.T) {
	c, err := Container{Process: platform.Process{Args: []string{"true"}, Dir: "/"}}.Config()
	if err != nil {
		t.Fatal(err)
	}
	filter := c.Linux.Seccomp
	if filter == nil || filter.DefaultAction != specs.ActErrno {
		t.Fatalf("filter %+v", filter)
	}
	allowed := func(call string) bool {
		return slices.ContainsFunc(filter.Syscalls, func(s specs.LinuxSyscall) bool {
			return s.Action == specs.ActAllow && slices.Contains(s.Names, call) && len(s.Args) == 0
		})
	}
	for call, want := range map[string]bool{"read": true, "execve": true, "futex": true, "chroot": true, "mount": false, "bpf": false, "init_module": false, "perf_event_open": false} {
		if allowed(call) != want {
			t.Errorf("%s: allowed is %v, want %v", call, !want, want)
		}
	}
	c, err = Container{Spec: platform.Spec{Args: []string{"true"}, Setting: platform.Setting{Seccomp: "unconfined"}}}.Config()
	if err != nil || c.Linux.Seccomp != nil {
		t.Errorf("unconfined has a filter (%v)", err)
	}
}
