package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	one      string // the finding to explain; empty shows all
}

func (a *app) diagnose() *cobra.Command {
	f := &diagnoseFlags{}
	cmd := &cobra.Command{
		Use:   "diagnose CONTAINER... | --all",
		Short: "Find what running containers pay for, and what to set instead",
		Long: `Diagnose finds what running containers lose by the way in which they are contained,
how much, and which setting ends it. It changes nothing. CONTAINER is a name or an id of
Docker, containerd, podman or Kubernetes, the path of a control group, or pid:N.

It reads the counters of all containers first. Only those that are busy or throttled
are then watched by the scheduler's tracepoints. A cost is the time that work loses in
each second. A container without a finding has no line.`,
		Example: `  tare diagnose web
  tare diagnose --all --for 30s
  tare diagnose --all --fail-on high`,
		ValidArgsFunction: completeContainers,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runDiagnose(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.all, "all", false, "every container on this host")
	flags.DurationVar(&f.span, "for", 10*time.Second, "how long to watch")
	flags.StringVar(&f.order, "sort", "cost", "`ORDER` of the findings: cost, name")
	flags.BoolVarP(&f.evidence, "evidence", "v", false, "show what each finding rests on")
	flags.StringVar(&f.failOn, "fail-on", "", "exit with 4 on a finding of this `LEVEL` or above: high, medium, low")
	flags.StringVar(&f.out, "out", "", "directory for an HTML report (default: none)")
	flags.StringVar(&f.json, "json", "", "write the result as JSON to this file (- for standard output)")
	must(cmd.MarkFlagDirname("out"))
	complete := cobra.FixedCompletions(diagnose.Orders, cobra.ShellCompDirectiveNoFileComp)
	must(cmd.RegisterFlagCompletionFunc("sort", complete))
	cmd.AddCommand(a.explainFinding())
	return cmd
}

func (f *diagnoseFlags) check(args []string) error {
	switch {
	case f.all && len(args) > 0:
		return usageError("--all diagnoses every container: name none beside it")
	case !f.all && len(args) == 0:
		return usageError("name the containers to diagnose, or --all")
	case f.failOn != "" && !slices.Contains(diagnose.Levels[:3], diagnose.Level(f.failOn)):
		return usageError("--fail-on %s: want high, medium or low", f.failOn)
	case f.order != "" && !slices.Contains(diagnose.Orders, f.order):
		return usageError("--sort %s: want %s", f.order, strings.Join(diagnose.Orders, " or "))
	case f.span < diagnose.Shortest || f.span > diagnose.Longest:
		return usageError("--for %v: want %v to %v", f.span, diagnose.Shortest, diagnose.Longest)
	}
	return nil
}

func (a *app) runDiagnose(cmd *cobra.Command, f *diagnoseFlags, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return withCode(exitHost, errors.New("watching the scheduler requires root (CAP_BPF, CAP_PERFMON): run it with sudo"))
	}
	if err := writable(f.json); err != nil {
		return err
	}
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return usageError("--out %s: %v", f.out, err)
		}
	}
	all, notes, isNamed, err := f.subjects(cmd.Context(), args)
	if err != nil {
		return err
	}
	result, err := diagnose.Run(cmd.Context(), all, isNamed, f.span)
	if err != nil {
		return err
	}
	result.Notes = append(notes, result.Notes...)
	diagnose.Sort(result.Findings, f.order)
	here := hostRecord(host.Read("/"))
	sheet := result.Sheet(here, f.evidence)
	if f.one != "" {
		sheet = result.Explain(f.one, sheet)
	}
	sheet.Command = strings.Join(a.args, " ")
	if err := a.presentLive("diagnose", sheet, result.Document(here), f.out, f.json); err != nil {
		return err
	}
	return f.failing(result.Findings)
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
