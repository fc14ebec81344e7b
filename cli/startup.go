package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/kernel/pagecache"
	"tare/kernel/process"
	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/study/startup"
	"tare/terminal"
	"tare/workload"
)

// startupFlags are what the user asked for.
type startupFlags struct {
	platforms  []string
	workloads  []string
	image      string
	rates      []string
	count      int
	arrivals   string
	settings   map[string]*string
	params     []string
	knee       bool
	single     bool
	profile    bool
	cache      []string
	disruptive bool
	answerIn   time.Duration
	readyIn    time.Duration
	blocks     int
	budget     time.Duration
	seed       int64
	out, json  string
	dryRun     bool
	yes, quick bool
}

func (a *app) startup() *cobra.Command {
	cmd, f := startupCommand()
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.runStartup(cmd, f, args) }
	return cmd
}

// startupCommand makes the command and the place of its flags; resume reads a
// stored command line with another one.
func startupCommand() (*cobra.Command, *startupFlags) {
	f := &startupFlags{settings: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "startup [WORKLOAD...] [flags]",
		Short: "Time how fast containers come up under load, and where the time goes",
		Long: `Startup creates containers and starts them on a schedule that does not wait for
answers. Every start is timed from its intended moment: to the platform's answer,
to the application's first instruction, and to the first served request. It finds
the knee, the highest rate at which the backlog does not grow; a rate past it is
reported as such. --profile adds the time line of single starts, what the CPUs did
(by component and by function) and what was waited for.`,
		Example: `  tare startup --quick
  tare startup redis --platform docker,oci:runc --rate 1,2,4,8
  tare startup --platform docker --rate 8 --profile --budget 5m
  tare startup empty --rate none --knee=false --cache warm,cold --disruptive`,
		ValidArgsFunction: completeWorkloads,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.platforms, "platform", nil, "platforms, the first being the baseline (default: those of docker, containerd, oci:runc, oci:crun that this host has)")
	flags.StringSliceVar(&f.rates, "rate", nil, "starts a second, one ramp each, or none (default 1,2,4,8)")
	flags.IntVar(&f.count, "count", 0, "containers of each ramp (default: four seconds' worth, 10 to 64)")
	flags.StringVar(&f.arrivals, "arrivals", string(load.Uniform), "how starts are spaced: uniform or poisson")
	flags.StringSliceVar(&f.workloads, "workload", nil, "the same as WORKLOAD: names of `tare workloads`, YAML files, or all (default redis)")
	flags.StringVar(&f.image, "image", "", "image known to the Docker engine, in place of the workload's own")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the workload")
	flags.BoolVar(&f.knee, "knee", true, "search the highest rate at which the backlog does not grow")
	flags.BoolVar(&f.single, "single", false, "start containers one at a time as well")
	flags.StringSliceVar(&f.cache, "cache", nil, "page cache of single starts: warm, cold; cold drops the host's before each start")
	flags.BoolVar(&f.disruptive, "disruptive", false, "allow what reaches beyond the containers: dropping the host's page cache")
	flags.BoolVar(&f.profile, "profile", false, "say where the time goes: time line, CPU profile, waits")
	for _, key := range settingFlags {
		f.settings[key] = flags.String(key, "", settingDoc(key))
	}
	flags.DurationVar(&f.answerIn, "start-limit", 0, "time after which an unanswered start has failed (default 1m, which is also the most that docker and containerd are given)")
	flags.DurationVar(&f.readyIn, "ready-limit", 0, "time after its answer in which a container must be ready (default 1m)")
	flags.IntVar(&f.blocks, "blocks", 0, "number of blocks (default: as many as fit into --budget)")
	flags.DurationVar(&f.budget, "budget", 0, "time for measuring (default 20m unless --blocks is given)")
	flags.Int64Var(&f.seed, "seed", 0, "seed of every order and schedule (default: drawn, and printed)")
	flags.BoolVar(&f.quick, "quick", false, "about a minute: rates 2 and 8, no knee, docker and oci:runc where no platform is named")
	flags.StringVar(&f.out, "out", "", "directory for the HTML report (default: reports/ in the state directory)")
	flags.StringVar(&f.json, "json", "", "write the result as JSON to this file (- for standard output)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the conditions, the time and what would be touched, and run nothing")
	flags.BoolVar(&f.yes, "yes", false, "go ahead where it takes more than 30 minutes")
	must(cmd.RegisterFlagCompletionFunc("platform", completePlatforms))
	must(cmd.RegisterFlagCompletionFunc("workload", completeWorkloads))
	return cmd, f
}

// completeWorkloads offers the workloads that we ship, and files.
func completeWorkloads(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, w := range workload.All() {
		names = append(names, w.Name()+"\t"+w.Summary())
	}
	return names, cobra.ShellCompDirectiveDefault
}

func completePlatforms(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range lab.PlatformNames {
		names = append(names, p.Name+"\t"+p.Doc)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// options reads a whole startup command line.
func (f *startupFlags) options(cmd *cobra.Command, args []string, platforms func(string) (platform.Platform, error)) (startup.Options, error) {
	changed := cmd.Flags().Changed
	o := startup.Options{
		Count: f.count, Knee: f.knee, Single: f.single, Profile: f.profile,
		AnswerLimit: f.answerIn, ReadyLimit: f.readyIn, Seed: f.seed,
	}
	if !changed("seed") {
		o.Seed = drawSeed()
	}
	var err error
	if o.Plan, err = f.plan(changed); err != nil {
		return o, err
	}
	if o.Rates, err = f.readRates(); err != nil {
		return o, err
	}
	if changed("count") && f.count < 1 {
		return o, usageError("--count %d: want 1 to %d containers", f.count, startup.MaxCount)
	}
	switch o.Arrival = load.Arrival(f.arrivals); o.Arrival {
	case load.Uniform, load.Poisson:
	default:
		return o, usageError("--arrivals %s: want %s or %s", f.arrivals, load.Uniform, load.Poisson)
	}
	for flag, limit := range map[string]time.Duration{"start-limit": f.answerIn, "ready-limit": f.readyIn} {
		if changed(flag) && (limit < time.Millisecond || limit > time.Hour) {
			return o, usageError("--%s %v: want 1ms to 1h", flag, limit)
		}
	}
	if o.Base, err = readSettings(f.settings); err != nil {
		return o, err
	}
	names := append(separated(args), f.workloads...)
	if len(names) == 0 {
		names = []string{"redis"}
	}
	if o.Subjects, err = readSubjects(names, f.params, f.image); err != nil {
		return o, err
	}
	if err := f.readCache(&o); err != nil {
		return o, err
	}
	if f.quick {
		if !changed("rate") {
			o.Rates = []float64{2, 8}
		}
		if !changed("knee") {
			o.Knee = false
		}
		if len(f.platforms) == 0 {
			f.platforms = f.quickPlatforms(cmd.Context(), platforms)
		}
	}
	for _, name := range f.platforms {
		name, err := lab.OwnPlatform(name)
		if err != nil {
			return o, err
		}
		if !slices.Contains(o.Platforms, name) {
			o.Platforms = append(o.Platforms, name)
		}
	}
	// What serves a port needs a network of its own, or there could be only one.
	if o.Base.Network == "" && needsNetwork(o.Subjects) {
		o.Base.Network = platform.NetworkBridge
	}
	cpus, err := process.Affinity()
	if err != nil {
		return o, err
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	o.Host = kit.Host{CPUs: cpus, Platform: platforms, Check: func(p platform.Platform) error { return p.Check(ctx) }}
	return o, nil
}

// quickPlatforms are an engine and a runtime, as far as they are here.
func (f *startupFlags) quickPlatforms(ctx context.Context, platforms func(string) (platform.Platform, error)) []string {
	if ctx == nil {
		ctx = context.Background()
	}
	var usable []string
	for _, name := range []string{"docker", "oci:runc"} {
		if p, err := platforms(name); err == nil && p.Check(ctx) == nil {
			usable = append(usable, name)
		}
	}
	return usable
}

func (f *startupFlags) plan(changed func(string) bool) (record.Plan, error) {
	p := record.Plan{SmallestEffect: 0.05, Level: 0.95, Blocks: f.blocks, Budget: f.budget}
	switch {
	case changed("blocks") && (f.blocks < 1 || f.blocks > 10000):
		return p, usageError("--blocks %d: want 1 to 10000", f.blocks)
	case changed("budget") && f.budget < time.Second:
		return p, usageError("--budget %v: want at least 1s", f.budget)
	case f.quick && (changed("blocks") || changed("budget")):
		return p, usageError("--quick is a budget of its own: it goes without --blocks and --budget")
	case f.quick:
		p.Budget = 50 * time.Second
	case f.blocks == 0 && f.budget == 0:
		p.Budget = 20 * time.Minute
	}
	return p, nil
}

func (f *startupFlags) readRates() ([]float64, error) {
	if f.rates == nil {
		return startup.DefaultRates, nil
	}
	if slices.Equal(f.rates, []string{"none"}) {
		return nil, nil
	}
	var rates []float64
	for _, text := range f.rates {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(v >= startup.MinRate && v <= startup.MaxRate) {
			return nil, usageError("--rate %s: want %g to %g starts a second", text, startup.MinRate, float64(startup.MaxRate))
		}
		if !slices.Contains(rates, v) {
			rates = append(rates, v)
		}
	}
	return rates, nil
}

// readCache reads what single starts find in the page cache.
func (f *startupFlags) readCache(o *startup.Options) error {
	for _, c := range f.cache {
		switch c {
		case "warm":
			o.Single = true
		case "cold":
			o.Single, o.Cold = true, true
		default:
			return usageError("--cache %s: want warm or cold", c)
		}
	}
	if !o.Cold {
		return nil
	}
	if !f.disruptive {
		return usageError("--cache cold drops the page cache of the whole host: give --disruptive to allow it")
	}
	if err := pagecache.Droppable(); err != nil {
		return &codedError{exitHost, err}
	}
	return nil
}

// needsNetwork reports whether some workload serves a port.
func needsNetwork(subjects []workload.Subject) bool {
	for _, s := range subjects {
		params, err := workload.Resolve(s.Workload, s.Params)
		if err != nil {
			continue // told by the design
		}
		if p, err := s.Workload.Program(params); err == nil && len(p.Ports) > 0 {
			return true
		}
	}
	return false
}

func (a *app) runStartup(cmd *cobra.Command, f *startupFlags, args []string) error {
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := needRoot(); err != nil && !f.dryRun {
		return err
	}
	o, err := f.options(cmd, args, lab.Remover(dir))
	if err != nil {
		return err
	}
	// As on a host that lacks no probe: what is wrong with the rest is told
	// before anything is touched.
	o.Watch = startup.Planned(o.Profile)
	d, err := startup.Design(o)
	if err != nil {
		return err
	}
	pass := d.Pass()
	takes := max(d.Plan.Budget, pass)
	if d.Plan.Blocks > 0 {
		takes = pass * time.Duration(d.Plan.Blocks)
	}
	if f.dryRun {
		if err := a.printDesign(cmd.Context(), dir, d, takes, lab.Remover(dir)); err != nil {
			return err
		}
		terminal.Fprintf(a.out, "One block of everything takes about %v; an interval needs three blocks.\n", pass.Round(time.Second))
		return nil
	}
	if d.Plan.Budget > 0 && 3*pass > d.Plan.Budget && !f.quick {
		terminal.Fprintf(a.err, "one block of everything takes about %v: within --budget %v there will be %d, and an interval needs three blocks; name fewer rates, workloads or platforms, or give more time\n",
			pass.Round(time.Second), d.Plan.Budget, max(1, int(d.Plan.Budget/pass)))
	}
	if takes > longRun && !f.yes {
		return usageError("this takes about %v: give --yes to go ahead, or name fewer rates, workloads or platforms, or a smaller --budget", takes.Round(time.Minute))
	}
	m, err := a.measuring(cmd.Context(), dir, startup.Name, f.out, f.json)
	if err != nil {
		return err
	}
	defer m.close()
	o.Host.Platform = m.session.Platforms
	watch, stop := startup.Watch(o.Profile)
	defer stop()
	o.Watch = watch
	if d, err = startup.Design(o); err != nil {
		return err
	}
	run := record.Run{
		ID:      record.NewID(startup.Name, time.Now(), uint16(drawSeed())),
		Command: a.args,
		Version: versionText(),
		Started: time.Now(),
		Status:  record.Running,
		Host:    m.fingerprint(d),
	}
	run, err = m.lab.Run(cmd.Context(), d, run)
	return m.finish(run, err)
}

// resumeStartup goes on with a run of this study.
func (a *app) resumeStartup(ctx context.Context, dir string, run record.Run, out, json string) error {
	again, f := startupCommand()
	line, err := storedArguments(a, run.Command, "startup")
	if err == nil {
		err = again.ParseFlags(line)
	}
	if err != nil {
		return fmt.Errorf("run %s: its command line cannot be read again: %w", run.ID, err)
	}
	m, err := a.measuring(ctx, dir, startup.Name, out, json)
	if err != nil {
		return err
	}
	defer m.close()
	again.SetContext(ctx)
	o, err := f.options(again, again.Flags().Args(), m.session.Platforms)
	if err != nil {
		return err
	}
	watch, stop := startup.Watch(o.Profile)
	defer stop()
	o.Watch = watch
	d, err := startup.Design(o)
	if err != nil {
		return err
	}
	run, err = m.lab.Resume(ctx, d, run)
	return m.finish(run, err)
}
