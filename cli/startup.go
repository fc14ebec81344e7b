package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/kernel/pagecache"
	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/study/kit"
	"tare/study/startup"
	"tare/workload"
)

// startupFlags are what the user asked for.
type startupFlags struct {
	studyFlags
	watch *startup.Watching // nil until the run is made ready

	platforms  []string
	workloads  []string
	image      string
	rates      []string
	count      int
	arrivals   string
	params     []string
	knee       bool
	single     bool
	profile    bool
	cache      []string
	disruptive bool
	answerIn   time.Duration
	readyIn    time.Duration
}

// startupCommand makes the command and the place of its flags; resume reads a
// stored command line with another one.
func startupCommand() (*cobra.Command, *subStudy) {
	f := &startupFlags{}
	f.whole = true
	f.planning = planning{smallest: 0.05, usual: extent{budget: 20 * time.Minute}, quick: extent{budget: quickTime}}
	cmd := &cobra.Command{
		Use:   "startup [WORKLOAD...] [flags]",
		Short: "Time how fast containers start under load, and where time goes",
		Long: `Startup creates containers and starts them on a schedule that does not wait for
answers. Every start is timed from its intended moment: to the platform's answer,
to the application's first instruction, and to the first served request. It finds
the knee, the highest rate at which the backlog does not grow, and marks rates past
it. --profile adds the timeline of single starts, CPU time by component and by
function, and the causes of waits.`,
		Example: `  tare startup --quick
  tare startup redis --platform docker,oci:runc --rate 1,2,4,8
  tare startup --platform docker --rate 8 --profile --budget 5m
  tare startup empty --rate none --knee=false --cache warm,cold --disruptive`,
		ValidArgsFunction: completeWorkloads,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.platforms, "platform", nil, "platforms, the first being the baseline (default: docker, containerd, oci:runc, oci:crun, as far as this host has them)")
	flags.StringSliceVar(&f.rates, "rate", nil, "starts per second, one ramp each, or none (default 1,2,4,8)")
	flags.IntVar(&f.count, "count", 0, "containers of each ramp (default: four seconds' worth, 10 to 64)")
	flags.StringVar(&f.arrivals, "arrivals", string(load.Uniform), "how starts are spaced: uniform or poisson")
	flags.StringSliceVar(&f.workloads, "workload", nil, "the same as WORKLOAD: names of `tare workloads`, YAML files, all, or s1: the nine applications of S1 (default redis)")
	flags.StringVar(&f.image, "image", "", "image of the Docker engine or a kubelet, in place of the workload's own")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the workload")
	flags.BoolVar(&f.knee, "knee", true, "search the highest rate at which the backlog does not grow")
	flags.BoolVar(&f.single, "single", false, "start containers one at a time as well")
	flags.StringSliceVar(&f.cache, "cache", nil, "page cache of single starts: warm, cold (drops the host's page cache before each start)")
	flags.BoolVar(&f.disruptive, "disruptive", false, "allow what affects the whole host: dropping its page cache")
	flags.BoolVar(&f.profile, "profile", false, "show where the time goes: timeline, CPU profile, waits")
	flags.DurationVar(&f.answerIn, "start-limit", 0, "time after which an unanswered start has failed (default 1m, which is also the most that docker and containerd are given)")
	flags.DurationVar(&f.readyIn, "ready-limit", 0, "time after its answer in which a container must be ready (default 1m)")
	f.register(cmd, "about a minute: rates 2 and 8, no knee, docker and oci:runc where no platform is named", "", settingFlags)
	must(cmd.RegisterFlagCompletionFunc("workload", completeWorkloads))
	return cmd, &subStudy{
		less: "name fewer rates, workloads or platforms, or a smaller --budget", flags: &f.studyFlags,
		design: f.design, prepare: f.prepare,
	}
}

// s1Applications names those of S1 together.
const s1Applications = "s1"

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

// design reads a whole startup command line.
func (f *startupFlags) design(cmd *cobra.Command, args []string, host studyHost) (d lab.Design, err error) {
	changed := cmd.Flags().Changed
	o := startup.Options{
		Count: f.count, Knee: f.knee, Single: f.single, Profile: f.profile,
		AnswerLimit: f.answerIn, ReadyLimit: f.readyIn, Seed: f.seed, Host: host.Host,
	}
	if o.Plan, err = f.plan(changed); err != nil {
		return d, err
	}
	if o.Rates, err = f.readRates(); err != nil {
		return d, err
	}
	if changed("count") && f.count < 1 {
		return d, usageError("--count %d: want 1 to %d containers", f.count, startup.MaxCount)
	}
	switch o.Arrival = load.Arrival(f.arrivals); o.Arrival {
	case load.Uniform, load.Poisson:
	default:
		return d, usageError("--arrivals %s: want %s or %s", f.arrivals, load.Uniform, load.Poisson)
	}
	for flag, limit := range map[string]time.Duration{"start-limit": f.answerIn, "ready-limit": f.readyIn} {
		if changed(flag) && (limit < time.Millisecond || limit > time.Hour) {
			return d, usageError("--%s %v: want 1ms to 1h", flag, limit)
		}
	}
	if o.Base, err = readSettings(f.settings); err != nil {
		return d, err
	}
	names := append(separated(args), f.workloads...)
	if len(names) == 0 {
		names = []string{"redis"}
	}
	if slices.Equal(names, []string{s1Applications}) {
		if o.Subjects, err = startup.S1(); err == nil {
			o.Subjects, err = setSubjects(o.Subjects, f.params, f.image)
		}
	} else {
		o.Subjects, err = readSubjects(names, f.params, f.image)
	}
	if err != nil {
		return d, err
	}
	if err := f.readCache(&o); err != nil {
		return d, err
	}
	if f.quick {
		if !changed("rate") {
			o.Rates = []float64{2, 8}
		}
		if !changed("knee") {
			o.Knee = false
		}
		if len(f.platforms) == 0 {
			f.platforms = f.quickPlatforms(host)
		}
	}
	if o.Platforms, err = fullNames(f.platforms, lab.OwnPlatform); err != nil {
		return d, err
	}
	o.Platforms = kit.Once(o.Platforms)
	// What serves a port needs a network of its own, or there could be only one.
	if o.Base.Network == "" && needsNetwork(o.Subjects) {
		o.Base.Network = platform.NetworkBridge
	}
	// As on a host that lacks no probe: what is wrong with the rest is reported before
	// anything is touched.
	if o.Watch = startup.Planned(o.Profile); f.watch != nil {
		o.Watch = *f.watch
	}
	return startup.Design(o)
}

// prepare makes the probes that this host has.
func (f *startupFlags) prepare(context.Context, *measuring, *studyHost) (undo func() error, err error) {
	watch, stop := startup.Watch(f.profile)
	f.watch = &watch
	return func() error { stop(); return nil }, nil
}

// quickPlatforms are an engine and a runtime, as far as they are here.
func (f *startupFlags) quickPlatforms(host studyHost) (usable []string) {
	for _, name := range []string{"docker", "oci:runc"} {
		if _, err := host.Find(name); err == nil {
			usable = append(usable, name)
		}
	}
	return usable
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
		return withCode(exitHost, err)
	}
	return nil
}

// needsNetwork reports whether some workload serves a port.
func needsNetwork(subjects []workload.Subject) bool {
	for _, s := range subjects {
		params, err := workload.Resolve(s.Workload, s.Params)
		if err != nil {
			continue // reported by the design
		}
		if p, err := s.Workload.Program(params); err == nil && len(p.Ports) > 0 {
			return true
		}
	}
	return false
}
