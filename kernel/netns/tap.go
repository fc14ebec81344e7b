package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tunDevice is where the kernel makes taps (Documentation/networking/tuntap.rst).
const tunDevice = "/dev/net/tun"

// Tap is a network device of the host whose other end is a program: what a virtual
// machine's network card is joined to.
type Tap struct {
	Link Link
	// File is the program's end, to be inherited; nil once [Tap.Close] has let go.
	File *os.File
}

// MakeTap makes a tap with an address of the host's. It lasts as long as somebody
// has its file open: with the last process that has, it is gone by itself.
func MakeTap(l Link, host netip.Prefix) (_ *Tap, err error) {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: tunDevice, Err: err}
	}
	t := &Tap{l, os.NewFile(uintptr(fd), tunDevice)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making tap %s: %w", l.Name, err), t.Close())
		}
	}()
	request, err := unix.NewIfreq(l.Name)
	if err != nil {
		return nil, err
	}
	// Checksums and segments are left to the other kernel (VNET_HDR), as any
	// hypervisor does it.
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, os.NewSyscallError("ioctl(TUNSETIFF)", err)
	}
	link, err := netlink.LinkByName(l.Name)
	if err != nil {
		return nil, err
	}
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return nil, err
	}
	if err := netlink.LinkSetHardwareAddr(link, mac); err != nil {
		return nil, fmt.Errorf("its hardware address: %w", err)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(host.Addr(), host.Bits())}); err != nil {
		return nil, fmt.Errorf("its address %s: %w", host, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("setting it up: %w", err)
	}
	return t, nil
}

// Close lets go of the program's end. It may be called again.
func (t *Tap) Close() error {
	if t.File == nil {
		return nil
	}
	err := t.File.Close()
	t.File = nil
	return err
}

// FreePair gives a private /30, of which the host and one other have the two
// addresses, that overlaps none of those in use.
func FreePair(used []netip.Prefix) (host, other netip.Prefix, err error) {
	for _, c := range candidates {
		for at := c.Addr(); at.IsValid() && c.Contains(at); at = at.Next().Next().Next().Next() {
			if subnet := netip.PrefixFrom(at, 30); !overlapsAny(subnet, used) {
				first := at.Next()
				return netip.PrefixFrom(first, 30), netip.PrefixFrom(first.Next(), 30), nil
			}
		}
	}
	return host, other, errors.New("every private subnet is in use on this host")
}
