package cli

import (
	"context"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/lab"
	"tare/load"
	"tare/record"
	"tare/study/kit"
	"tare/study/weigh"
	"tare/workload"
)

// copyFlags say how a copy of a running container is loaded.
type copyFlags struct {
	replay  string
	span    time.Duration
	methods []string
	port    int
}

const (
	usualReplay   = 10 * time.Second
	longestReplay = 10 * time.Minute
)

func (f *copyFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.replay, "replay", "", "load the copy with the requests of this HTTP access log (combined format, or JSON lines), at their own times")
	flags.DurationVar(&f.span, "replay-for", usualReplay, "how much of the log is replayed in each trial, from its first request on")
	flags.StringSliceVar(&f.methods, "replay-methods", []string{http.MethodGet, http.MethodHead}, "methods of the requests that are replayed, without a body")
	flags.IntVar(&f.port, "port", 0, "port at which the copy is loaded (default: the first that the container publishes or exposes)")
	must(flags.SetAnnotation("replay", cobra.BashCompFilenameExt, nil))
}

// changed is one of the flags that was given; empty where none was.
func (f *copyFlags) changed(flags *pflag.FlagSet) string {
	for _, name := range []string{"replay", "replay-for", "replay-methods", "port"} {
		if flags.Changed(name) {
			return "--" + name
		}
	}
	return ""
}

// load reads how the copy is loaded. The notes say what of a log is not replayed.
func (f *copyFlags) load(client []string) (l weigh.CopyLoad, notes []string, err error) {
	l.Port, l.Client = f.port, client
	switch {
	case f.port < 0 || f.port > 65535:
		return l, nil, usageError("--port %d: want 1 to 65535", f.port)
	case f.replay != "" && len(client) > 0:
		return l, nil, usageError("--replay and a client after --: want one of them")
	case len(client) > 0:
		if err := workload.CheckClient(client); err != nil {
			return l, nil, withCode(exitUsage, err)
		}
		return l, nil, nil
	case f.replay == "":
		return l, nil, nil
	case f.span < time.Second || f.span > longestReplay:
		return l, nil, usageError("--replay-for %v: want 1s to %v", f.span, longestReplay)
	}
	methods := make([]string, len(f.methods))
	for i, m := range f.methods {
		methods[i] = strings.ToUpper(strings.TrimSpace(m))
	}
	log, err := os.Open(f.replay)
	if err != nil {
		return l, nil, usageError("--replay: %v", err)
	}
	defer log.Close()
	if l.Replay, err = load.ReadAccessLog(log, methods, f.span); err != nil {
		return l, nil, usageError("--replay %s: %v", f.replay, err)
	}
	return l, replayNotes(f.replay, l.Replay), nil
}

func replayNotes(path string, r *load.Replay) (all []string) {
	var notes kit.Notes
	last := r.Moments[len(r.Moments)-1]
	notes.Add("%s: %d requests within %v are replayed, each over a connection of its own", path, len(r.Moments), last.Round(time.Millisecond))
	if left := r.LeftOut(); left != "" {
		notes.Add("%s: %s", path, left)
	}
	if r.Cut {
		notes.Add("%s: later requests are not replayed", path)
	}
	if r.Spread {
		notes.Add("%s has whole seconds only: the requests of one second are spread evenly over it", path)
	}
	return notes
}

// notOfCopies are the flags of weigh that a copy takes from its original, or that --vary has.
var notOfCopies = []string{
	"platform", "image", "image-archive", "rootfs", "workload", "param", "ladder", "env", "workdir", "user", "entrypoint",
	"load-cpuset", "preset", "cpus", "cpu-period", "cpu-burst", "cpu-shares", "cpuset-cpus", "memory", "storage", "root",
	"seccomp", "lsm", "aslr", "log-driver", "runtime", "gpu",
}

// copyDesign is the design of --from-container.
func (f *weighFlags) copyDesign(cmd *cobra.Command, names, client []string, host studyHost) (d lab.Design, err error) {
	flags := cmd.Flags()
	for _, flag := range notOfCopies {
		if flags.Changed(flag) {
			return d, usageError("--%s is not for --from-container: the container says that, and --vary changes it", flag)
		}
	}
	if len(names) > 0 {
		return d, usageError("--from-container and the workload %s: want one of them", names[0])
	}
	if !flags.Changed("design") {
		f.designName = record.DesignBlocks // a program with a port of its own cannot stand beside another
	}
	o := weigh.Options{
		Cross: f.cross, Quick: f.quick, Explain: f.explain, ExplainAsked: flags.Changed("explain"),
		Seed: f.seed, Host: host.Host,
	}
	if o.Plan, err = f.plan(flags.Changed); err != nil {
		return d, err
	}
	var images []string
	if o.Vary, images, err = f.factors(); err != nil {
		return d, err
	}
	if len(images) > 0 {
		return d, usageError("--vary image is not for --from-container: a copy has the image of its original")
	}
	made, err := f.copy.of(cmd.Context(), f.container, client, host)
	if err != nil {
		return d, err
	}
	o.Subjects, o.Platforms, o.Base = []weigh.Subject{made.Subject}, []string{made.Platform}, made.Base
	if network := *f.settings["network"]; network != "" {
		if err := o.Base.Set("network", network); err != nil {
			return d, usageError("--%v", err)
		}
	}
	if o.Baseline = f.baseline; o.Baseline == "" || o.Baseline == "current" {
		o.Baseline = made.Platform
	}
	if err := made.Suits(o); err != nil {
		return d, err
	}
	d, err = weigh.Design(o)
	made.Mark(&d)
	return d, err
}

// of finds a running container, and describes its copy.
func (f *copyFlags) of(ctx context.Context, name string, client []string, host studyHost) (weigh.Copy, error) {
	l, notes, err := f.load(client)
	if err != nil {
		return weigh.Copy{}, err
	}
	found, _, err := foundRunning(ctx, false, []string{name}, nil)
	if err != nil {
		return weigh.Copy{}, err
	}
	made, err := weigh.CopyOf(ctx, found[0], l, host.Host)
	made.Notes = append(made.Notes, notes...)
	return made, err
}
