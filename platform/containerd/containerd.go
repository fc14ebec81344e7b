// Package containerd runs programs through containerd's own client, as nerdctl,
// Kubernetes and Docker do underneath: an engine with images, snapshots and
// shims, and without Docker's daemon, networks, volumes and logs.
//
// A container is created as containerd's ordinary clients create it: a snapshot
// over the image's, an entry in containerd's books with the runtime's
// configuration, and later a task. The configuration is word for word the one
// that a bare runtime is given (platform/ocispec), so that what is left of the
// difference is containerd and its shim. What containerd does not have comes
// from the same code as a bare runtime's: the network from platform/linked, the
// data directories from platform/rootfs. The cgroup is the runtime's to make,
// from the path in the configuration; its limits are read back.
//
// Everything lies in the containerd namespace "tare"; no other is touched. An
// image is imported from its archive, never pulled, and removed again, and the
// namespace with the last thing in it.
//
// # What containerd decides
//
//   - A snapshot that was removed leaves containerd's books at once, and the disk
//     with containerd's next collection, which the removal of an image waits for.
//   - A program whose output nobody wants has it thrown away by the shim, which
//     reads it from pipes: so its standard streams are what they are everywhere.
//
// The client is containerd 2's. It speaks to containerd 1.6, too, of which it
// asks nothing that came later: the conformance suite has passed on 1.6.20 and
// on 2.2.9.
//
// Figures come from containerd (exit status) and from the kernel (what is in
// force, usage); the package computes none.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/client"
	"github.com/opencontainers/go-digest"

	"tare/platform"
	"tare/platform/engine"
	"tare/platform/held"
	"tare/platform/linked"
	"tare/platform/rootfs"
)

// Name selects the platform.
const Name = "containerd"

// Options say which containerd, and where to keep what is made beside it.
type Options struct {
	// Address is containerd's socket; empty means CONTAINERD_ADDRESS, or the
	// first of the usual ones that answers.
	Address string
	// StateDir is tare's directory on this host: instances live in trials/ below it.
	StateDir string
	Ledger   platform.Ledger // nil enters things nowhere
}

// Platform is a containerd. It implements [platform.Creator].
type Platform struct {
	options   Options
	name      string // under which it enters things in the ledger
	namespace string // of containerd
	requests  engine.Requests

	connecting sync.Mutex // held while the first answer is awaited

	mu      sync.Mutex
	client  *client.Client // of the address that answered; nil before
	address string
	images  map[string]loaded        // by reference: those that Prepare loaded
	parents map[string]digest.Digest // by reference: the image's topmost snapshot
	live    map[string]struct{}      // ids of containers that are created and not yet removed

	load sync.Mutex // one image at a time: containerd's disk is the bottleneck
}

var _ platform.Creator = (*Platform)(nil)

// New makes the platform. It does not talk to containerd: Check does.
func New(o Options) *Platform {
	return NewShared(o, Name, namespace)
}

// NewShared is the containerd of a platform by that name, which has the images in a namespace
// that others use as well, and its containers made by them.
func NewShared(o Options, name, namespace string) *Platform {
	p := &Platform{
		options:   o,
		name:      name,
		namespace: namespace,
		images:    map[string]loaded{},
		parents:   map[string]digest.Digest{},
		live:      map[string]struct{}{},
	}
	p.requests.Patience, p.requests.Brief = engine.UsualPatience, engine.UsualBrief
	p.requests.Ping, p.requests.Engine, p.requests.Explain = p.ping, p.named, p.explain
	return p
}

// Name implements [platform.Platform].
func (p *Platform) Name() string { return Name }

// Check asks whether a containerd on this host answers, and whether it and the
// host have what a container needs. The error is a *platform.Missing.
func (p *Platform) Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return &platform.Missing{What: "containerd needs root, for its socket, mounts and network namespaces", Mend: "sudo tare ..."}
	}
	if err := p.connect(ctx); err != nil {
		return missing(err)
	}
	pid, err := p.daemon(ctx)
	if err == nil && pid == 0 {
		return &platform.Missing{
			What: "the containerd at " + p.address + " runs outside of this container, where its processes are out of reach",
			Mend: "run tare where containerd runs",
		}
	}
	if err := p.checkSnapshotter(ctx); err != nil {
		return missing(err)
	}
	if _, err := exec.LookPath(defaultBinary); err != nil {
		return &platform.Missing{What: "no OCI runtime " + defaultBinary + " on PATH, which containerd would call", Mend: "apt-get install " + defaultBinary}
	}
	return nil
}

// missing gives what keeps containerd from being used the type that Check answers.
func missing(err error) error {
	var m *platform.Missing
	if errors.As(err, &m) {
		return m
	}
	return &platform.Missing{What: "containerd answers with an error", Mend: err.Error()}
}

// checkSnapshotter asks whether containerd can provide a root as an overlay.
func (p *Platform) checkSnapshotter(ctx context.Context) error {
	return p.within(ctx, p.requests.Introduce, "ask containerd for its snapshotters", func(ctx context.Context, c *client.Client) error {
		answer, err := c.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1,id=="+snapshotter)
		if err != nil {
			return err
		}
		if len(answer.Plugins) == 0 {
			return &platform.Missing{What: "containerd has no " + snapshotter + " snapshotter", Mend: "take it off disabled_plugins in containerd's config.toml"}
		}
		if failed := answer.Plugins[0].InitErr; failed != nil {
			return &platform.Missing{What: "containerd cannot use its " + snapshotter + " snapshotter", Mend: failed.Message}
		}
		return nil
	})
}

// Version says what implements the platform: "containerd 1.6.20, runc 1.1.5".
func (p *Platform) Version(ctx context.Context) string {
	var v client.Version
	err := p.call(ctx, "ask containerd for its version", func(ctx context.Context, c *client.Client) (err error) {
		v, err = c.Version(ctx)
		return err
	})
	if err != nil {
		return ""
	}
	version := "containerd " + upstream(v.Version)
	if runtime := runtimeVersion(ctx, defaultBinary); runtime != "" {
		version += ", " + runtime
	}
	return version
}

// runtimeVersion is the runtime's own word. containerd finds the runtime on its
// own PATH, which is taken to be like ours.
func runtimeVersion(ctx context.Context, binary string) string {
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return upstream(strings.Replace(strings.TrimSpace(first), " version ", " ", 1))
}

// upstream cuts a distribution's suffix and a tag's prefix: "v1.6.20~ds1" is 1.6.20.
func upstream(version string) string {
	if i := strings.IndexAny(version, "+~"); i > 0 {
		version = version[:i]
	}
	return strings.TrimPrefix(version, "v")
}

// Launch creates a container for the program and starts it.
func (p *Platform) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	return held.Launch(ctx, p, spec)
}

// Remove removes what an entry of the ledger names, if it is there and still
// ours; and the namespace with the last thing in it.
func (p *Platform) Remove(ctx context.Context, e platform.Entry) error {
	switch e.Kind {
	case kindContainer:
		return errors.Join(p.removeAbandoned(ctx, e.ID, e.Attrs[labelLedger]), p.removeNamespace(ctx))
	case kindImage:
		return errors.Join(p.removeImage(ctx, e.ID, e.Attrs[labelLedger]), p.removeNamespace(ctx))
	case held.Cgroup:
		return held.RemoveCgroup(ctx, e)
	case held.Link:
		return linked.RemoveLink(ctx, e)
	case held.NetNS, held.Directory:
		trials, err := rootfs.Trials(p.options.StateDir)
		if err != nil {
			return err
		}
		if e.Kind == held.NetNS {
			return linked.RemoveNamespace(trials, e)
		}
		return rootfs.Remove(trials, filepath.Clean(e.ID))
	}
	return fmt.Errorf("%s enters no %s in the ledger, and knows no way to remove %q", Name, e.Kind, e.ID)
}
