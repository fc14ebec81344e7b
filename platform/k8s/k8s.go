// Package k8s runs programs in pods: a static pod for each, which the node's own kubelet starts.
//
// A manifest is put into the kubelet's staticPodPath. The kubelet makes everything else as it does
// for any pod: control groups of the QoS class, CPUs of its CPU manager, the pod's sandbox and
// network (CNI), the container. So what a pod costs against platform containerd is what operators pay.
// The API server is not asked. It sees a mirror of the pod in namespace default, or in that of a Service.
//
// Pods are not made by the runtime's CRI socket, because a kubelet ends every sandbox there that it
// has not asked for, within 2 s (HandlePodCleanups, pkg/kubelet/kubelet_pods.go of Kubernetes 1.30).
//
// # Settings
//
// They are requests and limits of the container, from which the kubelet takes the rest
// (pkg/kubelet/cm/helpers_linux.go):
//
//	cpus        limits.cpu      quota = cpus x 100 ms in a period of 100 ms
//	memory      limits.memory   memory limit
//	cpu-shares  requests.cpu    shares x 1000 / 1024 thousandths of a CPU
//	nothing                     QoS class BestEffort, shares 2
//
// A limit without a request is the request, too (Kubernetes' default). So cpus and memory without
// cpu-shares are the class Guaranteed, where a static CPU manager gives whole CPUs; all else is
// Burstable. CPU manager and topology manager are the node's: they are recorded in the version.
//
// # What the node decides
//
// Limits of open files and of core files are containerd's, and oom_score_adj follows from the QoS
// class. A container has all variables of its image: to take one away is refused. It is also in all
// groups that the image has for its user. Output goes through the container's log, where containerd's CRI
// plugin (1.6.20, on busy CPUs) can lose what is on its way when the program ends.
//
// Containerd is the only runtime: the image is imported into its namespace k8s.io, and its events
// report the start, in phases, and the end.
package k8s

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"

	"tare/image"
	"tare/platform"
	"tare/platform/containerd"
	"tare/platform/held"
	"tare/platform/rootfs"
)

// Name selects the platform.
const Name = "k8s"

// namespace is the kubelet's in containerd.
const namespace = "k8s.io"

// Options say where to keep what is made.
type Options struct {
	// StateDir is tare's directory on this host: instances live in trials/ below it.
	StateDir string
	Ledger   platform.Ledger // nil enters things nowhere
}

// Platform is a node's kubelet. It implements [platform.Creator].
type Platform struct {
	options Options

	mu     sync.Mutex
	node   *node // nil before the kubelet was found
	engine *containerd.Platform
	feed   *feed

	services []Service
	serving  map[*Service]*launch // whose pod each leads to
}

var (
	_ platform.Creator  = (*Platform)(nil)
	_ platform.Freezer  = (*Platform)(nil)
	_ platform.Grouping = (*Platform)(nil)
)

// New makes the platform. It looks for nothing: Check does.
func New(o Options) *Platform {
	return &Platform{options: o, serving: map[*Service]*launch{}}
}

// Name implements [platform.Platform].
func (p *Platform) Name() string { return Name }

// find finds the node's kubelet and its containerd. The error is a *platform.Missing.
func (p *Platform) find() (*node, *containerd.Platform, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.node != nil && p.node.process.Alive() {
		return p.node, p.engine, nil
	}
	n, err := findNode()
	if err != nil {
		return nil, nil, err
	}
	if p.engine == nil || p.node.Endpoint != n.Endpoint {
		o := containerd.Options{Address: n.Endpoint, StateDir: p.options.StateDir, Ledger: p.options.Ledger}
		p.engine = containerd.NewShared(o, Name, namespace)
		p.feed = newFeed(p.engine)
	}
	p.node = n
	return n, p.engine, nil
}

// Check asks for a kubelet that reads static pods, and for its containerd. The error is a
// *platform.Missing.
func (p *Platform) Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return &platform.Missing{What: "pods need root, for the kubelet's static pods and containerd's socket", Mend: "sudo tare ..."}
	}
	_, engine, err := p.find()
	if err != nil {
		return err
	}
	if err := engine.Check(ctx); err != nil {
		return err
	}
	err = engine.Call(ctx, "ask containerd for its CRI plugin", func(ctx context.Context, c *client.Client) error {
		answer, err := c.IntrospectionService().Plugins(ctx, "type==io.containerd.grpc.v1,id==cri")
		if err != nil {
			return err
		}
		const mend = "take cri off disabled_plugins in containerd's config.toml, and restart it"
		if len(answer.Plugins) == 0 {
			return &platform.Missing{What: "the kubelet's containerd has no CRI plugin", Mend: mend}
		}
		if failed := answer.Plugins[0].InitErr; failed != nil {
			return &platform.Missing{What: "the CRI plugin of the kubelet's containerd has failed", Mend: failed.Message}
		}
		return nil
	})
	if missing := new(platform.Missing); err != nil && !errors.As(err, &missing) {
		return &platform.Missing{What: "the kubelet's containerd answers with an error", Mend: err.Error()}
	}
	return err
}

// Version says what implements the platform: "kubelet 1.30.14 (CPU manager static, topology manager
// none), containerd 1.6.20, runc 1.1.5".
func (p *Platform) Version(ctx context.Context) string {
	n, engine, err := p.find()
	if err != nil {
		return ""
	}
	return n.version(ctx) + ", " + engine.Version(ctx)
}

// Export gives an image that the kubelet has pulled: of its containerd, or of the usual one where the kubelet is part
// of another program. The error may be a *platform.Missing or a *containerd.UnknownImage.
func (p *Platform) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	_, engine, err := p.find()
	if err != nil {
		engine = containerd.NewShared(containerd.Options{}, Name, namespace)
	}
	return engine.Export(ctx, name)
}

// labelManaged is what containerd's CRI plugin gives an image that it has taken up.
const labelManaged = "io.cri-containerd.image"

// Prepare imports the image's archive, and returns when the kubelet can use it.
func (p *Platform) Prepare(ctx context.Context, img image.Image) error {
	_, engine, err := p.find()
	if err != nil {
		return err
	}
	if err := p.feed.open(ctx); err != nil {
		return err
	}
	if err := engine.Prepare(ctx, img); err != nil {
		return err
	}
	return engine.Call(ctx, "show image "+img.Reference+" to the kubelet", func(ctx context.Context, c *client.Client) error {
		for {
			found, err := c.ImageService().Get(ctx, img.Reference)
			if err != nil {
				return err
			}
			if found.Labels[labelManaged] == "managed" {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond): // the label comes by another client's event
			}
		}
	})
}

// Release removes the images that Prepare imported.
func (p *Platform) Release(ctx context.Context) error {
	p.mu.Lock()
	engine, feed := p.engine, p.feed
	p.mu.Unlock()
	if engine == nil {
		return nil
	}
	feed.close()
	return engine.Release(ctx)
}

// Launch makes a pod for the program.
func (p *Platform) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	return held.Launch(ctx, p, spec)
}

// Remove removes what an entry of the ledger names, if it is there and still ours.
func (p *Platform) Remove(ctx context.Context, e platform.Entry) error {
	switch {
	case e.Kind == kindPod:
		return p.removePod(ctx, e.ID, e.Attrs[attrManifest])
	case containerd.Enters(e.Kind):
		_, engine, err := p.find()
		if err != nil {
			return err
		}
		return engine.Remove(ctx, e)
	case e.Kind == held.Directory:
		trials, err := rootfs.Trials(p.options.StateDir)
		if err != nil {
			return err
		}
		return rootfs.Remove(trials, filepath.Clean(e.ID))
	}
	return fmt.Errorf("%s enters no %s in the ledger, and knows no way to remove %q", Name, e.Kind, e.ID)
}

// Freezes implements [platform.Freezer].
func (p *Platform) Freezes(context.Context, platform.Setting) error { return platform.CheckFreezer() }

// Groups implements [platform.Grouping].
func (p *Platform) Groups(context.Context) error {
	return unsupported("cgroup of its own", "a pod's groups are the kubelet's")
}

// EnginePIDs lists the kubelet, containerd, and the shims of our pods.
func (p *Platform) EnginePIDs(ctx context.Context) []int {
	n, engine, err := p.find()
	if err != nil {
		return nil
	}
	pids := []int{n.process.PID}
	for _, sandbox := range p.feed.sandboxes() {
		serving, err := engine.Serving(ctx, sandbox)
		if err != nil {
			continue
		}
		pids = append(pids, serving...)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}
