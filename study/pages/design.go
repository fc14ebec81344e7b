package pages

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// Options are what the user asked for.
type Options struct {
	Subjects []workload.Subject
	Platform string // canonical name
	Copies   int
	// Steady is how long after its readiness a program is taken to be in its
	// steady state; 0 counts at the start alone.
	Steady time.Duration
	// Window is how long the faults of a program that has a steady state are
	// recorded, from its first work on.
	Window time.Duration
	// ASLR are the levels of address-space randomisation: "off", "on".
	ASLR []string
	// HugePages is what the kernel's transparent huge pages are set to while a trial is
	// made, and SetHugePages sets them; where HugePages is empty they are as found.
	HugePages    string
	SetHugePages func(to string) (restore func() error, err error)
	Base         platform.Setting
	// Census and Faults are what is measured; at least one.
	Census, Faults bool

	Plan record.Plan
	Seed int64

	Host  kit.Host
	Watch Watching
}

// factors of this study's conditions.
const (
	factorASLR   = "aslr"
	factorCopies = "copies"
	factorSteady = "steady"
	factorWindow = "for"
	factorHuge   = "huge-pages" // absent where they are as found

	aslrOff = "off"
	aslrOn  = "on"
)

// Subjects of S1, as this tare has them: the services first, then the functions,
// dense and sparse. mapstore stands for the document database on memory-mapped
// storage, and multimodel for ArangoDB (docs/workloads.md). fio reads at a disk's
// rate: from memory it has mapped all of its file before anybody can look. httpd serves
// its files one after the other, as S1's did.
var s1Subjects = []struct {
	workload string
	params   map[string]string
}{
	{"multimodel", nil},
	{"mapstore", nil},
	{"httpd", map[string]string{"access": "serial"}},
	{"pagerank", nil},
	{"fio", map[string]string{"rate": "200"}},
	{"hashing", map[string]string{"access": "dense"}},
	{"hashing", map[string]string{"access": "sparse"}},
	{"uri-parser", map[string]string{"access": "dense"}},
	{"uri-parser", map[string]string{"access": "sparse"}},
}

// LargeMemory is how much memory a host must have for S1's data sets: four copies of a
// function that keeps what it finds in 500 MB take 2.2 GiB.
const LargeMemory = 8 << 30

// S1 are the applications of S1. Where large is set, their data are as large as S1's, in
// images that all copies share; ArcadeDB fills itself, which takes too long for that.
func S1(large bool) ([]workload.Subject, error) {
	var all []workload.Subject
	for _, s := range s1Subjects {
		w, err := workload.Lookup(s.workload)
		if err != nil {
			return nil, err
		}
		subject := workload.Subject{Workload: w, Params: maps.Clone(s.params)}
		if large {
			subject = subject.Large()
		}
		all = append(all, subject)
	}
	return all, nil
}

// Design makes the design. Errors of what was asked are *kit.Usage; a platform that
// the host lacks is a *platform.Missing.
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: Name, Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	on, err := o.Host.FindFor(o.Platform, o.Base)
	if err != nil {
		return d, err
	}
	d.Plan.Notes = append(d.Plan.Notes, o.Watch.Notes...)
	for _, s := range o.Subjects {
		g, err := o.group(s, on)
		if err != nil {
			return d, err
		}
		d.Groups = append(d.Groups, g)
	}
	if err := d.Validate(); err != nil {
		return d, &kit.Usage{Text: err.Error() + ": name each workload once, with the same parameters"}
	}
	return d, nil
}

// check refuses what cannot be measured.
func (o Options) check() error {
	switch {
	case len(o.Subjects) == 0:
		return kit.Usagef("no workload: name one, or a running container, or --all")
	case o.Copies < 1 || o.Copies > MostCopies:
		return kit.Usagef("--copies %d: want 1 to %d", o.Copies, MostCopies)
	case o.Steady < 0 || o.Steady > LongSteady:
		return kit.Usagef("--steady %v: want 0 to %v", o.Steady, LongSteady)
	case o.Steady == 0 && !o.Census:
		return kit.Usagef("--steady 0: a service's faults are recorded while it works: give a time, such as --steady 10s")
	case o.Window < 100*time.Millisecond || o.Window > LongSteady:
		return kit.Usagef("--for %v: want 100ms to %v", o.Window, LongSteady)
	case o.Faults && o.Steady > 0 && o.Window > o.Steady:
		return kit.Usagef("--for %v is longer than --steady %v: want at most that", o.Window, o.Steady)
	case len(o.ASLR) == 0:
		return kit.Usagef("--aslr: want on, off, or both")
	case !o.Census && !o.Faults:
		return kit.Usagef("nothing to measure: want a census, page faults, or both")
	}
	for _, level := range o.ASLR {
		if level != aslrOn && level != aslrOff {
			return kit.Usagef("--aslr %s: want on, off, or on,off", level)
		}
	}
	if why := o.Base.Contradiction(o.Host.CPUs); why != "" {
		return kit.Usagef("%s", why)
	}
	return nil
}

// group has a workload's conditions, one for each level of randomisation.
func (o Options) group(s workload.Subject, on platform.Platform) (g lab.Group, err error) {
	sustainer, ok := s.Workload.(workload.Sustainer)
	if !ok {
		return g, kit.Usagef("%s cannot be kept at work for a given time: choose another workload (`tare workloads` says which can)", s.Workload.Name())
	}
	sustained, hasSteady := sustainer.Sustained()
	wanted := maps.Clone(map[string]string(sustained))
	if wanted == nil {
		wanted = map[string]string{}
	}
	maps.Copy(wanted, s.Params)
	params, err := workload.Resolve(s.Workload, wanted)
	if err != nil {
		return g, &kit.Usage{Text: err.Error()}
	}
	program, err := s.Workload.Program(params)
	if err != nil {
		return g, &kit.Usage{Text: err.Error()}
	}
	if n := o.Base.Network; len(program.Ports) > 0 && o.Copies > 1 && (n == "" || n == platform.NetworkHost) {
		return g, kit.Usagef("%s serves a port, which only one copy can have in the host's network: give --network bridge", s.Workload.Name())
	}
	t := trial{workload: sustainer, copies: o.Copies, window: o.Window, flags: true, life: !hasSteady}
	if hasSteady {
		t.steady = o.Steady
	}
	if o.Census {
		t.taker = o.Watch.Taker
	}
	// A service that is given no work takes no faults to speak of.
	if o.Faults && (t.life || t.steady > 0) {
		t.faults = o.Watch.Faults
		if hasSteady {
			t.counts = o.Watch.Counts
		} else if t.executes, err = o.simulated(s); err != nil {
			return g, err
		}
	}
	g = lab.Group{Workload: groupName(s), Once: true}
	metrics := t.metrics()
	if len(metrics) == 0 {
		return g, &platform.Missing{What: "nothing can be measured: " + strings.Join(o.Watch.Notes, "; "), Mend: "run `tare doctor`, which lists what is missing"}
	}
	for i, level := range o.ASLR {
		setting := o.Base
		setting.ASLR = level
		if err := on.Supports(setting); err != nil {
			return g, fmt.Errorf("platform %s: %w", o.Platform, err)
		}
		label := o.Platform + " aslr=" + level
		factors := map[string]string{
			factorASLR: level, factorCopies: strconv.Itoa(o.Copies),
			factorSteady: t.steady.String(), factorWindow: t.window.String(),
		}
		if o.HugePages != "" {
			label += " " + factorHuge + "=" + o.HugePages
			factors[factorHuge] = o.HugePages
		}
		g.Conditions = append(g.Conditions, lab.Condition{
			Condition: record.Condition{
				ID:    g.Workload + "@" + strings.ReplaceAll(label, " ", ","),
				Label: label, Workload: g.Workload, Params: params,
				Platform: o.Platform, Setting: setting, Baseline: i == 0, Metrics: metrics,
				Factors: factors,
			},
			Program: s.Workload, Source: s.Image(), Procedure: t.run, Around: o.around(),
			Limit: 10*time.Minute + 2*t.steady + time.Duration(o.Copies)*5*time.Second,
			Takes: t.steady + time.Duration(o.Copies)*assumedEach,
			Warms: min(t.steady, warmUpSteady) + time.Duration(o.Copies)*assumedEach,
		})
	}
	return g, nil
}

// around has huge pages set as asked for while a trial is made; nil where nothing is.
func (o Options) around() lab.Around {
	if o.HugePages == "" {
		return nil
	}
	return func(context.Context) (func(context.Context) error, error) {
		restore, err := o.SetHugePages(o.HugePages)
		if err != nil {
			return nil, err
		}
		return func(context.Context) error { return restore() }, nil
	}
}

// simulated counts the instructions of a function's life by running it once more, as
// it is where nobody looks: it does not hold what it has mapped, but ends. That
// is done once: it is the same each time.
func (o Options) simulated(s workload.Subject) (func(ctx context.Context, b lab.Bench) (uint64, error), error) {
	// What is run once more is run as root and in nothing but a root of its own: that
	// is for programs of ours.
	if o.Watch.Simulates == nil || s.Image().Recipe == "" {
		return nil, nil
	}
	params, err := workload.Resolve(s.Workload, s.Params)
	if err != nil {
		return nil, &kit.Usage{Text: err.Error()}
	}
	program, err := s.Workload.Program(params)
	if err != nil {
		return nil, &kit.Usage{Text: err.Error()}
	}
	var executed uint64
	return func(ctx context.Context, b lab.Bench) (uint64, error) {
		if executed > 0 {
			return executed, nil
		}
		spec, err := lab.SpecOf(b.Name(), b.Image(), program, b.Condition())
		if err != nil {
			return 0, err
		}
		process, err := spec.Process()
		if err != nil {
			return 0, err
		}
		n, err := o.Watch.Simulates(ctx, process.Args, b.Image().Root, process.Env)
		executed = n
		return n, err
	}, nil
}

// metrics are those of the trial's.
func (t trial) metrics() []workload.Metric {
	var m []workload.Metric
	if t.taker != nil {
		m = append(m, censusMetrics(start, t.flags)...)
		if t.steady > 0 {
			m = append(m, censusMetrics(steady, t.flags)...)
		}
	}
	if t.faults != nil {
		m = append(m, faultMetrics(t.taker == nil, t.life, t.executes != nil || t.counts != nil)...)
	}
	return m
}

// groupName is a workload with the parameters that the user set: two subjects of
// one workload differ by them.
func groupName(s workload.Subject) string {
	var set []string
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		set = append(set, name+"="+s.Params[name])
	}
	if len(set) == 0 {
		return s.Workload.Name()
	}
	return s.Workload.Name() + "[" + strings.Join(set, ",") + "]"
}

// What a copy costs besides what is watched, to be launched, made ready and
// removed: an assumption by which a pass is estimated, from runc on two CPUs.
const assumedEach = 800 * time.Millisecond
