package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/container"
	"tare/kernel/file"
	"tare/kernel/host"
	"tare/kernel/hugepages"
	"tare/lab"
	"tare/platform"
	"tare/probe/pagetable"
	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/study/pages"
	"tare/terminal"
	"tare/workload"
)

// pagesFlags are what the user asked for, of `tare pages` and `tare faults`.
type pagesFlags struct {
	studyFlags

	look  looked
	watch *pages.Watching // nil until the run is made ready

	// Of what runs already.
	pids     []int
	all      bool
	contents bool

	// Of an experiment.
	workloads []string
	image     string
	params    []string
	copies    int
	aslr      []string

	hugePages  string
	disruptive bool
	setHuge    func(to string) (restore func() error, err error) // nil until the run is made ready

	steady time.Duration
	window time.Duration
}

// newPagesFlags are those of a command that measures what look names.
func newPagesFlags(look looked) *pagesFlags {
	f := &pagesFlags{look: look}
	f.whole, f.planning = true, planning{smallest: 0.05, usual: extent{blocks: 3}, quick: extent{blocks: 1}}
	return f
}

// pagesSettings are the knobs that these commands have: address-space
// randomisation is a factor of theirs.
func pagesSettings() []string {
	return slices.DeleteFunc(slices.Clone(settingFlags), func(key string) bool { return key == "aslr" })
}

// looked is what is looked at.
type looked struct{ census, faults bool }

var (
	censusAndFaults = looked{census: true, faults: true}
	faultsAlone     = looked{faults: true}
)

// study is of copies that tare starts, or of what runs.
func (f *pagesFlags) study(id string) *subStudy {
	return &subStudy{
		id: id, less: "name fewer workloads, a shorter --steady, or one level of --aslr",
		flags: &f.studyFlags, design: f.design, prepare: f.prepare, instead: f.live,
	}
}

func pagesCommand() (*cobra.Command, *subStudy) {
	f := newPagesFlags(censusAndFaults)
	cmd := &cobra.Command{
		Use:   "pages [CONTAINER...] [flags]",
		Short: "Count what the page tables of containers have in common",
		Long: `Pages counts the page-table entries of running containers: which of them are the
same in another process or container, what they map, how active they are, and what
sharing would save. Nothing in the containers is changed. CONTAINER is a name or an
id of Docker, containerd, podman or Kubernetes, the path of a cgroup, or pid:N.
--all takes every container of the host, by image.

Without a container, pages is an experiment. It starts copies of each workload on one
CPU and keeps them at work. It counts at their start and in their steady state, and
records the page faults of their first work (of a function: of its whole life).
The workloads are those of S1 (published study of container start-up and sharing),
unless --workload names others.`,
		Example: `  tare pages web-1 web-2
  tare pages --all
  tare pages --workload httpd,fio --copies 4 --steady 20s
  tare pages --huge-pages always --aslr off --disruptive
  tare pages --quick`,
		ValidArgsFunction: completeContainers,
	}
	f.flagsOf(cmd, 2*time.Minute)
	cmd.Flags().BoolVar(&f.all, "all", false, "count every container on this host, by image, and the possible savings")
	cmd.Flags().StringVar(&f.hugePages, "huge-pages", "", "transparent huge pages of the host during trials: always, madvise or never (default: as found; requires --disruptive)")
	cmd.Flags().BoolVar(&f.disruptive, "disruptive", false, "allow what affects the whole host: setting its transparent huge pages")
	cmd.Flags().BoolVar(&f.contents, "contents", false, "with --all: compare the bytes of a sample of anonymous pages, and of files in several images; this marks those pages as used")
	return cmd, f.study(cmd.Name())
}

func faultsCommand() (*cobra.Command, *subStudy) {
	f := newPagesFlags(faultsAlone)
	cmd := &cobra.Command{
		Use:   "faults [CONTAINER...] [flags]",
		Short: "Record page faults of containers, by type, and the duplicates",
		Long: `Faults records every page fault that running containers take in user mode, for the
time of --for. It shows the type of each, what is mapped there, the code that took it,
and whether another of the containers faulted on the same page. Nothing in the
containers is changed. A fault costs them a fraction of a microsecond more.

With --workload, faults is an experiment with copies of the workload on one CPU. It
records services from their first work on, and functions for their whole life.`,
		Example: `  tare faults web-1 web-2 --for 10s
  tare faults --all
  tare faults --workload hashing --param access=sparse --copies 4`,
		ValidArgsFunction: completeContainers,
	}
	f.flagsOf(cmd, 0)
	cmd.Flags().BoolVar(&f.all, "all", false, "every container on this host")
	return cmd, f.study(cmd.Name())
}

// flagsOf makes the flags that both commands have.
func (f *pagesFlags) flagsOf(cmd *cobra.Command, steady time.Duration) {
	steadyDoc := "time of work until a service is in its steady state; with CONTAINER: count again after this time"
	if steady == 0 {
		steadyDoc = "time of work (default: as long as --for)"
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntSliceVar(&f.pids, "pid", nil, "processes to treat as containers, each with its descendants")
	flags.StringSliceVar(&f.workloads, "workload", nil, "start copies of these: names from `tare workloads`, or YAML files")
	flags.IntVar(&f.copies, "copies", 4, "copies of each workload")
	flags.DurationVar(&f.steady, "steady", steady, steadyDoc)
	flags.DurationVar(&f.window, "for", 10*time.Second, "how long page faults are recorded (of services: from their first work on)")
	flags.StringSliceVar(&f.aslr, "aslr", []string{"off", "on"}, "address-space randomisation of the copies: off, on, or both")
	flags.StringVar(&f.platform, "platform", "", "platform of the copies (default: oci:runc, or oci:crun where only that is there; docker cannot turn --aslr off)")
	flags.StringVar(&f.image, "image", "", "image of the Docker engine or a kubelet, in place of the workload's own")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the workload")
	f.register(cmd, "about a minute: httpd and hashing, one block, five seconds of work", "", pagesSettings())
	flags.Lookup("out").Usage += "; none for running containers"
	must(cmd.RegisterFlagCompletionFunc("workload", completeWorkloads))
}

// completeContainers offers the names of what runs.
func completeContainers(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, _, err := container.Open(container.Options{}).All(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name+"\t"+c.Image)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// experimental are the flags that mean nothing for running containers.
var experimental = []string{"workload", "copies", "aslr", "huge-pages", "disruptive", "platform", "image", "param", "blocks", "budget", "seed", "quick", "dry-run", "yes"}

// live looks at what runs, where the command line names any of it.
func (f *pagesFlags) live(a *app, cmd *cobra.Command, args []string) (done bool, err error) {
	if len(args) == 0 && len(f.pids) == 0 && !f.all {
		return false, nil
	}
	if err := f.checkLive(cmd.Flags().Changed, args); err != nil {
		return false, err
	}
	return true, a.runLive(cmd, f, args)
}

// checkLive refuses what a look at what runs cannot have.
func (f *pagesFlags) checkLive(changed func(string) bool, args []string) error {
	for _, flag := range append(slices.Clone(experimental), pagesSettings()...) {
		if changed(flag) {
			return usageError("--%s is for copies that tare starts: leave it out, or leave out CONTAINER, --pid and --all", flag)
		}
	}
	if f.look == faultsAlone && changed("steady") {
		return usageError("--steady is for copies that tare starts: set the time of recording with --for")
	}
	if f.steady < 0 || f.steady > pages.LongSteady {
		return usageError("--steady %v: want 0 to %v", f.steady, pages.LongSteady)
	}
	for _, pid := range f.pids {
		if pid <= 0 {
			return usageError("--pid %d: want a process id of 1 or more", pid)
		}
	}
	if f.all && changed("steady") {
		return usageError("--all counts once: leave --steady out, or name containers to count them twice")
	}
	if !f.all && changed("contents") {
		return usageError("--contents requires --all")
	}
	if f.look != faultsAlone && changed("for") {
		return usageError("--for sets how long page faults are recorded: use tare faults %s", terminal.Shell(args...))
	}
	if f.all && (len(args) > 0 || len(f.pids) > 0) {
		return usageError("--all takes every container: leave out CONTAINER and --pid")
	}
	return nil
}

// runLive looks at what runs already. Nothing is stored, and no lock is held:
// nothing is changed.
func (a *app) runLive(cmd *cobra.Command, f *pagesFlags, args []string) error {
	if err := needRootToLook(); err != nil {
		return err
	}
	ctx := cmd.Context()
	containers, notes, err := foundRunning(ctx, f.all, args, f.pids)
	if err != nil {
		return err
	}
	// Results that cannot be written are found out now, not after the recording.
	if err := writable(f.json); err != nil {
		return err
	}
	if f.out != "" {
		if err := file.OutputDirectory(f.out); err != nil {
			return usageError("--out %s: %v", f.out, err)
		}
	}
	var sheet report.Sheet
	var document any
	here := hostRecord(host.Read("/"))
	if f.look == faultsAlone {
		sheet, document, err = a.liveFaults(ctx, f, containers, notes, here)
	} else {
		sheet, document, err = a.liveCensus(cmd, f, containers, notes, here)
	}
	if err != nil {
		return err
	}
	return a.presentLive(cmd.Name(), sheet, document, f.out, f.json)
}

// liveCensus counts the page tables of what runs, and once more after --steady.
func (a *app) liveCensus(
	cmd *cobra.Command,
	f *pagesFlags,
	containers []container.Container,
	notes []string,
	here record.Host,
) (sheet report.Sheet, document any, err error) {
	ctx := cmd.Context()
	taker, note, err := pagetable.Open()
	if err != nil {
		return sheet, nil, err
	}
	defer func() { err = errors.Join(err, taker.Close()) }()
	if note != "" {
		notes = append(notes, note)
	}
	if f.all {
		whole, err := pages.LookAtAll(ctx, taker, containers, f.contents, notes)
		if err != nil {
			return sheet, nil, err
		}
		return whole.Sheet(report.HostFact(here)), whole.Document(here), nil
	}
	first, err := pages.Look(ctx, taker, containers, notes)
	if err != nil {
		return sheet, nil, err
	}
	var second *pages.Live
	if cmd.Flags().Changed("steady") && f.steady > 0 {
		terminal.Fprintf(a.err, "first census done; the second follows in %v\n", f.steady)
		if !kit.Wait(ctx, f.steady) {
			first.Notes = append(first.Notes, "stopped before the second census")
		} else if second, err = pages.Look(ctx, taker, containers, notes); err != nil {
			first.Notes = append(first.Notes, "no second census: "+err.Error())
		}
	}
	return first.Sheet(here, second), first.Document(here, second), nil
}

// liveFaults records the page faults of what runs.
func (a *app) liveFaults(
	ctx context.Context,
	f *pagesFlags,
	containers []container.Container,
	notes []string,
	here record.Host,
) (sheet report.Sheet, document any, err error) {
	if f.window < 100*time.Millisecond || f.window > pages.LongSteady {
		return sheet, nil, usageError("--for %v: want 100ms to %v", f.window, pages.LongSteady)
	}
	recorded, err := pages.RecordFaults(ctx, containers, f.window, notes)
	if err != nil {
		return sheet, nil, err
	}
	return recorded.Sheet(report.HostFact(here)), recorded.Document(here), nil
}

// design reads a whole command line of an experiment.
func (f *pagesFlags) design(cmd *cobra.Command, _ []string, host studyHost) (d lab.Design, err error) {
	changed := cmd.Flags().Changed
	o := pages.Options{
		Copies: f.copies, Steady: f.steady, Window: f.window, ASLR: f.aslr, Seed: f.seed,
		Census: f.look.census, Faults: f.look.faults, Host: host.Host,
	}
	if o.Plan, err = f.plan(changed); err != nil {
		return d, err
	}
	switch {
	case f.look == faultsAlone && !changed("steady"):
		if o.Window = f.window; f.quick && !changed("for") {
			o.Window = 5 * time.Second
		}
		o.Steady = o.Window // nothing is looked at after it
	case f.quick && !changed("steady"):
		if o.Steady = 5 * time.Second; !changed("for") {
			o.Window = 3 * time.Second
		}
		o.Steady = max(o.Steady, o.Window)
	case !changed("for"):
		o.Window = min(o.Window, o.Steady)
		if o.Steady == 0 {
			o.Window = f.window
		}
	}
	for i, level := range o.ASLR {
		if slices.Contains(o.ASLR[:i], level) {
			return d, usageError("--aslr %s: name each level once", strings.Join(o.ASLR, ","))
		}
	}
	switch {
	case len(f.workloads) > 0:
		o.Subjects, err = readSubjects(separated(f.workloads), f.params, f.image)
	case f.quick:
		o.Subjects, err = readSubjects([]string{"httpd", "hashing"}, f.params, f.image)
	case f.look == faultsAlone:
		return d, usageError("nothing to record: name a running container (tare faults web-1), or a workload (tare faults --workload httpd)")
	case f.image != "":
		return d, usageError("--image %s: name the workload that it is for with --workload", f.image)
	default:
		var subjects []workload.Subject
		// A short run is not worth the time that large images take to be made.
		large := !changed("steady") && host.Memory >= pages.LargeMemory
		if subjects, err = pages.S1(large); err == nil {
			o.Subjects, err = setSubjects(subjects, f.params, "")
		}
	}
	if err != nil {
		return d, err
	}
	if o.Base, err = readSettings(f.settings); err != nil {
		return d, err
	}
	if o.HugePages, o.SetHugePages = f.hugePages, f.setHuge; changed("huge-pages") {
		if err := f.checkHugePages(); err != nil {
			return d, err
		}
	}
	// All copies share one CPU, as S1's four shared a core; the load has the others.
	if o.Base.CPUSet == "" && len(host.CPUs) > 0 {
		o.Base.CPUSet = fmt.Sprint(slices.Max(host.CPUs))
	}
	if o.Base.Network == "" && needsNetwork(o.Subjects) {
		o.Base.Network = platform.NetworkBridge
	}
	if o.Platform, err = f.platformOf(host); err != nil {
		return d, err
	}
	// As on a host that lacks no probe: what is wrong with the rest is reported before
	// anything is touched.
	if o.Watch = pages.Planned(); f.watch != nil {
		o.Watch = *f.watch
	}
	return pages.Design(o)
}

// checkHugePages refuses what huge pages cannot be set to.
func (f *pagesFlags) checkHugePages() error {
	if words := []string{hugepages.Always, "madvise", "never"}; !slices.Contains(words, f.hugePages) {
		return usageError("--huge-pages %s: want %s", f.hugePages, strings.Join(words, ", "))
	}
	if !f.disruptive {
		return usageError("--huge-pages sets the transparent huge pages of the whole host: give --disruptive to allow it")
	}
	if err := hugepages.Directory("").Settable(); err != nil {
		return withCode(exitHost, err)
	}
	return nil
}

// prepare makes the probes that this host has, and has the ledger know of what is set.
func (f *pagesFlags) prepare(_ context.Context, m *measuring, _ *studyHost) (undo func() error, err error) {
	f.setHuge = func(to string) (func() error, error) { return lab.HugePages(m.session.Ledger, to) }
	watch, stop := pages.Watch(f.look.census, f.look.faults)
	f.watch = &watch
	return func() error { stop(); return nil }, nil
}

// platformOf is the platform asked for, or the first runtime that this host has.
func (f *pagesFlags) platformOf(host studyHost) (string, error) {
	if f.platform != "" {
		return lab.OwnPlatform(f.platform)
	}
	runtimes := []string{"oci:runc", "oci:crun"}
	for _, name := range runtimes {
		if _, err := host.Find(name); err == nil {
			return name, nil
		}
	}
	return runtimes[0], nil // whose check says what is missing
}
