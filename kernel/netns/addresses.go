package netns

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Addresses lists the IPv4 addresses that the namespace kept at file has (a
// mount of [Create], or /proc/PID/ns/net), loopback's apart.
func Addresses(file string) ([]netip.Addr, error) {
	ns, handle, err := inside(file)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	defer handle.Close()
	list, err := handle.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("listing the addresses in %s: %w", file, err)
	}
	var all []netip.Addr
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok && !addr.Unmap().IsLoopback() {
			all = append(all, addr.Unmap())
		}
	}
	return all, nil
}
