package docker

import (
	"slices"
	"sort"
	"strings"

	"github.com/moby/moby/api/types/system"

	"tare/kernel/procfs"
	"tare/platform"
)

// Supports implements [platform.Platform]. What depends on how this engine was
// set up (its runtimes, its storage driver, whether a userland proxy runs) is
// refused by Create and Launch, with the same type of error.
func (p *Platform) Supports(s platform.Setting) error {
	if err := s.RefuseService(p.name); err != nil {
		return err
	}
	if s.CPUBurst != 0 && p.name != Name {
		return p.unsupported("cpu-burst", "the Engine API has no such field, and its control groups are not tare's to write; docker and oci have it")
	}
	if s.CPUPeriod != 0 && s.CPUs == 0 {
		return p.unsupported("cpu-period", "a period alone limits nothing; set cpus too")
	}
	if s.ASLR == "off" && procfs.Host.ASLR() != "off" {
		return p.unsupported("aslr=off", "the program is a child of the engine's shim, which has no such knob; for the whole host: sysctl kernel.randomize_va_space=0; the platforms oci have it")
	}
	if s.Root == platform.RootDir {
		return p.unsupported("root=dir", "the engine's storage driver provides the root")
	}
	if p.name == NameRootless {
		return p.supportsRootless(s)
	}
	return nil
}

func (p *Platform) unsupported(key, reason string) error {
	return &platform.Unsupported{Platform: p.name, Key: key, Reason: reason}
}

// suits checks a setting against the engine at hand.
func (p *Platform) suits(s platform.Setting, info *system.Info) error {
	if s.Runtime != "" {
		if _, known := info.Runtimes[s.Runtime]; !known && len(info.Runtimes) > 0 {
			names := make([]string, 0, len(info.Runtimes))
			for name := range info.Runtimes {
				names = append(names, name)
			}
			sort.Strings(names)
			return p.unsupported("runtime="+s.Runtime, "the engine knows "+strings.Join(names, ", ")+"; add it to \"runtimes\" in /etc/docker/daemon.json and restart the engine")
		}
	}
	if p.name == Name && has(info, "userns") {
		switch {
		case s.Network == "", s.Network == platform.NetworkHost:
			return p.unsupported("network=host", "the engine maps users (userns-remap), and then shares no network of the host; use bridge:nat or none")
		case s.Storage == platform.StorageBind:
			return p.unsupported("storage=bind", "the engine maps users (userns-remap), and a program may not write what belongs to the host's; use volume")
		}
	}
	if s.Root == platform.RootOverlay && info.Driver != "" && !strings.HasPrefix(info.Driver, "overlay") {
		return p.unsupported("root=overlay", "the engine's storage driver is "+info.Driver)
	}
	if s.LogDriver != "" && len(info.Plugins.Log) > 0 && s.LogDriver != "none" &&
		!slices.Contains(info.Plugins.Log, s.LogDriver) {
		return p.unsupported("log-driver="+s.LogDriver, "the engine knows "+strings.Join(info.Plugins.Log, ", "))
	}
	return nil
}

// has reports whether the engine enforces a security module or filter ("seccomp", "apparmor", "selinux").
func has(info *system.Info, module string) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(option string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(option, "name="), ",")
		return name == module
	})
}
