package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/claim"
	hostfacts "tare/kernel/host"
	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/study/latency/network"
	"tare/terminal"
)

// studyFlags are those that all studies of a family have.
type studyFlags struct {
	platform  string
	settings  map[string]*string
	loadCPUs  string
	blocks    int
	budget    time.Duration
	precision string // where the study registers it
	seed      int64
	quick     bool
	full      bool
	out, json string
	dryRun    bool
	yes       bool
	// whole means that the program has the whole machine: nothing of tare's keeps
	// off its CPUs while it runs.
	whole    bool
	planning planning // the zero value is usualPlanning
}

// planning is what a study's plan is where the user says nothing of it.
type planning struct {
	smallest     float64 // effect of interest
	usual, quick extent
	most         int // blocks; 0 is 10000
}

// extent is how long a run goes on: a number of blocks, or a time.
type extent struct {
	blocks int
	budget time.Duration
}

func (e extent) String() string {
	if e.blocks > 0 {
		return strconv.Itoa(e.blocks)
	}
	return strings.Replace(e.budget.String(), "m0s", "m", 1)
}

// usualPlanning is that of most studies.
var usualPlanning = planning{smallest: 0.02, usual: extent{budget: 10 * time.Minute}, quick: extent{budget: quickTime}}

// subStudy is one study of a family, as its command has it.
type subStudy struct {
	name  string // empty where the family has one study alone, and goes by its name
	less  string // what to ask for less of, where it takes too long; empty is usual
	id    string // the beginning of its runs' ids, where that is not the family's and the study's name
	flags *studyFlags
	// design makes the design from the command line.
	design func(cmd *cobra.Command, args []string, on studyHost) (lab.Design, error)
	// preparing, where there is one, estimates how long the host takes to be made ready.
	preparing func(d lab.Design) time.Duration
	// prepare, where there is one, makes what the design needs of the host before it
	// can be run, and gives back what undoes that.
	prepare func(ctx context.Context, m *measuring, on *studyHost) (undo func() error, err error)
	// takes, where there is one, estimates the time of a design whose conditions do not say
	// theirs.
	takes func(d lab.Design, on studyHost) time.Duration
	// instead, where there is one, does what certain command lines ask for that is no run of a
	// design: done is then true.
	instead func(a *app, cmd *cobra.Command, args []string) (done bool, err error)
	// outline, where there is one, says more of the design that was made: what --dry-run
	// is asked for.
	outline func() ([]string, error)
}

// studyHost is what a design must know of the machine.
type studyHost struct {
	kit.Host
	dir          string         // of tare's state
	isElsewhere  bool           // another machine measures: paths are its own
	online       int            // how many CPUs the kernel has on line
	server, load []int          // where the program runs, and everything of tare's
	client       network.Client // the zero value until it is made
}

// subStudied makes a study's command and the places of its flags.
type subStudied func() (*cobra.Command, *subStudy)

// register makes the flags that all studies have. full says what --full is of this one;
// empty where it has none.
func (f *studyFlags) register(cmd *cobra.Command, quick, full string, knobs []string) {
	if f.planning == (planning{}) {
		f.planning = usualPlanning
	}
	f.settings = map[string]*string{}
	flags := cmd.Flags()
	for _, key := range settingFlags {
		if slices.Contains(knobs, key) {
			f.settings[key] = flags.String(key, "", settingDoc(key))
		} else {
			f.settings[key] = new(string)
		}
	}
	if !f.whole {
		flags.StringVar(&f.loadCPUs, "load-cpuset", "", "CPUs of the client, and of everything that tare does meanwhile (`LIST`; default: those that --cpuset-cpus leaves)")
	}
	if usual := f.planning.usual; usual.blocks > 0 {
		flags.IntVar(&f.blocks, "blocks", 0, "number of blocks (default "+usual.String()+" unless --budget is given)")
		flags.DurationVar(&f.budget, "budget", 0, "time for measuring, in place of a number of blocks")
	} else {
		flags.IntVar(&f.blocks, "blocks", 0, "number of blocks (default: as many as fit into --budget)")
		flags.DurationVar(&f.budget, "budget", 0, "time for measuring (default "+usual.String()+" unless --blocks is given)")
	}
	flags.Int64Var(&f.seed, "seed", 0, "seed of every order and schedule (default: drawn, and printed)")
	flags.BoolVar(&f.quick, "quick", false, quick)
	if full != "" {
		flags.BoolVar(&f.full, "full", false, full)
	}
	flags.StringVar(&f.out, "out", "", "directory for the HTML report (default: reports/ in the state directory)")
	flags.StringVar(&f.json, "json", "", "write the result as JSON to this file (- for standard output)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the conditions, the time and what would be touched, and run nothing")
	flags.BoolVar(&f.yes, "yes", false, "go ahead where it takes more than 30 minutes")
	if flags.Lookup("platform") != nil {
		must(cmd.RegisterFlagCompletionFunc("platform", completePlatforms))
	}
}

// quickTime is what is left of about a minute when images are there.
const quickTime = 50 * time.Second

func (f *studyFlags) plan(changed func(string) bool) (record.Plan, error) {
	p := record.Plan{SmallestEffect: f.planning.smallest, Level: 0.95, Blocks: f.blocks, Budget: f.budget}
	switch {
	case changed("blocks") && (f.blocks < 1 || f.blocks > cmp.Or(f.planning.most, 10000)):
		return p, usageError("--blocks %d: want 1 to %d", f.blocks, cmp.Or(f.planning.most, 10000))
	case changed("budget") && f.budget < time.Second:
		return p, usageError("--budget %v: want at least 1s", f.budget)
	case f.quick && f.full:
		return p, usageError("--quick and --full: want one of them")
	case f.quick && (changed("blocks") || changed("budget")):
		return p, usageError("--quick is a plan of its own: it goes without --blocks and --budget")
	case f.full && f.blocks == 0 && f.budget == 0:
		p.Blocks = fullBlocks
	case f.quick:
		p.Blocks, p.Budget = f.planning.quick.blocks, f.planning.quick.budget
	case f.blocks == 0 && f.budget == 0:
		p.Blocks, p.Budget = f.planning.usual.blocks, f.planning.usual.budget
	}
	return p, nil
}

// sharpen reads --precision into a plan.
func (f *studyFlags) sharpen(p *record.Plan) (err error) {
	if f.precision == "" {
		return nil
	}
	if f.blocks > 0 {
		return usageError("--precision and --blocks contradict: the one draws the number of blocks, the other fixes it")
	}
	p.Precision, err = percent("precision", f.precision)
	p.PilotBlocks = lab.DefaultPilot
	return err
}

// begin gives what a study's options are before any flag of its own is read: by
// default, quick or full, with the plan.
func begin[Options any](
	f *studyFlags,
	changed func(string) bool,
	byDefault, quick, full func() Options,
) (o Options, plan record.Plan, err error) {
	switch {
	case f.quick:
		o = quick()
	case f.full:
		o = full()
	default:
		o = byDefault()
	}
	if plan, err = f.plan(changed); err != nil {
		return o, plan, err
	}
	return o, plan, nil
}

// places reads which CPUs the program and the load have: a core of its own for
// the program, where there are two. What it means for a study that they share some is
// the study's to say.
func (f *studyFlags) places(host *studyHost) (base platform.Setting, err error) {
	if base, err = readSettings(f.settings); err != nil {
		return base, err
	}
	if base.CPUSet == "" {
		base.CPUSet = platform.FormatCPUList(host.CPUs[len(host.CPUs)-1:])
	}
	if why := base.Contradiction(host.CPUs); why != "" {
		return base, usageError("%s", why)
	}
	if host.server, err = platform.ParseCPUList(base.CPUSet); err != nil {
		return base, usageError("--cpuset-cpus %s: want a list of CPUs, such as 0-1,3", base.CPUSet)
	}
	if f.loadCPUs != "" {
		if host.load, err = f.loadPlace(); err != nil {
			return base, err
		}
	} else {
		host.load = slices.DeleteFunc(
			slices.Clone(host.CPUs),
			func(cpu int) bool { return slices.Contains(host.server, cpu) },
		)
	}
	if len(host.load) == 0 {
		host.load = host.CPUs
	}
	return base, nil
}

// shared means that the load runs on CPUs of the program's.
func (h *studyHost) shared() bool {
	return slices.ContainsFunc(h.load, func(cpu int) bool { return slices.Contains(h.server, cpu) })
}

// study makes the command of a study.
func (a *app) study(family string, study subStudied) *cobra.Command {
	cmd, s := study()
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.runSub(cmd, family, s, args) }
	return cmd
}

// grouped makes a command that has nothing but commands. takes lists them in words, and noun
// says what they are.
func grouped(cmd *cobra.Command, noun, takes string) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageError("unknown %s %q: tare %s takes %s", noun, args[0], cmd.Name(), takes)
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usageError("which? tare %s takes %s", cmd.Name(), takes)
	}
	return cmd
}

// noArguments refuses arguments of a command that has none; meant, where it is not empty, is
// what they would be given by.
func noArguments(meant string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		instead := cmd.UseLine()
		if meant != "" {
			instead = meant + " " + strings.Join(args, ",")
		}
		return usageError("%s takes no arguments: %s", strings.TrimPrefix(cmd.CommandPath(), "tare "), instead)
	}
}

// given takes what a flag was given, and leaves the default where it was not.
func given[T any](changed func(string) bool, flag string, from T, to *T) {
	if changed(flag) {
		*to = from
	}
}

// fullNames are platforms by their full names: those of resolve, which may refuse one.
func fullNames(names []string, resolve func(string) (string, error)) (full []string, err error) {
	for _, name := range names {
		if name, err = resolve(name); err != nil {
			return nil, err
		}
		full = append(full, name)
	}
	return full, nil
}

// runSub runs one study of a family, from its command line.
func (a *app) runSub(cmd *cobra.Command, family string, s *subStudy, args []string) (err error) {
	if err := a.refuseForOne(cmd); err != nil {
		return err
	}
	if s.instead != nil {
		if done, err := s.instead(a, cmd, args); done || err != nil {
			return err
		}
	}
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := needRoot(); err != nil && !s.flags.dryRun && a.elsewhere == nil {
		return err
	}
	host, err := a.designHost(cmd.Context(), dir)
	if err != nil {
		return err
	}
	host.dir = dir
	if !cmd.Flags().Changed("seed") {
		s.flags.seed = drawSeed()
	}
	d, err := s.design(cmd, args, host)
	if err != nil {
		return err
	}
	if err := a.checkServices(family, d); err != nil {
		return err
	}
	before, pass, takes := s.expected(d, host)
	if s.flags.dryRun {
		if a.elsewhere != nil {
			study := a.studyElsewhere(record.NewID(family, time.Now(), 0), dir, d)
			if err := a.elsewhere.Check(cmd.Context(), study); err != nil {
				return err
			}
		}
		if err := a.printDesign(cmd.Context(), dir, d, takes, host.Platform); err != nil || s.takes != nil {
			return err
		}
		terminal.Fprintf(a.out, "Preparation and warm-up take about %v, one block of everything about %v. An interval takes three blocks.\n",
			before.Round(time.Second), pass.Round(time.Second))
		if note := fewBlocks(d.Plan.Budget, before, pass); note != "" {
			terminal.Fprintln(a.out, note)
		}
		if s.outline == nil {
			return nil
		}
		lines, err := s.outline()
		for _, line := range lines {
			terminal.Fprintln(a.out, line)
		}
		return err
	}
	if note := fewBlocks(d.Plan.Budget, before, pass); note != "" && !s.flags.quick {
		terminal.Fprintln(a.err, note)
	}
	if takes > longRun && !s.flags.yes && a.of == nil {
		return usageError("this takes about %v: give --yes to go ahead, or %s", takes.Round(time.Minute), cmp.Or(s.less, "name fewer conditions, or a smaller --budget"))
	}
	id := record.NewID(
		cmp.Or(s.id, strings.TrimSuffix(family+"-"+s.name, "-")),
		time.Now(),
		uint16(drawSeed()),
	)
	if a.elsewhere != nil {
		study := a.studyElsewhere(id, dir, d)
		if err := a.elsewhere.Check(cmd.Context(), study); err != nil {
			return err
		}
		return a.elsewhere.Carry(cmd.Context(), study)
	}
	return a.measureSub(
		cmd.Context(),
		family,
		s,
		cmd,
		args,
		dir,
		s.flags.out,
		s.flags.json,
		func(m *measuring, d lab.Design) (record.Run, error) {
			if a.of != nil {
				id, d.Plan.Part = a.of.ID(), a.of
			}
			run := record.Run{
				ID:      id,
				Command: a.args,
				Version: versionText(),
				Started: time.Now(),
				Status:  record.Running,
				Host:    m.fingerprint(d),
			}
			return m.lab.Run(cmd.Context(), d, run)
		},
	)
}

// expected is how long the run takes before its first block, one block of everything, and the run.
func (s *subStudy) expected(d lab.Design, on studyHost) (before, pass, takes time.Duration) {
	before, pass = d.Expected(0), d.Pass()
	if s.preparing != nil {
		before += s.preparing(d)
	}
	takes = max(d.Plan.Budget, before+pass)
	if d.Plan.Blocks > 0 {
		takes = before + pass*time.Duration(d.Plan.Blocks)
	}
	if s.takes != nil {
		takes = s.takes(d, on)
	}
	return before, pass, takes
}

// fewBlocks says that too few blocks for an interval fit into a budget, and what does;
// empty where they do, or nothing is budgeted.
func fewBlocks(budget, before, pass time.Duration) string {
	const few = 3 // an interval takes as many
	needs := before + few*pass
	if budget <= 0 || needs <= budget {
		return ""
	}
	fit, minutes := max(1, int((budget-before)/pass)), (needs+time.Minute-1)/time.Minute
	return fmt.Sprintf("%s of about %v fit into %v, and an interval takes three: --budget %dm, or name fewer conditions",
		report.Counted(fit, "block"), pass.Round(time.Second), budget, minutes)
}

// measureSub makes everything ready, runs, and shows what came of it.
func (a *app) measureSub(
	ctx context.Context,
	family string,
	s *subStudy,
	cmd *cobra.Command,
	args []string,
	dir, out, json string,
	run func(*measuring, lab.Design) (record.Run, error),
) (err error) {
	m, err := a.measuring(ctx, dir, family, out, json)
	if err != nil {
		return err
	}
	defer m.close()
	host, err := studyHostFor(ctx, m.session.Platforms)
	if err != nil {
		return err
	}
	host.dir = dir
	if s.prepare != nil {
		var undo func() error
		undo, err = s.prepare(ctx, m, &host)
		if undo != nil {
			defer func() { err = errors.Join(err, undo()) }()
		}
		if err != nil {
			return err
		}
	}
	d, err := s.design(cmd, args, host)
	if err != nil {
		return err
	}
	if s.flags.whole {
		done, err := run(m, d)
		return m.finish(done, err)
	}
	if _, err := s.flags.places(&host); err != nil {
		return err
	}
	m.loadCPUs = host.load
	restore, err := process.Confine(host.load)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	done, err := run(m, d)
	return m.finish(done, err)
}

func studyHostFor(ctx context.Context, platforms func(string) (platform.Platform, error)) (studyHost, error) {
	cpus, err := process.Affinity()
	if err != nil {
		return studyHost{}, err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	facts := hostfacts.Read("/")
	return studyHost{online: facts.CPUs, Host: kit.Host{
		CPUs:     cpus,
		Memory:   facts.Memory,
		Caches:   hostfacts.LastLevelCaches("/"),
		Platform: platforms,
		Check:    func(p platform.Platform) error { return p.Check(ctx) },
	}}, nil
}

// resumeSub goes on with a run of a family's studies.
func (a *app) resumeSub(
	ctx context.Context,
	commands []subStudied,
	dir string,
	run record.Run,
	out, json string,
) error {
	cmd, s, err := a.readLine(commands, run.Command)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.ID, err)
	}
	cmd.SetContext(ctx)
	return a.measureSub(
		ctx,
		run.Study,
		s,
		cmd,
		cmd.Flags().Args(),
		dir,
		out,
		json,
		func(m *measuring, d lab.Design) (record.Run, error) {
			// What the run left has been undone by now, such as huge pages that were set.
			if err := claim.Unchanged(run.Host, hostRecord(hostfacts.Read("/"))); err != nil {
				return run, fmt.Errorf("run %s cannot be resumed: %w: measure it anew", run.ID, err)
			}
			return m.lab.Resume(ctx, d, run)
		},
	)
}

// readLine makes the command, of some, that a whole command line is of, and reads its flags.
func (a *app) readLine(commands []subStudied, whole []string) (*cobra.Command, *subStudy, error) {
	for _, command := range commands {
		cmd, s := command()
		line, err := storedArguments(a, whole, cmd.Name())
		if err != nil {
			continue
		}
		if err := cmd.ParseFlags(line); err != nil {
			return nil, nil, fmt.Errorf("its command line cannot be read again: %w", err)
		}
		return cmd, s, nil
	}
	return nil, nil, fmt.Errorf("its command line %q cannot be read again", strings.Join(whole, " "))
}
