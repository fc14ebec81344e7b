package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/kernel/procfs"
	"tare/platform"
)

// sandboxed reports whether the runtime is gVisor's, whose container is a
// kernel of its own in a process: what the host's kernel tells of that process
// is known of the sandbox, not of the program inside.
func (p *oci) sandboxed() bool { return filepath.Base(p.runtime) == "runsc" }

// sandboxFlags make runsc work where KVM may be missing and where version 1 and
// version 2 control groups are mounted beside each other, which it does not know.
var sandboxFlags = []string{"--platform=ptrace", "--ignore-cgroups"}

// NotRepresentative says why figures from here do not stand for the runtime as
// people run it; empty where they do. gVisor's default platform is systrap since
// 2023; the releases before know only ptrace where there is no KVM.
func (p *oci) NotRepresentative() string {
	if !p.sandboxed() {
		return ""
	}
	return "gVisor by ptrace, which is slower than its default platform; no cgroup limits"
}

// sandboxNetwork is runsc's word for a network: the host's sockets, loopback
// alone, or its own stack behind the namespace's device.
func sandboxNetwork(n platform.Network) string {
	switch n {
	case "", platform.NetworkHost:
		return "--network=host"
	case platform.NetworkNone:
		return "--network=none"
	}
	return "--network=sandbox"
}

// supportsSandboxed refuses what a sandbox has not.
func (p *oci) supportsSandboxed(s platform.Setting) error {
	for _, k := range []struct {
		set bool
		key string
	}{
		{s.CPUs != 0, "cpus"}, {s.CPUPeriod != 0, "cpu-period"}, {s.CPUBurst != 0, "cpu-burst"},
		{s.CPUShares != 0, "cpu-shares"}, {s.CPUSet != "", "cpuset-cpus"}, {s.Memory != 0, "memory"},
	} {
		if k.set {
			return &platform.Unsupported{Platform: p.Name(), Key: k.key,
				Reason: "the runtime is configured to leave cgroups alone, which it does not know beside each other in two versions"}
		}
	}
	if s.GPU != "" && s.GPU != platform.NoGPU {
		return &platform.Unsupported{Platform: p.Name(), Key: "gpu=" + s.GPU,
			Reason: "the sandbox's own kernel stands before the driver, and hands on some of its calls alone (nvproxy), which it is not configured for"}
	}
	if s.ASLR != "" {
		return &platform.Unsupported{Platform: p.Name(), Key: "aslr=" + s.ASLR,
			Reason: "the program's addresses are drawn by the sandbox's own kernel, which has no such knob"}
	}
	if s.Seccomp != "" {
		return &platform.Unsupported{Platform: p.Name(), Key: "seccomp=" + s.Seccomp,
			Reason: "the sandbox has a filter of its own around it, and none inside"}
	}
	return nil
}

// takeSandbox moves the processes of a sandbox that was created into the
// container's group, by which they are counted and ended: the sandbox, which
// the runtime noted, with what it has started, and the one that serves it files.
func (l *launch) takeSandbox() error {
	if err := l.openProgram(); err != nil {
		return err
	}
	if err := l.takeDescendants(l.init.PID); err != nil {
		return fmt.Errorf("the sandbox: %w", err)
	}
	children, err := procfs.Host.Process(os.Getpid()).Children()
	if err != nil {
		return err
	}
	for _, pid := range children {
		args, err := procfs.Host.Process(pid).Args()
		if err != nil || len(args) == 0 || !strings.HasPrefix(args[0], "runsc-gofer") || !slices.Contains(args, l.dir) {
			continue
		}
		if err := l.takeDescendants(pid); err != nil {
			return fmt.Errorf("the sandbox's file server: %w", err)
		}
	}
	return nil
}

func (l *launch) takeDescendants(pid int) error {
	if err := l.group.Add(pid); err != nil {
		return err
	}
	children, err := procfs.Host.Process(pid).Children()
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := l.takeDescendants(c); err != nil {
			return err
		}
	}
	return nil
}
