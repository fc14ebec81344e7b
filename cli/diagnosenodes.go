package cli

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"tare/kernel/host"
	"tare/report"
	"tare/study/diagnose"
)

// OnNodes is what nodes of a cluster answered.
type OnNodes struct {
	Nodes   []diagnose.NodeDocument
	Missing []diagnose.Missing
	Notes   []string
}

// DiagnoseNodes makes a command diagnose containers on nodes of a cluster, with the flags, the page and the
// exit codes that it has on one host. Args are the whole command line. Look has the nodes look at what the
// command's arguments name.
func DiagnoseNodes(
	cmd *cobra.Command,
	args []string,
	look func(ctx context.Context, names []string, span time.Duration) (OnNodes, error),
) {
	f := &diagnoseFlags{}
	cmd.Flags().SortFlags = false
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := f.checkValues(); err != nil {
			return err
		}
		if err := f.writableOutputs(); err != nil {
			return err
		}
		seen, err := look(cmd.Context(), names, f.span)
		if err != nil {
			return err
		}
		all := diagnose.OnNodes(seen.Nodes, seen.Missing, seen.Notes, f.order)
		a := &app{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(), args: args}
		if err := a.presentLive("diagnose", all.Sheet(f.evidence), all, f.out, f.json); err != nil {
			return err
		}
		if err := f.failing(all.Findings()); err != nil || len(seen.Missing) == 0 {
			return err
		}
		return fmt.Errorf("%s missing", report.Counted(len(seen.Missing), "node"))
	}
}

// DiagnoseHere diagnoses containers of this host. Those that have ended meanwhile are in the notes. Where none
// is named in particular, only those that are busy are watched.
func DiagnoseHere(
	ctx context.Context,
	names []string,
	span time.Duration,
	isNamed bool,
) (diagnose.Document, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	all, notes, err := stillRunning(ctx, false, names)
	if err != nil {
		return diagnose.Document{}, err
	}
	result, err := diagnose.Run(ctx, all, isNamed, span)
	if err != nil {
		return diagnose.Document{}, err
	}
	result.Notes = append(notes, result.Notes...)
	return result.Document(hostRecord(host.Read("/"))), nil
}
