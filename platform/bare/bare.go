// Package bare runs programs on the host itself, from the same root file
// system that containers run: changed root, no namespace, no limit but the
// affinity that the setting names. It is what containers are weighed against.
//
// A variant, "cgroup", is the same program in a cgroup of its own in every
// hierarchy, so that quota, shares, memory and cpuset mean something: the
// second rung of the ladder from bare metal to a container.
//
// The bare program's processes are followed, and ended, by a cgroup that no
// controller acts on (version 2 below tare's own group, or version 1's
// freezer), so that following them costs them nothing. In a box ([platform.Spec].Group)
// they have the box's group and no other: there is no limit but the box's, which
// they share with all who are in it.
package bare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/linked"
	"tare/platform/rootfs"
)

// Options are where a platform keeps its things.
type Options struct {
	// StateDir is tare's directory on this host; instances live in trials/ below it.
	StateDir string
	// Ledger may be nil in tests.
	Ledger platform.Ledger
}

// The names of the platforms.
const (
	Bare   = "bare"
	Cgroup = "cgroup"
)

type host struct {
	name    string
	options Options
}

var (
	_ platform.Creator = (*host)(nil)
	_ platform.Freezer = (*host)(nil)
)

// New gives the platform "bare".
func New(o Options) platform.Platform { return &host{Bare, o} }

// NewInCgroup gives the platform "cgroup".
func NewInCgroup(o Options) platform.Platform { return &host{Cgroup, o} }

func (h *host) Name() string { return h.name }

// Version is empty: nothing but the kernel implements bare metal.
func (h *host) Version(context.Context) string { return "" }

// Prepare has nothing to make ready: the image's root is used where it lies.
func (h *host) Prepare(_ context.Context, img image.Image) error {
	if info, err := os.Stat(img.Root); err != nil || !info.IsDir() {
		return fmt.Errorf("image %s: its root file system %q is not there: make the image again", img.Name, img.Root)
	}
	return nil
}

// Release has nothing to remove.
func (h *host) Release(context.Context) error { return nil }

func (h *host) Check(context.Context) error {
	if os.Geteuid() != 0 {
		return &platform.Missing{What: h.name + " needs root, to change the root directory and to mount", Mend: "sudo tare ..."}
	}
	if most, err := process.OpenFilesMax(); err == nil && most < platform.Surroundings.OpenFiles {
		return &platform.Missing{
			What: fmt.Sprintf("%s gives every program %d open files, and this shell may have %d", h.name, platform.Surroundings.OpenFiles, most),
			Mend: fmt.Sprintf("ulimit -Hn %d", platform.Surroundings.OpenFiles),
		}
	}
	layout, err := cgroup.Host()
	if err != nil {
		return &platform.Missing{What: h.name + " follows programs by their cgroup: " + err.Error()}
	}
	own, _, err := layout.Of(os.Getpid())
	if err != nil {
		return err
	}
	if len(own.Tracking().Places) == 0 {
		return &platform.Missing{
			What: h.name + " follows programs by their cgroup, and neither a cgroup2 nor a freezer hierarchy is mounted",
			Mend: "mount -t cgroup2 none /sys/fs/cgroup/unified",
		}
	}
	if h.name != Cgroup {
		return nil
	}
	if c := layout.Lacks("cpu", "cpuset", "memory"); c != "" {
		return &platform.Missing{What: "no cgroup hierarchy carries the " + c + " controller", Mend: "boot without cgroup_disable=" + c}
	}
	return nil
}

func (h *host) Supports(s platform.Setting) error {
	if err := s.RefuseService(h.name); err != nil {
		return err
	}
	refuse := func(key, reason string) error {
		return &platform.Unsupported{Platform: h.name, Key: key, Reason: reason}
	}
	limits := []struct {
		set bool
		key string
	}{
		{s.CPUPeriod != 0, "cpu-period"}, {s.CPUBurst != 0, "cpu-burst"}, {s.CPUShares != 0, "cpu-shares"}, {s.Memory != 0, "memory"},
	}
	for _, l := range limits {
		if l.set && h.name == Bare {
			return refuse(l.key, "bare metal has no such limit (the platform cgroup has)")
		}
	}
	if h.name == Bare && s.CPUs != math.Trunc(s.CPUs) {
		return refuse("cpus", "without a quota only whole CPUs can be granted, by affinity")
	}
	switch {
	case s.Storage == platform.StorageVolume:
		return refuse("storage=volume", "volumes are an engine's; bind is the same here")
	case s.Network != "" && s.Network != platform.NetworkHost:
		return refuse("network="+string(s.Network), "without a namespace there is only the host's network")
	case s.Seccomp == "default":
		return refuse("seccomp=default", "nothing filters system calls here")
	case s.LSM == "default":
		return refuse("lsm=default", "nothing confines the program here")
	case s.LogDriver != "":
		return refuse("log-driver", "there is no engine to write logs")
	case s.Runtime != "":
		return refuse("runtime", "there is no engine to tell")
	}
	if h.name == Cgroup && s.CPUBurst != 0 {
		if layout, err := cgroup.Host(); err == nil && !layout.HasBurst() {
			return refuse("cpu-burst", "this kernel saves up no quota: Linux 5.14 or newer does")
		}
	}
	_, err := h.affinity(s)
	return err
}

// Freezes implements [platform.Freezer].
func (h *host) Freezes(context.Context, platform.Setting) error { return platform.CheckFreezer() }

// affinity gives the CPUs that the setting restricts the program to, by what
// tare may use itself; empty is no restriction.
func (h *host) affinity(s platform.Setting) ([]int, error) {
	if s.CPUSet == "" && (h.name != Bare || s.CPUs == 0) {
		return nil, nil
	}
	allowed, err := process.Affinity()
	if err != nil {
		return nil, err
	}
	if s.CPUSet != "" {
		wanted, err := platform.ParseCPUList(s.CPUSet)
		if err != nil {
			return nil, err
		}
		for _, c := range wanted {
			if !slices.Contains(allowed, c) {
				return nil, &platform.Unsupported{Platform: h.name, Key: "cpuset-cpus=" + s.CPUSet,
					Reason: "this host lets tare run on CPUs " + platform.FormatCPUList(allowed)}
			}
		}
		allowed = wanted
	}
	if h.name != Bare || s.CPUs == 0 {
		return allowed, nil
	}
	if int(s.CPUs) > len(allowed) {
		return nil, &platform.Unsupported{Platform: h.name, Key: fmt.Sprintf("cpus=%g", s.CPUs),
			Reason: "there are only CPUs " + platform.FormatCPUList(allowed)}
	}
	return allowed[:int(s.CPUs)], nil
}

// Launch implements [platform.Platform].
func (h *host) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	return held.Launch(ctx, h, spec)
}

// Create lays out the program's files and its group. The start, then, is what
// bare metal has of one: a process that enters the group and the root and
// executes the program. It returns when that has succeeded.
func (h *host) Create(ctx context.Context, spec platform.Spec) (_ platform.Created, err error) {
	if err := h.Supports(spec.Setting); err != nil {
		return nil, err
	}
	if spec, err = spec.Grant(); err != nil {
		return nil, err
	}
	if err := spec.CheckPorts(); err != nil {
		return nil, err
	}
	// A program that makes itself a daemon stays a descendant: its processes are
	// distinguished from the host's others by that, and reaped when they are ended.
	if err := process.Adopt(); err != nil {
		return nil, err
	}
	c := &container{spec: spec, things: held.New(h.options.Ledger)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.things.Drop(context.WithoutCancel(ctx)))
		}
	}()
	program, err := spec.Process()
	if err != nil {
		return nil, err
	}
	p := place{options: h.options, platform: h.name, things: c.things}
	tree, err := p.lay(ctx, spec, program.Dir)
	if err != nil {
		return nil, err
	}
	if c.group, err = h.makeGroup(ctx, c.things, spec); err != nil {
		return nil, err
	}
	cpus, err := h.affinity(spec.Setting)
	if err != nil {
		return nil, err
	}
	if h.name == Cgroup {
		cpus = nil // the cpuset holds them
	}
	c.order = orderFor(program, tree.Root)
	c.order.ASLR = spec.Setting.ASLR
	c.order.CPUs, c.order.Join, c.order.OOMScore = cpus, c.group.processFiles(), platform.Surroundings.OOMScore
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return held.NewCreated(held.Steps{ID: spec.Name, Start: c.start, Hold: c.take, Clear: c.clear}), nil
}

// container is a program that is laid out, from then until an instance stands
// for it; bare metal has the word from those it is compared with.
type container struct {
	spec   platform.Spec
	group  grouping
	things *held.Things
	order  order

	running  *running  // nil until it is
	instance *instance // nil until it is followed
}

func (c *container) start(ctx context.Context) error {
	r, err := start(ctx, c.order, c.group.own, c.spec.Stdout, c.spec.Stderr)
	if err != nil {
		return err
	}
	c.running = r
	return nil
}

func (c *container) take(context.Context) (platform.Instance, error) { return c.follow(), nil }

// follow is done once: there is one status to take.
func (c *container) follow() *instance {
	if c.instance == nil {
		c.instance = follow(c.running, c.group, c.things, c.spec)
	}
	return c.instance
}

func (c *container) clear(ctx context.Context) error {
	if c.running != nil {
		return c.follow().Stop(ctx)
	}
	return c.things.Drop(ctx)
}

// place is where a program's files are laid out.
type place struct {
	options  Options
	platform string
	things   *held.Things
}

// lay makes the program's file system, with the directory that it starts in.
func (p place) lay(ctx context.Context, spec platform.Spec, work string) (rootfs.Tree, error) {
	trials, dir, err := rootfs.Place(p.options.StateDir, spec.Name)
	if err != nil {
		return rootfs.Tree{}, err
	}
	plan := rootfs.Plan{
		Dir:     dir,
		Image:   spec.Image,
		Kind:    spec.Setting.Root,
		Storage: spec.Setting.Storage,
		Data:    spec.Data,
		Work:    work,
		Points:  rootfs.PointsOf(spec.Edits),
	}
	var tree rootfs.Tree
	err = p.things.Take(ctx, platform.Entry{Platform: p.platform, Kind: held.Directory, ID: dir}, func() error {
		var err error
		if tree, err = plan.Build(); err != nil {
			return err
		}
		if err := tree.Bind(); err != nil {
			return err
		}
		if err := tree.MountSystem(); err != nil {
			return err
		}
		if err := tree.Give(spec.Edits); err != nil {
			return err
		}
		// These mounts are the host's own. A user of the host whose id a program here has
		// could otherwise reach them through it (/proc/PID/root), and be root by one of the
		// image's set-user-ID programs. From a container's namespace the kernel heeds none.
		return mount.IgnoreSetUserID(tree.Root)
	}, func(context.Context) error { return rootfs.Remove(trials, dir) })
	return tree, err
}

// orderFor is the order to execute a program in the laid-out root.
func orderFor(p platform.Process, root string) order {
	return order{
		Root: root, Dir: p.Dir, Program: p.Program, Args: p.Args, Env: p.Env, User: p.User,
		OpenFiles: platform.Surroundings.OpenFiles, CoreSize: platform.Surroundings.CoreSize,
	}
}

// Remove removes what an entry of the ledger names.
func (h *host) Remove(ctx context.Context, e platform.Entry) error {
	switch e.Kind {
	case held.Directory:
		trials, err := rootfs.Trials(h.options.StateDir)
		if err != nil {
			return err
		}
		return rootfs.Remove(trials, e.ID)
	case held.Cgroup:
		return held.RemoveCgroup(ctx, e)
	case held.Process:
		return held.RemoveProcess(ctx, e)
	case held.NetNS: // of a load program's place, as its link
		trials, err := rootfs.Trials(h.options.StateDir)
		if err != nil {
			return err
		}
		return linked.RemoveNamespace(trials, e)
	case held.Link:
		return linked.RemoveLink(ctx, e)
	}
	return fmt.Errorf("%s enters no %s in the ledger, and knows no way to remove %q", h.name, e.Kind, e.ID)
}
