package containerd

import (
	"os"
	"slices"

	"tare/kernel/cgroup"
	"tare/kernel/procfs"
	"tare/platform"
)

// Supports implements [platform.Platform]. What only shows when the runtime is
// called (that it refuses this host's cgroups) is refused by the start, with the
// same type of error.
func (p *Platform) Supports(s platform.Setting) error {
	if err := s.RefuseService(Name); err != nil {
		return err
	}
	switch {
	case s.Storage == platform.StorageVolume:
		return unsupported("storage=volume", "containerd has no volumes; bind is the same here")
	case s.Network == platform.NetworkProxy:
		return unsupported("network=bridge:proxy", "containerd has no network, so no proxy either; docker has")
	case s.Network == platform.NetworkNAT:
		return unsupported("network=bridge:nat", "containerd publishes no ports; bridge is reached at the container's own address")
	case s.Root == platform.RootDir:
		return unsupported("root=dir", "the root is a snapshot, which containerd provides as an overlay")
	case s.LSM == "default":
		return unsupported("lsm=default", "profiles are those of containerd's clients, and tare loads none")
	case s.ASLR == "off" && procfs.Host.ASLR() != "off":
		return unsupported("aslr=off", "the program is a child of containerd's shim, which has no such knob; for the whole host: sysctl kernel.randomize_va_space=0; the platforms oci have it")
	case s.LogDriver != "":
		return unsupported("log-driver", "containerd writes no logs")
	}
	r, err := runtimeOf(s.Runtime)
	if err != nil {
		return err
	}
	if s.CPUBurst != 0 {
		if layout, err := cgroup.Host(); err == nil && !layout.HasBurst() {
			return unsupported("cpu-burst", "this kernel saves up no quota: Linux 5.14 or newer does")
		}
		if !r.knowsBurst() {
			return unsupported("cpu-burst", r.String()+" does not know it, being of a runtime specification before 1.1; oci has it with any runtime")
		}
	}
	return supportsCPUs(s.CPUSet)
}

// supportsCPUs refuses a cpuset beyond the host's CPUs.
func supportsCPUs(set string) error {
	if set == "" {
		return nil
	}
	wanted, err := platform.ParseCPUList(set)
	if err != nil {
		return err
	}
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil // the runtime will say
	}
	online, err := platform.ParseCPUList(string(b))
	if err != nil {
		return err
	}
	for _, c := range wanted {
		if !slices.Contains(online, c) {
			return unsupported("cpuset-cpus="+set, "this host has CPUs "+platform.FormatCPUList(online))
		}
	}
	return nil
}

func unsupported(key, reason string) error {
	return &platform.Unsupported{Platform: Name, Key: key, Reason: reason}
}
