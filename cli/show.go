package cli

import (
	"github.com/spf13/cobra"

	"tare/record"
)

func (a *app) show() *cobra.Command {
	var html string
	var all bool
	cmd := &cobra.Command{
		Use:               "show [RUN]",
		Short:             "Show what a run came to",
		Long:              "Show prints a run's first screen again, or writes its HTML report. RUN is an id, its\nbeginning, or latest (the default).",
		Example:           "  tare show\n  tare show latest --html report.html",
		Args:              atMostArgs(1),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringVar(&html, "html", "", "write the HTML report to this file (- for standard output) instead")
	cmd.Flags().BoolVar(&all, "all", false, "show what else is left to the page: every metric, latencies, flame graphs, what moves figures within rounds")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		run, err := a.run(args)
		if err != nil {
			return err
		}
		return a.showSheet(run, html, all)
	}
	return cmd
}

func atMostArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError("%s takes at most %d argument: %s", cmd.CommandPath(), n, cmd.UseLine())
		}
		return nil
	}
}

// run reads the run that the arguments name, the newest if they name none.
func (a *app) run(args []string) (record.Run, error) {
	name := record.Latest
	if len(args) > 0 {
		name = args[0]
	}
	store, err := a.openStore()
	if err != nil {
		return record.Run{}, err
	}
	defer store.Close()
	return store.Run(name)
}

// completeRuns offers the ids of the runs in the store.
func (a *app) completeRuns(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	store, err := a.openStore()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer store.Close()
	runs, err := store.Runs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ids := []string{record.Latest}
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
