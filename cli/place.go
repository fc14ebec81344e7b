package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/host"
	"tare/lab"
	"tare/study/pages"
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
		Long: `Place watches running containers: which are critical for latency (short bursts on
a CPU, often woken, low demand), which compute (long bursts), how long each waits
for a CPU, and behind whom. Where one that answers waits behind one that computes, it
proposes CPUs of its own for it; where CPUs cannot be separated, shorter periods
of the other's quota, shares, or the real-time class. On a healthy host it
proposes nothing. Watching changes nothing.

With --apply it sets what it proposes on the control groups of the containers named
and of no others, with and without in turns, measures what both sides have, and
leaves it set only where it helped the one and left the other what is theirs. What
was there before is written down first: --undo gives it back, now or after a crash.
An engine that restarts a container sets its own limits again; the commands printed
make a change permanent, which --undo does not take back: that is between you and
the engine.`,
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
	flags.IntSliceVar(&f.pids, "pid", nil, "processes, each with its descendants, as if it were a container; their CPUs are never changed")
	flags.DurationVar(&f.span, "for", 10*time.Second, "how long they are watched")
	flags.DurationVar(&f.wait, "wait", usual.Wait, "the 99th percentile of the waits for a CPU from which on a container that answers suffers")
	flags.BoolVar(&f.apply, "apply", false, "try what is proposed, and leave set what helps")
	flags.IntVar(&f.pairs, "pairs", 10, fmt.Sprintf("with --apply: pairs of windows, with and without, by which a change is judged (at least %d)", place.FewestPairs))
	flags.DurationVar(&f.window, "window", 2*time.Second, "with --apply: how long each window is")
	flags.DurationVar(&f.settle, "settle", 200*time.Millisecond, "with --apply: how long after each change a window begins")
	flags.Int64Var(&f.seed, "seed", 0, "seed of the windows' order (default: drawn, and printed)")
	flags.BoolVar(&f.undo, "undo", false, "give back what an earlier --apply left set")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with --apply or --undo: say what would be changed, and change nothing")
	flags.BoolVar(&f.quick, "quick", false, "three seconds of watching, eight pairs of windows of a second")
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
				return usageError("--undo gives back all that was left set: --%s is not for it", flag)
			}
		}
		if named {
			return usageError("--undo gives back all that was left set: it takes no CONTAINER")
		}
		return nil
	}
	switch {
	case f.all && named:
		return usageError("--all is every container: name none beside it")
	case !f.all && !named:
		return usageError("name the containers to watch, or --all: only those named are ever changed")
	case f.wait <= 0:
		return usageError("--wait %v: want more than nothing", f.wait)
	case f.dryRun && !f.apply:
		return usageError("--dry-run is of --apply and --undo: watching alone changes nothing")
	}
	for _, flag := range []string{"pairs", "window", "settle", "seed"} {
		if changed(flag) && !f.apply {
			return usageError("--%s is of --apply", flag)
		}
	}
	for _, pid := range f.pids {
		if pid <= 0 {
			return usageError("--pid %d: ids of processes begin with 1", pid)
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
		return withCode(exitHost, errors.New("what other processes do on the CPUs is for root alone (CAP_BPF, CAP_PERFMON): run it with sudo"))
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
		if err := os.MkdirAll(f.out, 0o755); err != nil {
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
		return errors.New("an earlier tare place --apply was killed in the middle of a trial: first give back what it had changed: tare place --undo")
	}
	return nil
}

func (a *app) lookAndPlace(ctx context.Context, f *placeFlags, args []string, journal *place.Journal) error {
	containers, notes, err := f.found(ctx, args)
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
		terminal.Fprintf(a.err, "trying what is proposed, for up to %v each (seed %d)\n", options.Duration().Round(time.Second), f.seed)
		// What was tried until it failed is shown all the same.
		if applied, failed = place.Apply(ctx, watched, proposal, options); applied == nil {
			return failed
		}
		failed = errors.Join(failed, applied.Stopped)
	}
	return errors.Join(a.showPlace(f, watched, proposal, applied), failed)
}

func (f *placeFlags) options(journal *place.Journal, progress func(string)) place.ApplyOptions {
	return place.ApplyOptions{Pairs: f.pairs, Window: f.window, Settle: f.settle, Seed: f.seed, Journal: journal, Progress: progress}
}

// found finds what is asked about. Copies that a tare is measuring are its own affair.
func (f *placeFlags) found(ctx context.Context, args []string) ([]container.Container, []string, error) {
	finder := container.Open(container.Options{})
	if !f.all {
		names := separated(args)
		for _, pid := range f.pids {
			names = append(names, fmt.Sprintf("pid:%d", pid))
		}
		all, err := finder.FindEach(ctx, names)
		return all, nil, err
	}
	all, told, err := finder.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	var notes []string
	for _, n := range told {
		notes = append(notes, n.String())
	}
	measured := len(all)
	all = slices.DeleteFunc(all, pages.Measured)
	if measured -= len(all); measured > 0 {
		notes = append(notes, fmt.Sprintf("%d containers that tare is measuring are left out", measured))
	}
	if len(all) == 0 {
		return nil, nil, withCode(exitHost, errors.New("no container runs on this host: "+strings.Join(append(notes, "name processes with --pid"), "; ")))
	}
	return all, notes, nil
}

func (a *app) showPlace(f *placeFlags, watched *place.Watched, proposal *place.Proposal, applied *place.Applied) error {
	here := hostRecord(host.Read("/"))
	sheet := place.Sheet(watched, proposal, applied, here)
	sheet.Command = strings.Join(a.args, " ")
	for i, command := range sheet.Next {
		if strings.HasPrefix(command, "tare ") { // and not the engine's
			sheet.Next[i] = a.again(command)[0]
		}
	}
	return a.presentLive("place", sheet, place.NewDocument(watched, proposal, applied, here), f.out, f.json)
}

// undoPlace gives back what an earlier tare left set.
func (a *app) undoPlace(ctx context.Context, dir string, dry bool) error {
	if err := trustworthy(dir); err != nil {
		return err
	}
	undo := func(*lab.Session) error {
		n, err := a.giveBack(dir, place.All, dry)
		if err == nil && n == 0 {
			terminal.Fprintln(a.out, "nothing is set by tare place")
		}
		return err
	}
	if dry {
		return undo(nil)
	}
	return alone(ctx, lab.LockPath, dir, undo)
}

// giveBack undoes what the journal holds, tells it, and counts it. Whoever calls
// it with dry unset holds the host's lock: what is unfinished may be a live trial's.
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
			terminal.Fprintf(a.out, "%s: %s is %q again\n", u.Container, u.File, u.Old)
		}
	}
	if err != nil {
		return len(done), err
	}
	if failed > 0 {
		return len(done), fmt.Errorf("%d settings could not be given back; they stay in the journal, so that tare place --undo can be tried again", failed)
	}
	return len(done), nil
}
