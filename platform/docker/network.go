package docker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"tare/kernel/procfs"
	"tare/platform"
)

func tcpPort(number int) (network.Port, error) {
	if number < 1 || number > 65535 {
		return network.Port{}, fmt.Errorf("port %d: want 1 to 65535", number)
	}
	port, _ := network.PortFrom(uint16(number), network.TCP)
	return port, nil
}

// publishOn is the host address on which a setting's ports are published; the
// zero address where they are not.
func (p *Platform) publishOn(ctx context.Context, n platform.Network) (netip.Addr, error) {
	switch n {
	case platform.NetworkProxy:
		return loopback, nil
	case platform.NetworkNAT:
		return p.gateway(ctx)
	}
	return netip.Addr{}, nil
}

// gateway is the host's address on the engine's default bridge. podman tells
// it; Docker names only the bridge, which holds it.
func (p *Platform) gateway(ctx context.Context) (netip.Addr, error) {
	var bridge network.Inspect
	err := p.call(ctx, "look at the engine's bridge network", func(ctx context.Context) error {
		answer, err := p.client.NetworkInspect(ctx, network.NetworkBridge, client.NetworkInspectOptions{})
		bridge = answer.Network
		return err
	})
	if err != nil {
		return netip.Addr{}, err
	}
	for _, c := range bridge.IPAM.Config {
		if c.Gateway.Is4() {
			return c.Gateway, nil
		}
	}
	name := bridge.Options["com.docker.network.bridge.name"]
	if name == "" {
		return netip.Addr{}, p.unsupported("network=bridge:nat", "the engine's bridge network has no gateway address")
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the bridge %s: %w", name, err)
	}
	addrs, err := link.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read the addresses of %s: %w", name, err)
	}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
			return prefix.Addr(), nil
		}
	}
	return netip.Addr{}, p.unsupported("network=bridge:nat", "the bridge "+name+" has no IPv4 address")
}

// addresses finds where a client on the host reaches each port. A container
// that has ended already has none.
func addresses(spec platform.Spec, c container.InspectResponse) map[int]string {
	at := map[int]string{}
	for _, number := range spec.Ports {
		switch spec.Setting.Network {
		case platform.NetworkNone:
		case platform.NetworkBridge:
			if ip, ok := ownAddress(c.NetworkSettings); ok {
				at[number] = netip.AddrPortFrom(ip, uint16(number)).String()
			}
		case platform.NetworkProxy, platform.NetworkNAT:
			port, err := tcpPort(number)
			if err != nil || c.NetworkSettings == nil {
				continue
			}
			for _, binding := range c.NetworkSettings.Ports[port] {
				if binding.HostIP.Is4() {
					at[number] = net.JoinHostPort(binding.HostIP.String(), binding.HostPort)
					break
				}
			}
		default:
			at[number] = net.JoinHostPort(loopback.String(), strconv.Itoa(number))
		}
	}
	return at
}

func ownAddress(n *container.NetworkSettings) (netip.Addr, bool) {
	if n == nil {
		return netip.Addr{}, false
	}
	for _, endpoint := range n.Networks {
		if endpoint != nil && endpoint.IPAddress.IsValid() {
			return endpoint.IPAddress, true
		}
	}
	return netip.Addr{}, false
}

// publishedPorts lists the host's ports on which the program's are published.
func (i *instance) publishedPorts() []string {
	if n := i.Spec.Setting.Network; n != platform.NetworkProxy && n != platform.NetworkNAT {
		return nil
	}
	var ports []string
	for _, address := range i.addresses {
		if _, port, err := net.SplitHostPort(address); err == nil {
			ports = append(ports, port)
		}
	}
	return ports
}

// proxies lists the docker-proxy processes of a user that serve a host port.
func proxies(uid int, hostPort string) []int {
	return slices.DeleteFunc(everyProcess(), func(pid int) bool {
		process := procfs.Host.Process(pid)
		args, err := process.Args()
		if err != nil {
			return true // it ended meanwhile
		}
		i := slices.Index(args, "-host-port")
		return i < 0 || i+1 >= len(args) || args[i+1] != hostPort || !process.Runs(uid, []string{"docker-proxy"})
	})
}

// proxied checks that a userland proxy is behind the published ports: an engine
// with "userland-proxy": false, and podman, route loopback by NAT too.
func (i *instance) proxied() error {
	for _, address := range i.addresses {
		_, hostPort, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("address %q of a published port: %w", address, err)
		}
		if len(proxies(i.p.user(), hostPort)) == 0 {
			return i.p.unsupported("network=bridge:proxy", "no userland proxy serves the published port (\"userland-proxy\" is off, or the engine has none); use bridge:nat")
		}
	}
	return nil
}
