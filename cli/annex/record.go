package annex

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"tare/annex"
	"tare/annex/media"
	"tare/annex/monitor"
	"tare/annex/trace"
	"tare/cli/command"
	"tare/container"
	"tare/kernel/clock"
	"tare/kernel/swap"
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

It needs root. annexd may run meanwhile, but not with --evict, which would undo its work.`,
		Example: "  annex record --container web-1 --for 60s web.trace\n  annex record --container web-1 --evict --for 5m web.trace",
		Args:    command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(r.containers) == 0 {
				return command.UsageError("name at least one --container")
			}
			if r.length <= 0 {
				return command.UsageError("--for %v: want more than 0", r.length)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			done, err := r.record(ctx, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d events, %d lost\n", clean(args[0]), done.Told, done.Lost)
			if done.Unmoved != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "annex: not all left that was to: %s\n", clean(done.Unmoved.Error()))
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

// record records into a file, which is a whole trace also where that fails.
func (r *recording) record(ctx context.Context, path string) (done *trace.Recorder, err error) {
	found, err := container.Open(container.Options{}).FindEach(ctx, r.containers)
	if err != nil {
		return nil, err
	}
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
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	w, err := trace.NewWriter(out, header)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close(), out.Flush()) }()
	done = trace.NewRecorder(watcher, w, header, evict)
	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	return done, done.Record(ctx, annex.Moment(clock.Monotonic()))
}
