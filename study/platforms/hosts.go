package platforms

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/lab"
	"tare/platform"
	"tare/study/kit"
)

// hosts compares the same container on hosts of several sizes (S2.6): a
// virtual machine that is as large as that, or this host with its other CPUs off line.
// The baseline is bare metal on the smallest.
func (b *builder) hosts(s subject, size Size) ([]lab.Group, error) {
	counts := slices.Sorted(slices.Values(b.Hosts))
	if s.service {
		// A machine of a size of its own roams over the load's CPU too.
		return nil, kit.Usagef("--host-cpus: want programs that compute; the load of %s would have no CPU of its own", s.Workload.Name())
	}
	if size.whole() > counts[0] {
		return nil, kit.Usagef("--host-cpus %d: a container of %s does not fit on it; name fewer by --cpus", counts[0], size)
	}
	var groups []lab.Group
	if g, err := b.hotplugged(s, size, counts); err != nil {
		return nil, err
	} else if len(g.Conditions) > 1 {
		groups = append(groups, g)
	}
	for _, head := range b.machines() {
		if g, err := b.inMachines(s, size, counts, head); err != nil {
			return nil, err
		} else if len(g.Conditions) > 1 {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// hotplugged has this host be as large as is asked for.
func (b *builder) hotplugged(s subject, size Size, counts []int) (lab.Group, error) {
	var on []candidate
	for _, c := range b.usable[1:] {
		if KindOf(c.name) == CN {
			on = append(on, c)
			break
		}
	}
	if len(on) == 0 {
		return lab.Group{}, nil
	}
	switch most := counts[len(counts)-1]; {
	case most > b.Host.online():
		return lab.Group{}, kit.Usagef("--host-cpus %d: this host has %s; a virtual machine can have more: --platform vm/oci",
			most, cpusText(float64(b.Host.online())))
	case b.Host.narrow():
		return lab.Group{}, kit.Usagef("--host-cpus: tare may use CPUs %s alone, and this host has %s, which would stay online: "+
			"run tare without that affinity, or use virtual machines of these sizes: --platform vm/oci",
			platform.FormatCPUList(b.Host.CPUs), cpusText(float64(b.Host.online())))
	case !b.Disruptive:
		return lab.Group{}, kit.Usagef("--host-cpus takes CPUs of this host offline, which affects every program on it: " +
			"allow that by --disruptive, or use virtual machines of these sizes: --platform vm/oci")
	case b.Host.Fixed != nil:
		return lab.Group{}, b.Host.Fixed
	}
	g := lab.Group{Workload: groupName(s, size, ofHosts)}
	for _, n := range counts {
		for _, c := range append([]candidate{b.metal(size, n)}, on...) {
			for _, preset := range b.presets(s, size, c) {
				made := b.onHost(b.condition(s, size, g.Workload, ofHosts, c, preset), n)
				if err := c.on.Supports(made.Setting); err != nil {
					b.notes.Add("%s is left out at %s: %v", made.Label, size, err)
					continue
				}
				made.Baseline = KindOf(c.name) == BM && n == counts[0]
				made.Around = b.resized(n)
				g.Conditions = append(g.Conditions, made)
			}
		}
	}
	return g, nil
}

// onHost marks a condition as one on a host of that size.
func (b *builder) onHost(c lab.Condition, cpus int) lab.Condition {
	c.Factors[factorHost] = strconv.Itoa(cpus)
	delete(c.Factors, factorSame)
	if c.Factors[factorPreset] != "" && number(c.Condition, factorSize) == float64(cpus) {
		c.Factors[factorSame] = "yes"
	}
	c.Label += " on " + cpusText(float64(cpus))
	c.ID = c.Workload + "@" + c.Label
	return c
}

// resized leaves so many CPUs on line while a trial is made, and sees to it that those
// are.
func (b *builder) resized(cpus int) lab.Around {
	return func(context.Context) (func(context.Context) error, error) {
		restore, err := b.Host.Keep(cpus)
		if err != nil {
			return nil, fmt.Errorf("leave %s online: %w", cpusText(float64(cpus)), err)
		}
		return func(context.Context) error { return restore() }, nil
	}
}

// machines are the heads of the paths that name virtual machines, each once.
func (b *builder) machines() (heads []string) {
	for _, c := range b.usable {
		if head, _, ok := machine(c.name); ok && KindOf(c.name) == VMCN && !slices.Contains(heads, head) {
			heads = append(heads, head)
		}
	}
	return heads
}

// inMachines has virtual machines be as large as is asked for.
func (b *builder) inMachines(s subject, size Size, counts []int, head string) (lab.Group, error) {
	if strings.Contains(head, "+cpus=") {
		return lab.Group{}, kit.Usagef("--host-cpus sets the size of the machines: leave cpus= out of --platform %s", head)
	}
	var inner string
	for _, c := range b.usable {
		if at, in, ok := machine(c.name); ok && at == head && KindOf(c.name) == VMCN {
			inner = in
			break
		}
	}
	g := lab.Group{Workload: groupName(s, size, ofHosts) + " in " + head}
	for _, n := range counts {
		own := Bare
		if size.whole() < n {
			own = Held
		}
		for _, in := range []string{own, inner} {
			p, err := b.Host.Platform(fmt.Sprintf("%s+cpus=%d/%s", head, n, in))
			if err != nil && in == Held {
				b.notes.Add("in a machine, bare metal is confined to its CPUs by an affinity alone, which a program may undo: %v", err)
				p, err = b.Host.Platform(fmt.Sprintf("%s+cpus=%d/%s", head, n, Bare))
			}
			if err != nil {
				return g, err
			}
			c := candidate{name: p.Name(), on: p, emulated: platform.NotRepresentative(p)}
			presets := b.presets(s, size, c)
			if in == own {
				presets = []string{""} // the machine's own bare metal
			}
			for _, preset := range presets {
				made := b.condition(s, size, g.Workload, ofHosts, c, preset)
				if err := c.on.Supports(made.Setting); err != nil {
					b.notes.Add("%s is left out at %s: %v", made.Label, size, err)
					continue
				}
				made.Baseline = in == own && n == counts[0]
				g.Conditions = append(g.Conditions, made)
			}
		}
	}
	return g, nil
}
