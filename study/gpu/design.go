package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tare/lab"
	"tare/platform"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// What a trial takes: assumptions by which a pass over a design is estimated, of a
// data-centre device and programs of their own sizes.
const (
	assumedTrial   = 2500 * time.Millisecond
	assumedCompile = 2 * time.Second // of PTX, with a cold cache
	assumedTorch   = 15 * time.Second
	assumedTimed   = 2 * time.Second // the timed part of one that shares a device
)

// sharedIterations make the timed part of a program a second or two alone on a data-centre
// device, where nobody says how many: so that those who share a device, which do not
// start at one moment, are at it together for most of the time.
var sharedIterations = map[string]string{
	programs.LU:             "40",
	programs.ParticleFilter: "4000",
	programs.Stencil:        "5000",
	programs.LeNet:          "2000",
}

// limit bounds a trial: a device that hangs costs a trial, not a run.
const limit = 5 * time.Minute

// Design makes the design. Errors of what was asked are *[Usage]; what the host lacks is
// a *[platform.Missing] or *[platform.Unsupported].
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: Name, Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	b := &builder{Options: o}
	if err := b.find(); err != nil {
		return d, err
	}
	for _, subject := range o.Subjects {
		g, err := b.group(subject)
		if err != nil {
			return d, err
		}
		d.Groups = append(d.Groups, g)
	}
	for _, more := range []func() ([]lab.Group, error){b.limitsGroups, b.sharedGroups, b.torchGroups} {
		groups, err := more()
		if err != nil {
			return d, err
		}
		d.Groups = append(d.Groups, groups...)
	}
	d.Plan.Notes = append(slices.Clone(d.Plan.Notes), b.notes...)
	if err := d.Validate(); err != nil {
		return d, kit.Usagef("%v", err)
	}
	return d, nil
}

// builder makes the groups.
type builder struct {
	Options
	names   []string // of the platforms that take part, the baseline first
	program workload.Workload
	probe   bool
	notes   kit.Notes
}

// find settles what takes part: what the host cannot give is left out, and noted.
func (b *builder) find() error {
	found := b.Host.Found
	root := ""
	if found != nil {
		root = found.Root
		b.notes.Add("device: %s, compute capability %s, CUDA %s of the driver, %s of the programs",
			found.Device.Name, found.Device.ComputeCapability, found.Versions.Driver, found.Versions.Runtime)
		b.Builds = slices.DeleteFunc(slices.Clone(b.Builds), func(build string) bool {
			why := found.NoKind[programs.Kind(build)]
			if why != "" {
				b.notes.Add("programs built %s are left out: %s", build, why)
			}
			return why != ""
		})
		for _, build := range b.Builds {
			if !slices.Contains(found.Kinds, programs.Kind(build)) {
				return &platform.Missing{
					What: fmt.Sprintf("there are no programs built %s, but %s", build, kindsText(found.Kinds)),
					Mend: "run `make gpu-programs`, or name an available build with --build",
				}
			}
		}
	}
	b.program = workload.FromCUDA(root)
	if err := b.findPlatforms(); err != nil {
		return err
	}
	if b.probe = b.Probe; b.probe && found != nil && found.Library == "" {
		b.probe = false
		b.notes.Add("the activity probe is left out: %s", found.NoProbe)
	}
	return nil
}

func kindsText(kinds []programs.Kind) string {
	if len(kinds) == 0 {
		return "none"
	}
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}

// findPlatforms leaves out the platforms that this host cannot give. Bare metal is first;
// where it cannot be had either, programs run directly, and nothing is compared.
func (b *builder) findPlatforms() error {
	wanted := slices.DeleteFunc(slices.Clone(b.Platforms), func(name string) bool {
		return name == Bare || name == Direct
	})
	found := b.Host.Found
	setting := platform.Setting{GPU: b.GPU}
	base := Bare
	if found != nil && found.Direct {
		base = Direct
		b.notes.Add("bare metal in the form that containers use cannot be had here; programs are started directly: %s", found.Unusable[Bare])
	}
	b.names = []string{base}
	for _, name := range wanted {
		why := ""
		if found != nil {
			why = found.Unusable[name]
		}
		if why == "" {
			p, err := b.Host.Platform(name)
			if err != nil {
				return kit.Usagef("%v", err)
			}
			if err = b.Host.Check(p); err == nil {
				err = p.Supports(setting)
			}
			if err != nil {
				why = err.Error()
			}
		}
		switch {
		case base == Direct && why == "":
			why = "there is no baseline to compare it with"
			fallthrough
		case why != "":
			b.notes.Add("%s is left out: %s", name, why)
		default:
			b.names = append(b.names, name)
		}
	}
	if len(b.names) == 1 {
		b.notes.Add("no container can run beside %s here: kernels, calls and compilation are measured; the comparison of platforms is inconclusive", base)
	}
	return nil
}

// groupName is a subject's group: "gpu[program=lenet,task=training]".
func groupName(subject string, more ...string) string {
	parts := []string{FactorProgram + "=" + programOf(subject)}
	if task := taskOf(subject); task != "auto" {
		parts = append(parts, FactorTask+"="+task)
	}
	return Name + "[" + strings.Join(append(parts, more...), ",") + "]"
}

// group is one subject's: its cells on every platform, and some under the probe.
func (b *builder) group(subject string) (lab.Group, error) {
	g := lab.Group{Workload: groupName(subject)}
	for i, c := range b.cells() {
		for j, name := range b.names {
			condition, err := b.condition(subject, c, name, false)
			if err != nil {
				return g, err
			}
			condition.Baseline = i == 0 && j == 0
			g.Conditions = append(g.Conditions, condition)
		}
	}
	if !b.probe {
		return g, nil
	}
	for _, c := range b.probed() {
		for _, name := range b.names {
			condition, err := b.condition(subject, c, name, true)
			if err != nil {
				return g, err
			}
			g.Conditions = append(g.Conditions, condition)
		}
	}
	return g, nil
}

// params are a subject's in a cell.
func (b *builder) params(subject string, c cell) (workload.Params, error) {
	p, err := workload.Resolve(b.program, map[string]string{
		"program": programOf(subject), "task": taskOf(subject), "build": c.build, "memory": c.memory,
		"size": asked(b.Sizes, subject), "iterations": asked(b.Iterations, subject),
	})
	if err != nil {
		return nil, kit.Usagef("%v", err)
	}
	return p, nil
}

// factors are those of a subject's conditions.
func factors(kind, subject string, c cell) map[string]string {
	f := map[string]string{
		FactorKind:    kind,
		FactorProgram: programOf(subject),
		FactorBuild:   c.build,
		FactorMemory:  c.memory,
	}
	if task := taskOf(subject); task != "auto" {
		f[FactorTask] = task
	}
	if c.cache != "" {
		f[FactorCache] = c.cache
	}
	return f
}

func (b *builder) condition(subject string, c cell, name string, probed bool) (lab.Condition, error) {
	params, err := b.params(subject, c)
	if err != nil {
		return lab.Condition{}, err
	}
	of, label, metrics := factors(KindProgram, subject, c), name+" "+c.text(), b.program.Metrics(params)
	takes := assumedTrial
	switch {
	case c.compiles() && c.cache == Warm:
		takes += assumedTrial + assumedCompile // it is warmed before
	case c.compiles():
		takes += assumedCompile
	}
	t := trial{host: b.Host, program: b.program, cache: c.cache}
	if probed {
		of[FactorProbe], metrics = On, probeMetrics()
		label += " probed"
		t.probe = true
	}
	return b.made(groupName(subject), label, name, params, of, metrics, t.run, takes), nil
}

// made is a condition with what all have.
func (b *builder) made(
	group, label, on string, params workload.Params, of map[string]string,
	metrics []workload.Metric, run lab.Procedure, takes time.Duration,
) lab.Condition {
	setting := platform.Setting{GPU: b.GPU}
	return lab.Condition{
		Condition: record.Condition{
			ID: group + "@" + strings.ReplaceAll(label, " ", ","), Label: label, Workload: group, Params: params,
			Platform: on, Setting: setting.Normal(), Factors: of, Metrics: metrics,
		},
		Program: b.program, Source: b.program.Source(), Procedure: run, Limit: limit, Takes: takes,
	}
}

// limitsGroups are the device's own limits, and each program with every launch timed: both
// where the baseline is.
func (b *builder) limitsGroups() ([]lab.Group, error) {
	if !b.Limits {
		return nil, nil
	}
	c := b.cells()[0]
	params, err := b.params(programs.DeviceLimits, c)
	if err != nil {
		return nil, err
	}
	t := trial{host: b.Host, program: b.program}
	limits, kernels := t, t
	limits.limits, kernels.cache = true, c.cache
	name := groupName(programs.DeviceLimits)
	condition := b.made(name, b.names[0], b.names[0], params, factors(KindLimits, programs.DeviceLimits, c),
		limitMetrics(), limits.run, assumedTrial)
	condition.Baseline = true
	groups := []lab.Group{{Workload: name, Conditions: []lab.Condition{condition}, Once: true}}
	for _, subject := range b.Subjects {
		if params, err = b.params(subject, c); err != nil {
			return nil, err
		}
		params["each-kernel"] = "yes"
		name := groupName(subject, KindKernels)
		condition := b.made(name, b.names[0]+" each kernel", b.names[0], params, factors(KindKernels, subject, c),
			eachKernelMetrics(), kernels.run, assumedTrial)
		condition.Baseline = true
		groups = append(groups, lab.Group{Workload: name, Conditions: []lab.Condition{condition}, Once: true})
	}
	return groups, nil
}

// sharedGroups are several containers with one device, a group a program: the fewest on
// bare metal are the baseline.
func (b *builder) sharedGroups() ([]lab.Group, error) {
	if len(b.Share) == 0 {
		return nil, nil
	}
	counts := slices.Sorted(slices.Values(b.Share))
	f := b.Host.Found
	exclusive := f != nil && f.Device.ComputeMode != "" && f.Device.ComputeMode != "default"
	if exclusive && counts[len(counts)-1] > 1 {
		return nil, &platform.Missing{
			What: fmt.Sprintf("--share %d: the compute mode of %s is %s, which admits one process only",
				counts[len(counts)-1], f.Device.Name, f.Device.ComputeMode),
			Mend: "run `nvidia-smi -c DEFAULT`, or leave --share out",
		}
	}
	if counts[0] != 1 {
		counts = append([]int{1}, counts...) // what each is set against
	}
	var groups []lab.Group
	for _, subject := range b.Subjects {
		c := b.cells()[0]
		params, err := b.params(subject, c)
		if err != nil {
			return nil, err
		}
		if params["iterations"] == "auto" {
			params["iterations"] = sharedIterations[programOf(subject)]
		}
		g := lab.Group{Workload: groupName(subject, KindShared)}
		for _, name := range b.names {
			for _, n := range counts {
				of := factors(KindShared, subject, c)
				of[FactorShare] = number(n)
				t := sharing{trial: trial{host: b.Host, program: b.program}, count: n}
				condition := b.made(g.Workload, fmt.Sprintf("%s x %d", name, n), name, maps.Clone(params), of,
					sharedMetrics(), t.run, assumedTrial+assumedTimed*time.Duration(n))
				condition.Baseline = len(g.Conditions) == 0
				g.Conditions = append(g.Conditions, condition)
			}
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// torchGroups are a training step and inference by PyTorch.
func (b *builder) torchGroups() ([]lab.Group, error) {
	if !b.Torch {
		return nil, nil
	}
	found := b.Host.Found
	if found == nil {
		b.notes.Add("whether PyTorch is there is checked when the run begins")
		return nil, nil
	}
	if found.Torch == nil {
		b.notes.Add("PyTorch is left out: %s", found.NoTorch)
		return nil, nil
	}
	var groups []lab.Group
	for _, task := range torchTasks {
		w := workload.FromTorch(found.Torch.Root, found.Torch.Python)
		params, err := workload.Resolve(w, map[string]string{"task": task})
		if err != nil {
			return nil, kit.Usagef("%v", err)
		}
		g := lab.Group{Workload: "torch[task=" + task + "]"}
		for i, name := range b.names {
			of := map[string]string{FactorKind: KindTorch, FactorProgram: "torch", FactorTask: task}
			t := trial{host: b.Host, program: w, torch: found.Torch}
			condition := b.made(g.Workload, name, name, params, of, w.Metrics(params), t.run, assumedTorch)
			condition.Program, condition.Source, condition.Baseline = w, w.Source(), i == 0
			g.Conditions = append(g.Conditions, condition)
		}
		groups = append(groups, g)
	}
	return groups, nil
}
