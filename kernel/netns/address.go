package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// candidates are the private ranges (RFC 1918) that a subnet is looked for in,
// those that engines and home routers prefer left to the end.
var candidates = []netip.Prefix{
	netip.MustParsePrefix("10.213.0.0/16"),
	netip.MustParsePrefix("172.29.0.0/16"),
	netip.MustParsePrefix("192.168.192.0/18"),
	netip.MustParsePrefix("10.0.0.0/8"),
}

// FreeSubnet gives a private /24 that overlaps none of those in use.
func FreeSubnet(used []netip.Prefix) (netip.Prefix, error) {
	for _, c := range candidates {
		for at := c.Addr(); c.Contains(at); at = next24(at) {
			subnet := netip.PrefixFrom(at, 24)
			if !overlapsAny(subnet, used) {
				return subnet, nil
			}
			if next24(at).Compare(at) <= 0 {
				break // the end of the address space
			}
		}
	}
	return netip.Prefix{}, errors.New("every private subnet is in use on this host")
}

func next24(a netip.Addr) netip.Addr {
	b := a.As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8
	n += 1 << 8
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), 0})
}

func overlapsAny(p netip.Prefix, used []netip.Prefix) bool {
	for _, u := range used {
		// A default route leads everywhere and so occupies nothing.
		if u.Bits() > 0 && p.Overlaps(u) {
			return true
		}
	}
	return false
}

// UsedSubnets lists the IPv4 subnets that the host has addresses in or routes to.
func UsedSubnets() ([]netip.Prefix, error) {
	var used []netip.Prefix
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("listing the host's addresses: %w", err)
	}
	for _, a := range addresses {
		used = appendPrefix(used, a.IPNet)
	}
	// All tables: a tunnel's routes often have one of their own.
	routes, err := netlink.RouteListFiltered(
		netlink.FAMILY_V4,
		&netlink.Route{Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_TABLE,
	)
	if err != nil {
		return nil, fmt.Errorf("listing the host's routes: %w", err)
	}
	for _, r := range routes {
		used = appendPrefix(used, r.Dst)
	}
	return used, nil
}

func appendPrefix(all []netip.Prefix, n *net.IPNet) []netip.Prefix {
	if n == nil {
		return all
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok || bits == 0 {
		return all
	}
	return append(all, netip.PrefixFrom(addr.Unmap(), ones).Masked())
}

func ipNet(addr netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, addr.BitLen())}
}
