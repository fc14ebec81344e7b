package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/container"
	"tare/kernel/file"
	"tare/kernel/host"
	"tare/probe/causes"
	"tare/study/offcpu"
)

// causesFlags are what the user asked for.
type causesFlags struct {
	pid      int
	cgroup   string
	span     time.Duration
	noStacks bool
	out      string
	json     string
}

func (a *app) causes() *cobra.Command {
	f := &causesFlags{}
	cmd := &cobra.Command{
		Use:   "causes CONTAINER [flags]",
		Short: "Find what keeps a running program from running",
		Long: `Causes watches a running container, or a process with its descendants, and reports
how its threads spent their time: running, waiting for a CPU behind other threads,
throttled by the quota, or blocked, and by which stacks. It also counts switches,
migrations to other CPUs, and wake-ups by interrupts. Watching changes nothing.
CONTAINER is a name or an id of Docker, containerd, podman or Kubernetes, the path of
a control group, or pid:N.

Stacks are walked at every switch. That slows down a program that switches hundreds of
thousands of times per second: --no-stacks leaves them out. The result includes the
CPU time of the probe itself. --out writes a page with a flame graph of the time off
the CPU, blocked and waiting in different colours.`,
		Example: `  tare causes pid:1 --for 2s
  tare causes web --out reports
  tare causes --cgroup /sys/fs/cgroup/cpu/docker --no-stacks --json -`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeContainers(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.runCauses(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.pid, "pid", 0, "a process, with its descendants, in place of a container")
	flags.StringVar(&f.cgroup, "cgroup", "", "a control group with all below it, by its directory or path, in place of a container")
	flags.DurationVar(&f.span, "for", 10*time.Second, "how long to watch")
	flags.BoolVar(&f.noStacks, "no-stacks", false, "do not record stacks")
	flags.StringVar(&f.out, "out", "", "directory for an HTML report with the flame graph (default: none)")
	flags.StringVar(&f.json, "json", "", "write the result as JSON to this file (- for standard output)")
	must(cmd.MarkFlagDirname("cgroup"))
	must(cmd.MarkFlagDirname("out"))
	return cmd
}

// target names what to watch, as [container.Finder] reads it.
func (f *causesFlags) target(changed func(string) bool, args []string) (string, error) {
	args = separated(args)
	named := len(args)
	for _, flag := range []string{"pid", "cgroup"} {
		if changed(flag) {
			named++
		}
	}
	switch {
	case named == 0:
		return "", usageError("name what to watch: a running container, --pid N or --cgroup PATH")
	case named > 1:
		return "", usageError("too many targets: name one container, process or control group (tare place watches several)")
	case changed("pid") && f.pid <= 0:
		return "", usageError("--pid %d: want 1 or more", f.pid)
	case changed("cgroup") && !strings.HasPrefix(f.cgroup, "/"):
		return "", usageError("--cgroup %q: want a control group's directory, such as /sys/fs/cgroup/web, or its path from the hierarchy's root", f.cgroup)
	case changed("pid"):
		return fmt.Sprintf("pid:%d", f.pid), nil
	case changed("cgroup"):
		return f.cgroup, nil
	}
	if digits, ok := strings.CutPrefix(args[0], "pid:"); ok {
		if pid, err := strconv.Atoi(digits); err != nil || pid <= 0 {
			return "", usageError("%s: want the number of a process, such as pid:1", args[0])
		}
	}
	return args[0], nil
}

func (a *app) runCauses(cmd *cobra.Command, f *causesFlags, args []string) error {
	name, err := f.target(cmd.Flags().Changed, args)
	if err != nil {
		return err
	}
	if f.span < offcpu.Shortest || f.span > offcpu.Longest {
		return usageError("--for %v: want %v to %v", f.span, offcpu.Shortest, offcpu.Longest)
	}
	if os.Geteuid() != 0 {
		return withCode(exitHost, errors.New("watching other processes requires root (CAP_BPF, CAP_PERFMON): run it with sudo"))
	}
	if err := writable(f.json); err != nil {
		return err
	}
	if f.out != "" {
		if err := file.OutputDirectory(f.out); err != nil {
			return usageError("--out %s: %v", f.out, err)
		}
	}
	watched, err := f.watch(cmd.Context(), name)
	if err != nil {
		return err
	}
	return a.showCauses(f, watched)
}

func (f *causesFlags) watch(ctx context.Context, name string) (*offcpu.Watched, error) {
	found, err := container.Open(container.Options{}).Find(ctx, name)
	if unknown := (*container.Unknown)(nil); errors.As(err, &unknown) && f.cgroup != "" {
		return nil, usageError("--cgroup %s: no such control group, or it has no process: check its path below /sys/fs/cgroup", f.cgroup)
	}
	if err != nil {
		return nil, err
	}
	return offcpu.Watch(
		ctx,
		found,
		f.span,
		!f.noStacks,
		func(t causes.Target, o causes.Options) (offcpu.Watcher, error) {
			w, err := causes.Start(t, o)
			if err != nil {
				return nil, err
			}
			return w, nil
		},
	)
}

func (a *app) showCauses(f *causesFlags, watched *offcpu.Watched) error {
	here := hostRecord(host.Read("/"))
	sheet := watched.Sheet(here)
	return a.presentLive("causes", sheet, watched.Document(here), f.out, f.json)
}
