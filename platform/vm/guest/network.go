package guest

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// bringUp brings the loopback interface up, and the machine's own with its address
// where the order gives one.
func bringUp(order Order) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	if !order.Address.IsValid() {
		return nil
	}
	link, err := findLink(order.MAC)
	if err != nil {
		return err
	}
	name := link.Attrs().Name
	address := netlink.Addr{IPNet: &net.IPNet{
		IP: order.Address.Addr().AsSlice(), Mask: net.CIDRMask(order.Address.Bits(), order.Address.Addr().BitLen()),
	}}
	if err := netlink.AddrAdd(link, &address); err != nil {
		return fmt.Errorf("giving %s the address %s: %w", name, order.Address, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bringing up %s: %w", name, err)
	}
	if !order.Gateway.IsValid() {
		return nil
	}
	route := netlink.Route{LinkIndex: link.Attrs().Index, Gw: order.Gateway.AsSlice()}
	if err := netlink.RouteAdd(&route); err != nil {
		return fmt.Errorf("route to %s: %w", order.Gateway, err)
	}
	return nil
}

// findLink finds the interface of that hardware address, or the only one.
func findLink(mac string) (netlink.Link, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	var wanted net.HardwareAddr
	if mac != "" {
		if wanted, err = net.ParseMAC(mac); err != nil {
			return nil, err
		}
	}
	var found netlink.Link
	for _, l := range links {
		a := l.Attrs()
		if l.Type() != "device" || a.Flags&net.FlagLoopback != 0 || wanted != nil && !bytes.Equal(a.HardwareAddr, wanted) {
			continue
		}
		if found != nil {
			return nil, errors.New("the machine has several network interfaces: the order is to name one by its MAC")
		}
		found = l
	}
	if found == nil {
		return nil, fmt.Errorf("the machine has no network interface %s", mac)
	}
	return found, nil
}
