package cli

import (
	"runtime"
	"sync"

	"github.com/spf13/cobra"

	"tare/overhead"
	"tare/record"
	"tare/report"
)

func (a *app) show() *cobra.Command {
	var html string
	var all bool
	cmd := &cobra.Command{
		Use:   "show [RUN... | STUDY]",
		Short: "Show what a run came to, or several over their hosts",
		Long: `Show prints a run's first screen again, or writes its HTML report. RUN is an id, its
beginning, or latest (the default).

Of several runs of one design, each on a host of its own, it shows the effect on each
host, over all of them and on another host like them, and which hosts are odd. STUDY is the
id of a study that kubectl tare had nodes measure: it stands for all of its runs.`,
		Example:           "  tare show\n  tare show latest --html report.html\n  tare show weigh-20260102-150405-7f3a weigh-20260102-150411-90c1 weigh-20260102-150502-b14e",
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringVar(&html, "html", "", "write the HTML report to this file (- for standard output) instead")
	cmd.Flags().BoolVar(&all, "all", false, "show what else is left to the page: every metric, latencies, flame graphs, what moves figures within rounds")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		args, err := a.parts(args)
		if err != nil {
			return err
		}
		if len(args) > 1 {
			return a.showFleet(args, html, all)
		}
		run, err := a.run(args)
		if err != nil {
			return err
		}
		return a.showSheet(run, html, all)
	}
	return cmd
}

// parts has a study's runs in the place of its id.
func (a *app) parts(names []string) ([]string, error) {
	if len(names) != 1 {
		return names, nil
	}
	store, err := a.openStore()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	parts, err := store.Parts(names[0])
	if len(parts) == 0 {
		return names, err
	}
	return parts, err
}

// showFleet shows several runs of one design over their hosts.
func (a *app) showFleet(names []string, html string, all bool) error {
	f, err := a.fleet(names, html == "" && !all)
	if err != nil {
		return err
	}
	return a.showOrWrite(report.FleetSheet(f), html, all)
}

// fleet reads runs; where leading is set, only what carries their verdicts.
func (a *app) fleet(names []string, leading bool) (overhead.Fleet, error) {
	store, err := a.openStore()
	if err != nil {
		return overhead.Fleet{}, err
	}
	defer store.Close()
	figures := func(run record.Run) record.Figures { return overhead.NodeFigures(run, leading) }
	nodes := make([]overhead.Node, len(names))
	named := map[string]bool{}
	var reading sync.WaitGroup
	defer reading.Wait()
	slots := make(chan struct{}, runtime.GOMAXPROCS(0)) // so many runs are in memory
	for i, name := range names {
		run, err := store.RunFigures(name, figures)
		if err != nil {
			return overhead.Fleet{}, err
		}
		if named[run.ID] {
			return overhead.Fleet{}, usageError("show: %s is named twice", run.ID)
		}
		named[run.ID] = true
		slots <- struct{}{}
		reading.Go(func() {
			defer func() { <-slots }()
			nodes[i] = overhead.NewNode(run, leading)
		})
	}
	reading.Wait()
	f := overhead.NewFleet(nodes)
	if len(f.Nodes) < 2 {
		why := ""
		if len(f.LeftOut) > 0 {
			why = ": " + f.LeftOut[0]
		}
		return f, usageError("show of several runs takes one of each host, of one design, and these are of %d host%s; "+
			"tare compare sets runs of one host side by side", len(f.Nodes), why)
	}
	return f, nil
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
