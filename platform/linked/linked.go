// Package linked gives an instance its network: the host's own, a namespace
// with loopback alone, or one that a pair of devices joins to a bridge of
// tare's. The platforms whose runtime or engine has no network of its own
// share it, so that their programs are reached by the same way.
//
// It translates no address and publishes no port: what is joined is reached at
// its own address. The devices are kernel/netns', whose package names the
// kernel's documents.
package linked

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"tare/kernel/file"
	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/held"
)

// bridgeName is the bridge that all instances on this host share; it is there
// as long as one of them is.
const bridgeName = "tare0"

// portPrefix with the last part of its address names the host's end of an
// instance's pair of devices, so that a name that can be taken is an address
// that is free.
const portPrefix = "tare-"

// bridgeLock is the host's, as the bridge is: those who keep their things in
// different directories share it nevertheless.
const bridgeLock = "/run/tare-bridge.lock"

// Network is what an instance has.
type Network struct {
	// File keeps the instance's network namespace; empty is the host's.
	File string
	// Address is where clients on the host reach the instance; the zero address
	// where they do not.
	Address netip.Addr
	// Host is where the instance reaches the host; the zero address where it does
	// not by a pair of devices.
	Host netip.Addr
}

// Make makes the network that an instance is to have and takes what it makes
// into things, entered for the platform of that name. file is where a
// namespace would be kept.
func Make(
	ctx context.Context,
	things *held.Things,
	platformName string,
	kind platform.Network,
	file string,
) (Network, error) {
	if kind == "" || kind == platform.NetworkHost {
		return Network{Address: netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	err := things.Take(ctx, platform.Entry{Platform: platformName, Kind: held.NetNS, ID: file},
		func() error { return netns.Create(file) },
		func(context.Context) error { return netns.Delete(file) })
	if err != nil {
		return Network{}, err
	}
	if kind == platform.NetworkNone {
		return Network{File: file}, nil
	}
	j := joint{things: things, platformName: platformName, file: file}
	if err := locked(ctx, func() error { return j.join(ctx) }); err != nil {
		return Network{}, err
	}
	return Network{File: file, Address: j.address, Host: j.host}, nil
}

// locked keeps the bridge from coming or going while f runs.
func locked(ctx context.Context, f func() error) error {
	return file.Hold(ctx, bridgeLock, func(*os.File) error { return f() })
}

// joint is one namespace being joined to the bridge.
type joint struct {
	things       *held.Things
	platformName string
	file         string
	address      netip.Addr
	host         netip.Addr
}

func (j *joint) entry(l netns.Link) platform.Entry {
	return platform.Entry{
		Platform: j.platformName,
		Kind:     held.Link,
		ID:       l.Name,
		Attrs:    map[string]string{held.MAC: l.MAC},
	}
}

// join makes the bridge if there is none, and plugs the instance in. It is
// called under the lock; so the releases take the lock themselves.
func (j *joint) join(ctx context.Context) error {
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
	err = j.things.Take(ctx, j.entry(bridge), func() error {
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
	j.address, j.host = address, netns.Gateway(subnet)
	return j.things.Take(ctx, j.entry(port),
		func() error { return netns.Plug(port, bridge.Name, j.file, subnet, address) },
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

// RemoveNamespace lets go of the namespace that the entry names, if it is kept
// in one of the instances' directories in trials.
func RemoveNamespace(trials string, e platform.Entry) error {
	if filepath.Dir(filepath.Dir(e.ID)) != trials {
		return fmt.Errorf("%s is not in an instance's directory in %s: it is left alone", e.ID, trials)
	}
	return netns.Delete(e.ID)
}

// RemoveLink removes the device that the entry names, if it is still the one
// that was made; a bridge, when nothing is joined to it any more.
func RemoveLink(ctx context.Context, e platform.Entry) error {
	link := netns.Link{Name: e.ID, MAC: e.Attrs[held.MAC]}
	if link.MAC == "" {
		return errors.New("network device " + e.ID + " was entered without its address, so it cannot be distinguished from another: it is left alone")
	}
	if link.Name == bridgeName {
		return locked(ctx, link.DeleteIfUnused)
	}
	if !strings.HasPrefix(link.Name, portPrefix) {
		return fmt.Errorf("network device %s is not tare's: it is left alone", link.Name)
	}
	return locked(ctx, link.Delete)
}
