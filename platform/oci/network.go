package oci

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/rootfs"
)

// bridgeName is the bridge that all instances on this host share; it is there
// as long as one of them is.
const bridgeName = "tare0"

// portPrefix with the last part of its address names the host's end of an
// instance's pair of devices, so that a name that can be taken is an address
// that is free.
const portPrefix = "tare-"

// makeNetwork makes the instance's network namespace and joins it to the bridge.
func (l *launch) makeNetwork(ctx context.Context) error {
	network := l.spec.Setting.Network
	if network == "" || network == platform.NetworkHost {
		l.address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		return nil
	}
	file := filepath.Join(l.dir, "netns")
	err := l.things.Take(ctx, platform.Entry{Platform: l.Name(), Kind: held.NetNS, ID: file},
		func() error { return netns.Create(file) },
		func(context.Context) error { return netns.Delete(file) })
	if err != nil {
		return err
	}
	l.netns = file
	if network == platform.NetworkNone {
		return nil
	}
	return locked(ctx, func() error { return l.join(ctx) })
}

// bridgeLock is the host's, as the bridge is: those who keep their things in
// different directories share it nevertheless.
const bridgeLock = "/run/tare-bridge.lock"

// locked keeps the bridge from coming or going while f runs.
func locked(ctx context.Context, f func() error) error { return netns.Lock(ctx, bridgeLock, f) }

func (p *oci) linkEntry(l netns.Link) platform.Entry {
	return platform.Entry{Platform: p.Name(), Kind: held.Link, ID: l.Name, Attrs: map[string]string{held.MAC: l.MAC}}
}

// join makes the bridge if there is none, and plugs the instance in. It is
// called under the lock; so the releases take the lock themselves.
func (l *launch) join(ctx context.Context) error {
	bridge, subnet, there, err := netns.FindBridge(bridgeName)
	if err != nil {
		return err
	}
	if !there {
		if subnet, err = freeSubnet(); err != nil {
			return err
		}
		// Ours, half made by one that died meanwhile: it is made again. One that
		// has lost its address while others are plugged in stays, and making fails.
		if bridge.Name != "" {
			if err := bridge.DeleteIfUnused(); err != nil {
				return err
			}
		}
		bridge = netns.NewLink(bridgeName)
	}
	unlocked := true // until the things are handed over, their releases run under the lock that we hold
	release := func(f func() error) func(context.Context) error {
		return func(ctx context.Context) error {
			if unlocked {
				return f()
			}
			return locked(ctx, f)
		}
	}
	defer func() { unlocked = false }()
	err = l.things.Take(ctx, l.linkEntry(bridge), func() error {
		if there {
			return nil
		}
		return netns.MakeBridge(bridge, subnet)
	}, release(bridge.DeleteIfUnused))
	if err != nil {
		return err
	}
	port, address, err := freePort(subnet)
	if err != nil {
		return err
	}
	l.address = address
	return l.things.Take(ctx, l.linkEntry(port),
		func() error { return netns.Plug(port, bridge.Name, l.netns, subnet, address) },
		release(port.Delete))
}

func freeSubnet() (netip.Prefix, error) {
	used, err := netns.UsedSubnets()
	if err != nil {
		return netip.Prefix{}, err
	}
	return netns.FreeSubnet(used)
}

// freePort finds an address whose device does not exist.
func freePort(subnet netip.Prefix) (netns.Link, netip.Addr, error) {
	address := netns.Gateway(subnet)
	for {
		address = address.Next()
		last := address.As4()[3]
		if last == 255 || !subnet.Contains(address) {
			return netns.Link{}, address, fmt.Errorf("every address of %s is taken: stop some instances", subnet)
		}
		name := fmt.Sprintf("%s%d", portPrefix, last)
		there, err := netns.Exists(name)
		if err != nil {
			return netns.Link{}, address, err
		}
		if !there {
			return netns.NewLink(name), address, nil
		}
	}
}

func (p *oci) removeNamespace(e platform.Entry) error {
	trials, err := rootfs.Trials(p.options.StateDir)
	if err != nil {
		return err
	}
	if filepath.Dir(filepath.Dir(e.ID)) != trials {
		return fmt.Errorf("%s is not in an instance's directory in %s: it is left alone", e.ID, trials)
	}
	return netns.Delete(e.ID)
}

func (p *oci) removeLink(ctx context.Context, e platform.Entry) error {
	link := netns.Link{Name: e.ID, MAC: e.Attrs[held.MAC]}
	if link.MAC == "" {
		return errors.New("network device " + e.ID + " was entered without its address, so it cannot be told from another: it is left alone")
	}
	if link.Name == bridgeName {
		return locked(ctx, link.DeleteIfUnused)
	}
	if !strings.HasPrefix(link.Name, portPrefix) {
		return fmt.Errorf("network device %s is not tare's: it is left alone", link.Name)
	}
	return locked(ctx, link.Delete)
}
