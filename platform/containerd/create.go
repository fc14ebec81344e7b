package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/client"
	coremount "github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/platform"
	"tare/platform/engine"
	"tare/platform/held"
	"tare/platform/linked"
	"tare/platform/ocispec"
	"tare/platform/rootfs"
)

// kindContainer is the kind of ledger entry for a container: its place in
// containerd's books, its snapshot of the same name, and its task when it has one.
const kindContainer = "container" // ID: its id; Attrs[labelLedger]

// launch is one container: each step takes what it makes into things.
type launch struct {
	p       *Platform
	spec    platform.Spec
	program platform.Process
	runtime runtime
	mark    string
	things  *held.Things

	plan    rootfs.Plan
	tree    rootfs.Tree
	network linked.Network
	layout  cgroup.Layout
	group   cgroup.Group

	container client.Container
	making    time.Duration // what containerd took to make snapshot and container

	starting time.Time // when containerd was asked to start
	task     client.Task
	output   *engine.Output // nil where nobody wants it
	// uncertain: containerd went silent while starting, and may start it yet.
	uncertain bool
	instance  *instance
}

// Create makes the files, the network, the snapshot and the container.
func (p *Platform) Create(ctx context.Context, spec platform.Spec) (_ platform.Created, err error) {
	if err := p.Supports(spec.Setting); err != nil {
		return nil, err
	}
	r, err := runtimeOf(spec.Setting.Runtime)
	if err != nil {
		return nil, err
	}
	if spec, err = spec.Grant(); err != nil {
		return nil, err
	}
	if n := spec.Setting.Network; n == "" || n == platform.NetworkHost {
		if err := spec.CheckPorts(); err != nil {
			return nil, err
		}
	}
	program, err := spec.Process()
	if err != nil {
		return nil, err
	}
	l := &launch{
		p:       p,
		spec:    spec,
		program: program,
		runtime: r,
		mark:    engine.NewMark(),
		things:  held.New(p.options.Ledger),
	}
	p.enter(spec.Name)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.clear(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []func(context.Context) error{l.layFiles, l.makeNetwork, l.enterGroup, l.makeContainer} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return held.NewCreated(held.Steps{ID: spec.Name, Start: l.start, Hold: l.hold, Clear: l.clear}), nil
}

// layFiles makes the instance's directory, with what is bound into the container.
func (l *launch) layFiles(ctx context.Context) error {
	trials, dir, err := rootfs.Place(l.p.options.StateDir, l.spec.Name)
	if err != nil {
		return err
	}
	l.plan = rootfs.Plan{
		Dir:     dir,
		Image:   l.spec.Image,
		Kind:    platform.RootOverlay,
		Storage: l.spec.Setting.Storage,
		Data:    l.spec.Data,
		Work:    l.program.Dir,
	}
	return l.things.Take(ctx, platform.Entry{Platform: Name, Kind: held.Directory, ID: dir}, func() error {
		l.tree, err = l.plan.BuildData()
		return err
	}, func(context.Context) error { return rootfs.Remove(trials, dir) })
}

func (l *launch) makeNetwork(ctx context.Context) (err error) {
	l.network, err = linked.Make(ctx, l.things, Name, l.spec.Setting.Network, filepath.Join(l.plan.Dir, "netns"))
	return err
}

// enterGroup enters the group that the runtime will make, and makes one beside
// it that is empty: whoever removes the last group in tare's removes that too,
// which a runtime that is about to make another does not expect.
func (l *launch) enterGroup(ctx context.Context) (err error) {
	if l.layout, err = cgroup.Host(); err != nil {
		return err
	}
	if err := l.spec.FindGroup(l.layout); err != nil {
		return err
	}
	parent := l.layout.At(l.spec.Parent())
	keeper := parent.Child(l.spec.Name + ".keeper") // no instance's name has a dot
	l.group = parent.Child(l.spec.Name)
	for _, g := range []cgroup.Group{l.group, keeper} {
		if g.Exists() {
			return fmt.Errorf("cgroup %s exists: an instance of that name runs, or was left by a crash, and tare clean removes it", g)
		}
	}
	err = l.things.Take(ctx, held.CgroupEntry(Name, keeper),
		func() error { return keeper.Create() },
		func(ctx context.Context) error { return held.EndGroup(ctx, keeper) })
	if err != nil {
		return err
	}
	return l.things.Take(ctx, held.CgroupEntry(Name, l.group),
		func() error { return nil },
		func(ctx context.Context) error { return held.EndGroup(ctx, l.group) })
}

// config is the runtime's configuration. The shim mounts the root beside it.
func (l *launch) config() (*specs.Spec, error) {
	l.tree.Root = "rootfs"
	return ocispec.Container{
		Spec: l.spec, Process: l.program, Tree: l.tree, NetNS: l.network.File,
		CgroupPath:  l.group.String(),
		OwnCgroupNS: l.layout.Mode() == "v2",
	}.Config()
}

// makeContainer makes the snapshot and the container, as one thing: neither is
// of use without the other, and they go together.
func (l *launch) makeContainer(ctx context.Context) error {
	config, err := l.config()
	if err != nil {
		return err
	}
	entry := platform.Entry{
		Platform: Name,
		Kind:     kindContainer,
		ID:       l.spec.Name,
		Attrs:    map[string]string{labelLedger: l.mark},
	}
	return l.things.Take(ctx, entry, func() error {
		// Made to the end whatever happens to the caller: what a server was asked
		// for by a client that hangs up may appear after we had looked.
		whole := context.WithoutCancel(ctx)
		if err := l.makeSnapshot(whole); err != nil {
			return err
		}
		if err := l.register(whole, config); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("create container %s: %w", l.spec.Name, context.Cause(ctx))
		}
		return nil
	}, l.removeContainer)
}

// removeContainer is the release of what makeContainer and start make.
func (l *launch) removeContainer(ctx context.Context) error {
	if err := l.p.removeContainer(ctx, l.spec.Name, l.mark, l.p.removeTask); err != nil {
		return err
	}
	if l.uncertain {
		l.uncertain = false
		return errors.New("containerd went silent while starting it, and may start it yet: tare clean looks again")
	}
	return nil
}

// makeSnapshot makes the container's root over the image's.
func (l *launch) makeSnapshot(ctx context.Context) error {
	key, image := l.spec.Name, l.spec.Image
	parent, err := l.p.parent(ctx, image)
	if err != nil {
		return err
	}
	doing := "make a snapshot of image " + image.Reference
	var mounts []coremount.Mount
	err = l.p.call(ctx, doing, func(ctx context.Context, c *client.Client) (err error) {
		marked := labels(l.mark)
		// Until the container refers to it, containerd would collect it.
		marked["containerd.io/gc.root"] = time.Now().UTC().Format(time.RFC3339)
		began := time.Now()
		mounts, err = c.SnapshotService(snapshotter).Prepare(ctx, key, parent.String(), snapshots.WithLabels(marked))
		l.making = time.Since(began)
		return err
	})
	switch {
	case errdefs.IsAlreadyExists(err):
		return &engine.Error{Doing: doing, Message: "a snapshot " + key + " exists already; tare clean removes it if it is tare's", Err: err}
	case gone(err):
		return notPrepared(doing, image.Reference, err)
	case err != nil:
		return err
	}
	return l.furnish(mounts)
}

// furnish makes the directories that the program writes and the image lacks.
// It is tare's work, and no part of the container's time.
func (l *launch) furnish(mounts []coremount.Mount) error {
	lacks, err := l.plan.Lacks()
	if err != nil || !lacks {
		return err
	}
	root := filepath.Join(l.plan.Dir, "root") // unmounted with the directory, should we die here
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := coremount.All(mounts, root); err != nil {
		return fmt.Errorf("mount the snapshot of container %s: %w", l.spec.Name, err)
	}
	furnishing := l.plan.Furnish(root)
	return errors.Join(furnishing, mount.Unmount(root), os.Remove(root))
}

// register enters the container in containerd's books.
func (l *launch) register(ctx context.Context, config *specs.Spec) error {
	doing := "create container " + l.spec.Name
	err := l.p.call(ctx, doing, func(ctx context.Context, c *client.Client) (err error) {
		began := time.Now()
		l.container, err = c.NewContainer(ctx, l.spec.Name,
			client.WithContainerLabels(labels(l.mark)),
			client.WithImageName(l.spec.Image.Reference),
			client.WithSnapshotter(snapshotter),
			client.WithSnapshot(l.spec.Name),
			client.WithRuntime(l.runtime.shim, l.runtime.options()),
			client.WithSpec(config),
		)
		l.making += time.Since(began)
		return err
	})
	if errdefs.IsAlreadyExists(err) {
		return &engine.Error{Doing: doing, Message: "a container of that name exists already; tare clean removes it if it is tare's", Err: err}
	}
	return err
}
