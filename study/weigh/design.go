// Package weigh designs the measurement of what each way of containing a program
// costs, against bare metal or any other condition. It turns what a user names
// (programs, platforms, settings to vary) into a design for package lab. It runs
// nothing.
package weigh

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// Subject is a workload with the parameters that the user set.
type Subject struct {
	Workload workload.Workload
	// Sources are the images to run it in; empty is the workload's own.
	Sources []workload.Source
	Params  map[string]string
}

// Factor is something varied: a key of platform.Keys, a parameter of the
// workloads, or "preset".
type Factor struct {
	Key    string
	Values []string
}

// Options are what the user asked for.
type Options struct {
	Subjects  []Subject
	Platforms []string // canonical names; the default ones if empty
	Base      platform.Setting
	Also      []platform.Setting // further ones to weigh on each platform, beside Base
	Vary      []Factor
	Cross     bool
	Ladder    bool
	Quick     bool   // fewer conditions where the user names none
	Baseline  string // a condition, such as "docker,network=bridge"; "" is bare metal
	// Explain has an established cost divided among the layers of its container, where that
	// can be; ExplainAsked makes it an error that it cannot.
	Explain, ExplainAsked bool
	// Alone allows a baseline without anything to compare it with: its two instances are
	// compared with each other, which shows how often the procedure finds an effect where
	// there is none.
	Alone bool

	Plan record.Plan
	Seed int64

	Host kit.Host
}

// defaultPlatforms are tried where the user names none, quickPlatforms where
// there is a minute for all.
var (
	defaultPlatforms = []string{"bare", "oci:runc", "oci:crun", "docker"}
	quickPlatforms   = []string{"bare", "oci:runc", "docker"}
)

// rung is a platform with settings of its own.
type rung struct {
	platform string
	setting  platform.Setting
}

// ladder adds one layer of containment after the other.
var ladder = []rung{
	{"bare", platform.Setting{}},
	{"cgroup", platform.Setting{}},
	{"oci:runc", platform.Setting{Root: platform.RootDir, Seccomp: "unconfined"}},
	{"oci:runc", platform.Setting{Root: platform.RootDir}},
	{"oci:runc", platform.Setting{}},
	{"docker", platform.Setting{}},
}

// Design makes the design. Errors of what was asked are *kit.Usage; a platform
// that the user named and the host lacks is a *platform.Missing. What was left
// out, and why, stands in the plan's notes.
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: Name, Seed: o.Seed, Plan: o.Plan}
	d.Plan.Ladder = o.Ladder
	if o.Ladder && (len(o.Platforms) > 0 || len(o.Vary) > 0 || o.Cross) {
		return d, kit.Usagef("--ladder names its own conditions: leave out --platform, --vary, --preset and --cross")
	}
	if why := o.Base.Contradiction(o.Host.CPUs); why != "" {
		return d, kit.Usagef("%s", why)
	}
	b := builder{Options: o}
	if err := b.findPlatforms(); err != nil {
		return d, err
	}
	for _, s := range o.Subjects {
		groups, err := b.groups(s)
		if err != nil {
			return d, err
		}
		d.Groups = append(d.Groups, groups...)
	}
	d.Plan.Notes = append(d.Plan.Notes, b.notes...)
	if err := d.Validate(); err != nil {
		return d, &kit.Usage{Text: err.Error() + ": name each workload once"}
	}
	if o.explains() {
		d.Explain = Explain(o, d)
	} else if o.Explain && o.ExplainAsked {
		return d, kit.Usagef("--explain requires --design rounds, one image, bare metal as the baseline and --budget %v or more, "+
			"without --ladder and --fail-above", shortestExplained)
	}
	return d, nil
}

// shortestExplained is the budget below which all of it goes into the question that was
// asked.
const shortestExplained = 90 * time.Second

// explains reports whether a cost is to be divided among layers. A ladder does so by itself.
// Images, and a threshold, ask another question.
func (o Options) explains() bool {
	for _, s := range o.Subjects {
		if len(s.Sources) > 1 {
			return false
		}
	}
	return o.Explain && o.Plan.Design == record.DesignRounds && !o.Ladder && o.Baseline == "" &&
		o.Plan.FailAbove == 0 &&
		(o.Plan.Budget == 0 || o.Plan.Budget >= shortestExplained)
}

type builder struct {
	Options
	rungs  []rung // platforms at the base setting, or the ladder
	notes  kit.Notes
	varied []Factor // of settings; workload parameters apart
}

// findPlatforms settles which platforms take part.
func (b *builder) findPlatforms() error {
	if b.Ladder {
		for _, r := range ladder {
			if err := b.check(r.platform); err != nil {
				b.notes.Add("rung %s left out: %v", r.platform, err)
				continue
			}
			b.rungs = append(b.rungs, r)
		}
		return nil
	}
	names, named := b.Platforms, true
	if len(names) == 0 {
		names, named = defaultPlatforms, false
		if b.Quick {
			names = quickPlatforms
		}
	}
	if b.Baseline != "" {
		// A baseline on a platform that is not listed takes part as well.
		name, _, err := ParseCondition(b.Baseline)
		if err != nil {
			return err
		}
		if !slices.Contains(names, name) {
			names = append(slices.Clone(names), name)
		}
	}
	for _, name := range names {
		err := b.check(name)
		if err != nil && named {
			return fmt.Errorf("platform %s: %w", name, err)
		}
		if err != nil {
			b.notes.Add("%s left out: %v", name, err)
			continue
		}
		b.rungs = append(b.rungs, rung{platform: name})
	}
	if len(b.rungs) == 0 {
		return &platform.Missing{
			What: "no platform can be used here: " + strings.Join(b.notes, "; "),
			Mend: "run `tare doctor`, which lists what is missing",
		}
	}
	return nil
}

func (b *builder) check(name string) error {
	p, err := b.Host.Platform(name)
	if err != nil {
		return &kit.Usage{Text: err.Error()}
	}
	return b.Host.Check(p)
}

// groups makes one group for each combination of workload parameters: a
// parameter changes the work itself, so each combination has its own baseline.
func (b *builder) groups(s Subject) ([]lab.Group, error) {
	var settings, params []Factor
	for _, f := range b.Vary {
		switch {
		case f.Key == "preset" || slices.Contains(platform.KeyNames(), f.Key):
			settings = append(settings, f)
		default:
			params = append(params, f)
		}
	}
	b.varied = settings
	combinations := []map[string]string{maps.Clone(s.Params)}
	if combinations[0] == nil {
		combinations[0] = map[string]string{}
	}
	for _, f := range params {
		var more []map[string]string
		for _, c := range combinations {
			for _, v := range f.Values {
				with := maps.Clone(c)
				with[f.Key] = v
				more = append(more, with)
			}
		}
		combinations = more
	}
	var groups []lab.Group
	for _, c := range combinations {
		p, err := workload.Resolve(s.Workload, c)
		if err != nil {
			return nil, &kit.Usage{Text: err.Error() + settingsHint(params)}
		}
		g, err := b.group(s, p, label(params, c))
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func settingsHint(params []Factor) string {
	if len(params) == 0 {
		return ""
	}
	return "; settings are " + strings.Join(platform.KeyNames(), ", ") + ", preset, image"
}

// label names the varied parameters: "payload=100,clients=50".
func label(varied []Factor, values map[string]string) string {
	var parts []string
	for _, f := range varied {
		parts = append(parts, f.Key+"="+values[f.Key])
	}
	return strings.Join(parts, ",")
}

// group lists the conditions of one workload under one set of parameters.
func (b *builder) group(s Subject, params workload.Params, variant string) (lab.Group, error) {
	name := s.Workload.Name()
	if variant != "" {
		name += "[" + variant + "]"
	}
	program, err := s.Workload.Program(params)
	if err != nil {
		return lab.Group{}, &kit.Usage{Text: err.Error()}
	}
	g := lab.Group{Workload: name}
	sources := s.Sources
	if len(sources) == 0 {
		sources = []workload.Source{workload.SourceOf(s.Workload, params)}
	}
	seen := map[string]bool{}
	add := func(r rung, src workload.Source, sourceLabel string) error {
		kept, err := b.reconcile(r, program)
		if err != nil || kept == nil {
			return err
		}
		text := conditionLabel(kept.platform, kept.setting, sourceLabel)
		if seen[text] {
			return nil
		}
		seen[text] = true
		g.Conditions = append(g.Conditions, lab.Condition{
			Condition: record.Condition{
				ID:       name + "@" + strings.ReplaceAll(text, " ", ","),
				Label:    text,
				Workload: name,
				Params:   params,
				Platform: kept.platform,
				Setting:  kept.setting,
				Metrics:  s.Workload.Metrics(params),
			},
			Program: s.Workload,
			Source:  src,
		})
		return nil
	}
	points, err := b.points(program)
	if err != nil {
		return g, err
	}
	for _, src := range sources {
		sourceLabel := ""
		if len(sources) > 1 {
			sourceLabel = imagePrefix + sourceName(src)
		}
		for _, p := range points {
			if err := add(p, src, sourceLabel); err != nil {
				return g, err
			}
		}
	}
	if err := b.markBaseline(&g, program); err != nil {
		return g, err
	}
	if len(g.Conditions) < 2 && !b.Alone {
		return g, kit.Usagef("%s: only one condition is left (%s): nothing to compare; name more with --platform or --vary%s",
			name, g.Conditions[0].Label, because(b.notes))
	}
	if b.Plan.FailAbove > 0 && len(sources) > 1 {
		for _, c := range g.Conditions {
			if first := g.Conditions[0]; c.Platform != first.Platform || c.Setting != first.Setting {
				return g, kit.Usagef("--fail-above compares images with the first of them, on one platform with one setting: " +
					"name one --platform and vary nothing")
			}
		}
	}
	shortenLabels(&g)
	return g, nil
}

// shortenLabels removes from the labels what all conditions of the group share.
func shortenLabels(g *lab.Group) {
	count := map[platform.Pair]int{}
	for _, c := range g.Conditions {
		for _, p := range c.Setting.Pairs() {
			count[p]++
		}
	}
	for i := range g.Conditions {
		c := &g.Conditions[i]
		for _, p := range c.Setting.Pairs() {
			if count[p] == len(g.Conditions) {
				c.Label = strings.Replace(c.Label, " "+p.Key+"="+p.Value, "", 1)
			}
		}
	}
	// The same of images: the directories that lead to all of them.
	var shared string
	for i, c := range g.Conditions {
		_, name, _ := strings.Cut(c.Label, " "+imagePrefix)
		if i == 0 {
			shared = name
		}
		for !strings.HasPrefix(name, shared) {
			shared = shared[:len(shared)-1]
		}
	}
	if shared = shared[:strings.LastIndexByte(shared, '/')+1]; shared == "/" {
		return
	}
	for i := range g.Conditions {
		c := &g.Conditions[i]
		c.Label = strings.Replace(c.Label, " "+imagePrefix+shared, " "+imagePrefix, 1)
	}
}

// imagePrefix stands before an image's name in a label.
const imagePrefix = "image="

func because(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

func sourceName(src workload.Source) string {
	for _, text := range []string{src.Image, src.Archive, src.Rootfs, src.Recipe} {
		if text != "" {
			return text
		}
	}
	return ""
}

// conditionLabel writes a condition as its user would: "docker network=bridge".
func conditionLabel(name string, s platform.Setting, more ...string) string {
	parts := []string{name}
	for _, p := range s.Pairs() {
		parts = append(parts, p.Key+"="+p.Value)
	}
	for _, m := range more {
		if m != "" {
			parts = append(parts, m)
		}
	}
	return strings.Join(parts, " ")
}

// points lists where in the space of factors to measure: every platform at the
// base setting and, for each factor, at each of its values (one factor at a
// time); or the full product.
func (b *builder) points(program workload.Program) ([]rung, error) {
	var points []rung
	if b.Ladder {
		for _, r := range b.rungs {
			merged, err := merge(b.Base, r.setting)
			if err != nil {
				return nil, err
			}
			points = append(points, rung{r.platform, merged})
		}
		return points, nil
	}
	for _, r := range b.rungs {
		if b.Cross {
			crossed := []platform.Setting{b.Base}
			for _, f := range b.varied {
				var more []platform.Setting
				for _, s := range crossed {
					for _, v := range f.Values {
						with, err := b.with(s, f.Key, v)
						if err != nil {
							return nil, err
						}
						more = append(more, with)
					}
				}
				crossed = more
			}
			for _, s := range crossed {
				points = append(points, rung{r.platform, s})
			}
			continue
		}
		points = append(points, rung{r.platform, b.Base})
		for _, s := range b.Also {
			points = append(points, rung{r.platform, s})
		}
		// A service in an engine is ordinarily reached over the engine's bridge.
		// Where the user names nothing, that is weighed too.
		namesNothing := !b.Quick && len(b.Platforms) == 0 && len(b.varied) == 0 && b.Base.Network == ""
		if namesNothing && r.platform == "docker" && len(program.Ports) > 0 {
			bridged := b.Base
			bridged.Network = platform.NetworkBridge
			points = append(points, rung{r.platform, bridged})
		}
		for _, f := range b.varied {
			for _, v := range f.Values {
				s, err := b.with(b.Base, f.Key, v)
				if err != nil {
					return nil, err
				}
				points = append(points, rung{r.platform, s})
			}
		}
	}
	return points, nil
}

func merge(base, over platform.Setting) (platform.Setting, error) {
	for _, p := range over.Pairs() {
		if err := base.Set(p.Key, p.Value); err != nil {
			return base, err
		}
	}
	return base, nil
}

// with sets one factor to one value.
func (b *builder) with(s platform.Setting, key, value string) (platform.Setting, error) {
	if key != "preset" {
		if err := s.Set(key, value); err != nil {
			return s, &kit.Usage{Text: err.Error()}
		}
	} else {
		// The papers' two ways of granting n CPUs (S2).
		n := s.CPUs
		if n == 0 {
			n = math.Max(1, math.Floor(float64(len(b.Host.CPUs))/2))
		}
		switch value {
		case "vanilla":
			s.CPUs, s.CPUSet = n, ""
		case "pinned":
			if n != math.Trunc(n) || int(n) > len(b.Host.CPUs) {
				return s, kit.Usagef("preset=pinned: want cpus=N with a whole number from 1 to %[2]d (a cpuset holds whole CPUs), not %[1]g", n, len(b.Host.CPUs))
			}
			s.CPUs, s.CPUSet = 0, platform.FormatCPUList(b.Host.CPUs[:int(n)])
		default:
			return s, kit.Usagef("preset=%s: want vanilla (a quota) or pinned (a cpuset)", value)
		}
	}
	if why := s.Contradiction(b.Host.CPUs); why != "" {
		return s, kit.Usagef("%s", why)
	}
	return s, nil
}

// reconcile settles a point with what its platform can do and its program
// needs. Knobs of the base setting that mean nothing there are left out of the
// condition; a point whose own knob means nothing is left out whole (nil).
// Either is noted.
func (b *builder) reconcile(r rung, program workload.Program) (*rung, error) {
	p, err := b.Host.Platform(r.platform)
	if err != nil {
		return nil, &kit.Usage{Text: err.Error()}
	}
	s := r.setting.Normal()
	if s.Memory != 0 && program.MemoryNeed > s.Memory {
		return nil, kit.Usagef("memory=%s is less than the program needs: want %d MiB or more", pairValue(s, "memory"), program.MemoryNeed>>20)
	}
	if len(program.Ports) > 0 && s.Network == platform.NetworkNone {
		b.notes.Add("network=none left out: the load reaches the program over the network")
		return nil, nil
	}
	for {
		err := p.Supports(s)
		var no *platform.Unsupported
		if err == nil {
			return &rung{r.platform, s}, nil
		}
		if !errors.As(err, &no) {
			return nil, err
		}
		key, _, _ := strings.Cut(no.Key, "=") // a platform may name the value too
		if pairValue(b.Base, key) != pairValue(s, key) {
			b.notes.Add("%s left out: %s", conditionLabel(r.platform, s), no.Reason)
			return nil, nil
		}
		b.notes.Add("%s runs without %s=%s: %s", r.platform, key, pairValue(s, key), no.Reason)
		before := s
		s.Clear(key)
		if s == before {
			return nil, err
		}
	}
}

func pairValue(s platform.Setting, key string) string {
	for _, p := range s.Pairs() {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

// ParseCondition reads a condition as a user writes it: "docker",
// "oci:crun,memory=512m", "docker network=bridge".
func ParseCondition(text string) (name string, s platform.Setting, err error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if len(fields) == 0 {
		return "", s, kit.Usagef("an empty condition: write a platform and settings, such as docker,network=bridge")
	}
	name, err = lab.CanonicalPlatform(fields[0])
	if err != nil {
		return "", s, &kit.Usage{Text: err.Error()}
	}
	for i := 1; i < len(fields); i++ {
		key, value, ok := strings.Cut(fields[i], "=")
		if !ok {
			return "", s, kit.Usagef("condition %q: %q is not KEY=VALUE", text, fields[i])
		}
		// A CPU list has commas of its own.
		for key == "cpuset-cpus" && i+1 < len(fields) && !strings.Contains(fields[i+1], "=") {
			i++
			value += "," + fields[i]
		}
		if err := s.Set(key, value); err != nil {
			return "", s, kit.Usagef("condition %q: %v", text, err)
		}
	}
	return name, s, nil
}

// markBaseline finds the baseline among the conditions, adding it if it is not
// one of them.
func (b *builder) markBaseline(g *lab.Group, program workload.Program) error {
	if len(g.Conditions) == 0 {
		return kit.Usagef("%s: no condition is left%s", g.Workload, because(b.notes))
	}
	if b.Baseline == "" {
		at := 0
		for i, c := range g.Conditions {
			if c.Platform == "bare" {
				at = i
				break
			}
		}
		g.Conditions[at].Baseline = true
		return nil
	}
	name, s, err := ParseCondition(b.Baseline)
	if err != nil {
		return err
	}
	merged, err := merge(b.Base, s)
	if err != nil {
		return &kit.Usage{Text: err.Error()}
	}
	if why := merged.Contradiction(b.Host.CPUs); why != "" {
		return kit.Usagef("baseline %s: %s", b.Baseline, why)
	}
	// What the base setting asks for and the baseline's platform has not is left
	// out there, as it is in any condition.
	kept, err := b.reconcile(rung{name, merged}, program)
	if err != nil {
		return err
	}
	if kept == nil {
		return kit.Usagef("baseline %s cannot be measured: name another with --baseline%s", b.Baseline, because(b.notes))
	}
	name, merged = kept.platform, kept.setting
	want := conditionLabel(name, merged)
	for i, c := range g.Conditions {
		if conditionLabel(c.Platform, c.Setting) == want || c.Label == want {
			g.Conditions[i].Baseline = true
			return nil
		}
	}
	first := g.Conditions[0]
	first.Platform, first.Setting, first.Label, first.Baseline = name, merged, want, true
	first.ID = g.Workload + "@" + strings.ReplaceAll(want, " ", ",")
	g.Conditions = append(g.Conditions, first)
	return nil
}

// Name is the study's, in the store.
const Name = "weigh"

// Defaults of the plan.
const (
	DefaultSmallestEffect = 0.02
	DefaultLevel          = 0.95
	DefaultBudget         = 5 * time.Minute
)
