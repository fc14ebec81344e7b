package docker

import (
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"tare/kernel/process"
	"tare/platform"
)

// The labels of everything that we make in the engine. A thing is ours if its
// labelLedger is the one that its ledger entry recorded.
const (
	labelOurs   = "tare"
	labelLedger = "tare.ledger"
)

func labels(mark string) map[string]string {
	return map[string]string{labelOurs: "1", labelLedger: mark}
}

// loopback is where the userland proxy is reached; see the package comment.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// plan is what a container is created from.
type plan struct {
	spec    platform.Spec
	program platform.Process
	info    *system.Info
	name    string // of the container
	mark    string // labelLedger
	mounts  []mount.Mount
	publish netip.Addr // host address on which ports are published; zero for none
}

// options writes the plan as the engine's API wants it.
func (pl plan) options() (client.ContainerCreateOptions, error) {
	spec, s := pl.spec, pl.spec.Setting
	config := &container.Config{
		Image:      spec.Image.Reference,
		Hostname:   platform.Surroundings.Hostname,
		Env:        variables(spec, pl.program),
		Entrypoint: pl.program.Args, // with Cmd empty: the image's own entry point and command take no part
		WorkingDir: pl.program.Dir,
		User:       pl.program.User.Name(), // by numbers: who that is was found already, as for every platform
		Labels:     labels(pl.mark),
		// An image's health check would run beside the program that is weighed.
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
		AttachStdout: spec.Stdout != nil,
		AttachStderr: spec.Stderr != nil,
	}
	noInit := false
	host := &container.HostConfig{
		NetworkMode:   networkMode(s.Network),
		LogConfig:     container.LogConfig{Type: "json-file"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Init:          &noInit,
		OomScoreAdj:   platform.Surroundings.OOMScore,
		Runtime:       s.Runtime,
		Mounts:        slices.Clone(pl.mounts),
		GroupAdd:      supplementary(pl.program.User),
		Resources: container.Resources{
			CgroupParent: cgroupParent(spec, pl.info),
			CPUShares:    int64(s.CPUShares),
			CpusetCpus:   s.CPUSet,
			Memory:       s.Memory,
			Ulimits: []*container.Ulimit{
				{Name: "nofile", Soft: int64(platform.Surroundings.OpenFiles), Hard: int64(platform.Surroundings.OpenFiles)},
				{Name: "core", Soft: int64(platform.Surroundings.CoreSize), Hard: int64(platform.Surroundings.CoreSize)},
			},
		},
	}
	for _, d := range spec.Edits.Devices {
		host.Devices = append(
			host.Devices,
			container.DeviceMapping{PathOnHost: d.Path, PathInContainer: d.Path, CgroupPermissions: "rw"},
		)
	}
	for _, m := range spec.Edits.Mounts {
		host.Mounts = append(
			host.Mounts,
			mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly},
		)
	}
	if s.LogDriver != "" {
		host.LogConfig.Type = s.LogDriver
	}
	// Quota and period rather than NanoCpus: NanoCpus fixes the period at 100 ms.
	if quota, period, limited := s.Quota(); limited {
		host.CPUQuota, host.CPUPeriod = quota.Microseconds(), period.Microseconds()
	}
	if s.Seccomp == "unconfined" {
		host.SecurityOpt = append(host.SecurityOpt, "seccomp=unconfined")
	}
	if s.LSM == "unconfined" {
		if has(pl.info, "apparmor") {
			host.SecurityOpt = append(host.SecurityOpt, "apparmor=unconfined")
		}
		if has(pl.info, "selinux") {
			host.SecurityOpt = append(host.SecurityOpt, "label=disable")
		}
	}
	if pl.publish.IsValid() {
		config.ExposedPorts, host.PortBindings = network.PortSet{}, network.PortMap{}
		for _, number := range spec.Ports {
			port, err := tcpPort(number)
			if err != nil {
				return client.ContainerCreateOptions{}, err
			}
			config.ExposedPorts[port] = struct{}{}
			host.PortBindings[port] = []network.PortBinding{{HostIP: pl.publish}} // the engine chooses a free host port
		}
	}
	return client.ContainerCreateOptions{Name: pl.name, Config: config, HostConfig: host}, nil
}

// cgroupParent is [platform.Spec.Parent] in the words of the engine's driver:
// systemd takes only slices, and one without control groups takes nothing.
func cgroupParent(spec platform.Spec, info *system.Info) string {
	if groupless(info) {
		return ""
	}
	if info.CgroupDriver == "systemd" {
		return strings.TrimPrefix(platform.CgroupParent, "/") + ".slice"
	}
	return spec.Parent()
}

// parent is the cgroup below which the platform's containers are, by its path.
// A service cannot name one: its tasks' are where the engine puts its own.
func (p *Platform) parent(info *system.Info) string {
	switch {
	case p.name == NameSwarm && info.CgroupDriver == "systemd":
		return "/system.slice"
	case p.name == NameSwarm:
		return "/docker"
	}
	return path.Join("/", cgroupParent(platform.Spec{}, info))
}

func networkMode(n platform.Network) container.NetworkMode {
	switch n {
	case platform.NetworkNone:
		return network.NetworkNone
	case platform.NetworkBridge, platform.NetworkProxy, platform.NetworkNAT:
		return network.NetworkBridge
	default:
		return network.NetworkHost
	}
}

// variables are the program's environment as the engine is to be given it: whole, and with
// what the engine or its image would add to it taken away.
func variables(spec platform.Spec, program platform.Process) []string {
	return slices.Concat(program.Env, spec.Withheld(program))
}

// supplementary are the groups that an engine does not find by [process.User.Name], which
// names the first.
func supplementary(user process.User) []string {
	var groups []string
	for _, g := range user.Groups {
		if g != user.GID {
			groups = append(groups, strconv.Itoa(g))
		}
	}
	return groups
}
