package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/study/weigh"
	"tare/workload"
)

// settingFlags are the knobs that have a flag of their own, named as docker
// names them.
var settingFlags = []string{"cpus", "cpu-period", "cpu-burst", "cpu-shares", "cpuset-cpus", "memory", "storage", "network", "root", "seccomp", "lsm", "aslr", "log-driver", "runtime", "gpu"}

// weighFlags are what the user asked for.
type weighFlags struct {
	studyFlags
	platforms      []string
	vary           []string
	presets        []string
	cross, ladder  bool
	baseline       string
	designName     string
	explain        bool
	smallestEffect string
	params         []string
	sources        []workload.Source // as they are named: the first is the baseline
	files          []string
	failAbove      string
	process        processFlags
	trialLimit     time.Duration
	container      string // whose copy is weighed
	copy           copyFlags
}

// weighCommand makes the command and the place of its flags; resume reads a
// stored command line with another one.
func weighCommand() (*cobra.Command, *subStudy) {
	f := &weighFlags{
		studyFlags: studyFlags{
			whole: true,
			planning: planning{
				usual: extent{budget: weigh.DefaultBudget},
				quick: extent{budget: quickTime},
				most:  100000,
			},
		},
	}
	cmd := &cobra.Command{
		Use:   "weigh [WORKLOAD...] [flags] [-- COMMAND...]",
		Short: "Weigh programs under several conditions against a baseline",
		Long: `Weigh runs programs under each condition (platform and settings). It shows how each
metric changes against the baseline, with an interval and a verdict.

Programs are launched in rounds: one instance of each condition, two of the baseline.
All but one are frozen, and each is loaded in turn for a slice of some milliseconds.
For a program that runs to its end, a slice is one execution. What cannot be sliced
is measured in blocks, with a fresh program for each trial. Where a container costs
1 % or more, the last two fifths of the budget look for the layer that causes it.

One factor is varied at a time around the base condition that the flags name.
--cross takes the full product. ` + "`tare workloads`" + ` lists the workloads and their
parameters. Any other program is weighed from its image or root file system, or
as a service by a YAML file (docs/workloads.md).

With --fail-above, every condition is judged against the baseline; of several images
the first is the baseline. The exit code is for a pipeline: 0 if every interval lies
at or below the threshold, 4 if one lies above it, 5 otherwise.`,
		Example: `  tare weigh redis --quick
  tare weigh redis --platform docker --vary network=host,bridge
  tare weigh ffmpeg --preset vanilla,pinned --cpus 1 --budget 10m
  tare weigh redis --ladder
  tare weigh --workload service.yaml --memory 512m
  tare weigh --from-container web --vary cpus=1,2 --replay access.log
  tare weigh --image app:1 --platform bare,docker -- /bin/app --once
  tare weigh --image app:old --image app:new --platform docker \
    --fail-above 2% -- /bin/app --once`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, w := range workload.All() {
				names = append(names, w.Name()+"\t"+w.Summary())
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.platforms, "platform", nil, "platforms (default: bare,oci:runc,oci:crun,docker, as far as the host has them)")
	flags.StringArrayVar(&f.vary, "vary", nil, "KEY=A,B,...: a setting, a workload parameter, or image; separate values that hold commas by ;")
	flags.StringSliceVar(&f.presets, "preset", nil, "vanilla (a CPU quota), pinned (a cpuset): two ways to grant --cpus CPUs")
	flags.BoolVar(&f.cross, "cross", false, "weigh the full product of what is varied")
	flags.BoolVar(&f.ladder, "ladder", false, "weigh bare, + cgroup, + namespaces, + seccomp, + overlay, + engine")
	flags.StringVar(&f.baseline, "baseline", "", "condition to compare with, such as docker,network=bridge (default bare; of a copy current)")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the workload")
	flags.Var(
		sourceFlag{&f.sources, func(ref string) workload.Source { return workload.Source{Image: ref} }},
		"image",
		"image of the Docker engine or a kubelet, to weigh in place of the workload's own; may be repeated",
	)
	flags.Var(
		sourceFlag{&f.sources, func(path string) workload.Source { return workload.Source{Archive: path} }},
		"image-archive",
		"OCI or docker archive; may be repeated",
	)
	flags.Var(
		sourceFlag{&f.sources, func(dir string) workload.Source { return workload.Source{Rootfs: dir} }},
		"rootfs",
		"directory with a root file system; may be repeated",
	)
	f.process.register(flags)
	flags.StringVar(&f.container, "from-container", "", "weigh a copy of this running `CONTAINER` of Docker, under its own limits; a client of the host after -- loads it, or --replay")
	must(cmd.RegisterFlagCompletionFunc("from-container", completeContainers))
	f.copy.register(flags)
	flags.StringArrayVar(&f.files, "workload", nil, "YAML file that defines a workload; may be repeated")
	flags.StringVar(&f.loadCPUs, "load-cpuset", "", "CPUs of the load programs, under every condition; not for http and resp, which tare itself generates (`LIST`; default: all)")
	flags.StringVar(&f.precision, "precision", "", "stop at this half-width of each interval, from round 8 on (default without --budget: a quarter of --smallest-effect, in blocks a half; at most half of --fail-above)")
	flags.StringVar(&f.designName, "design", record.DesignRounds, "rounds (all instances side by side, loaded in short slices) or blocks (a fresh program for each trial)")
	flags.BoolVar(&f.explain, "explain", true, "where a cost is established, use the rest of the time to find the layer that causes it")
	flags.StringVar(&f.smallestEffect, "smallest-effect", "2%", "smallest effect of interest: conditions within it are equivalent")
	flags.StringVar(&f.failAbove, "fail-above", "", "largest accepted worsening against the baseline, such as 5%")
	flags.DurationVar(&f.trialLimit, "trial-limit", lab.DefaultTrialLimit, "time after which a single execution counts as hung")
	f.register(cmd, "about a minute: --budget 50s, and bare, oci:runc and docker where no platform is named", "", settingFlags)
	flags.Lookup("blocks").Usage = "number of rounds or blocks, or of executions of a program that runs to its end (default: as many as --precision requires within --budget)"
	return cmd, &subStudy{
		flags: &f.studyFlags, design: f.design, prepare: f.prepare, takes: estimate,
		less: fmt.Sprintf("--budget %v to bound it", longRun),
	}
}

// sourceFlag is a flag that names an image. Three flags do, and share one list, which
// keeps their order.
type sourceFlag struct {
	list   *[]workload.Source
	source func(string) workload.Source
}

func (s sourceFlag) String() string {
	var names []string
	for _, of := range *s.list {
		names = append(names, cmp.Or(of.Image, of.Archive, of.Rootfs))
	}
	return strings.Join(names, ",")
}
func (s sourceFlag) Type() string { return "stringArray" }
func (s sourceFlag) Set(text string) error {
	if text == "" {
		return errors.New("want a name")
	}
	*s.list = append(*s.list, s.source(text))
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func settingDoc(key string) string {
	for _, k := range platform.Keys {
		if k.Name == key {
			if strings.Contains(k.Values, "|") {
				return k.Doc + " (`ONE` of " + strings.ReplaceAll(k.Values, "|", ", ") + ")"
			}
			kind, rest, _ := strings.Cut(k.Values, ", ")
			return k.Doc + " (" + strings.TrimSuffix("`"+kind+"`, "+rest, ", ") + ")"
		}
	}
	return ""
}

// percent reads "2%" or "0.02".
func percent(flag, text string) (float64, error) {
	number, scale := text, 1.0
	if rest, ok := strings.CutSuffix(text, "%"); ok {
		number, scale = rest, 100
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v/scale > 0) || v/scale >= 1 {
		return 0, usageError("--%s %s: want a percentage between 0%% and 100%%, such as 2%%", flag, text)
	}
	return v / scale, nil
}

// plan reads the flags that say how long and how sharp.
func (f *weighFlags) plan(changed func(string) bool) (record.Plan, error) {
	p, err := f.studyFlags.plan(changed)
	if err != nil {
		return p, err
	}
	if p.SmallestEffect, err = percent("smallest-effect", f.smallestEffect); err != nil {
		return p, err
	}
	if changed("fail-above") {
		if p.FailAbove, err = percent("fail-above", f.failAbove); err != nil {
			return p, err
		}
	}
	switch f.designName {
	case record.DesignRounds:
		p.Design = record.DesignRounds
	case record.DesignBlocks:
	default:
		return p, usageError("--design %s: want rounds or blocks", f.designName)
	}
	if f.trialLimit < time.Second {
		return p, usageError("--trial-limit %v: want at least 1s", f.trialLimit)
	}
	if err := f.sharpen(&p); err != nil {
		return p, err
	}
	if f.precision != "" {
		if !changed("budget") && !f.quick {
			// Nobody knows before the pilot how long it takes: what is allowed
			// without being asked bounds it, and --yes lifts the bound.
			p.Budget = longRun
			if f.yes {
				p.Budget = 0
			}
		}
	} else if p.Blocks == 0 {
		switch {
		case p.Design == "":
			p.Precision = p.SmallestEffect / 2
		case !changed("budget") && !f.quick:
			p.Precision = p.SmallestEffect / 4 // a budget that is named is for all that it can resolve
		}
		if p.FailAbove > 0 && p.Precision > 0 {
			p.Precision = min(p.Precision, p.FailAbove/2)
		}
	}
	p.PilotBlocks = lab.DefaultPilot
	return p, nil
}

// readSettings reads the settings' own flags.
func readSettings(flags map[string]*string) (platform.Setting, error) {
	var s platform.Setting
	for _, key := range settingFlags {
		if value := *flags[key]; value != "" {
			if err := s.Set(key, value); err != nil {
				return s, usageError("--%v", err)
			}
		}
	}
	return s, nil
}

// factors reads --vary and --preset; the values of image are returned apart.
func (f *weighFlags) factors() (factors []weigh.Factor, images []string, err error) {
	seen := map[string]bool{}
	for _, text := range f.vary {
		key, list, ok := strings.Cut(text, "=")
		if !ok || key == "" || list == "" {
			return nil, nil, usageError("--vary %s: want KEY=A,B,...", text)
		}
		if seen[key] {
			return nil, nil, usageError("--vary %s: %s is varied twice", text, key)
		}
		seen[key] = true
		separator := ","
		if strings.Contains(list, ";") {
			separator = ";"
		}
		var values []string
		for _, v := range strings.Split(list, separator) {
			if v = strings.TrimSpace(v); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if key == "image" {
			images = values
			continue
		}
		factors = append(factors, weigh.Factor{Key: key, Values: values})
	}
	if len(f.presets) > 0 {
		factors = append(factors, weigh.Factor{Key: "preset", Values: f.presets})
	}
	return factors, images, nil
}

// subjects finds the workloads and the images to run them in. Paths of another machine are not looked for.
func (f *weighFlags) subjects(names, command, images []string, isElsewhere bool) ([]weigh.Subject, error) {
	sources := slices.Clone(f.sources)
	for _, ref := range images {
		sources = append(sources, workload.Source{Image: ref})
	}
	named := map[string]bool{}
	for _, s := range sources {
		name := s.Image
		switch path := s.Archive + s.Rootfs; {
		case path != "" && isElsewhere:
			name = filepath.Clean(path)
		case path != "":
			if info, err := os.Stat(path); err == nil && s.Rootfs != "" && !info.IsDir() {
				return nil, usageError("--rootfs %s: want a directory; name an archive with --image-archive", path)
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return nil, usageError("%s: %v", path, errors.Unwrap(err))
			}
			if name, err = filepath.Abs(real); err != nil {
				return nil, err
			}
		}
		if named[name] {
			return nil, usageError("%s is named twice: to compare an image with itself, give it a second name", s.Image+s.Archive+s.Rootfs)
		}
		named[name] = true
	}
	params := map[string]string{}
	for _, text := range f.params {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usageError("--param %s: want NAME=VALUE", text)
		}
		params[name] = value
	}
	var subjects []weigh.Subject
	for _, name := range names {
		w, err := workload.Lookup(name)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, weigh.Subject{Workload: w, Sources: sources})
	}
	for _, path := range f.files {
		w, err := workload.FromYAML(path)
		if err != nil {
			return nil, withCode(exitUsage, err)
		}
		subjects = append(subjects, weigh.Subject{Workload: w, Sources: sources})
	}
	program, flag, err := f.process.program(command)
	if err != nil {
		return nil, err
	}
	if flag != "" && len(subjects) > 0 {
		return nil, usageError("%s is for --image, --image-archive and --rootfs: leave it out with a workload, which defines how it runs", flag)
	}
	if len(subjects) == 0 {
		if len(sources) == 0 {
			var known []string
			for _, w := range workload.All() {
				known = append(known, w.Name())
			}
			return nil, usageError("nothing to weigh: name a workload (%s), or give --image, --image-archive, --rootfs or --workload", strings.Join(known, ", "))
		}
		subjects = append(
			subjects,
			weigh.Subject{Workload: workload.FromCommand(program, sources[0]), Sources: sources},
		)
	}
	return subjects, assignParams(subjects, params)
}

// assignParams gives each subject the parameters that it has. One that no
// subject has is refused.
func assignParams(subjects []weigh.Subject, params map[string]string) error {
	names := make([]string, 0, len(params))
	for name := range params {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		taken := false
		var known []string
		for i := range subjects {
			for _, p := range subjects[i].Workload.Params() {
				known = append(known, p.Name)
				if p.Name != name {
					continue
				}
				if subjects[i].Params == nil {
					subjects[i].Params = map[string]string{}
				}
				subjects[i].Params[name] = params[name]
				taken = true
			}
		}
		if !taken {
			return usageError("--param %s: no workload has that parameter; want one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// design reads a whole weigh command line.
func (f *weighFlags) design(cmd *cobra.Command, args []string, host studyHost) (lab.Design, error) {
	if _, err := f.loadPlace(); err != nil {
		return lab.Design{}, err
	}
	names, command := args, []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		names, command = args[:dash], args[dash:]
	}
	if f.container != "" {
		return f.copyDesign(cmd, names, command, host)
	}
	if flag := f.copy.changed(cmd.Flags()); flag != "" {
		return lab.Design{}, usageError("%s is for --from-container", flag)
	}
	plan, err := f.plan(cmd.Flags().Changed)
	if err != nil {
		return lab.Design{}, err
	}
	base, err := readSettings(f.settings)
	if err != nil {
		return lab.Design{}, err
	}
	factors, images, err := f.factors()
	if err != nil {
		return lab.Design{}, err
	}
	subjects, err := f.subjects(names, command, images, host.isElsewhere)
	if err != nil {
		return lab.Design{}, err
	}
	canonical, err := fullNames(f.platforms, lab.CanonicalPlatform)
	if err != nil {
		return lab.Design{}, err
	}
	return weigh.Design(weigh.Options{
		Subjects: subjects, Platforms: kit.Once(canonical), Base: base, Vary: factors,
		Cross: f.cross, Ladder: f.ladder, Quick: f.quick, Baseline: f.baseline,
		Explain: f.explain, ExplainAsked: cmd.Flags().Changed("explain"), Plan: plan, Seed: f.seed,
		Host: host.Host,
	})
}

// prepare sets where load programs run, and when an execution counts as hung.
func (f *weighFlags) prepare(_ context.Context, m *measuring, _ *studyHost) (undo func() error, err error) {
	m.lab.TrialLimit = f.trialLimit
	m.loadCPUs, err = f.loadPlace()
	return nil, err
}

// loadPlace reads where load programs run.
func (f *studyFlags) loadPlace() ([]int, error) {
	if f.loadCPUs == "" {
		return nil, nil
	}
	allowed, err := process.Affinity()
	if err != nil {
		return nil, err
	}
	place := platform.Setting{CPUSet: f.loadCPUs}
	cpus, err := platform.ParseCPUList(f.loadCPUs)
	if err != nil || len(cpus) == 0 {
		return nil, usageError("--load-cpuset %s: want a list of CPUs, such as 0-1,3", f.loadCPUs)
	}
	if why := place.Contradiction(allowed); why != "" {
		return nil, usageError("--load-cpuset %s: %s", f.loadCPUs, strings.TrimPrefix(why, "cpuset-cpus="+f.loadCPUs+": "))
	}
	return cpus, nil
}

// drawSeed draws a seed that is short enough to be typed again.
func drawSeed() int64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return time.Now().UnixNano() % 1e9
	}
	return int64(binary.LittleEndian.Uint64(b[:]) % 1e9)
}

// longRun is the time above which --yes is needed.
const longRun = 30 * time.Minute

// estimate is how long a design takes: its budget, or its trials by the times of
// earlier ones of the workload.
func estimate(d lab.Design, on studyHost) time.Duration {
	if d.Plan.Budget > 0 {
		return d.Plan.Budget
	}
	known := trialTimes(on.dir)
	var block time.Duration
	for _, g := range d.Groups {
		one, ok := known[g.Workload]
		if !ok {
			one = assumedTrial
		}
		block += one * time.Duration(len(g.Conditions)+1)
	}
	blocks := d.Plan.Blocks
	if blocks == 0 {
		blocks = 20 // what a spread of 2 % takes for a half-width of 1 %
	}
	return block * time.Duration(blocks+1)
}

// assumedTrial is the time of a trial of which nothing is known.
const assumedTrial = 5 * time.Second

// trialTimes gives the mean time of the trials of the newest run of each
// workload; what cannot be read is simply not known.
func trialTimes(dir string) map[string]time.Duration {
	known := map[string]time.Duration{}
	path := filepath.Join(dir, storeFile)
	if _, err := os.Stat(path); err != nil {
		return known
	}
	store, err := record.OpenReadOnly(path)
	if err != nil {
		return known
	}
	defer store.Close()
	run, err := store.Run("latest")
	if err != nil {
		return known
	}
	count := map[string]int{}
	sum := map[string]time.Duration{}
	for _, t := range run.Trials {
		sum[t.Workload] += t.Elapsed
		count[t.Workload]++
	}
	for w, n := range count {
		known[w] = sum[w] / time.Duration(n)
	}
	return known
}

// interruptedHint turns an interruption into what to do next.
func interruptedHint(err error) error {
	var i *lab.Interrupted
	if errors.As(err, &i) {
		return withCode(exitFailure, fmt.Errorf("%s: the measurements are kept; continue with tare resume %s", i.Reason, i.Run))
	}
	return err
}
