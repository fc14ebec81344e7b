package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/container"
	"tare/kernel/file"
	"tare/kernel/host"
	"tare/study/diagnose"
)

// diagnoseFlags are what the user asked for.
type diagnoseFlags struct {
	all      bool
	span     time.Duration
	failOn   string
	order    string
	evidence bool
	out      string
	json     string
	latency  string
	watch    bool
	metrics  string
	one      string // the finding to explain; empty shows all
	verify   verifyFlags
}

func (a *app) diagnose() *cobra.Command {
	f := &diagnoseFlags{}
	cmd := &cobra.Command{
		Use:   "diagnose CONTAINER... | --all | --verify ID",
		Short: "Find what running containers lose, and what to set instead",
		Long: `Diagnose finds what running containers lose by the way in which they are contained,
how much, and which setting ends it. It changes nothing. CONTAINER is a name or an id of
Docker, containerd, podman, CRI-O or Kubernetes, the path of a control group, or pid:N.

It reads the counters of all containers first. Only those that are busy or throttled
are then watched by the scheduler's tracepoints. A cost is the time that work loses in
each second. A container without a finding has no line.

--verify launches a copy of the container with the current and with the proposed
setting in turn, and says whether the promise held: exit code 0 if it did, 4 if not,
5 if that is open. The container itself is left alone.`,
		Example: `  tare diagnose web
  tare diagnose --all --for 30s
  tare diagnose --all --fail-on high
  tare diagnose --all --watch --prometheus 9465
  tare diagnose web --latency-from http://127.0.0.1:8080/metrics
  tare diagnose --verify web/throttled --replay access.log`,
		ValidArgsFunction: completeContainers,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runDiagnose(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.all, "all", false, "every container on this host")
	f.register(cmd)
	flags.StringVar(&f.latency, "latency-from", "", "give costs per request, by the latencies at this `URL` of the container's metrics")
	flags.BoolVar(&f.watch, "watch", false, "diagnose again and again; q or Ctrl-C ends it")
	flags.StringVar(&f.metrics, "prometheus", "", "with --watch, serve the findings at `ADDRESS` (PORT, or HOST:PORT) for Prometheus")
	cmd.AddCommand(a.explainFinding())
	f.verify.register(flags)
	return cmd
}

// register adds the flags that it has on this host and on nodes of a cluster alike.
func (f *diagnoseFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.span, "for", 10*time.Second, "how long to watch")
	flags.StringVar(&f.order, "sort", "cost", "`ORDER` of the findings: cost, name")
	flags.BoolVarP(&f.evidence, "evidence", "v", false, "show what each finding rests on")
	flags.StringVar(&f.failOn, "fail-on", "", "exit with 4 on a finding of this `LEVEL` or above: high, medium, low")
	flags.StringVar(&f.out, "out", "", "directory for an HTML report (default: none)")
	flags.StringVar(&f.json, "json", "", "write the result as JSON to this file (- for standard output)")
	must(cmd.MarkFlagDirname("out"))
	complete := cobra.FixedCompletions(diagnose.Orders, cobra.ShellCompDirectiveNoFileComp)
	must(cmd.RegisterFlagCompletionFunc("sort", complete))
}

// checkValues refuses what those flags cannot be.
func (f *diagnoseFlags) checkValues() error {
	switch {
	case f.failOn != "" && !slices.Contains(diagnose.Levels[:3], diagnose.Level(f.failOn)):
		return usageError("--fail-on %s: want high, medium or low", f.failOn)
	case f.order != "" && !slices.Contains(diagnose.Orders, f.order):
		return usageError("--sort %s: want %s", f.order, strings.Join(diagnose.Orders, " or "))
	case f.span < diagnose.Shortest || f.span > diagnose.Longest:
		return usageError("--for %v: want %v to %v", f.span, diagnose.Shortest, diagnose.Longest)
	}
	return nil
}

// writableOutputs refuses files and directories in which nothing can be written, before anything is watched.
func (f *diagnoseFlags) writableOutputs() error {
	if err := writable(f.json); err != nil || f.out == "" {
		return err
	}
	if err := file.OutputDirectory(f.out); err != nil {
		return usageError("--out %s: %v", f.out, err)
	}
	return nil
}

func (f *diagnoseFlags) check(args []string) error {
	switch {
	case f.all && len(args) > 0:
		return usageError("--all diagnoses every container: name none beside it")
	case !f.all && len(args) == 0:
		return usageError("name the containers to diagnose, or --all")
	case f.latency != "" && len(separated(args)) != 1:
		return usageError("--latency-from is of one service: name its container alone")
	case f.watch && (f.out != "" || f.json != "" || f.failOn != ""):
		return usageError("--watch shows its findings itself: leave out --out, --json and --fail-on")
	case f.metrics != "" && !f.watch:
		return usageError("--prometheus serves what --watch finds: add --watch")
	}
	return f.checkValues()
}

func (a *app) runDiagnose(cmd *cobra.Command, f *diagnoseFlags, args []string) error {
	if cmd.Flags().Changed("verify") {
		return a.verify(cmd, f, args)
	}
	if err := f.verify.stray(cmd.Flags()); err != nil {
		return err
	}
	if err := f.check(args); err != nil {
		return err
	}
	// Those that are watched lose what this program takes: it takes one CPU at a time.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if os.Geteuid() != 0 {
		return withCode(exitHost, errors.New("watching the scheduler requires root (CAP_BPF, CAP_PERFMON): run it with sudo"))
	}
	if err := f.writableOutputs(); err != nil {
		return err
	}
	if f.watch {
		return a.watchDiagnose(cmd.Context(), f, args)
	}
	all, notes, isNamed, err := f.subjects(cmd.Context(), args)
	if err != nil {
		return err
	}
	result, err := f.round(cmd.Context(), all, isNamed, notes)
	if err != nil {
		return err
	}
	diagnose.Sort(result.Findings, f.order)
	here := hostRecord(host.Read("/"))
	sheet := result.Sheet(here, f.evidence)
	if f.one != "" {
		sheet = result.Explain(f.one, sheet)
	}
	if err := a.presentLive("diagnose", sheet, result.Document(here), f.out, f.json); err != nil {
		return err
	}
	return f.failing(result.Findings)
}

// round diagnoses containers once, and counts their requests where that is asked for.
func (f *diagnoseFlags) round(
	ctx context.Context,
	all []container.Container,
	isNamed bool,
	notes []string,
) (*diagnose.Result, error) {
	var requests *diagnose.RequestCounter
	if f.latency != "" {
		var err error
		if requests, err = diagnose.CountRequests(ctx, f.latency); err != nil {
			return nil, err
		}
	}
	result, err := diagnose.Run(ctx, all, isNamed, f.span)
	if err != nil {
		return nil, err
	}
	if requests != nil {
		// A watch that was stopped has its requests, too.
		counted, err := requests.Stop(context.WithoutCancel(ctx))
		if err != nil {
			notes = append(notes, err.Error())
		} else {
			result.PerRequest(counted)
		}
	}
	result.Notes = append(notes, result.Notes...)
	return result, nil
}

// failing is the error of a finding at or above the level that the user set.
func (f *diagnoseFlags) failing(found []diagnose.Finding) error {
	if f.failOn == "" {
		return nil
	}
	most := slices.Index(diagnose.Levels, diagnose.Level(f.failOn))
	for _, one := range found {
		if slices.Index(diagnose.Levels, one.Level) <= most {
			return withCode(exitThreshold, fmt.Errorf("%s is %s: at or above --fail-on %s", one.ID, one.Level, f.failOn))
		}
	}
	return nil
}
