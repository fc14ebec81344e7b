package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"tare/annex/config"
	"tare/kernel/pagecache"
	"tare/kernel/swap"
	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/platform/box"
	"tare/report"
	"tare/study/density"
	"tare/workload"
)

// densityFlags are what the user asked for of `tare density`.
type densityFlags struct {
	studyFlags
	critical, criticalMemory string
	params                   []string
	rate                     float64
	noises, noiseParams      []string
	patterns                 []string
	think                    time.Duration
	burst                    int
	idleLoop                 string
	neighbours               string
	neighbourMemory          string
	firstPort                int
	box                      string
	swaps                    []string
	swapSize                 string
	clusters                 []string
	protects                 []string
	extends                  []string
	cross                    bool
	order                    string
	step                     string
	settle, stepLimit        time.Duration
	dropCaches, disruptive   bool

	boxes *box.Maker // the run's own, once there is one
	made  density.Options
}

func densityCommand() (*cobra.Command, *subStudy) {
	f := &densityFlags{studyFlags: studyFlags{whole: true}}
	cmd := &cobra.Command{
		Use:   "density [flags]",
		Short: "Measure what idle neighbours cost a service by their memory alone",
		Long: `Density runs a critical service beside more and more idle neighbours, as S3 (published
study of density) did. All neighbours together receive the same number of requests per
second, whatever their number, so the effect measured is that of their memory. The box
stands for the memory of a machine: a cgroup with a limit around all programs, a virtual
machine, or the whole host.

At each number of neighbours it measures the service's throughput and latency, swap
traffic, page faults and memory pressure. It finds the number at which throughput falls
and tail latency rises. Other kinds of swap, and ways to protect the service, are further
conditions of the same run.`,
		Example: `  tare density --quick
  tare density --swap file,zram
  tare density --protect none,swappiness,limit,headroom --order interleaved --neighbours 1,7,13,19
  tare density --critical redis --noise redis --neighbours 0:24:4 --box 512m
  tare density --box vm:1g --platform oci
  tare density --full --think 150us --drop-caches --disruptive --yes`,
		Args: noArguments("name the critical service by --critical"),
	}
	o := density.Default()
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.critical, "critical", density.DefaultCritical, "critical `WORKLOAD`, whose latency is measured")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the critical service")
	flags.StringVar(&f.criticalMemory, "critical-memory", "", "memory of the critical service, where it can be set (`SIZE`; default 5/16 of the box)")
	flags.Float64Var(&f.rate, "rate", 0, "requests per second to the critical service, by a schedule (default: the workload's own)")
	flags.StringSliceVar(&f.noises, "noise", []string{density.DefaultNoise}, "kinds of neighbours: one or more of "+strings.Join(density.Noises(), ","))
	flags.StringArrayVar(&f.noiseParams, "noise-param", nil, "NAME=VALUE: parameter of the neighbours")
	flags.StringSliceVar(&f.patterns, "pattern", []string{string(load.RandomTarget)}, "order and times of the requests to neighbours: random, periodic, poisson, heavy-tailed, drifting")
	flags.DurationVar(&f.think, "think", o.Think, "pause between two requests to the neighbours; the published script had 150us")
	flags.IntVar(&f.burst, "burst", o.Burst, "requests to a neighbour at once; pauses grow by the same factor")
	flags.StringVar(&f.idleLoop, "idle-loop", "open", "load on the neighbours: open (by a schedule) or closed (waits for answers, as the published study and --full)")
	flags.StringVar(&f.neighbours, "neighbours", "", "numbers of neighbours: FROM:TO:STEP or a list, such as 1:49:2 or 0,5,10 (default: up to 49)")
	flags.StringVar(&f.neighbourMemory, "neighbour-memory", "", "memory of each neighbour (`SIZE`; default 34/256 of the box, as published)")
	flags.IntVar(&f.firstPort, "first-port", o.FirstPort, "port of the first neighbour; the others use the next ones")
	flags.StringVar(&f.box, "box", "1g", "memory of the box: a size, vm:SIZE for a virtual machine of its own, or host (--disruptive)")
	flags.StringSliceVar(&f.swaps, "swap", []string{string(platform.SwapFile)}, "swap: file, zram, zswap, none; the first is that of the base condition")
	flags.StringVar(&f.swapSize, "swap-size", "", "size of swap (`SIZE`; default: what the greatest number of neighbours needs)")
	flags.StringSliceVar(&f.clusters, "page-cluster", nil, "vm.page-cluster: 2^N pages are read for one (default: as found; requires --disruptive)")
	flags.StringSliceVar(&f.protects, "protect", []string{string(platform.ProtectNone)}, "protection of the critical service: none, swappiness, limit, headroom")
	flags.StringSliceVar(&f.extends, "extend", []string{density.ExtendNone}, "memory extension: none, annex, annex:FILE (a configuration file)")
	flags.BoolVar(&f.cross, "cross", false, "combine all levels of swap, page-cluster, protect and extend, instead of varying one at a time")
	flags.StringVar(&f.order, "order", o.Order, "continuous: a trial adds neighbours step by step, as published; interleaved: each trial is one number, in a new box")
	flags.StringVar(&f.step, "step", fmt.Sprintf("%v+%v", o.Open, o.Closed), "time of the two loads of a step: by a schedule, and by clients that wait")
	flags.DurationVar(&f.settle, "settle", o.Settle, "time under load after neighbours were added, before a step is measured")
	flags.DurationVar(&f.stepLimit, "step-limit", o.StepLimit, "longest time of a part of a step: a sweep ends where one takes longer")
	flags.BoolVar(&f.dropCaches, "drop-caches", false, "empty the host's page cache before each step, as the published script did (requires --disruptive)")
	flags.BoolVar(&f.disruptive, "disruptive", false, "allow changes outside the box: page-cluster, zswap, the page cache, the host as box")
	flags.StringVar(&f.platform, "platform", "oci", "platform of the containers")
	flags.StringVar(&f.precision, "precision", "", "half-width of the intervals to reach, such as 5%, within --budget")
	f.register(cmd, "about a minute: three numbers of neighbours", "as the published study (S3): 1:49:2, a closed loop on the neighbours, longer loads, 10 blocks", []string{"network", "storage", "seccomp"})
	must(cmd.RegisterFlagCompletionFunc("critical", completeWorkloads))
	must(
		cmd.RegisterFlagCompletionFunc(
			"noise",
			cobra.FixedCompletions(density.Noises(), cobra.ShellCompDirectiveNoFileComp),
		),
	)
	return cmd, &subStudy{flags: &f.studyFlags, design: f.design, prepare: f.prepare, outline: f.outline}
}

func (f *densityFlags) design(cmd *cobra.Command, _ []string, host studyHost) (lab.Design, error) {
	o, err := f.options(cmd, host)
	if err != nil {
		return lab.Design{}, err
	}
	f.made = o
	return density.Design(o)
}

func (f *densityFlags) outline() ([]string, error) { return density.Outline(f.made) }

// options reads a whole command line.
func (f *densityFlags) options(cmd *cobra.Command, host studyHost) (density.Options, error) {
	changed := cmd.Flags().Changed
	o, plan, err := begin(&f.studyFlags, changed, density.Default, density.Quick, density.Full)
	if err != nil {
		return o, err
	}
	o.Plan, o.Seed = plan, f.seed
	if err := f.sharpen(&o.Plan); err != nil {
		return o, err
	}
	if o.Base, err = readSettings(f.settings); err != nil {
		return o, err
	}
	for _, read := range []func(*density.Options, func(string) bool) error{f.readBox, f.readNeighbours,
		f.readConditions, f.readSteps} {
		if err := read(&o, changed); err != nil {
			return o, err
		}
	}
	if o.Critical, o.Noises, err = f.subjects(); err != nil {
		return o, err
	}
	o.Host = f.host(host)
	return o, nil
}

// A swap area's header counts its pages in 32 bits: of 4 KiB they are just short of 16 TiB.
const (
	leastSwap = 1 << 20
	mostSwap  = 16<<40 - 4096
)

// readBox reads what the box is, and the platform in it.
func (f *densityFlags) readBox(o *density.Options, changed func(string) bool) error {
	b, err := density.ParseBox(f.box)
	if err != nil {
		return err
	}
	if !changed("box") && strings.HasPrefix(f.platform, "vm") {
		return usageError("--platform %s: set the memory of the virtual machine by --box vm:SIZE, and only the platform inside it by --platform", f.platform)
	}
	o.BoxKind, o.Box, o.Disruptive, o.Typed = b.Kind, b.Memory, f.disruptive, map[string]string{}
	if o.Platform, err = lab.CanonicalPlatform(b.On(f.platform)); err != nil {
		return err
	}
	for _, size := range []struct {
		flag, text string
		to         *int64
	}{{"swap-size", f.swapSize, &o.SwapSize}, {"neighbour-memory", f.neighbourMemory, &o.NeighbourMemory},
		{"critical-memory", f.criticalMemory, &o.CriticalMemory}} {
		if size.text == "" {
			continue
		}
		if *size.to, err = units.RAMInBytes(size.text); err != nil || *size.to <= 0 {
			return usageError("--%s %s: want a size, such as 64m", size.flag, size.text)
		}
		o.Typed[size.flag] = size.text
		if size.to == &o.SwapSize && (o.SwapSize < leastSwap || o.SwapSize > mostSwap) {
			return usageError("--swap-size %s: want from 1 MiB to less than 16 TiB", size.text)
		}
	}
	return nil
}

// readNeighbours reads who they are, and how they are asked.
func (f *densityFlags) readNeighbours(o *density.Options, changed func(string) bool) (err error) {
	if f.neighbours != "" || changed("neighbours") {
		if o.Neighbours, err = density.ParseNeighbours(f.neighbours); err != nil {
			return err
		}
	}
	o.Patterns = nil
	for _, p := range separated(f.patterns) {
		o.Patterns = append(o.Patterns, load.Pattern(p))
	}
	o.Think, o.Burst, o.FirstPort, o.Rate = f.think, f.burst, f.firstPort, f.rate
	switch {
	case changed("rate") && !(f.rate > 0):
		return usageError("--rate %g: want requests per second, above 0", f.rate)
	case f.idleLoop != "open" && f.idleLoop != "closed":
		return usageError("--idle-loop %s: want open or closed", f.idleLoop)
	case changed("idle-loop"):
		o.IdleClosed = f.idleLoop == "closed"
	}
	return nil
}

// readConditions reads what the conditions differ in.
func (f *densityFlags) readConditions(o *density.Options, changed func(string) bool) error {
	o.Swaps, o.Protects = nil, nil
	for _, s := range separated(f.swaps) {
		o.Swaps = append(o.Swaps, platform.SwapKind(s))
	}
	for _, p := range separated(f.protects) {
		o.Protects = append(o.Protects, platform.Protection(p))
	}
	if changed("page-cluster") {
		o.Clusters = nil
		for _, text := range separated(f.clusters) {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || n < 0 {
				return usageError("--page-cluster %s: want numbers from 0, such as 0,3", text)
			}
			o.Clusters = append(o.Clusters, n)
		}
	}
	o.Extends, o.Cross, o.Order = separated(f.extends), f.cross, f.order
	return readExtends(o)
}

// readExtends reads the configurations that the levels of --extend name.
func readExtends(o *density.Options) error {
	for _, level := range o.Extends {
		file, named := strings.CutPrefix(level, density.ExtendAnnex+":")
		if !named {
			continue
		}
		c, err := config.Load(file)
		if err != nil {
			return usageError("--extend %s: %w", level, err)
		}
		if o.ExtendConfigs == nil {
			o.ExtendConfigs = make(map[string]string)
		}
		o.ExtendConfigs[level] = c.String()
	}
	return nil
}

// readSteps reads how long they are.
func (f *densityFlags) readSteps(o *density.Options, changed func(string) bool) error {
	if changed("step") {
		open, closed, ok := strings.Cut(f.step, "+")
		var errs [2]error
		o.Open, errs[0] = time.ParseDuration(open)
		o.Closed, errs[1] = time.ParseDuration(closed)
		if !ok || errs[0] != nil || errs[1] != nil {
			return usageError("--step %s: want two durations, such as 4s+2s: by a schedule, and by clients that wait", f.step)
		}
	}
	o.Settle = f.settle
	given(changed, "step-limit", f.stepLimit, &o.StepLimit)
	if o.DropCaches = f.dropCaches; !f.dropCaches || !f.disruptive {
		return nil
	}
	if err := pagecache.Droppable(); err != nil {
		return withCode(exitHost, err)
	}
	return nil
}

// subjects are the critical service and its neighbours, with what was set of them.
func (f *densityFlags) subjects() (critical workload.Subject, noises []workload.Subject, err error) {
	all, err := readSubjects([]string{f.critical}, f.params, "")
	if err != nil {
		return critical, nil, err
	}
	if noises, err = readSubjects(separated(f.noises), nil, ""); err != nil {
		return critical, nil, err
	}
	for _, text := range f.noiseParams {
		name, _, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return critical, nil, usageError("--noise-param %s: want NAME=VALUE", text)
		}
		if !slices.ContainsFunc(noises, func(s workload.Subject) bool {
			_, taken := s.With(name, "")
			return taken
		}) {
			return critical, nil, usageError("--noise-param %s: none of the kinds of neighbours has such a parameter (list them: `tare workloads`)", name)
		}
	}
	noises, err = setSubjects(noises, f.noiseParams, "")
	return all[0], noises, err
}

// host is what a design of this study must know of the machine, and its trials need.
func (f *densityFlags) host(on studyHost) density.Host {
	boxes := f.boxes
	if boxes == nil {
		boxes = box.New(box.Options{StateDir: on.dir, Disruptive: f.disruptive})
	}
	h := density.Host{
		Host: on.Host, Look: box.FindProgram,
		Ahead: lab.Ahead, DropCaches: pagecache.Drop,
		Cluster: func() string {
			text, _ := swap.Host{}.PageCluster().Read() // unread, it is taken for another value
			return text
		},
		CheckPorts: func(ports []int) error { return platform.Spec{Ports: ports}.CheckPorts() },
	}
	if os.Geteuid() == 0 { // --dry-run is anybody's
		h.CheckBox = func(spec platform.BoxSpec) error { return boxes.Check(context.Background(), spec) }
	}
	return h
}

// beside is how much more memory than a box trials take of the host, as a share of it:
// what the kernel and the containers' runtimes keep outside of it.
const beside = 0.25

// prepare allows disruptive boxes where asked, and touches the memory that boxes are made of.
func (f *densityFlags) prepare(ctx context.Context, m *measuring, _ *studyHost) (func() error, error) {
	f.boxes = m.boxes
	if f.disruptive {
		m.boxes.Allow()
	}
	b, err := density.ParseBox(f.box)
	if err != nil || b.Memory == 0 {
		return nil, err
	}
	warmed, err := lab.WarmMemory(ctx, int64((1+beside)*float64(b.Memory)))
	if err != nil {
		return nil, err
	}
	if warmed.Bytes > 0 {
		m.progress.note(fmt.Sprintf("memory prepared: %d MiB touched at %s GiB/s, and again at %s GiB/s",
			warmed.Bytes>>20,
			report.Rounded(warmed.FirstRate()/(1<<30), 2),
			report.Rounded(warmed.AgainRate()/(1<<30), 2)))
	}
	if warmed.Less != "" {
		m.progress.note("less memory was prepared than is used: " + warmed.Less)
	}
	return nil, nil
}
