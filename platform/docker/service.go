package docker

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/swarm"

	"tare/platform"
)

// service writes the instance as the specification of a service of one task on
// this node, which nobody starts again.
func (i *instance) service(imageID string, mounts []mount.Mount) (swarm.ServiceSpec, error) {
	spec, s := i.Spec, i.Spec.Setting
	noInit, atOnce, one := false, time.Duration(0), uint64(1)
	program := &swarm.ContainerSpec{
		Image:    imageID,
		Labels:   labels(i.mark),
		Command:  i.program.Args, // the entry point; with Args empty the image's own command takes no part
		Hostname: platform.Surroundings.Hostname,
		Env:      literally(variables(spec, i.program)),
		Dir:      i.program.Dir,
		User:     i.program.User.Name(),
		Groups:   supplementary(i.program.User),
		Init:     &noInit,
		Mounts:   mounts,
		// An image's health check would run beside the program that is weighed, and
		// the task would wait for it.
		Healthcheck:     &container.HealthConfig{Test: []string{"NONE"}},
		StopGracePeriod: &atOnce,
		OomScoreAdj:     int64(platform.Surroundings.OOMScore),
		Ulimits: []*container.Ulimit{
			{Name: "nofile", Soft: int64(platform.Surroundings.OpenFiles), Hard: int64(platform.Surroundings.OpenFiles)},
			{Name: "core", Soft: int64(platform.Surroundings.CoreSize), Hard: int64(platform.Surroundings.CoreSize)},
		},
	}
	service := swarm.ServiceSpec{
		Annotations: swarm.Annotations{Name: i.Container, Labels: labels(i.mark)},
		Mode:        swarm.ServiceMode{Replicated: &swarm.ReplicatedService{Replicas: &one}},
		TaskTemplate: swarm.TaskSpec{
			ContainerSpec: program,
			RestartPolicy: &swarm.RestartPolicy{Condition: swarm.RestartPolicyConditionNone},
			Placement:     &swarm.Placement{Constraints: []string{"node.id==" + i.info.Swarm.NodeID}},
			LogDriver:     &swarm.Driver{Name: cmp.Or(s.LogDriver, "json-file")},
		},
	}
	if s.CPUs != 0 || s.Memory != 0 {
		service.TaskTemplate.Resources = &swarm.ResourceRequirements{Limits: &swarm.Limit{
			NanoCPUs: int64(math.Round(s.CPUs * 1e9)), MemoryBytes: s.Memory,
		}}
	}
	switch s.Network {
	case platform.NetworkBridge:
		service.TaskTemplate.Networks = []swarm.NetworkAttachmentConfig{{Target: network.NetworkBridge}}
	case platform.NetworkNAT: // the mesh's own network, which a published port brings
		ports, err := ingress(spec.Ports)
		if err != nil {
			return service, err
		}
		service.EndpointSpec = &swarm.EndpointSpec{Ports: ports}
	default:
		service.TaskTemplate.Networks = []swarm.NetworkAttachmentConfig{{Target: network.NetworkHost}}
	}
	return service, nil
}

// ingress publishes ports through the routing mesh, on ports of its choice.
func ingress(numbers []int) ([]swarm.PortConfig, error) {
	var ports []swarm.PortConfig
	for _, number := range numbers {
		if _, err := tcpPort(number); err != nil {
			return nil, err
		}
		ports = append(
			ports,
			swarm.PortConfig{
				Protocol:    network.TCP,
				TargetPort:  uint32(number),
				PublishMode: swarm.PortConfigPublishModeIngress,
			},
		)
	}
	return ports, nil
}

// literally keeps a service's environment from being filled in as templates.
func literally(env []string) []string {
	env = slices.Clone(env)
	for n := range env {
		env[n] = strings.ReplaceAll(env[n], "{{", `{{"{{"}}`)
	}
	return env
}

// publishedAt tells where the mesh's ports are, on one of the node's addresses.
func publishedAt(on netip.Addr, published []swarm.PortConfig) map[int]string {
	at := map[int]string{}
	for _, port := range published {
		if port.PublishedPort > 0 && port.PublishedPort <= math.MaxUint16 {
			at[int(port.TargetPort)] = netip.AddrPortFrom(on, uint16(port.PublishedPort)).String()
		}
	}
	return at
}
