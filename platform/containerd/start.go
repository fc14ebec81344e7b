package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"tare/platform"
	"tare/platform/engine"
)

// start makes the task and starts it, as containerd's ordinary clients do:
// containerd starts the shim, which lets the runtime create the container and
// then start the program.
func (l *launch) start(ctx context.Context) error {
	l.starting = time.Now()
	// What was begun is brought to its end whatever happens to the caller: a
	// shim whose start is broken off is the one that nobody knows.
	whole := context.WithoutCancel(ctx)
	err := l.p.call(whole, "create the task of container "+l.spec.Name, func(ctx context.Context, _ *client.Client) (err error) {
		l.task, err = l.container.NewTask(ctx, l.streams())
		return err
	})
	if err == nil && ctx.Err() == nil {
		err = l.p.call(whole, "start "+l.spec.Args[0]+" in container "+l.spec.Name, func(ctx context.Context, _ *client.Client) error {
			return l.task.Start(ctx)
		})
	}
	l.uncertain = errors.Is(err, platform.ErrGone)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("start %s in container %s: %w", l.spec.Args[0], l.spec.Name, context.Cause(ctx))
	case err != nil:
		return l.refused(err)
	}
	return nil
}

// refused tells a runtime that cannot work on this host from one that cannot
// start this program.
func (l *launch) refused(err error) error {
	// crun before 1.9: "cgroups in hybrid mode not supported".
	if strings.Contains(err.Error(), "hybrid mode") {
		return unsupported("runtime="+l.runtime.String(), "it refuses control groups of versions 1 and 2 beside each other, as this host has them: use runc, or boot with systemd.unified_cgroup_hierarchy=1")
	}
	return err
}

// streams are the program's: pipes, which the shim empties into fifos that we
// read, or, where nobody wants the output, into nothing.
func (l *launch) streams() cio.Creator {
	if l.spec.Stdout == nil && l.spec.Stderr == nil {
		return cio.LogFile(os.DevNull)
	}
	l.output = engine.NewOutput(l.spec.Stdout, l.spec.Stderr)
	stdout, stderr := l.output.Writers()
	create := cio.NewCreator(cio.WithStreams(nil, stdout, stderr), cio.WithFIFODir(filepath.Join(l.plan.Dir, "fifos")))
	return func(id string) (cio.IO, error) {
		streams, err := create(id)
		if err == nil {
			// The directory of the streams goes with the instance's.
			l.output.Follow(
				func() error { streams.Wait(); return nil },
				func() { streams.Cancel(); _ = streams.Close() },
			)
		}
		return streams, err
	}
}

// clear ends and removes whatever there is, in whatever state. Whatever
// containerd says, and if the caller's time is over, the program does not go on.
func (l *launch) clear(ctx context.Context) error {
	if l.p.requests.Lost.Load() {
		_ = l.endProgram(ctx) // tried again where it counts
	}
	err := l.things.Drop(ctx)
	if err != nil {
		err = errors.Join(err, l.endProgram(ctx))
	}
	if l.output != nil {
		l.output.Close()
	}
	if err != nil {
		return fmt.Errorf("remove container %s (tare clean removes what is left of it): %w", l.spec.Name, err)
	}
	if l.instance != nil {
		l.instance.HangUp()
	}
	l.p.leave(l.spec.Name)
	return nil
}

// endProgram ends the program without containerd. It has a time of its own: what
// has been killed is gone in a moment.
func (l *launch) endProgram(ctx context.Context) error {
	if l.starting.IsZero() {
		return nil // the group is another's, should there be one
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.p.requests.Brief)
	defer cancel()
	return l.group.Kill(ctx)
}
