package cli

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	"tare/study/platforms"
	"tare/workload"
)

// platformsFlags are what the user asked for of `tare platforms`.
type platformsFlags struct {
	studyFlags
	workloads  []string
	params     []string
	platforms  []string
	presets    []string
	cpus       []string
	instances  []string
	hosts      []string
	tasks      []string
	causes     string
	disruptive bool
	repeats    int
	hot        func(cpus int) (func() error, error) // set where a run may take CPUs off line
}

func platformsCommand() (*cobra.Command, *subStudy) {
	f := &platformsFlags{studyFlags: studyFlags{whole: true}}
	cmd := &cobra.Command{
		Use:   "platforms [flags]",
		Short: "Compare bare metal, containers and virtual machines, by size",
		Long: `Platforms runs the programs of S2 (published comparison of platforms) on bare metal, in
containers, in virtual machines, and in containers in virtual machines. Each gets its
CPUs by a quota (vanilla) or by a cpuset (pinned), at several sizes. The result is the
time relative to bare metal with as many CPUs, with intervals. The report also
separates the cost of a platform's type from that of its size, shows where the time
goes, and has verdicts on S2's claims and practices.

--host-cpus and --tasks replace this comparison by another: the same container on
hosts of several sizes, or the same work by one process and by many.`,
		Example: `  tare platforms --quick
  tare platforms --workload ffmpeg --cpus 0.5,1,1.5,2
  tare platforms --workload ffmpeg --platform docker,vm/bare,vm/oci --cpus 1
  tare platforms --workload ffmpeg --tasks one,many
  tare platforms --instance large,xlarge,2xlarge --full --yes`,
		Args: noArguments("name programs by --workload"),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.workloads, "workload", nil, "programs (default "+strings.Join(platforms.Workloads(), ",")+")")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the programs that have it")
	flags.StringSliceVar(&f.platforms, "platform", nil, "platforms to compare with bare metal, such as oci,docker,vm/bare,vm/oci (default oci and docker, and virtual machines where they run without emulation)")
	flags.StringSliceVar(&f.presets, "preset", nil, "vanilla (a quota), pinned (a cpuset) (default both, or one where they grant the same CPUs)")
	flags.StringSliceVar(&f.cpus, "cpus", nil, "sizes in CPUs, such as 0.5,1,2 (default half a CPU, and powers of two up to all)")
	flags.StringSliceVar(&f.instances, "instance", nil, "sizes by S2's instance types, with their memory: "+strings.Join(platforms.InstanceNames(), ", "))
	flags.StringSliceVar(&f.hosts, "host-cpus", nil, "compare the same container on hosts of these sizes: virtual machines, or this host with CPUs offline (--disruptive)")
	flags.StringSliceVar(&f.tasks, "tasks", nil, "compare the same work cut into these numbers of processes: one,many, or some of "+joinNumbers(platforms.Tasks()))
	flags.StringVar(&f.causes, "causes", "on", "on or off: trials with a probe that shows where the time goes; services are also measured behind a bridge")
	flags.BoolVar(&f.disruptive, "disruptive", false, "allow what affects the whole host: taking CPUs offline")
	flags.IntVar(&f.repeats, "repeats", 0, "the same as --blocks; S2 repeated 20 times")
	flags.StringVar(&f.precision, "precision", "", "wanted half-width of the intervals, such as 2%, within --budget")
	f.register(cmd, "about a minute: ffmpeg at one size, oci and docker", "as published (S2): 20 blocks",
		[]string{"memory", "network", "storage", "seccomp"})
	must(cmd.RegisterFlagCompletionFunc("workload", completeWorkloads))
	must(
		cmd.RegisterFlagCompletionFunc(
			"preset",
			cobra.FixedCompletions(platforms.Presets, cobra.ShellCompDirectiveNoFileComp),
		),
	)
	must(
		cmd.RegisterFlagCompletionFunc(
			"instance",
			cobra.FixedCompletions(platforms.InstanceNames(), cobra.ShellCompDirectiveNoFileComp),
		),
	)
	return cmd, &subStudy{flags: &f.studyFlags, design: f.design, prepare: f.prepare}
}

// repeatsFull are S2's.
const repeatsFull = 20

// manyTasks are S2's thirty.
const manyTasks = 30

func (f *platformsFlags) design(cmd *cobra.Command, _ []string, host studyHost) (lab.Design, error) {
	o, err := f.options(cmd, host)
	if err != nil {
		return lab.Design{}, err
	}
	return platforms.Design(o)
}

// options reads a whole command line.
func (f *platformsFlags) options(cmd *cobra.Command, host studyHost) (platforms.Options, error) {
	changed := cmd.Flags().Changed
	if changed("repeats") {
		if changed("blocks") {
			return platforms.Options{}, usageError("--repeats and --blocks are the same: give one of them")
		}
		if f.repeats < 1 || f.repeats > 10000 {
			return platforms.Options{}, usageError("--repeats %d: want 1 to 10000", f.repeats)
		}
		if f.quick {
			return platforms.Options{}, usageError("--quick has a budget of its own: leave out --repeats")
		}
		f.blocks = f.repeats
	}
	if f.full && f.blocks == 0 && f.budget == 0 {
		f.blocks = repeatsFull
	}
	cpus := len(host.CPUs)
	whole := func() platforms.Options { return platforms.Default(cpus) }
	quick := func() platforms.Options { return platforms.Quick(cpus) }
	full := func() platforms.Options { return platforms.Full(cpus) }
	o, plan, err := begin(&f.studyFlags, changed, whole, quick, full)
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
	for _, read := range []func(*platforms.Options, func(string) bool, studyHost) error{
		f.readSizes, f.readPlatforms, f.readQuestions,
	} {
		if err := read(&o, changed, host); err != nil {
			return o, err
		}
	}
	if o.Subjects, err = f.subjects(); err != nil {
		return o, err
	}
	o.Host = f.host(host)
	if changed("platform") || f.quick {
		return o, nil
	}
	// Whether KVM runs a guest is tried by booting one: whatever is wrong with the rest
	// is reported before that.
	if _, err := platforms.Design(o); err != nil {
		return o, err
	}
	addMachines(&o, host)
	return o, nil
}

// readSizes reads --cpus and --instance.
func (f *platformsFlags) readSizes(o *platforms.Options, changed func(string) bool, host studyHost) error {
	if changed("cpus") && changed("instance") {
		return usageError("--cpus and --instance contradict: an instance type has its CPUs")
	}
	if changed("instance") {
		if o.Base.Memory != 0 {
			return usageError("--memory and --instance contradict: an instance type has its memory")
		}
		o.Sizes = nil
		if len(separated(f.instances)) == 0 {
			return usageError("--instance: want at least one of %s", strings.Join(platforms.InstanceNames(), ", "))
		}
		for _, name := range f.instances {
			size, ok := platforms.InstanceSize(strings.ToLower(strings.TrimSpace(name)))
			if !ok {
				return usageError("--instance %s: want some of %s", name, strings.Join(platforms.InstanceNames(), ", "))
			}
			o.Sizes = append(o.Sizes, size)
		}
	}
	if changed("cpus") {
		o.Sizes = nil
		if len(separated(f.cpus)) == 0 {
			return usageError("--cpus: want at least one size, such as 0.5,1,2")
		}
		for _, text := range f.cpus {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
				return usageError("--cpus %s: want numbers of CPUs, such as 0.5,1,2", text)
			}
			o.Sizes = append(o.Sizes, platforms.Size{CPUs: n})
		}
		if !slices.ContainsFunc(o.Sizes, func(s platforms.Size) bool { return s.CPUs <= float64(len(host.CPUs)) }) {
			return usageError("--cpus %s: this host has %d", strings.Join(f.cpus, ","), len(host.CPUs))
		}
	}
	return nil
}

// readPlatforms reads --platform and --preset.
func (f *platformsFlags) readPlatforms(o *platforms.Options, changed func(string) bool, _ studyHost) (err error) {
	if changed("preset") {
		o.Presets, o.Both = f.presets, true
	}
	if changed("platform") {
		o.Chosen = true
		if o.Platforms, err = fullNames(separated(f.platforms), lab.CanonicalPlatform); err != nil {
			return err
		}
	}
	return nil
}

// addMachines adds virtual machines, which are there by default where they run without
// emulation.
func addMachines(o *platforms.Options, host studyHost) {
	for _, name := range []string{"vm/bare", "vm/oci"} {
		canonical, err := lab.CanonicalPlatform(name)
		if err != nil {
			continue // this tare has none
		}
		p, err := host.Platform(canonical)
		switch {
		case err != nil || host.Check(p) != nil:
		case platform.NotRepresentative(p) != "":
			o.Plan.Notes = append(o.Plan.Notes, name+" is left out, since it would be emulated; give --platform "+name+" to measure it")
		default:
			o.Platforms = append(o.Platforms, canonical)
		}
	}
}

// readQuestions reads what is asked besides the matrix.
func (f *platformsFlags) readQuestions(o *platforms.Options, changed func(string) bool, _ studyHost) error {
	o.Disruptive = f.disruptive
	for _, text := range f.hosts {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return usageError("--host-cpus %s: want numbers of CPUs, such as 1,2", text)
		}
		o.Hosts = append(o.Hosts, n)
	}
	if changed("host-cpus") && len(o.Hosts) == 0 {
		return usageError("--host-cpus: want at least two sizes of host, such as 1,2")
	}
	if changed("tasks") && len(f.tasks) == 0 {
		return usageError("--tasks: want one and many, to compare them")
	}
	for _, text := range f.tasks {
		switch text = strings.TrimSpace(text); text {
		case "one":
			o.Tasks = append(o.Tasks, 1)
		case "many":
			o.Tasks = append(o.Tasks, manyTasks)
		default:
			n, err := strconv.Atoi(text)
			if err != nil {
				return usageError("--tasks %s: want one,many, or some of %s", text, joinNumbers(platforms.Tasks()))
			}
			o.Tasks = append(o.Tasks, n)
		}
	}
	switch f.causes {
	case "on":
		o.Causes = o.Causes || changed("causes")
	case "off":
		o.Causes = false
	default:
		return usageError("--causes %s: want on or off", f.causes)
	}
	if (len(o.Hosts) > 0 || len(o.Tasks) > 0) && !changed("cpus") && !changed("instance") {
		// One size is asked about: one that a host may be larger than, or that many
		// processes have to share.
		o.Sizes = []platforms.Size{{CPUs: 1}}
	}
	return nil
}

// subjects are the programs, with what was set of them.
func (f *platformsFlags) subjects() ([]workload.Subject, error) {
	names := separated(f.workloads)
	if len(names) == 0 {
		names = platforms.Workloads()
		if f.quick || len(f.tasks) > 0 || len(f.hosts) > 0 {
			names = names[:1]
		}
	}
	return readSubjects(names, f.params, "")
}

// host is what a design of this study must know of the machine.
func (f *platformsFlags) host(on studyHost) platforms.Host {
	return platforms.Host{
		Host: on.Host, Online: on.online,
		Confine: process.Confine, Watch: watchCauses, Keep: f.hot, Fixed: lab.Hotplug(on.CPUs),
	}
}

// prepare gives the run what it changes of the host: the ledger has it first. Load
// programs keep to the CPU that services leave them.
func (f *platformsFlags) prepare(_ context.Context, m *measuring, on *studyHost) (func() error, error) {
	cpus := slices.Clone(on.CPUs)
	f.hot = func(count int) (func() error, error) { return lab.KeepOnline(m.session.Ledger, cpus, count) }
	m.loadCPUs = cpus[:1]
	return nil, nil
}
