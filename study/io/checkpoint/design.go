package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"tare/kernel/filesystem"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/workload"
)

// Design makes the design. Errors in the options are *[kit.Usage]; a platform that the host
// lacks is a *[platform.Missing].
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	b, err := o.builder()
	if err != nil {
		return d, err
	}
	cells := o.cells()
	if at := slices.Index(o.Storages, platform.StorageTmpfs); at >= 0 {
		cells = append(cells, b.inMemory(cells[0])...)
	}
	if d.Groups, err = b.groups(cells); err != nil {
		return d, err
	}
	d.Groups = b.within(o.Plan.Budget, d.Groups)
	b.remark(d)
	d.Plan.Notes = append(slices.Clone(d.Plan.Notes), b.notes...)
	d = place.Mark(place.Haccio, d)
	if err := d.Validate(); err != nil {
		return d, kit.Usagef("%v", err)
	}
	return d, nil
}

// builder makes the groups' conditions.
type builder struct {
	Options
	program, floor workload.Workload
	disks          disks
	onDisk, memory []place.Place // of the containers and of bare metal, that first
	notes          kit.Notes
}

func (o Options) builder() (*builder, error) {
	b := &builder{Options: o}
	if b.Host.Workload == nil {
		b.Host.Workload = workload.Lookup
	}
	if b.Host.Disk == nil {
		b.Host.Disk = filesystem.At
	}
	if b.Host.Dirty == nil {
		b.Host.Dirty = filesystem.ReadDirty
	}
	b.disks = disks{host: b.Host, known: map[place.Place]disk{}}
	var err error
	if b.program, err = b.Host.Workload(program); err != nil {
		return nil, err
	}
	if b.floor, err = b.Host.Workload(floor); err != nil {
		return nil, err
	}
	for _, name := range []string{place.Bare, o.Platform} {
		if _, err := b.Host.Find(name); err != nil {
			return nil, err
		}
	}
	b.onDisk, b.memory = b.places()
	if len(b.onDisk) < 2 && len(b.memory) < 2 {
		return nil, kit.Usagef("--platform %s --storage: nothing is left to compare with bare metal: %s", o.Platform, b.notes[0])
	}
	return b, nil
}

// places are those that the host can give, bare metal first, on disks and in memory.
func (b *builder) places() (onDisk, memory []place.Place) {
	wanted := []place.Place{place.Metal}
	tmpfs := []place.Place{{Platform: place.Bare, Storage: platform.StorageTmpfs}}
	for _, s := range b.Storages {
		switch p := (place.Place{Platform: b.Platform, Storage: s}); {
		case s == platform.StorageTmpfs && b.Platform != place.Bare:
			tmpfs = append(tmpfs, p)
		case b.Platform != place.Bare:
			wanted = append(wanted, p)
		}
	}
	if len(tmpfs) > 1 {
		wanted = append(wanted, tmpfs...)
	}
	usable, notes := b.Host.Usable(wanted, place.Asked{})
	b.notes = append(b.notes, notes...)
	for _, p := range usable {
		if p.Storage == platform.StorageTmpfs {
			memory = append(memory, p)
		} else {
			onDisk = append(onDisk, p)
		}
	}
	return based(onDisk), based(memory)
}

// based are places that bare metal is the first of: without it nothing compares them.
func based(places []place.Place) []place.Place {
	if len(places) == 0 || places[0].Platform != place.Bare {
		return nil
	}
	return places
}

// inMemory is the base cell with its files in memory, where that means anything:
// neither a page cache nor a disk lies below them.
func (b *builder) inMemory(base cell) []cell {
	if len(b.memory) < 2 {
		return nil
	}
	base.memory, base.cache, base.sync = true, Kept, NoSync
	return []cell{base}
}

// groups makes a group of each cell that fits.
func (b *builder) groups(cells []cell) ([]lab.Group, error) {
	var groups []lab.Group
	var left []string
	for _, c := range cells {
		places := b.onDisk
		if c.memory {
			places = b.memory
		}
		if len(places) < 2 {
			continue
		}
		why, err := b.unfit(c, places)
		switch {
		case err != nil && b.Cross && len(cells) > 1:
			left = append(left, c.text()+": "+err.Error()) // of all combinations some mean nothing
			continue
		case err != nil:
			return nil, kit.Usagef("%s: %v", c.text(), err)
		case why != "" && !b.Fitting:
			return nil, kit.Usagef("%s: %s", c.text(), why)
		case why != "":
			left = append(left, c.text()+": "+why)
			continue
		}
		g, err := b.group(c, places)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	switch {
	case len(groups) == 0 && len(left) > 0:
		return nil, kit.Usagef("nothing fits: %s", left[0])
	case len(left) == 1:
		b.notes.Add("left out: %s", left[0])
	case len(left) > 1:
		b.notes.Add("%d cells are left out, the first: %s", len(left), left[0])
	}
	return groups, nil
}

// within leaves out the costliest groups, but for the base, until three blocks of all
// are within the budget, without which nothing has an interval.
func (b *builder) within(budget time.Duration, groups []lab.Group) []lab.Group {
	if !b.Fitting || budget == 0 {
		return groups
	}
	var left []string
	for len(groups) > 1 && (lab.Design{Groups: groups}).Expected(3) > budget {
		costliest := 1
		for i := range groups[1:] {
			if groups[1+i].Pass() > groups[costliest].Pass() {
				costliest = 1 + i
			}
		}
		left = append(left, groups[costliest].Workload)
		groups = slices.Delete(slices.Clone(groups), costliest, costliest+1)
	}
	if len(left) > 0 {
		b.notes.Add("%d of the longest cells are left out, so that three blocks fit into %v, the first: %s; give more --budget, or name fewer levels",
			len(left), budget, left[0])
	}
	return groups
}

// group is one cell's: the program in each place, and on each disk the floor.
func (b *builder) group(c cell, places []place.Place) (lab.Group, error) {
	g := lab.Group{Workload: c.group()}
	params, err := c.params(b.program)
	if err != nil {
		return g, kit.Usagef("%s: %v", c.text(), err)
	}
	floorParams, err := c.params(b.floor)
	if err != nil {
		return g, kit.Usagef("%s: %v", c.text(), err)
	}
	flush := b.disks.directories(places)
	for i, p := range places {
		condition := b.condition(c, p, b.program, params, p.Label(), flush)
		condition.Baseline = i == 0
		g.Conditions = append(g.Conditions, condition)
	}
	for _, p := range b.disks.floors(places) {
		condition := b.condition(c, p, b.floor, floorParams, p.Label()+", fio floor", flush)
		condition.Factors[place.FactorFloor] = withFio
		g.Conditions = append(g.Conditions, condition)
	}
	return g, nil
}

func (b *builder) condition(
	c cell, p place.Place, w workload.Workload, params workload.Params, label string, flush []string,
) lab.Condition {
	factors := p.Factors(place.Haccio)
	maps.Copy(factors, c.factors())
	if d, err := b.disks.of(p); err == nil {
		factors[factorDisk] = d.id
	}
	return lab.Condition{
		Condition: record.Condition{
			ID: c.group() + "@" + label, Label: label, Workload: c.group(), Params: params, Platform: p.Platform,
			Setting: p.Setting(platform.Setting{}), Factors: factors, Metrics: w.Metrics(params),
		},
		Program: w, Source: w.Source(), Procedure: trial{program: w, flush: flush}.run,
		Limit: c.limit(), Takes: c.takes(),
	}
}

// unfit says what the host lacks for a cell; empty where it lacks nothing. The error
// is that the workloads know no such cell.
func (b *builder) unfit(c cell, places []place.Place) (why string, err error) {
	var memory, written int64
	for _, w := range []workload.Workload{b.program, b.floor} {
		params, err := c.params(w)
		if err != nil {
			return "", err
		}
		p, err := w.Program(params)
		if err != nil {
			return "", err
		}
		memory, written = max(memory, p.MemoryNeed), max(written, p.DiskNeed, c.bytes())
	}
	if c.memory {
		// By default a tmpfs takes half of the host's memory at most.
		if most := b.Host.Memory / 2; written > most {
			return fmt.Sprintf("%s do not fit into a tmpfs of %s, half of this host's memory",
				bytesText(written), bytesText(most)), nil
		}
		memory += written
	}
	if most := b.Host.Memory / 10 * 9; memory > most {
		return fmt.Sprintf("it needs %s of memory, and this host has %s, of which a tenth is kept for others",
			bytesText(memory), bytesText(b.Host.Memory)), nil
	}
	return b.disks.tooSmall(places, written), nil
}

// remark notes what a reader must know of what is to be measured.
func (b *builder) remark(d lab.Design) {
	var beyond, cached []string
	limit := int64(0)
	if dirty, err := b.Host.Dirty(); err == nil {
		limit = dirty.Limit
	}
	for _, g := range d.Groups {
		of := cellOf(g.Conditions[0].Condition)
		if n := strconv.Itoa(of.ranks); of.ranks > len(b.Host.CPUs) && !slices.Contains(beyond, n) {
			beyond = append(beyond, n)
		}
		if limit > 0 && of.cache == Kept && !of.memory && of.bytes() > limit {
			cached = append(cached, of.text())
		}
	}
	if len(beyond) > 0 {
		b.notes.Add("%s ranks share %s: they wait for CPU time, on bare metal as in containers",
			report.Listed(beyond), report.Counted(len(b.Host.CPUs), "CPU"))
	}
	if len(cached) > 0 {
		b.notes.Add("%s: more is written than the kernel lets wait in memory (%s, vm.dirty_ratio): writes slow down to the rate of the disk",
			report.Listed(cached), bytesText(limit))
	}
	b.notes = append(b.notes, b.disks.elsewhere(b.onDisk)...)
	b.notes = append(b.notes, b.disks.unknown(append(slices.Clone(b.onDisk), b.memory...))...)
}

// storedAt asks a platform where a storage lies.
func storedAt(on platform.Platform, s platform.Storage) (string, error) {
	storing, ok := on.(platform.Storing)
	if !ok {
		if s == platform.StorageTmpfs {
			return "", nil
		}
		return "", fmt.Errorf("%s does not report where its storage lies", on.Name())
	}
	return storing.StoredAt(context.Background(), s)
}
