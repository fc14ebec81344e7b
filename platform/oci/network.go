package oci

import (
	"context"
	"path/filepath"

	"tare/platform"
	"tare/platform/linked"
	"tare/platform/rootfs"
)

// makeNetwork makes the instance's network namespace and joins it to the bridge.
func (l *launch) makeNetwork(ctx context.Context) error {
	network, err := linked.Make(ctx, l.things, l.Name(), l.spec.Setting.Network, filepath.Join(l.dir, "netns"))
	l.netns, l.address = network.File, network.Address
	return err
}

func (p *oci) removeNamespace(e platform.Entry) error {
	trials, err := rootfs.Trials(p.options.StateDir)
	if err != nil {
		return err
	}
	return linked.RemoveNamespace(trials, e)
}

func (p *oci) removeLink(ctx context.Context, e platform.Entry) error {
	return linked.RemoveLink(ctx, e)
}
