package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/lab"
	"tare/record"
	"tare/study/place"
	"tare/terminal"
)

func (a *app) clean() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what a crashed tare left on this host, and only that",
		Long: `Clean removes the processes, cgroups, mounts, namespaces, containers and images
that the ledgers of dead runs name, and gives back what a killed trial of tare place
had set. What a killed tare density made goes too: swap areas are taken out of use
(swapoff), where what they hold fits into memory, swap files and zram devices are
removed, and settings of the kernel's (vm.page-cluster, zswap) are put back where they
are still what tare set. A copy of the store that a killed tare left is removed, and the
store gets its mode back. While a run goes on, nothing is touched. Results stay, and so does
a placement that was kept (tare place --undo).`,
		Example: "  tare clean --dry-run\n  tare clean",
		Args:    command.ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.stateDir()
			if err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return withCode(exitHost, fmt.Errorf("clean needs root: run it with sudo"))
			}
			if _, err := os.Stat(dir); err == nil {
				if err := trustworthy(dir); err != nil {
					return err
				}
			}
			done, err := lab.CleanHost(cmd.Context(), lab.LockPath, dir, dry)
			if busy := new(lab.Busy); errors.As(err, &busy) {
				terminal.Fprintf(a.out, "left alone: a run goes on (%s): try again when it has ended\n", busy.Holder)
				return nil
			}
			verb := "removed"
			if dry {
				verb = "would remove"
			}
			for _, e := range done.Removed {
				terminal.Fprintf(a.out, "%s %s %s (%s)\n", verb, e.Kind, e.ID, e.Platform)
			}
			for _, path := range done.Alive {
				terminal.Fprintf(a.out, "left alone: a run goes on (%s)\n", path)
			}
			for _, f := range done.Failed {
				terminal.Fprintf(a.err, "tare: %s %s (%s) could not be removed: %s\n", f.Entry.Kind, f.Entry.ID, f.Entry.Platform, f.Err)
			}
			if err != nil {
				return err
			}
			ofStore, notMended := record.Mend(filepath.Join(dir, storeFile), dry)
			for _, name := range ofStore {
				terminal.Fprintln(a.out, verb, name)
			}
			back, err := a.unfinished(cmd.Context(), dir, dry)
			if err := errors.Join(notMended, err); err != nil {
				return err
			}
			if len(done.Failed) > 0 {
				return fmt.Errorf("%d things are left; their ledger is kept, so that tare clean can be tried again", len(done.Failed))
			}
			if len(done.Removed)+len(done.Alive)+len(ofStore)+back == 0 {
				terminal.Fprintln(a.out, "nothing is left of any tare")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	return cmd
}

// unfinished gives back what a trial of a placement that was killed had set, and
// counts it. While a tare measures, it is that one's own.
func (a *app) unfinished(ctx context.Context, dir string, dry bool) (int, error) {
	if lab.Measuring(lab.LockPath) {
		// What a trial that goes on has set is its own to give back.
		return 0, nil
	}
	if dry || os.Geteuid() != 0 {
		return a.giveBack(dir, place.Unfinished, true)
	}
	session, _, err := lab.OpenSession(ctx, lab.LockPath, dir, "clean")
	if busy := new(lab.Busy); errors.As(err, &busy) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	back, err := a.giveBack(dir, place.Unfinished, false)
	return back, errors.Join(err, session.Close())
}
