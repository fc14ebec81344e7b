package oci

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/ocispec"
	"tare/platform/rootfs"
)

// launch is one container, from its making until an instance stands for it:
// each step takes what it makes into things.
type launch struct {
	*oci
	spec    platform.Spec
	program platform.Process
	things  *held.Things

	dir     string // the instance's, which is also the bundle
	tree    rootfs.Tree
	group   cgroup.Group
	layout  cgroup.Layout
	netns   string
	address netip.Addr // zero where no client of the host reaches it

	streams        streams // the program's ends, until it has them
	stdout, stderr *process.Output
	caller         *caller

	began    time.Time       // when the runtime was called; zero before
	init     *process.Handle // the program, from when it is known until the instance has it
	followed bool            // the instance has it
}

func (l *launch) layFiles(ctx context.Context) error {
	trials, dir, err := l.place(l.spec.Name)
	if err != nil {
		return err
	}
	l.dir = dir
	if l.spec.Setting.Root == "" {
		l.spec.Setting.Root = platform.RootOverlay
	}
	plan := rootfs.Plan{
		Dir:     dir,
		Image:   l.spec.Image,
		Kind:    l.spec.Setting.Root,
		Storage: l.spec.Setting.Storage,
		Data:    l.spec.Data,
		Work:    l.program.Dir,
	}
	return l.things.Take(ctx, platform.Entry{Platform: l.Name(), Kind: held.Directory, ID: dir}, func() error {
		l.tree, err = plan.Build()
		return err
	}, func(context.Context) error { return rootfs.Remove(trials, dir) })
}

// makeGroup makes the container's group in every hierarchy, with its limits.
// A runtime would do so itself; made here, nothing takes the parent away
// meanwhile, limits that a runtime does not know are in force, and the
// counters outlive the program.
func (l *launch) makeGroup(ctx context.Context) (err error) {
	if l.layout, err = cgroup.Host(); err != nil {
		return err
	}
	if err := l.spec.FindGroup(l.layout); err != nil {
		return err
	}
	if _, ok := l.layout.For("cpuset"); !ok {
		l.spec.Setting.CPUSet = "" // a kernel of one CPU, by Check: there is nothing to set
	}
	l.group = l.layout.At(l.spec.Parent()).Child(l.spec.Name)
	return l.things.Take(ctx, held.CgroupEntry(l.Name(), l.group), func() error {
		if err := l.group.Create("cpu", "cpuset", "memory", "pids", "io"); err != nil {
			return err
		}
		return l.group.Apply(l.spec.Setting.Limits())
	}, func(ctx context.Context) error { return held.EndGroup(ctx, l.group) })
}

// layBundle writes the configuration.
func (l *launch) layBundle(context.Context) error {
	config, err := ocispec.Container{
		Spec: l.spec, Process: l.program, Tree: l.tree, NetNS: l.netns,
		CgroupPath:  l.group.String(),
		OwnCgroupNS: l.layout.Mode() == "v2",
	}.Config()
	if err != nil {
		return err
	}
	return writeConfig(l.dir, config)
}

// readyRuntime enters what the runtime will make, and readies what its call needs.
func (l *launch) readyRuntime(ctx context.Context) error {
	return l.things.Take(ctx, platform.Entry{Platform: l.Name(), Kind: container, ID: l.spec.Name}, func() (err error) {
		if l.streams.stdout, l.stdout, err = process.NewOutput(l.spec.Stdout); err != nil {
			return err
		}
		if l.streams.stderr, l.stderr, err = process.NewOutput(l.spec.Stderr); err != nil {
			return err
		}
		l.caller, err = l.newCaller()
		return err
	}, l.end)
}

// start lets the runtime start the program.
func (l *launch) start(ctx context.Context) error {
	starting := l.run(ctx)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("starting %s: %w", l.spec.Args[0], ctx.Err())
	case starting != nil:
		return fmt.Errorf("%s could not start %s: %w", l.runtime, l.spec.Args[0], starting)
	}
	return nil
}

// take takes hold of what the runtime has started, and holds it to its setting.
func (l *launch) take(ctx context.Context) (platform.Instance, error) {
	l.streams.drop() // the program has them now
	if l.init == nil {
		if err := l.openProgram(); err != nil {
			return nil, err
		}
	}
	if !l.sandboxed() {
		if err := platform.AwaitProgram(ctx, l.init.PID, l.runtime); err != nil {
			return nil, err
		}
	}
	if err := l.verify(ctx); err != nil {
		return nil, err
	}
	return l.follow(), nil
}

// clear removes a container that no instance stands for.
func (l *launch) clear(ctx context.Context) error { return l.things.Drop(ctx) }

// openProgram takes hold of the process that the runtime noted.
func (l *launch) openProgram() error {
	b, err := os.ReadFile(pidFile(l.dir))
	if err != nil {
		return fmt.Errorf("%s did not say which process it started: %w", l.runtime, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return fmt.Errorf("%s says that it started process %q", l.runtime, b)
	}
	// It may have ended already: then it is a zombie until it is reaped here.
	id, err := process.Identify(pid)
	if err != nil {
		return fmt.Errorf("%s started process %d: %w", l.runtime, pid, err)
	}
	l.init, err = id.Open()
	return err
}

// end is the release of what the runtime makes, and of what its call needs: it
// ends the program, reaps it and lets the runtime forget it.
func (l *launch) end(ctx context.Context) error {
	l.caller.dismiss()
	l.streams.drop()
	l.findLost()
	first := 0
	if l.init != nil {
		first = l.init.PID
	}
	// A runtime that gave up half-way may have left its own helpers to us.
	if err := held.EndProcesses(ctx, l.group, first); err != nil {
		return err
	}
	var errs []error
	if l.init != nil {
		if _, err := l.init.Reap(ctx); err != nil && ctx.Err() != nil {
			errs = append(errs, err)
		}
		errs = append(errs, l.init.Close())
		l.init = nil
	}
	for _, o := range []*process.Output{l.stdout, l.stderr} {
		if o != nil {
			_ = o.Close() // Wait has reported a failing writer
		}
	}
	return errors.Join(append(errs, l.delete(ctx, l.spec.Name))...)
}

// findLost finds the process that was started, and that no instance stands
// for: whatever else went wrong, it is ours to reap. Where the runtime has
// reaped it itself, another may have its id by now.
func (l *launch) findLost() {
	if l.init != nil || l.followed || l.began.IsZero() || l.openProgram() != nil {
		return
	}
	if stat, err := procfs.Host.Process(l.init.PID).Stat(); err != nil || stat.Parent != os.Getpid() {
		_ = l.init.Close()
		l.init = nil
	}
}

// verify holds the group to the setting: a runtime may know a limit less than
// the specification, or reset it.
func (l *launch) verify(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	want := l.spec.Setting.Limits()
	got, err := l.group.Own()
	if err != nil {
		return err
	}
	if diff := want.Missing(got); diff != "" {
		return fmt.Errorf("%s has not put the setting in force: %s", l.runtime, diff)
	}
	return nil
}
