package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/host"
	"tare/lab"
	"tare/study/place"
	"tare/terminal"
)

// placeFlags are what the user asked for.
type placeFlags struct {
	all    bool
	pids   []int
	span   time.Duration
	wait   time.Duration
	apply  bool
	undo   bool
	dryRun bool
	pairs  int
	window time.Duration
	settle time.Duration
	seed   int64
	quick  bool
	out    string
	json   string
}

func (a *app) place() *cobra.Command {
	f := &placeFlags{}
	usual := place.Defaults()
	cmd := &cobra.Command{
		Use:   "place [CONTAINER...] [flags]",
		Short: "Find containers that wait for a CPU, and give them CPUs of their own",
		Long: `Place watches running containers. It finds which are latency-critical (short bursts
on a CPU, many wake-ups, low demand) and which are CPU-bound (long bursts), how long
each waits for a CPU, and behind which. Where a latency-critical container waits behind a
CPU-bound one, it proposes CPUs of its own for it. Where CPUs cannot be separated, it
proposes a shorter period of the other's quota, shares, or the real-time class. On a
healthy host it proposes nothing. Watching changes nothing.

With --apply it tries its proposal on the control groups of the named containers, and of
no others: with and without in turns, measuring both sides. The change stays only where
it helped one side and left the other its share. The values from before are written to
disk first: --undo restores them, now or after a crash. An engine that restarts a
container sets its own limits again. The commands printed make a change permanent in the
engine; --undo does not revert those.`,
		Example: `  tare place --all
  tare place web batch --for 30s
  tare place web batch --apply
  tare place --undo`,
		ValidArgsFunction: completeContainers,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runPlace(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.all, "all", false, "every container on this host")
	flags.IntSliceVar(&f.pids, "pid", nil, "processes, each with its descendants, watched like a container; their CPUs are never changed")
	flags.DurationVar(&f.span, "for", 10*time.Second, "how long to watch")
	flags.DurationVar(&f.wait, "wait", usual.Wait, "p99 of waits for a CPU above which a latency-critical container suffers")
	flags.BoolVar(&f.apply, "apply", false, "try the proposed changes, and keep the one that helps")
	flags.IntVar(&f.pairs, "pairs", 10, fmt.Sprintf("with --apply: pairs of windows, with and without the change (at least %d)", place.FewestPairs))
	flags.DurationVar(&f.window, "window", 2*time.Second, "with --apply: length of a window")
	flags.DurationVar(&f.settle, "settle", 200*time.Millisecond, "with --apply: time between a change and its window")
	flags.Int64Var(&f.seed, "seed", 0, "seed of the order of windows (default: random, and printed)")
	flags.BoolVar(&f.undo, "undo", false, "restore what an earlier --apply changed")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with --apply or --undo: print the changes without making them")
	flags.BoolVar(&f.quick, "quick", false, "watch for 3 s; with --apply, 8 pairs of windows of 1 s")
	flags.StringVar(&f.out, "out", "", "directory for an HTML report (default: none)")
	flags.StringVar(&f.json, "json", "", "write the result as JSON to this file (- for standard output)")
	return cmd
}

// check refuses what does not go together.
func (f *placeFlags) check(changed func(string) bool, args []string) error {
	named := len(args) > 0 || len(f.pids) > 0
	if f.undo {
		for _, flag := range []string{"all", "pid", "for", "wait", "apply", "pairs", "window", "settle", "seed", "quick", "out", "json"} {
			if changed(flag) {
				return usageError("--undo restores all that was changed: leave --%s out", flag)
			}
		}
		if named {
			return usageError("--undo restores all that was changed: it takes no CONTAINER")
		}
		return nil
	}
	switch {
	case f.all && named:
		return usageError("--all watches every container: name none beside it")
	case !f.all && !named:
		return usageError("name the containers to watch, or --all: only those named are ever changed")
	case f.wait <= 0:
		return usageError("--wait %v: want a time above 0", f.wait)
	case f.dryRun && !f.apply:
		return usageError("--dry-run requires --apply or --undo: watching alone changes nothing")
	}
	for _, flag := range []string{"pairs", "window", "settle", "seed"} {
		if changed(flag) && !f.apply {
			return usageError("--%s requires --apply", flag)
		}
	}
	for _, pid := range f.pids {
		if pid <= 0 {
			return usageError("--pid %d: want a process ID, 1 or greater", pid)
		}
	}
	if f.quick {
		for flag, set := range map[string]func(){
			"for": func() { f.span = 3 * time.Second }, "pairs": func() { f.pairs = 8 }, "window": func() { f.window = time.Second },
		} {
			if !changed(flag) {
				set()
			}
		}
	}
	if !f.undo && (f.span < place.Shortest || f.span > place.Longest) {
		return usageError("--for %v: want %v to %v", f.span, place.Shortest, place.Longest)
	}
	if !changed("seed") {
		f.seed = drawSeed()
	}
	return nil
}

func (a *app) runPlace(cmd *cobra.Command, f *placeFlags, args []string) error {
	if err := f.check(cmd.Flags().Changed, args); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return withCode(exitHost, errors.New("watching the scheduler requires root (CAP_BPF, CAP_PERFMON): run it with sudo"))
	}
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	if f.undo {
		return a.undoPlace(cmd.Context(), dir, f.dryRun)
	}
	if err := writable(f.json); err != nil {
		return err
	}
	if f.out != "" {
		if err := file.OutputDirectory(f.out); err != nil {
			return usageError("--out %s: %v", f.out, err)
		}
	}
	journal := place.OpenJournal(dir)
	if err := f.options(journal, nil).Check(); err != nil {
		return err
	}
	if f.apply && !f.dryRun {
		if err := trustworthy(dir); err != nil {
			return err
		}
		// Two that change CPUs at once, or one that does while another measures, would
		// each take the other's doing for its own.
		return alone(cmd.Context(), lab.LockPath, dir, func(*lab.Session) error {
			if err := a.settled(journal); err != nil {
				return err
			}
			return a.lookAndPlace(cmd.Context(), f, args, journal)
		})
	}
	return a.lookAndPlace(cmd.Context(), f, args, journal)
}

// alone does something while it holds the host's lock. That something is left on
// the host afterwards is an error beside that of what was done.
func alone(ctx context.Context, lock, dir string, do func(*lab.Session) error) error {
	session, _, err := lab.OpenSession(ctx, lock, dir, "place")
	if err != nil {
		return err
	}
	return errors.Join(do(session), session.Close())
}

// settled refuses to try anything over what a killed trial has left.
func (a *app) settled(journal *place.Journal) error {
	open, err := journal.Open()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(open, func(e place.Entry) bool { return !e.Kept }) {
		return errors.New("an earlier tare place --apply was killed during a trial: first restore what it changed: tare place --undo")
	}
	return nil
}

func (a *app) lookAndPlace(ctx context.Context, f *placeFlags, args []string, journal *place.Journal) error {
	containers, notes, err := foundRunning(ctx, f.all, args, f.pids)
	if err != nil {
		return err
	}
	thresholds := place.Defaults()
	thresholds.Wait = f.wait
	if f.span >= time.Minute {
		terminal.Fprintf(a.err, "watching until %s\n", time.Now().Add(f.span).Format("15:04:05"))
	}
	watched, err := place.Watch(ctx, containers, f.span, thresholds, notes)
	if err != nil {
		return err
	}
	proposal, err := watched.Propose()
	if err != nil {
		return err
	}
	var applied *place.Applied
	var failed error
	if f.apply && !f.dryRun && len(proposal.Actions) > 0 {
		options := f.options(journal, func(line string) { terminal.Fprintln(a.err, line) })
		terminal.Fprintf(a.err, "trying the proposed changes, for up to %v each (seed %d)\n", options.Duration().Round(time.Second), f.seed)
		// What was tried until it failed is shown all the same.
		if applied, failed = place.Apply(ctx, watched, proposal, options); applied == nil {
			return failed
		}
		failed = errors.Join(failed, applied.Stopped)
	}
	return errors.Join(a.showPlace(f, watched, proposal, applied), failed)
}

func (f *placeFlags) options(journal *place.Journal, progress func(string)) place.ApplyOptions {
	return place.ApplyOptions{
		Pairs:    f.pairs,
		Window:   f.window,
		Settle:   f.settle,
		Seed:     f.seed,
		Journal:  journal,
		Progress: progress,
	}
}

func (a *app) showPlace(f *placeFlags, watched *place.Watched, proposal *place.Proposal, applied *place.Applied) error {
	here := hostRecord(host.Read("/"))
	sheet := place.Sheet(watched, proposal, applied, here)
	return a.presentLive("place", sheet, place.NewDocument(watched, proposal, applied, here), f.out, f.json)
}

// undoPlace restores what an earlier tare changed.
func (a *app) undoPlace(ctx context.Context, dir string, dry bool) error {
	if err := trustworthy(dir); err != nil {
		return err
	}
	undo := func(*lab.Session) error {
		n, err := a.giveBack(dir, place.All, dry)
		if err == nil && n == 0 {
			terminal.Fprintln(a.out, "tare place has changed nothing: nothing to restore")
		}
		return err
	}
	if dry {
		return undo(nil)
	}
	return alone(ctx, lab.LockPath, dir, undo)
}

// giveBack reverts what the journal holds, reports it, and counts it. A caller
// with dry unset holds the host's lock: what is unfinished may be a live trial's.
func (a *app) giveBack(dir string, which place.Which, dry bool) (int, error) {
	journal := place.OpenJournal(dir)
	// Where nothing was ever set, hosts without a tree of control groups are as good as any.
	if open, err := journal.Open(); err != nil || len(open) == 0 {
		return 0, err
	}
	layout, err := cgroup.Host()
	if err != nil {
		return 0, err
	}
	done, err := place.Undo(journal, layout, which, dry)
	failed := 0
	for _, u := range done {
		var foreign *cgroup.Foreign
		var gone *cgroup.Gone
		switch {
		case errors.As(u.Err, &gone):
			terminal.Fprintf(a.out, "%s: gone: %s\n", u.Container, u.Err)
		case errors.As(u.Err, &foreign):
			terminal.Fprintf(a.out, "%s: left alone: %s\n", u.Container, u.Err)
		case u.Err != nil:
			failed++
			terminal.Fprintf(a.err, "tare: %s: %s\n", u.Container, u.Err)
		case dry:
			terminal.Fprintf(a.out, "%s: would set %s to %q\n", u.Container, u.File, u.Old)
		default:
			terminal.Fprintf(a.out, "%s: %s restored to %q\n", u.Container, u.File, u.Old)
		}
	}
	if err != nil {
		return len(done), err
	}
	if failed > 0 {
		return len(done), fmt.Errorf("%d settings could not be restored; they stay in the journal: try tare place --undo again", failed)
	}
	return len(done), nil
}
