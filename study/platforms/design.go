package platforms

import (
	"fmt"
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

// Design makes the design. Errors of what was asked are *[Usage]; a host that has
// nothing to compare gives a *[platform.Missing].
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: Name, Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	b := &builder{Options: o}
	if err := b.findPlatforms(); err != nil {
		return d, err
	}
	if b.Host.narrow() {
		b.notes.Add("tare may use CPUs %s alone, of %d: shares of the host (CHR) count all, since an engine's vanilla container runs on any",
			platform.FormatCPUList(b.Host.CPUs), b.Host.online())
	}
	for _, s := range o.Subjects {
		groups, err := b.groups(s)
		if err != nil {
			return d, err
		}
		d.Groups = append(d.Groups, groups...)
	}
	if len(d.Groups) == 0 {
		if len(b.notes) == 0 {
			return d, kit.Usagef("nothing is left to measure")
		}
		if needs := b.beyond(); needs != "" {
			return d, kit.Usagef("no program fits: %s", needs)
		}
		return d, kit.Usagef("nothing is left to measure: %s", strings.Join(b.notes, "; "))
	}
	// One block of each group of a workload after the other: what a run that is cut
	// short has of all of them is then about the same.
	d.Plan.Notes = append(slices.Clone(d.Plan.Notes), b.notes...)
	if err := d.Validate(); err != nil {
		return d, kit.Usagef("%v", err)
	}
	return d, nil
}

// builder makes the groups.
type builder struct {
	Options
	usable []candidate // bare metal first
	held   candidate   // what holds it to fewer CPUs than there are; nil platform where nothing does
	notes  kit.Notes
}

// candidate is a platform that this host has.
type candidate struct {
	name     string
	on       platform.Platform
	emulated string // why its figures do not carry over
}

// findPlatforms leaves out what this host lacks, where it was not asked for.
func (b *builder) findPlatforms() error {
	if p, err := b.Host.Platform(Held); err == nil && b.Host.Check(p) == nil {
		b.held = candidate{name: p.Name(), on: p}
	}
	for _, name := range append([]string{Bare}, b.Platforms...) {
		if KindOf(name) == BM && len(b.usable) > 0 {
			continue // it is there already
		}
		p, err := b.Host.Platform(name)
		if err != nil {
			return err
		}
		if err := b.Host.Check(p); err != nil {
			if b.Chosen || name == Bare {
				return err
			}
			b.notes.Add("%s is left out: %v", name, err)
			continue
		}
		b.usable = append(b.usable, candidate{name: p.Name(), on: p, emulated: platform.NotRepresentative(p)})
	}
	if len(b.usable) < 2 && len(b.Hosts) == 0 {
		if b.Chosen {
			return kit.Usagef("--platform bare: it is the baseline; name another to compare with it")
		}
		return &platform.Missing{
			What: "there is nothing to compare: " + strings.Join(b.notes, "; "), Mend: "`tare doctor` says what is missing",
		}
	}
	return nil
}

// subject is a workload that is being laid out.
type subject struct {
	workload.Subject
	service bool
	needs   int64 // bytes of memory
	// cpus are those that the program may have, and load those of its load: all, where
	// there is none or one CPU alone.
	cpus, load []int
	// roams is set where a quota leaves the program CPUs besides those.
	roams bool
}

func (b *builder) subject(s workload.Subject) (subject, error) {
	params, err := workload.Resolve(s.Workload, s.Params)
	if err != nil {
		return subject{}, kit.Usagef("%v", err)
	}
	program, err := s.Workload.Program(params)
	if err != nil {
		return subject{}, kit.Usagef("%v", err)
	}
	all := subject{
		Subject: s, service: program.Service, needs: program.MemoryNeed, cpus: b.Host.CPUs, load: b.Host.CPUs,
	}
	if !all.service {
		all.roams = b.Host.narrow()
		return all, nil
	}
	if len(b.Host.CPUs) < 2 {
		b.notes.Add("%s shares the only CPU with its load, so it waits for the load too", s.Workload.Name())
		return all, nil
	}
	all.load, all.cpus = b.Host.CPUs[:1], b.Host.CPUs[1:]
	return all, nil
}

// sized gives a subject what its size makes of its parameters, where the user has not:
// S2's ranks of MPI were as many as the CPUs. The clip outlasts a quota's first and last
// periods, which are never throttled whole.
func (b *builder) sized(s subject, size Size) subject {
	s.Subject = given(s.Subject, paramRanks, strconv.Itoa(size.whole()))
	s.Subject = given(s.Subject, paramClip, usualClip)
	asked := given(s.Subject, paramRequests, strconv.Itoa(b.Requests))
	if b.Requests > 0 && s.Workload.Name() == site && asked.Params[paramRequests] != s.Params[paramRequests] {
		b.notes.Add("%s receives %d requests at once; S2 (published comparison of platforms) sent 1,000: give --full, or --param %s=1000",
			s.Workload.Name(), b.Requests, paramRequests)
		s.Subject = asked
	}
	return s
}

// ranked reports whether the program has as many ranks as CPUs, the user having said nothing
// else.
func (s subject) ranked() bool {
	_, set := s.Params[paramRanks]
	_, has := s.With(paramRanks, "")
	return has && !set
}

// Parameters that the study sets.
const (
	paramRanks    = "processes"
	paramRequests = "requests"
	paramClip     = "clip"
	usualClip     = "/clips/zoom-5s.mp4"

	// site is the program whose requests S2 sent a thousand of at once: those of others,
	// such as redis, are something else by the same name.
	site = "wordpress"
)

// given sets a parameter that a subject has, unless the user did.
func given(s workload.Subject, name, value string) workload.Subject {
	if _, set := s.Params[name]; set {
		return s
	}
	s, _ = s.With(name, value)
	return s
}

// groups are a subject's, of all questions that were asked.
func (b *builder) groups(of workload.Subject) (groups []lab.Group, err error) {
	s, err := b.subject(of)
	if err != nil {
		return nil, err
	}
	sizes, err := b.fitting(s)
	if err != nil {
		return nil, err
	}
	for _, size := range sizes {
		if len(b.Hosts) > 0 || len(b.Tasks) > 0 {
			if size.fractional() {
				b.notes.Add("%s is left out with --host-cpus and --tasks: bare metal has no part of a CPU", size)
				continue
			}
			g, err := b.asked(s, size)
			if err != nil {
				return nil, err
			}
			groups = append(groups, g...)
			continue
		}
		if g := b.matrix(s, size); len(g.Conditions) > 1 {
			groups = append(groups, g)
			for _, more := range []lab.Group{b.watched(s, size, g), b.networked(s, size)} {
				if len(more.Conditions) > 1 {
					groups = append(groups, more)
				}
			}
		}
	}
	return groups, nil
}

// asked are the groups of the questions besides the matrix.
func (b *builder) asked(s subject, size Size) (groups []lab.Group, err error) {
	if len(b.Hosts) > 0 {
		g, err := b.hosts(s, size)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g...)
	}
	if len(b.Tasks) > 0 {
		g, err := b.tasking(s, size)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// fitting are the sizes that this host has for a subject.
func (b *builder) fitting(s subject) ([]Size, error) {
	var sizes []Size
	var beyond []string
	for _, size := range b.Sizes {
		memory := max(size.Memory, b.Base.Memory)
		switch {
		case size.whole() > len(s.cpus):
			beyond = append(beyond, formatNumber(size.CPUs))
		case b.Host.Memory > 0 && memory > b.Host.Memory:
			b.notes.Add("%s is left out: this host has %.0f GiB of memory", size, float64(b.Host.Memory)/(1<<30))
		case memory > 0 && s.needs > memory:
			return nil, kit.Usagef("%s needs %d MiB of memory: %s is too little", s.Workload.Name(), s.needs>>20, size)
		case s.ranked() && size.whole() < 2:
			b.notes.Add("%s is left out at %s: two ranks on one CPU take turns, which is no platform's cost; give --param %s=2 to measure it",
				s.Workload.Name(), size, paramRanks)
		case s.service && size.fractional():
			b.notes.Add("%s is left out at %s: a service on a part of a CPU has no comparable bare metal", s.Workload.Name(), size)
		default:
			sizes = append(sizes, size)
		}
	}
	if len(beyond) > 0 {
		name := s.Workload.Name()
		what := "this host has " + cpusText(float64(len(b.Host.CPUs)))
		if s.service && len(b.Host.CPUs) > 1 {
			what += ", of which the load keeps one"
		}
		b.notes.Add("%s at %s CPUs is left out: %s; on a larger host, run tare platforms --workload %s --cpus %s",
			name, strings.Join(beyond, ","), what, name, strings.Join(beyond, ","))
	}
	return sizes, nil
}

// beyond says that every size is larger than this host, whatever runs; empty where one is
// not.
func (b *builder) beyond() string {
	least := slices.MinFunc(b.Sizes, func(x, y Size) int { return x.whole() - y.whole() })
	if least.whole() <= len(b.Host.CPUs) {
		return ""
	}
	has := "this host has " + cpusText(float64(b.Host.online()))
	if b.Host.narrow() {
		has += fmt.Sprintf(", of which tare may use %d", len(b.Host.CPUs))
	}
	if i := slices.IndexFunc(Instances, func(i Instance) bool { return i.Size == least }); i >= 0 {
		return fmt.Sprintf("%s, %s needs %d", has, Instances[i].Name, least.whole())
	}
	return fmt.Sprintf("%s, and at least %d are required", has, least.whole())
}

// groupName names a group.
func groupName(s subject, size Size, question string) string {
	name := s.Workload.Name() + " " + size.String()
	if question != matrix {
		name += ", " + question
	}
	return name
}

// granted is what a preset grants on a platform.
func (b *builder) granted(s subject, size Size, c candidate, preset string) platform.Setting {
	s = s.on(c)
	set := b.Base
	if size.Memory > 0 {
		set.Memory = size.Memory
	}
	switch {
	case KindOf(c.name) == BM:
		// As S2 booted its host with that many: the programs' own measure has neither a
		// quota nor a limit of memory.
		set.CPUSet, set.Memory = platform.FormatCPUList(s.cpus[:size.whole()]), 0
	case preset == Pinned:
		set.CPUSet = platform.FormatCPUList(s.cpus[:size.whole()])
	case s.service:
		// Anywhere but on the load's CPUs, where it would cost the load, not the container.
		set.CPUs, set.CPUSet = size.CPUs, platform.FormatCPUList(s.cpus)
		if len(s.cpus) >= b.Host.online() {
			set.CPUSet = ""
		}
	default:
		set.CPUs = size.CPUs
	}
	return set.Normal()
}

// beside says why a platform cannot keep a service off its load's CPUs; empty where it
// can.
func (b *builder) beside(s subject, c candidate) string {
	head, _, isMachine := machine(c.name)
	if !isMachine || !s.service || len(s.cpus) == len(b.Host.CPUs) {
		return ""
	}
	if strings.Contains(head, "+cpus=") || strings.Contains(head, "+memory=") {
		return "a machine with its size in its path is confined to no CPUs of this host, so it would run on the load's CPU too"
	}
	return ""
}

// same reports whether vanilla and pinned are granted the same CPUs: all that there are.
func (s subject) same(size Size) bool {
	return !size.fractional() && size.whole() == len(s.cpus) && !s.roams
}

// condition lays out one condition.
func (b *builder) condition(s subject, size Size, group, question string, c candidate, preset string) lab.Condition {
	s = b.sized(s, size)
	params, err := workload.Resolve(s.Workload, s.Params)
	if err != nil {
		panic(err) // the subject was asked for the same
	}
	label := strings.TrimSpace(c.name + " " + preset)
	if KindOf(c.name) == BM {
		label = Bare
	}
	factors := map[string]string{
		factorQuestion: question, factorSize: formatNumber(size.CPUs), factorHost: strconv.Itoa(b.hostCPUs(c)),
	}
	if preset != "" {
		factors[factorPreset] = preset
	}
	if KindOf(c.name) != BM && s.on(c).same(size) {
		factors[factorSame] = "yes"
	}
	made := lab.Condition{
		Condition: record.Condition{
			ID: group + "@" + label, Label: label, Workload: group, Params: params, Platform: c.name,
			Setting: b.granted(s, size, c, preset), Factors: factors, Metrics: s.Workload.Metrics(params),
			NotRepresentative: c.emulated,
		},
		Program: s.Workload, Source: s.Image(),
	}
	if s.service {
		factors[factorService] = "yes"
		made.Watch = apart(b.Host.Confine, s.load)
	}
	if c.emulated != "" {
		made.Limit = emulatedLimit
	}
	made.Takes = takes(made)
	return made
}

// emulatedLimit bounds a trial in an emulated machine, whose processor is several times
// slower.
const emulatedLimit = 30 * time.Minute

// hostCPUs are those that the kernel below a platform schedules on: a machine of a size
// of its own has those, any other takes its place on this host, whatever tare itself is
// kept to.
func (b *builder) hostCPUs(c candidate) int {
	if n, ok := ownCPUs(c.name); ok {
		return n
	}
	return b.Host.online()
}

// ownCPUs is how many CPUs a path gives its machine; false where it leaves that open.
func ownCPUs(path string) (int, bool) {
	head, _, ok := machine(path)
	if !ok {
		return 0, false
	}
	for _, option := range strings.Split(head, "+")[1:] {
		if value, is := strings.CutPrefix(option, "cpus="); is {
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				return n, true
			}
		}
	}
	return 0, false
}

// on is a subject as a platform has it: in a machine of a size of its own it has that
// machine's CPUs, which are numbered from 0.
func (s subject) on(c candidate) subject {
	if _, _, isMachine := machine(c.name); isMachine {
		s.roams = false // its CPUs are held to what tare may use
	}
	if n, ok := ownCPUs(c.name); ok {
		s.cpus = make([]int, n)
		for i := range s.cpus {
			s.cpus[i] = i
		}
	}
	return s
}

// matrix is a subject at a size on every platform.
func (b *builder) matrix(s subject, size Size) lab.Group {
	on := b.usable
	if s.service && !b.Chosen {
		// A trial of theirs takes many times one of the others: the engine's alone, as
		// S2's containers were.
		on = slices.DeleteFunc(slices.Clone(on), func(c candidate) bool {
			return KindOf(c.name) == CN && c.name != b.container().name
		})
	}
	return b.group(s, size, matrix, on)
}

// container is the one by which claims are judged: the last that was named, by default the
// engine's.
func (b *builder) container() candidate {
	for _, c := range slices.Backward(b.usable) {
		if KindOf(c.name) == CN {
			return c
		}
	}
	return candidate{}
}

// group sets platforms against bare metal.
func (b *builder) group(s subject, size Size, question string, on []candidate) lab.Group {
	g := lab.Group{Workload: groupName(s, size, question)}
	for _, c := range on {
		if KindOf(c.name) == BM {
			c = b.metal(size, b.Host.online())
		}
		for _, preset := range b.presets(s, size, c) {
			made := b.condition(s, size, g.Workload, question, c, preset)
			if why := b.beside(s, c); why != "" {
				b.notes.Add("%s is left out of %s at %s: %s", made.Label, s.Workload.Name(), size, why)
				continue
			}
			if err := c.on.Supports(made.Setting); err != nil {
				if KindOf(c.name) == BM {
					b.notes.Add("%s at %s is left out: %v", s.Workload.Name(), size, err)
					return lab.Group{}
				}
				b.notes.Add("%s is left out at %s: %v", made.Label, size, err)
				continue
			}
			made.Baseline = KindOf(c.name) == BM
			g.Conditions = append(g.Conditions, made)
		}
	}
	return g
}

// metal is bare metal of a size on a host of so many CPUs.
func (b *builder) metal(size Size, of int) candidate {
	if size.whole() >= of {
		return b.usable[0]
	}
	if b.held.on == nil {
		b.notes.Add("bare metal is confined to its CPUs by an affinity alone; a program that undoes it has more, and costs are overstated; " +
			"`tare doctor` says why there is no cgroup")
		return b.usable[0]
	}
	return b.held
}

// presets are those that a platform has at a size.
func (b *builder) presets(s subject, size Size, c candidate) []string {
	if KindOf(c.name) == BM {
		return []string{""}
	}
	presets := slices.Clone(b.Presets)
	if size.fractional() {
		presets = slices.DeleteFunc(presets, func(p string) bool { return p == Pinned })
		if len(presets) == 0 {
			b.notes.Add("%s at %s is left out: pinned requires whole CPUs", s.Workload.Name(), size)
		}
	}
	if s.on(c).same(size) && !b.Both && len(presets) > 1 {
		return []string{Vanilla}
	}
	return presets
}

// watched is a subject at a size with a probe beside: bare metal, and the container that
// decides.
func (b *builder) watched(s subject, size Size, of lab.Group) lab.Group {
	if !b.Causes || b.Host.Watch == nil {
		return lab.Group{}
	}
	if !b.Chosen && s.service && s.same(size) {
		b.notes.Add("%s at %s runs without the probe: vanilla and pinned have the same CPUs there", s.Workload.Name(), size)
		return lab.Group{}
	}
	on := b.usable[:1:1]
	if c := b.container(); c.on != nil {
		on = append(on, c)
	}
	for _, c := range b.usable[1:] {
		if b.Chosen && KindOf(c.name) != CN {
			on = append(on, c)
		}
	}
	g := b.group(s, size, ofCauses, on)
	g.Once = true // nothing there rests on what the procedure finds between equals
	for i := range g.Conditions {
		g.Conditions[i].Watch = both(g.Conditions[i].Watch, watching(b.Host.Watch))
	}
	return g
}

// What a trial takes: assumptions by which a pass is estimated.
const (
	assumedBatch    = 3 * time.Second
	assumedService  = 30 * time.Second
	assumedCut      = 13 * time.Second // the clip that is cut into parts: 30 s of moving pictures
	assumedEmulated = 8                // times as long
)

func takes(c lab.Condition) time.Duration {
	took := assumedBatch
	switch {
	case c.Factors[factorService] == "yes":
		took = assumedService
	case c.Factors[factorTasks] != "":
		took = assumedCut
	}
	if n := number(c.Condition, factorSize); n < 1 {
		took = time.Duration(float64(took) / n)
	}
	if c.NotRepresentative != "" {
		took *= assumedEmulated
	}
	return took
}
