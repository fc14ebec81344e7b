package oci

import (
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"tare/kernel/process"
	"tare/platform"
	"tare/platform/ocispec"
	"tare/platform/rootfs"
)

// bundle is what a container's configuration is made of.
type bundle struct {
	spec       platform.Spec
	tree       rootfs.Tree
	user       process.User
	cgroupPath string
	// ownCgroupNS hides the rest of the host's groups, as engines do on version 2.
	ownCgroupNS bool
	// netns is the file that keeps the network namespace; empty is the host's.
	netns string
}

// config writes the bundle's config.json.
func (b bundle) config() (*specs.Spec, error) {
	return ocispec.Container{
		Spec: b.spec, Tree: b.tree, User: b.user, CgroupPath: b.cgroupPath, OwnCgroupNS: b.ownCgroupNS, NetNS: b.netns,
	}.Config()
}

func systemMounts() []specs.Mount { return ocispec.Mounts() }
