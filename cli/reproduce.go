package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tare/claim"
	"tare/kernel/file"
	hostfacts "tare/kernel/host"
	"tare/kernel/nvidia"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/gpu"
	"tare/study/kit"
	"tare/study/reproduction"
	"tare/terminal"
)

// reproduceFlags are what the user asked for of `tare reproduce`.
type reproduceFlags struct {
	quick, full, disruptive bool
	dryRun, yes             bool
	budget                  time.Duration
	out, json               string
}

func (a *app) reproduce() *cobra.Command {
	f := &reproduceFlags{}
	cmd := &cobra.Command{
		Use:   "reproduce [ID...] [flags]",
		Short: "Run what published claims need, and show them beside what this host says",
		Long: `Reproduce runs the studies that decide published claims: those that ID names (S1.1, or
a paper: S1), or all. One run often decides several claims, and is made once. Then it
prints one table, and writes one page with a chapter a paper.

Each run is made by the study's own command. Runs that are there already, by the same
measuring code, are not made again, and one that was stopped is finished: the same
command goes on where the last one ended. Claims that this host cannot decide are
listed with the host that could; what it shows of them is measured in short.`,
		Example: `  tare reproduce --dry-run
  tare reproduce --quick --yes
  tare reproduce S4.2 S5
  tare reproduce --budget 2h --yes`,
		ValidArgsFunction: completeClaims,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.quick, "quick", false, "three short blocks of each run, in 45 minutes unless --budget gives another time")
	flags.BoolVar(&f.full, "full", false, "the published sizes; takes weeks")
	flags.DurationVar(&f.budget, "budget", 0, "time for all runs, shared among them: those whose three blocks do not fit are left for the next time")
	flags.BoolVar(&f.disruptive, "disruptive", false, "allow what affects the whole host: taking CPUs offline, setting transparent huge pages")
	flags.StringVar(&f.out, "out", "", "directory for the HTML pages (default: reports/ in the state directory)")
	flags.StringVar(&f.json, "json", "", "write the claims as JSON to this file (- for standard output)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the runs and their times, and run nothing")
	flags.BoolVar(&f.yes, "yes", false, "go ahead where it takes more than 30 minutes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		claims, _, err := chosenClaims(args)
		if err != nil {
			return err
		}
		return a.runReproduce(cmd, f, claims)
	}
	return cmd
}

func (f *reproduceFlags) extent() (reproduction.Extent, error) {
	switch {
	case f.quick && f.full:
		return 0, usageError("--quick and --full: want one of them")
	case f.quick:
		return reproduction.Quick, nil
	case f.full:
		return reproduction.Full, nil
	}
	return reproduction.Usual, nil
}

// runReproduce plans, runs what is not there, and shows all.
func (a *app) runReproduce(cmd *cobra.Command, f *reproduceFlags, claims []claim.Claim) error {
	extent, err := f.extent()
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("budget") && f.budget < time.Second {
		return usageError("--budget %v: want at least 1s", f.budget)
	}
	if err := needRoot(); err != nil && !f.dryRun {
		return err
	}
	if err := writable(f.json); err != nil {
		return err
	}
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	r := a.reproducing(f, dir, extent, claims)
	if !f.dryRun {
		// A page that cannot be written is found out now, not after all runs.
		if err := trustworthy(dir); err != nil {
			return err
		}
		if err := file.OutputDirectory(r.pages()); err != nil {
			return usageError("--out: %v", err)
		}
		// What a killed run left is undone first: it may have set what the host is known by.
		session, _, err := lab.OpenSession(cmd.Context(), lab.LockPath, dir, "reproduce")
		if err == nil {
			err = session.Close()
		}
		if err != nil {
			return err
		}
		r.here = hostRecord(hostfacts.Read("/"))
	}
	on, err := planningHost(cmd.Context(), dir)
	if err != nil {
		return err
	}
	r.on = abilitiesFor(claims, on)
	design := a.designer(cmd.Context(), on)
	plan := reproduction.NewPlan(claims, extent, r.on, f.disruptive, design)
	for _, l := range plan.Left {
		r.leave(l.Claims, l.Why)
	}
	if f.quick && f.budget == 0 {
		f.budget = quickReproduction
	}
	todo, err := r.print(plan)
	if err != nil || f.dryRun {
		return err
	}
	if todo > longRun && !f.yes {
		return usageError("this takes about %s: give --yes to go ahead, or name fewer claims, --quick or a --budget",
			about(todo))
	}
	failed := r.carryOut(cmd.Context(), plan)
	if is[*lab.Busy](failed) {
		return failed
	}
	return errors.Join(r.present(cmd), failed)
}

// planningHost is what designs must know of this host. It checks each platform once: to try a
// virtual machine is to boot one.
func planningHost(ctx context.Context, dir string) (studyHost, error) {
	on, err := studyHostFor(ctx, lab.Remover(dir))
	if err != nil {
		return on, err
	}
	on.dir = dir
	check, tried := on.Check, map[string]error{}
	on.Check = func(p platform.Platform) error {
		if _, known := tried[p.Name()]; !known {
			tried[p.Name()] = check(p)
		}
		return tried[p.Name()]
	}
	return on, nil
}

// quickReproduction is the time of --quick where --budget gives no other.
const quickReproduction = 45 * time.Minute

// abilitiesFor are those of this host that some claims need. Whether KVM runs a guest is tried only
// where one of them needs it.
func abilitiesFor(claims []claim.Claim, host studyHost) claim.Abilities {
	on := claim.Abilities{CPUs: host.online, GPU: gpu.Lacks(nvidia.Host{}) == nil}
	for _, ability := range hostfacts.Abilities() {
		switch ability.Name {
		case "hardware counters":
			on.Counters = ability.OK
		case "CPU frequency":
			on.Clock = ability.OK
		}
	}
	withKVM := on
	withKVM.KVM = true
	if !slices.ContainsFunc(claims, func(c claim.Claim) bool { return len(c.Unmet(on)) != len(c.Unmet(withKVM)) }) {
		return on
	}
	p, err := host.Platform("vm:kvm/bare")
	on.KVM = err == nil && host.Check(p) == nil
	return on
}

// designer designs what command lines measure, as their --dry-run does.
func (a *app) designer(ctx context.Context, on studyHost) reproduction.Designer {
	return func(study string, line []string) (reproduction.Designed, error) {
		cmd, s, err := a.readLine(studies()[study].commands, line)
		if err != nil {
			return reproduction.Designed{}, err
		}
		cmd.SetContext(ctx)
		s.flags.dryRun, s.flags.seed = true, 1
		d, err := s.design(cmd, cmd.Flags().Args(), on)
		if err != nil {
			return reproduction.Designed{}, err
		}
		_, _, takes := s.expected(d, on)
		flags := cmd.Flags()
		return reproduction.Designed{
			Design: d, Takes: takes, Full: flags.Lookup("full") != nil, Disruptive: flags.Changed("disruptive"),
		}, nil
	}
}

// reproducing is one invocation of `tare reproduce`.
type reproducing struct {
	app     *app
	flags   *reproduceFlags
	dir     string
	extent  reproduction.Extent
	claims  []claim.Claim
	here    record.Host
	on      claim.Abilities
	left    map[string]string // why nothing was run, by claim
	counted map[string]int    // the blocks of complete runs, once they were read
	// measure makes a run, or finishes it.
	measure func(ctx context.Context, run reproduction.Run, state reproduction.State) error
}

func (a *app) reproducing(
	f *reproduceFlags,
	dir string,
	extent reproduction.Extent,
	claims []claim.Claim,
) *reproducing {
	r := &reproducing{
		app: a, flags: f, dir: dir, extent: extent, claims: claims,
		here: hostRecord(hostfacts.Read("/")), left: map[string]string{}, counted: map[string]int{},
	}
	r.measure = r.one
	return r
}

// stored reads what has been measured.
func (r *reproducing) stored() (s reproduction.Stored, notes []string, err error) {
	s = reproduction.Stored{
		Here: r.here, Short: r.flags.budget > 0, SameCode: sameCode, Killed: killed, Blocks: r.blocks,
	}
	if s.Latest, notes, err = r.app.bestJudgements(r.here); err != nil {
		return s, nil, err
	}
	if _, err := os.Stat(filepath.Join(r.dir, storeFile)); errors.Is(err, fs.ErrNotExist) {
		return s, notes, nil
	}
	store, err := r.app.openStore()
	if err != nil {
		return s, nil, err
	}
	defer store.Close()
	s.Runs, err = store.Runs()
	return s, notes, err
}

// blocks reads a run's trials, which a list of runs has not, and counts its blocks.
func (r *reproducing) blocks(listed record.Run) (int, error) {
	if n, ok := r.counted[listed.ID]; ok {
		return n, nil
	}
	store, err := r.app.openStore()
	if err != nil {
		return 0, err
	}
	defer store.Close()
	run, err := store.Run(listed.ID)
	if err != nil {
		return 0, err
	}
	r.counted[listed.ID] = claim.Blocks(run)
	return r.counted[listed.ID], nil
}

// sameCode tells whether the measuring code of a run is this one.
func sameCode(run record.Run) bool { return run.Plan.Code == lab.Code }

// screen is where people read: standard error where the JSON has standard output.
func (r *reproducing) screen() io.Writer {
	if r.flags.json == "-" {
		return r.app.err
	}
	return r.app.out
}

// print gives the runs their times, shows the plan, and gives the time of what is not there yet.
func (r *reproducing) print(plan reproduction.Plan) (todo time.Duration, err error) {
	stored, _, err := r.stored()
	if err != nil {
		return 0, err
	}
	if err := r.fit(plan.Runs, stored, 0); err != nil {
		return 0, err
	}
	var list []report.ClaimRun
	runs, claims := len(plan.Runs), len(r.claims)-len(r.left)
	for _, run := range plan.Runs {
		state, err := stored.StateOf(run, r.extent)
		if err != nil {
			return 0, err
		}
		says := "about " + about(run.Takes)
		if state.Resume != nil {
			says = "at most " + about(run.Takes) + ", to finish " + state.Resume.ID
		}
		switch {
		case state.Decided != "":
			says = "there, by " + state.Decided
		case r.flags.budget > 0 && todo+run.Takes > r.flags.budget:
			says = "left for the next time: three blocks do not fit into --budget"
			runs, claims = runs-1, claims-len(run.Claims)
		default:
			todo += run.Takes
		}
		list = append(list, report.ClaimRun{Claims: run.Claims, Command: r.app.withHome(run.Command), Says: says})
	}
	for _, l := range plan.Left {
		list = append(list, report.ClaimRun{Claims: l.Claims, Says: "not run: " + l.Why})
	}
	out := r.screen()
	total := fmt.Sprintf("%s for %s, about %s where images are there.",
		report.Counted(runs, "run"), report.Counted(claims, "claim"), about(todo))
	opt := report.TerminalOptions{Width: terminalWidth(out), Color: isTerminal(out)}
	return todo, report.ClaimRuns(out, list, total, opt)
}

// fit shares the rest of --budget among the runs that have no result yet.
func (r *reproducing) fit(runs []reproduction.Run, stored reproduction.Stored, spent time.Duration) error {
	if r.flags.budget == 0 {
		return nil
	}
	var pending []*reproduction.Run
	for i := range runs {
		state, err := stored.StateOf(runs[i], r.extent)
		if err != nil {
			return err
		}
		if state.Decided == "" {
			pending = append(pending, &runs[i])
		}
	}
	reproduction.Fit(pending, r.flags.budget-spent)
	return nil
}

// about is a time for people.
func about(d time.Duration) string {
	if d >= time.Minute {
		d = d.Round(time.Minute)
	}
	return kit.Exact(d.Round(time.Second))
}

// carryOut makes the runs that are not there. One that fails does not keep the others from being
// made: the error says how many did, or that the user stopped.
func (r *reproducing) carryOut(ctx context.Context, plan reproduction.Plan) error {
	began, failed := time.Now(), 0
	for i := range plan.Runs {
		stored, _, err := r.stored()
		if err != nil {
			return err
		}
		if err := r.fit(plan.Runs[i:], stored, time.Since(began)); err != nil {
			return err
		}
		run := plan.Runs[i]
		state, err := stored.StateOf(run, r.extent)
		if err != nil {
			return err
		}
		switch {
		case state.Decided != "":
			continue
		case ctx.Err() != nil:
			r.leave(run.Claims, "stopped before it; the same command goes on")
			continue
		case r.flags.budget > 0 && time.Since(began)+run.Takes > r.flags.budget:
			r.leave(run.Claims, "did not fit into --budget; the same command goes on")
			continue
		}
		terminal.Fprintf(r.app.err, "\n%d of %d, for %s: about %s\n%s\n",
			i+1, len(plan.Runs), report.ClaimSpans(run.Claims), about(run.Takes), terminal.Shell(run.Command...))
		err = r.measure(ctx, run, state)
		switch {
		case err == nil:
		case is[*lab.Busy](err):
			return err
		case ctx.Err() != nil:
			r.leave(run.Claims, "stopped while it ran; the same command goes on")
		default:
			r.leave(run.Claims, "failed: "+err.Error())
			failed++
			terminal.Fprintf(r.app.err, "failed: %s\n", err)
		}
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the same command goes on", lab.ErrStopped)
	case failed > 0:
		return fmt.Errorf("%s failed, as the table says", report.Counted(failed, "run"))
	}
	return nil
}

func (r *reproducing) leave(claims []claim.Claim, why string) {
	for _, c := range claims {
		r.left[c.ID] = why
	}
}

// one makes a run as its own command does, or finishes it. Its screen is left to its page.
func (r *reproducing) one(ctx context.Context, run reproduction.Run, state reproduction.State) error {
	line := append(slices.Clone(run.Command), "--yes")
	own := &app{out: terminal.To(io.Discard), err: r.app.err, args: line, home: r.app.home, part: true}
	if state.Resume != nil {
		return own.resumeSub(ctx, studies()[run.Study].commands, r.dir, run.Going(*state.Resume), r.flags.out, "")
	}
	args := own.withHome(line)[1:] // before the flag of that name gets its default
	root := own.root()
	root.SilenceUsage, root.SilenceErrors = true, true
	if r.flags.out != "" {
		args = append(args, "--out", r.flags.out)
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// present shows what came of all claims, and writes the page.
func (r *reproducing) present(cmd *cobra.Command) error {
	stored, notes, err := r.stored()
	if err != nil {
		return err
	}
	rows := claim.Rows(r.claims, stored.Latest, func(c claim.Claim) bool { return runnable(cmd.Root(), c) })
	for i := range rows {
		rows[i].Left = r.left[rows[i].ID]
		if rows[i].Left == "" && rows[i].Judgement.Verdict == claim.NotYetRun {
			rows[i].Left = "its run holds nothing by which it is judged: the notes of `tare show` name what this host left out"
		}
	}
	result := reproduction.Result{Rows: rows, Here: r.here, On: &r.on, Runs: stored.Runs, Notes: notes}
	if result.Pages, err = r.app.pagesOf(rows); err != nil {
		return err
	}
	sheet := result.Sheet()
	sheet.Version = versionText()
	if r.flags.json != "" {
		if err := r.app.emitJSON(r.flags.json, claim.NewDocument(r.here, rows, notes)); err != nil {
			return err
		}
	}
	page := filepath.Join(r.pages(), "reproduce.html")
	if err := file.OutputDirectory(r.pages()); err != nil {
		return err
	}
	if err := file.Replace(page, func(w io.Writer) error { return report.SheetHTML(w, sheet) }); err != nil {
		return err
	}
	out := r.screen()
	return report.SheetTerminal(out, sheet, report.TerminalOptions{
		Width: terminalWidth(out), Color: isTerminal(out), Report: page, Next: r.app.again("tare claims " + r.claims[0].ID),
	})
}

// pages is the directory of the HTML pages.
func (r *reproducing) pages() string { return cmp.Or(r.flags.out, filepath.Join(r.dir, "reports")) }

// pagesOf are the pages of the runs that verdicts rest on.
func (a *app) pagesOf(rows []claim.Row) (map[string]report.Sheet, error) {
	pages := map[string]report.Sheet{}
	for _, row := range rows {
		id := row.Judgement.Run
		if _, there := pages[id]; there || id == "" {
			continue
		}
		store, err := a.openStore()
		if err != nil {
			return nil, err
		}
		run, err := store.Run(id)
		if err == nil {
			pages[id], err = sheetOf(run, store, nil)
		}
		if err := errors.Join(err, store.Close()); err != nil {
			return nil, err
		}
	}
	return pages, nil
}
