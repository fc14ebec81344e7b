package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/advise"
	"tare/claim"
	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/host"
	"tare/kernel/procfs"
	"tare/record"
	"tare/report"
	"tare/terminal"
)

func (a *app) advise() *cobra.Command {
	var form, jsonPath string
	cmd := &cobra.Command{
		Use:   "advise [RUN | WORKLOAD | CONTAINER]",
		Short: "Recommend settings by what was measured on this host",
		Long: `Advise lists what the trials of this host recommend, with the figures that each
recommendation rests on. Of the runs that could give one, that of most blocks counts. A published
practice that trials of this host contradict is listed as contradicted.

RUN gives the recommendations of one run. WORKLOAD gives those that were measured with it.
CONTAINER, one that runs, leaves out what it follows already: tare diagnose says what it loses now.`,
		Example: `  tare advise
  tare advise redis --as compose
  tare advise latest`,
		Args:              atMostArgs(1),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringVar(&form, "as", "", "print settings alone, to apply: "+strings.Join(advise.Forms(), ", "))
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the recommendations as JSON to this file (- for standard output)")
	must(cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(advise.Forms(), cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if form != "" && !slices.Contains(advise.Forms(), form) {
			return usageError("--as %s: want one of %s", form, strings.Join(advise.Forms(), ", "))
		}
		about := ""
		if len(args) > 0 {
			about = args[0]
		}
		all, err := a.advice(cmd.Context(), about)
		if err != nil {
			return err
		}
		return a.presentAdvice(about, all, form, jsonPath)
	}
	return cmd
}

func (a *app) presentAdvice(about string, all []advise.Advice, form, jsonPath string) error {
	if jsonPath != "" {
		if err := a.emitJSON(jsonPath, advise.NewDocument(all)); err != nil {
			return err
		}
	}
	if form != "" {
		text, err := advise.Apply(form, all)
		switch {
		case err == nil && len(all) == 0:
			text = "# " + advise.None(about) + "\n"
		case err == nil && text == "":
			text = "# No recommendation has a setting of this form.\n"
		}
		if err == nil {
			_, err = io.WriteString(terminal.Document(a.out), text)
		}
		return err
	}
	if jsonPath == "-" {
		return nil
	}
	sheet := advise.Sheet(about, all)
	sheet.Next = a.again(append(applied(about, all), "tare reproduce --dry-run")...)
	opt := report.TerminalOptions{Width: terminalWidth(a.out), Color: isTerminal(a.out)}
	return report.SheetTerminal(a.out, sheet, opt)
}

// applied is the command that prints the settings of recommendations in the first form that they have;
// none where they have none.
func applied(about string, all []advise.Advice) []string {
	for _, form := range append([]string{"docker"}, advise.Forms()...) {
		if text, err := advise.Apply(form, all); err == nil && text != "" {
			words := slices.DeleteFunc([]string{"tare", "advise", about, "--as", form}, func(w string) bool { return w == "" })
			return []string{terminal.Shell(words...)}
		}
	}
	return nil
}

// advice gives the recommendations for a run, a workload, or a container that runs; for nothing in
// particular those of this host.
func (a *app) advice(ctx context.Context, about string) ([]advise.Advice, error) {
	store, err := a.openStore()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if about != "" {
		run, err := store.Run(about)
		if err == nil {
			return adviceOf(run), nil
		}
		if !is[*record.NotFound](err) {
			return nil, err
		}
	}
	sources, err := adviceSources(store)
	if err != nil || about == "" {
		return advise.Best(sources), err
	}
	if slices.ContainsFunc(sources, func(s advise.Source) bool { return s.Measured(about) }) {
		var of []advise.Source
		for _, s := range sources {
			of = append(of, s.Of(about))
		}
		return advise.Best(of), nil
	}
	subject, err := subjectOf(ctx, about)
	switch {
	case is[*container.Unknown](err):
		runs, listed := store.Runs()
		measured := func(r record.Run) bool { return advise.Source{Run: r}.Measured(about) }
		if listed != nil || slices.ContainsFunc(runs, measured) {
			return nil, listed // it was weighed, or measured elsewhere
		}
		return nil, fmt.Errorf("%s is no run, no workload that was measured, and no container that runs: %w", about, err)
	case err != nil:
		return nil, err
	}
	return subject.Concerned(advise.Best(sources)), nil
}

func adviceOf(run record.Run) []advise.Advice {
	if s, ok := studies()[run.Study].pageOf.(interface {
		Advice(record.Run) []advise.Advice
	}); ok {
		return s.Advice(run)
	}
	return nil // what was weighed, or measured elsewhere, recommends nothing
}

// adviceSources are this host's runs, with what each recommends.
func adviceSources(store *record.Store) (sources []advise.Source, err error) {
	here := hostRecord(host.Read("/"))
	for _, study := range slices.Sorted(maps.Keys(studies())) {
		for pool, err := range claim.Founded(store, study, here) {
			if err != nil {
				return nil, err
			}
			run := pool.Run()
			sources = append(sources, advise.Source{Run: run, Advice: adviceOf(run)})
		}
	}
	return sources, nil
}

// subjectOf looks at a container that runs.
func subjectOf(ctx context.Context, name string) (s advise.Subject, err error) {
	c, err := container.Open(container.Options{}).Find(ctx, name)
	if err != nil {
		return s, err
	}
	if s.Quota, err = hasQuota(c); err != nil {
		return s, err
	}
	s.OwnNetwork = ownNetwork(procfs.Host, c.PID)
	return s, nil
}

// ownNetwork tells whether a process has a network of its own, or one that cannot be read. Where the
// first process is protected, even from root, tare's own network stands for the host's.
func ownNetwork(proc procfs.FS, pid int) bool {
	hosts, err := os.Readlink(proc.Process(1).Path("ns/net"))
	if err != nil {
		hosts, err = os.Readlink(proc.Process(os.Getpid()).Path("ns/net"))
	}
	own, ownErr := os.Readlink(proc.Process(pid).Path("ns/net"))
	return err != nil || ownErr != nil || own != hosts
}

// hasQuota tells whether a container has a quota of CPU time.
func hasQuota(c container.Container) (bool, error) {
	if c.Cgroup == "" {
		return false, errors.New("a process has no settings of a container: name its container")
	}
	layout, err := cgroup.Host()
	if err != nil {
		return false, err
	}
	group, _, err := layout.Of(c.PID)
	if err != nil {
		return false, err
	}
	b, err := group.Bandwidth()
	return b.Quota > 0, err
}
