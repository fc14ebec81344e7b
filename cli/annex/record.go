package annex

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tare/annex"
	"tare/annex/control"
	"tare/annex/daemon"
	"tare/annex/media"
	"tare/annex/monitor"
	"tare/annex/trace"
	"tare/cli/command"
	"tare/container"
	"tare/kernel/clock"
	"tare/kernel/file"
	"tare/kernel/swap"
	"tare/terminal"
)

// recording is what the flags of record say.
type recording struct {
	containers []string
	length     time.Duration
	evict      bool
}

func recordCommand() *cobra.Command {
	r := &recording{}
	cmd := &cobra.Command{
		Use:   "record OUT",
		Short: "Record which pages containers touch, and when, for annex simulate",
		Long: `record watches containers and writes what they do as a trace, for as long as --for says or
until Ctrl-C. Pages are seen when they fault: one that is in memory already is only seen by
scans. With --evict all that a container has in memory leaves for swap each time that it
falls asleep, so that its next activation is recorded whole; that slows it down, and wants swap.

OUT is made, or written anew where it holds a trace; a file that holds anything else is refused.

It needs root. annexd may run meanwhile; but where one manages, whatever it defends, --evict is
refused, which would undo its work.`,
		Example: "  annex record --container web-1 --for 60s web.trace\n  annex record --container web-1 --evict --for 5m web.trace",
		Args:    command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(r.containers) == 0 {
				return command.UsageError("name at least one --container")
			}
			if r.length <= 0 {
				return command.UsageError("--for %v: want more than 0", r.length)
			}
			if os.Geteuid() != 0 {
				return &command.Coded{Code: command.Host, Err: errors.New("not root: annex record looks at the memory of others, which takes root: use sudo")}
			}
			if err := mayHold(args[0]); err != nil {
				return err
			}
			if r.evict {
				if err := unmanaged(); err != nil {
					return err
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			found, err := find(ctx, socket(cmd), r.containers)
			if err != nil {
				return err
			}
			done, err := r.record(ctx, found, args[0])
			if err != nil {
				return err
			}
			terminal.Fprintf(cmd.OutOrStdout(), "%s: %d events, %d lost\n", args[0], done.Recorded, done.Lost)
			if done.Unmoved != nil {
				terminal.Fprintf(cmd.ErrOrStderr(), "annex: not all left that was to: %s\n", done.Unmoved)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&r.containers, "container", nil, "a container: its name, id, or control group (repeat for several)")
	f.DurationVar(&r.length, "for", time.Minute, "how long to record")
	f.BoolVar(&r.evict, "evict", false, "have a container's memory leave whenever it sleeps, which slows it down")
	return cmd
}

// mayHold refuses a file that a trace is not to be written to: what it holds would be lost. What
// is no file, as a pipe, loses nothing.
func mayHold(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if dir := filepath.Dir(path); !isThere(dir) {
			return command.UsageError("%s: there is no directory %s: make it, or name a file elsewhere", path, dir)
		}
		return nil
	}
	switch {
	case err != nil:
		return command.UsageError("%s: %v: name a file that can be written", path, reasonOf(err))
	case info.IsDir():
		return command.UsageError("%s is a directory: name a file in it", path)
	case !info.Mode().IsRegular() || info.Size() == 0:
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return command.UsageError("%s: %v: name a file that can be written", path, reasonOf(err))
	}
	defer f.Close()
	if _, err := trace.NewReader(bufio.NewReader(f)); errors.Is(err, trace.ErrFormat) {
		return command.UsageError("%s holds something else than a trace, which would be lost: name another file, or move it away", path)
	}
	return nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unmanaged refuses to evict beside a daemon that manages memory.
func unmanaged() error {
	all, err := daemon.Managing()
	if err != nil {
		return fmt.Errorf("--evict: who manages memory: %w", err)
	}
	if len(all) > 0 {
		return fmt.Errorf("--evict would undo what annexd does: %w", all[0])
	}
	return nil
}

// find finds the containers that are named. Groups that rules name have their names from annexd
// alone: what it would take an unknown name for is suggested too, where it runs.
func find(ctx context.Context, socket string, names []string) ([]container.Container, error) {
	found, err := container.Open(container.Options{}).FindEach(ctx, names)
	unknown := new(container.Unknown)
	if !errors.As(err, &unknown) {
		return found, err
	}
	c := control.Dial(socket)
	defer c.Close()
	var near []string
	known, asking := c.Explain(ctx, unknown.Name)
	if theirs := new(control.Unknown); errors.As(asking, &theirs) {
		near = theirs.Near
	} else if asking == nil {
		near = []string{known.Context.Name}
	}
	for _, name := range near {
		if name != unknown.Name && !slices.Contains(unknown.Nearest, name) {
			unknown.Nearest = append(unknown.Nearest, name)
		}
	}
	return nil, err
}

// record records into a file, which is a whole trace also where that fails.
func (r *recording) record(
	ctx context.Context,
	found []container.Container,
	path string,
) (done *trace.Recorder, err error) {
	watcher, err := monitor.Open(monitor.Options{NewPages: true})
	if err != nil {
		return nil, err
	}
	defer watcher.Close()
	if !watcher.Streams() {
		return nil, fmt.Errorf("faults are not told on this host, so that there is nothing to record: %w", watcher.Lacks()[0])
	}
	header := trace.Header{Clock: "monotonic", PageSize: annex.PageSize}
	if header.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	for _, c := range found {
		if c.Cgroup == "" {
			return nil, command.UsageError("%s has no control group of its own, by which it could be watched", c.Name)
		}
		id := annex.ID(c.ID)
		if err := watcher.Watch(id, c.Cgroup); err != nil {
			return nil, fmt.Errorf("watching %s: %w", c.Name, err)
		}
		header.Containers = append(header.Containers, trace.Container{ID: id, Name: c.Name, Class: annex.Elastic})
	}
	var evict trace.Evict
	if r.evict {
		areas, err := media.InUse(swap.Host{})
		if err != nil {
			return nil, err
		}
		if len(areas) == 0 {
			return nil, fmt.Errorf("--evict: %w", media.ErrNoMedium)
		}
		kernel, err := media.NewKernel(media.Options{Medium: media.Together(areas)})
		if err != nil {
			return nil, err
		}
		defer kernel.Close()
		evict = kernel.Do
	}
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	w, err := trace.NewWriter(out, header)
	if err != nil {
		return nil, err
	}
	defer func() { err = finish(err, w, out) }()
	done = trace.NewRecorder(watcher, w, header, evict)
	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	return done, done.Record(ctx, annex.Moment(clock.Monotonic()))
}

// create makes the file of a trace, or empties it. Root follows no link of another user there.
func create(path string) (*os.File, error) {
	f, err := file.Create(path)
	if exposed := new(file.Exposed); errors.As(err, &exposed) {
		return nil, command.UsageError("%v", err)
	}
	if err != nil {
		return nil, command.UsageError("%s: %v: name a file that can be written", path, reasonOf(err))
	}
	return f, nil
}

// finish ends a trace, the writing of which ended with err. What could not be written fails all
// that is written after it by the same error, which is told once.
func finish(err error, w *trace.Writer, out *bufio.Writer) error {
	for _, end := range []func() error{w.Close, out.Flush} {
		if next := end(); next != nil && !errors.Is(err, next) {
			err = errors.Join(err, next)
		}
	}
	return err
}
