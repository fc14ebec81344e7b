package netns

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Link is a network device of the host. Names are used again; with its
// hardware address, drawn at random, it is known for the one that was made.
type Link struct {
	Name string
	MAC  string
}

// NewLink names a device that is to be made.
func NewLink(name string) Link {
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac)  // never fails (crypto/rand)
	mac[0] = mac[0]&^1 | 2 // unicast, locally administered
	return Link{name, mac.String()}
}

// find gives the device, or nil where there is none or another has its name.
func (l Link) find() (netlink.Link, error) {
	link, err := netlink.LinkByName(l.Name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for network device %s: %w", l.Name, err)
	}
	if link.Attrs().HardwareAddr.String() != l.MAC {
		return nil, nil
	}
	return link, nil
}

// Delete removes the device, if it is still the one that was made. A pair of
// virtual devices goes together.
func (l Link) Delete() error {
	link, err := l.find()
	if err != nil || link == nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing network device %s: %w", l.Name, err)
	}
	return nil
}

// SetUp brings the device up, or down.
func (l Link) SetUp(isUp bool) error {
	link, err := l.find()
	if err != nil {
		return err
	}
	if link == nil {
		return fmt.Errorf("network device %s is gone", l.Name)
	}
	set := netlink.LinkSetUp
	if !isUp {
		set = netlink.LinkSetDown
	}
	if err := set(link); err != nil {
		return fmt.Errorf("setting network device %s up or down: %w", l.Name, err)
	}
	return nil
}

// DeleteIfUnused removes a bridge to which no device is joined any more.
func (l Link) DeleteIfUnused() error {
	bridge, err := l.find()
	if err != nil || bridge == nil {
		return err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing network devices: %w", err)
	}
	for _, other := range links {
		if other.Attrs().MasterIndex == bridge.Attrs().Index {
			return nil
		}
	}
	return l.Delete()
}

// Exists reports whether any device of the host has that name.
func Exists(name string) (bool, error) {
	_, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil
	}
	return err == nil, err
}

// bridgeMark is the alias (IFLA_IFALIAS) of every bridge that [MakeBridge]
// makes. A bridge is shared and outlives who made it, so nobody who finds it
// knows its hardware address: by the mark it is distinguished from somebody else's
// device of the same name.
const bridgeMark = "tare"

// ErrForeign is wrapped by the error that a device has the name
// of a bridge of ours and is not one. It is never touched.
var ErrForeign = errors.New("it was not made by tare and is left alone")

// FindBridge gives the bridge of that name that [MakeBridge] made and the
// subnet it has an address in; ok is false where there is none. The link is
// named even so if the bridge is there without an address. A device of that
// name that somebody else made is an error, which wraps [ErrForeign].
func FindBridge(name string) (l Link, subnet netip.Prefix, ok bool, err error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return l, subnet, false, nil
	}
	if err != nil {
		return l, subnet, false, fmt.Errorf("looking for network device %s: %w", name, err)
	}
	if link.Type() != "bridge" || link.Attrs().Alias != bridgeMark {
		return l, subnet, false, fmt.Errorf(
			"there is a network device %s (%s) without the alias %q: %w; rename it (ip link set %[1]s down; ip link set %[1]s name NAME), or remove it (ip link delete %[1]s) if nothing needs it",
			name, link.Type(), bridgeMark, ErrForeign)
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return l, subnet, false, fmt.Errorf("addresses of %s: %w", name, err)
	}
	l = Link{name, link.Attrs().HardwareAddr.String()}
	var all []netip.Prefix
	for _, a := range addresses {
		all = appendPrefix(all, a.IPNet)
	}
	if len(all) == 0 {
		return l, subnet, false, nil
	}
	return l, all[0], true, nil
}

// MakeBridge makes a bridge whose own address is the first of the subnet, and
// marks it for [FindBridge].
func MakeBridge(l Link, subnet netip.Prefix) (err error) {
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = l.Name, mac
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("making bridge %s: %w", l.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Delete())
		}
	}()
	// The kernel takes no alias for a device that is being made.
	if err := netlink.LinkSetAlias(bridge, bridgeMark); err != nil {
		return fmt.Errorf("marking bridge %s: %w", l.Name, err)
	}
	if err := netlink.AddrAdd(bridge, &netlink.Addr{IPNet: ipNet(Gateway(subnet), subnet.Bits())}); err != nil {
		return fmt.Errorf("giving bridge %s the address %s: %w", l.Name, Gateway(subnet), err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("bringing up bridge %s: %w", l.Name, err)
	}
	return nil
}

// Gateway is the address that the host has in a subnet of ours.
func Gateway(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next() }

// Plug joins the namespace kept at file to the bridge: one end of a pair of
// virtual devices is l, on the host; the other is eth0 in the namespace, with
// the address and a route to the host.
func Plug(l Link, bridge string, file string, subnet netip.Prefix, address netip.Addr) (err error) {
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", bridge, err)
	}
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return err
	}
	ns, handle, err := inside(file)
	if err != nil {
		return err
	}
	defer ns.Close()
	defer handle.Close()

	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MasterIndex = l.Name, mac, master.Attrs().Index
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("making the pair of virtual devices %s: %w", l.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Delete())
		}
	}()
	if err := netlink.LinkSetUp(pair); err != nil {
		return fmt.Errorf("bringing up %s: %w", l.Name, err)
	}
	eth0, err := handle.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("the other end of %s: %w", l.Name, err)
	}
	if err := handle.AddrAdd(eth0, &netlink.Addr{IPNet: ipNet(address, subnet.Bits())}); err != nil {
		return fmt.Errorf("giving eth0 the address %s: %w", address, err)
	}
	if err := handle.LinkSetUp(eth0); err != nil {
		return fmt.Errorf("bringing up eth0: %w", err)
	}
	gateway := Gateway(subnet)
	if err := handle.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: gateway.AsSlice()}); err != nil {
		return fmt.Errorf("route through %s: %w", gateway, err)
	}
	return nil
}

// AddRoute has the calling thread's namespace reach a subnet through a neighbour.
func AddRoute(to netip.Prefix, neighbour netip.Addr) error {
	route := netlink.Route{Dst: ipNet(to.Addr(), to.Bits()), Gw: neighbour.AsSlice()}
	if err := netlink.RouteAdd(&route); err != nil {
		return fmt.Errorf("route to %s through %s: %w", to, neighbour, err)
	}
	return nil
}
