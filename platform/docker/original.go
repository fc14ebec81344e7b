package docker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"tare/platform"
)

var _ platform.Copying = (*Platform)(nil)

// Original implements [platform.Copying].
func (p *Platform) Original(ctx context.Context, id string) (platform.Original, error) {
	var from container.InspectResponse
	err := p.call(ctx, "inspect container "+id, func(ctx context.Context) error {
		answer, err := p.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		from = answer.Container
		return err
	})
	name := cmp.Or(strings.TrimPrefix(from.Name, "/"), id)
	refuse := func(format string, args ...any) (platform.Original, error) {
		return platform.Original{}, &platform.Uncopied{Name: name, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case gone(err):
		return refuse("the engine at %s does not have it: it has ended, or DOCKER_HOST names another engine", p.client.DaemonHost())
	case err != nil:
		return platform.Original{}, err
	case from.Config == nil || from.HostConfig == nil || from.State == nil:
		return refuse("the engine describes it only in part")
	case !from.State.Running:
		return refuse("it does not run any more")
	}
	var imageEnv []string
	err = p.call(ctx, "look for image "+from.Image, func(ctx context.Context) error {
		answer, err := p.client.ImageInspect(ctx, from.Image)
		if err == nil && answer.Config != nil {
			imageEnv = answer.Config.Env
		}
		return err
	})
	if gone(err) {
		return refuse("the engine no longer has its image %s (%s): load that again", from.Config.Image, from.Image)
	}
	if err != nil {
		return platform.Original{}, err
	}
	o := platform.Original{
		Image: from.Image, ImageName: from.Config.Image,
		Args: slices.Concat(from.Config.Entrypoint, from.Config.Cmd), Env: from.Config.Env,
		Dir: from.Config.WorkingDir, User: from.Config.User,
		Ports: portsOf(from.Config.ExposedPorts, from.HostConfig.PortBindings),
		Lacks: lacksOf(from.Config, from.HostConfig),
	}
	for _, entry := range o.Env {
		if !slices.Contains(imageEnv, entry) {
			variable, _, _ := strings.Cut(entry, "=")
			o.Unrecorded = append(o.Unrecorded, variable)
		}
	}
	for _, m := range from.Mounts {
		o.Mounts = append(o.Mounts, platform.OriginalMount{
			Kind: string(m.Type), Name: m.Name, Source: m.Source, Target: m.Destination, ReadOnly: !m.RW,
		})
	}
	for target := range from.HostConfig.Tmpfs { // not among the mounts
		o.Mounts = append(o.Mounts, platform.OriginalMount{Kind: "tmpfs", Target: target})
	}
	slices.SortFunc(o.Mounts, func(a, b platform.OriginalMount) int { return cmp.Compare(a.Target, b.Target) })
	o.Setting = settingOf(from.HostConfig)
	return o, nil
}

// portsOf are the TCP ports that a container serves, published ones first.
func portsOf(exposed network.PortSet, published network.PortMap) []int {
	var ports []int
	add := func(p network.Port) {
		if p.Proto() == network.TCP && !slices.Contains(ports, int(p.Num())) {
			ports = append(ports, int(p.Num()))
		}
	}
	for p := range published {
		add(p)
	}
	first := len(ports)
	for p := range exposed {
		add(p)
	}
	slices.Sort(ports[:first])
	slices.Sort(ports[first:])
	return ports
}

// settingOf reads what an engine was asked for, but for a quota and a memory limit.
func settingOf(h *container.HostConfig) (s platform.Setting) {
	s.CPUShares, s.CPUSet = int(h.CPUShares), h.CpusetCpus
	if s.CPUShares == 1 { // the kernel's least is 2
		s.CPUShares = 2
	}
	s.Network = platform.NetworkBridge
	if h.NetworkMode.IsNone() {
		s.Network = platform.NetworkNone
	}
	if h.Privileged || slices.Contains(h.SecurityOpt, "seccomp=unconfined") || slices.Contains(h.SecurityOpt, "seccomp:unconfined") {
		s.Seccomp = "unconfined"
	}
	if h.Privileged || slices.Contains(h.SecurityOpt, "apparmor=unconfined") || slices.Contains(h.SecurityOpt, "label=disable") {
		s.LSM = "unconfined"
	}
	if slices.Contains([]string{"local", "none"}, h.LogConfig.Type) {
		s.LogDriver = h.LogConfig.Type
	}
	if h.Runtime != "runc" && h.Runtime != "io.containerd.runc.v2" {
		s.Runtime = h.Runtime
	}
	return s.Normal()
}

// lacksOf are what a container was given and its copy is not.
func lacksOf(c *container.Config, h *container.HostConfig) (lacks []string) {
	say := func(is bool, format string, args ...any) {
		if is {
			lacks = append(lacks, fmt.Sprintf(format, args...))
		}
	}
	mode := h.NetworkMode
	say(mode.IsHost(), "the host's network: it is reached over a bridge")
	say(mode.IsContainer(), "the network of another container: it is reached over a bridge")
	say(mode.IsUserDefined(), "network %s: it finds no other container by name", mode.NetworkName())
	say(len(h.Links) > 0, "links to other containers")
	say(h.Privileged, "privileges")
	say(len(h.CapAdd)+len(h.CapDrop) > 0, "changed capabilities")
	say(len(h.Devices)+len(h.DeviceRequests) > 0, "devices")
	say(len(h.ExtraHosts)+len(h.DNS) > 0, "entries for the resolver of names")
	say(len(h.Sysctls) > 0, "sysctls")
	say(len(h.GroupAdd) > 0, "additional groups")
	say(h.PidMode.IsHost() || h.PidMode.IsContainer(), "the PID namespace of others")
	say(h.ReadonlyRootfs, "a read-only root")
	say(h.CpusetMems != "", "memory of NUMA nodes %s alone", h.CpusetMems)
	say(h.PidsLimit != nil && *h.PidsLimit > 0, "a limit of processes")
	say(len(h.Ulimits) > 0, "ulimits of its own")
	say(h.BlkioWeight > 0 || len(h.BlkioDeviceReadBps)+len(h.BlkioDeviceWriteBps)+
		len(h.BlkioDeviceReadIOps)+len(h.BlkioDeviceWriteIOps) > 0, "limits of block devices")
	say(c.Tty, "a terminal")
	say(h.Init != nil && *h.Init, "an init process")
	custom := func(option string) bool {
		profile, ok := strings.CutPrefix(option, "seccomp=")
		return ok && profile != "unconfined"
	}
	say(slices.ContainsFunc(h.SecurityOpt, custom), "a seccomp profile of its own: the engine's is used")
	return lacks
}
