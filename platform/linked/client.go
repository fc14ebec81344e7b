package linked

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/rootfs"
)

// Client is a place for a load's connections: a network namespace joined to the
// host as an instance's is, so that what they ask for crosses a pair of devices
// and the host's stack, as it would from another machine but for the wire.
type Client struct {
	Network
	things *held.Things
}

// ClientSpec says where a client's things lie.
type ClientSpec struct {
	StateDir string
	Ledger   platform.Ledger
	Platform string // whose Remove takes a namespace and a link: bare.Bare
	Name     string // unique among running instances, as platform.Spec's
}

// NewClient makes a client's place, all of it entered in the ledger first. Where
// it returns an error nothing is left.
func NewClient(ctx context.Context, s ClientSpec) (_ *Client, err error) {
	trials, dir, err := rootfs.Place(s.StateDir, s.Name)
	if err != nil {
		return nil, err
	}
	c := &Client{things: held.New(s.Ledger)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(ctx))
		}
	}()
	err = c.things.Take(ctx, platform.Entry{Platform: s.Platform, Kind: held.Directory, ID: dir},
		func() error { return os.Mkdir(dir, 0o700) },
		func(context.Context) error { return rootfs.Remove(trials, dir) })
	if err != nil {
		return nil, err
	}
	c.Network, err = Make(ctx, c.things, s.Platform, platform.NetworkBridge, filepath.Join(dir, "netns"))
	if err != nil {
		return nil, err
	}
	if err := netns.SparePorts(c.File); err != nil {
		return nil, err
	}
	return c, nil
}

// Close removes the place. What still runs in the namespace keeps it.
func (c *Client) Close(ctx context.Context) error { return c.things.Drop(context.WithoutCancel(ctx)) }
