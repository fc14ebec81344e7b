package files

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"tare/image"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/study/latency/service"
	"tare/workload"
)

// Design makes the design. Usage errors are *kit.Usage; a platform that the host
// lacks is a *platform.Missing.
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: service.Study, Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	b, err := o.builder()
	if err != nil {
		return d, err
	}
	for _, experiment := range Experiments {
		if !slices.Contains(o.Experiments, experiment) {
			continue
		}
		g := b.group(experiment)
		if len(g.Conditions) < 2 {
			b.notes.Add("experiment %s is left out: it has no baseline here", experiment)
			continue
		}
		d.Groups = append(d.Groups, g)
	}
	d.Plan.Notes = append(slices.Clone(d.Plan.Notes), b.notes...)
	if err := d.Validate(); err != nil {
		return d, &kit.Usage{Text: err.Error()}
	}
	return d, nil
}

// builder makes the groups' conditions.
type builder struct {
	Options
	on       platform.Platform
	layering platform.Layering
	layered  bool // the platform has layers
	bare     bool // bare metal can be used
	program  workload.Workload
	params   workload.Params
	notes    kit.Notes
}

func (o Options) builder() (*builder, error) {
	b := &builder{Options: o}
	slices.Sort(b.Layers)
	var err error
	if b.program, err = workload.Lookup("files"); err != nil {
		return nil, err
	}
	if b.params, err = workload.Resolve(b.program, nil); err != nil {
		return nil, err
	}
	if b.on, err = o.Host.Find(o.Platform); err != nil {
		return nil, err
	}
	if layerer, ok := b.on.(platform.Layerer); ok {
		if b.layering, err = layerer.Layering(context.Background()); err != nil {
			return nil, fmt.Errorf("platform %s: %w", o.Platform, err)
		}
		b.layered = true
		if most := b.layering.MostLayers; most > 0 && slices.Max(append(slices.Clone(b.Layers), 0)) > most {
			return nil, kit.Usagef("--layers %d: %s supports at most %d", slices.Max(b.Layers), o.Platform, most)
		}
	} else {
		b.notes.Add("%s has no image layers: no experiments by number of layers, and no flattening", o.Platform)
		b.Layers = []int{1}
	}
	if _, err := o.Host.Find(bare); err == nil {
		b.bare = true
	} else {
		b.notes.Add("bare metal is left out: it cannot be used on this host")
	}
	return b, nil
}

// group is one experiment's.
func (b *builder) group(experiment string) lab.Group {
	g := lab.Group{Workload: "files[" + experiment + "]"}
	add := func(c lab.Condition) { g.Conditions = append(g.Conditions, c) }
	switch experiment {
	case Write:
		for _, s := range []platform.Storage{platform.StorageBind, platform.StorageLayer, platform.StorageVolume,
			platform.StorageTmpfs} {
			if b.supports(s) {
				add(b.condition(experiment, place{storage: s},
					trial{data: image.FilesData, program: b.writes(), keep: b.keepWrites}))
			}
		}
		if b.bare {
			add(
				b.condition(
					experiment,
					place{metal: true},
					trial{data: image.FilesData, program: b.writes(), keep: b.keepWrites},
				),
			)
		}
	case Open:
		opens := trial{data: image.FilesShelf, program: b.opens(), keep: keepOpens}
		add(b.condition(experiment, place{storage: platform.StorageBind}, opens))
		for _, layers := range b.few() {
			add(b.condition(experiment, place{storage: platform.StorageLayer, layers: layers}, opens))
		}
		if b.bare {
			add(b.condition(experiment, place{metal: true}, opens))
		}
	case CopyUp:
		ups := trial{data: image.FilesLower, program: copyUps(), keep: keepCopyUps}
		add(b.condition(experiment, place{storage: platform.StorageBind}, ups))
		add(b.condition(experiment, place{storage: platform.StorageLayer}, ups))
	case Walk:
		for _, layers := range b.Layers {
			add(b.condition(experiment, place{storage: platform.StorageLayer, layers: layers},
				trial{data: image.FilesData, program: b.walking(layers), keep: keepWalks}))
		}
		if b.Flatten && b.layered {
			for _, layers := range b.ends() {
				add(b.condition(experiment, place{storage: platform.StorageLayer, layers: layers, flattened: true},
					trial{data: image.FilesData, program: b.walking(1), keep: keepWalks, flatten: true}))
			}
		}
		if b.bare {
			add(b.condition(experiment, place{metal: true},
				trial{data: image.FilesData, program: b.walking(1), keep: keepWalks}))
		}
	}
	if len(g.Conditions) > 0 {
		g.Conditions[0].Baseline = true
	}
	return g
}

// supports reports whether the platform has a storage, and notes where it has not.
func (b *builder) supports(s platform.Storage) bool {
	err := b.on.Supports(platform.Setting{Storage: s})
	if err == nil {
		return true
	}
	b.notes.Add("storage=%s is left out: %v", s, err)
	return false
}

// few are the numbers of layers at which files are opened: one, and the most.
func (b *builder) few() []int {
	ends := []int{1}
	if most := slices.Max(append(slices.Clone(b.Layers), 1)); most > 1 {
		ends = append(ends, most)
	}
	return ends
}

// ends are the numbers of layers from which images are flattened.
func (b *builder) ends() []int { return b.few() }

// place is where a condition's files lie.
type place struct {
	metal     bool
	storage   platform.Storage
	layers    int // of the image; 0 is one that is not part of the label
	flattened bool
}

// label distinguishes the conditions of one group.
func (p place) label(on string) string {
	switch {
	case p.metal:
		return bare
	case p.storage != platform.StorageLayer:
		return on + " " + string(p.storage)
	case p.layers == 0:
		return on + " layer"
	}
	text := on + " " + strconv.Itoa(p.layers) + " layer"
	if p.layers > 1 {
		text += "s"
	}
	if p.flattened {
		text += ", flattened"
	}
	return text
}

// trialLimit is the least bound of a trial: flattening a hundred layers on a slow disk
// takes minutes.
const trialLimit = 20 * time.Minute

func (b *builder) condition(experiment string, p place, t trial) lab.Condition {
	factors := map[string]string{
		factorExperiment: experiment, factorStorage: string(p.storage),
		factorOperations: b.operations(experiment).Round(time.Millisecond).String(),
	}
	on, source := b.Platform, b.program.Source()
	if p.metal {
		on, factors[factorStorage] = bare, bare
	} else if b.layered {
		factors[factorDriver] = driver(b.layering)
	}
	if p.layers > 0 {
		factors[factorLayers] = strconv.Itoa(p.layers)
	}
	if p.layers > 1 {
		source.Layers, source.Repeated = p.layers, image.FilesTree
	}
	if p.flattened {
		factors[factorFlattened] = "yes"
	}
	group, label := "files["+experiment+"]", p.label(b.Platform)
	return lab.Condition{
		Condition: record.Condition{
			ID:       group + "@" + label,
			Label:    label,
			Workload: group,
			Params:   b.params,
			Platform: on,
			Setting:  platform.Setting{Storage: p.storage},
			Factors:  factors,
			Metrics:  b.metrics(experiment, p.flattened),
		},
		Program: b.program, Source: source, Procedure: t.run, Limit: b.limit(experiment), Takes: trialTime(factors),
	}
}

// driver names an engine's storage driver and the file system below it.
func driver(l platform.Layering) string {
	if l.Backing == "" {
		return l.Driver
	}
	return l.Driver + " on " + l.Backing
}

var errNoLayers = errors.New("the platform has no image layers: nothing can be flattened")
