package bandwidth

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/workload"
)

// Design makes the design. Errors in the options are *[kit.Usage]; a host that has nothing
// to compare is a *[platform.Missing].
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	b, err := o.builder()
	if err != nil {
		return d, err
	}
	places, notes := o.Host.Usable(o.places(), place.Asked{Base: o.Base})
	if len(places) < 2 || places[0] != place.Metal {
		return d, &platform.Missing{
			What: "there is nothing to compare: " + strings.Join(notes, "; "), Mend: "`tare doctor` says what is missing",
		}
	}
	b.notes = append(b.notes, notes...)
	for _, c := range o.cells() {
		switch need, err := b.need(c); {
		case err != nil:
			return d, kit.Usagef("%v", err)
		case o.Host.Memory > 0 && need > o.room() && !o.Fitting:
			return d, kit.Usagef("--elements %d: the arrays need %s of memory, and this host has %s; name fewer elements",
				c.elements, gigabytes(need), gigabytes(o.Host.Memory))
		case o.Host.Memory > 0 && need > o.room():
			b.notes.Add("%s is left out: its arrays need %s of memory, and this host has %s",
				c.text(), gigabytes(need), gigabytes(o.Host.Memory))
			continue
		}
		d.Groups = append(d.Groups, b.group(c, places))
	}
	if most := slices.Max(o.processes()); most > o.cpus() {
		b.notes.Add("%d processes share %d CPUs: their figures include the wait for a CPU", most, o.cpus())
	}
	d.Plan.Notes = append(slices.Clone(d.Plan.Notes), b.notes...)
	d = place.Mark(place.Stream, d)
	if err := d.Validate(); err != nil {
		return d, kit.Usagef("%v", err)
	}
	return d, nil
}

// room is what arrays may take of the host's memory: the rest is the system's, and
// nothing is to be driven out for a figure.
func (o Options) room() int64 { return o.Host.Memory - max(512<<20, o.Host.Memory/10) }

func gigabytes(n int64) string { return strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64) + " GB" }

// places are bare metal, and each storage on each platform.
func (o Options) places() []place.Place {
	all := []place.Place{place.Metal}
	for _, on := range o.Platforms {
		for _, s := range o.Storages {
			all = append(all, place.Place{Platform: on, Storage: s})
		}
	}
	return all
}

// builder makes the groups' conditions.
type builder struct {
	Options
	program, peer workload.Workload
	notes         kit.Notes
}

func (o Options) builder() (*builder, error) {
	b := &builder{Options: o}
	var err error
	if b.program, err = workload.Lookup(program); err != nil {
		return nil, err
	}
	if b.peer, err = workload.Lookup(peer); err != nil {
		return nil, err
	}
	return b, nil
}

// params are a cell's, for the program and the peer alike.
func (b *builder) params(c cell) map[string]string {
	return map[string]string{
		factorElements:  strconv.FormatInt(c.elements, 10),
		factorProcesses: strconv.Itoa(c.processes),
		"repetitions":   strconv.Itoa(b.Repetitions),
	}
}

// need is the memory that a cell takes.
func (b *builder) need(c cell) (int64, error) {
	params, err := workload.Resolve(b.program, b.params(c))
	if err != nil {
		return 0, err
	}
	p, err := b.program.Program(params)
	return p.MemoryNeed, err
}

// group is a cell with its places, bare metal first, and the peer where it can be set
// beside it.
func (b *builder) group(c cell, places []place.Place) lab.Group {
	g := lab.Group{Workload: c.group()}
	for _, p := range places {
		g.Conditions = append(g.Conditions, b.condition(c, p, b.program))
	}
	g.Conditions[0].Baseline = true
	switch {
	case !b.Peer:
	case c.processes > b.cpus():
		b.notes.Add("%s has no peer: %s requires a CPU for each thread", c.text(), peerName)
	case c.elements < leastElements:
		b.notes.Add("%s has no peer: %s bypasses the caches, into which these arrays fit", c.text(), peerName)
	default:
		p := b.condition(c, place.Metal, b.peer)
		p.Label = "bare, peer"
		p.ID = g.Workload + "@" + p.Label
		p.Factors[place.FactorFloor] = peerName
		for i := range p.Metrics {
			p.Metrics[i].Primary = false // it is there to be looked at beside bare metal
		}
		g.Conditions = append(g.Conditions, p)
	}
	return g
}

func (b *builder) condition(c cell, p place.Place, w workload.Workload) lab.Condition {
	params, err := workload.Resolve(w, b.params(c))
	if err != nil {
		panic(err) // the cell's need was asked of the same
	}
	factors := p.Factors(place.Stream)
	maps.Copy(factors, map[string]string{
		factorElements: params[factorElements], factorProcesses: params[factorProcesses],
	})
	return lab.Condition{
		Condition: record.Condition{
			ID: c.group() + "@" + p.Label(), Label: p.Label(), Workload: c.group(), Params: params,
			Platform: p.Platform, Setting: p.Setting(b.Base), Factors: factors, Metrics: metrics(w, params),
		},
		Program: w, Source: w.Source(),
		Limit: max(lab.DefaultTrialLimit, 20*b.takes(c)), Takes: b.takes(c),
	}
}

// metrics are a program's, of which all four kernels carry the verdict here: that is
// what the claim is of.
func metrics(w workload.Workload, params workload.Params) []workload.Metric {
	all := slices.Clone(w.Metrics(params))
	for i, m := range all {
		all[i].Primary = slices.Contains(kernels, m.Name)
	}
	return all
}

// What a trial takes: assumptions by which a pass is estimated.
const (
	assumedLaunch    = 900 * time.Millisecond
	assumedBandwidth = 25e9 // bytes a second: of the kernels
	assumedFaults    = 2e9  // and of memory that is touched first
)

// takes is how long a trial of a cell is thought to take.
func (b *builder) takes(c cell) time.Duration {
	const moved = 2*16 + 2*24 // bytes an element, by all kernels
	seconds := float64(c.elements) * (3*8/assumedFaults + float64(b.Repetitions)*moved/assumedBandwidth)
	return assumedLaunch + time.Duration(min(seconds, 1e8)*1e9)
}
