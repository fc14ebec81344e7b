package platforms

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Judge reaches verdicts on S2.1 to S2.10 (published comparison of platforms) from a run, as
// far as it has what decides them, and is silent on the rest. The rules and their limits are the claims' own (package
// claim). What ran in an emulated machine neither confirms nor refutes.
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	var all []claim.Judgement
	for _, judge := range []func() (claim.Judgement, bool){
		r.judgeComputing, r.judgeCommunicating, r.judgeWeb, r.judgeDatabase, r.judgeParts, r.judgeHosts,
		r.judgeShares, r.judgeTasks, r.judgeCauses, r.judgeInterrupts, r.judgeRules,
	} {
		if j, ok := judge(); ok {
			all = append(all, j)
		}
	}
	return all
}

// mark is a kind and a preset as judgements name it: "vanilla CN".
type mark struct {
	kind   Kind
	preset string
}

func (m mark) String() string { return m.preset + " " + string(m.kind) }

var marks = []mark{{CN, Vanilla}, {CN, Pinned}, {VM, Vanilla}, {VM, Pinned}, {VMCN, Vanilla}, {VMCN, Pinned}}

// seen are the costs of a spot, by what decides claims.
type seen struct {
	spot
	cost map[mark]stats.Estimate
	of   map[mark]record.Condition
}

func (s seen) has(kind Kind, with string) bool { return s.cost[mark{kind, with}].Known() }

func (s seen) at(kind Kind, with string) stats.Estimate { return s.cost[mark{kind, with}] }

// apart reports whether vanilla and pinned containers can differ at all.
func (s seen) apart() bool { return !same(s.of[mark{CN, Vanilla}]) }

// look reads the costs of a workload's sizes.
func (r reading) look(name string) (all []seen) {
	for _, s := range r.of(matrix, name) {
		if !r.measured(s) {
			continue
		}
		at := seen{spot: s, cost: map[mark]stats.Estimate{}, of: map[mark]record.Condition{}}
		for _, m := range marks {
			at.cost[m] = stats.Absent(r.Report.Level)
			if c, ok := s.one(m.kind, m.preset); ok {
				at.cost[m], at.of[m] = r.cost(s, c), c
			}
		}
		all = append(all, at)
	}
	return all
}

// draft is a judgement that is being written.
type draft struct {
	claim.Judgement
	why []string
}

func (d *draft) rests(format string, args ...any) {
	d.why = append(d.why, fmt.Sprintf(format, args...))
}

// done gives the judgement. Where it is inconclusive, its reason names what to run.
func (d *draft) done() (claim.Judgement, bool) {
	d.Rests = strings.Join(d.why, "; ")
	return d.Judgement, true
}

// begin drafts the judgement of a claim from what was seen, with its figures.
func (r reading) begin(id string, all []seen) *draft {
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	var ours []string
	for _, s := range all {
		var said []string
		for _, m := range marks {
			cost, ok := s.cost[m]
			if !ok || !(cost.Value > 0) {
				continue
			}
			d.Figures = append(d.Figures, claim.Ours(m.String()+" over BM, "+sizeOf(s.spot), cost, 1, "times"))
			text := m.String() + " " + report.Said(cost, 1)
			if emulated(s.of[m]) != "" {
				text += " (emulated)"
			}
			said = append(said, text)
		}
		if len(said) > 0 {
			ours = append(ours, sizeOf(s.spot)+": "+strings.Join(said, ", "))
		}
	}
	d.Ours = strings.Join(ours, "; ")
	if len(all) > 0 {
		d.rests("%s, relative to bare metal with as many CPUs, %s", all[0].workload, r.blocks(all))
	}
	return d
}

// blocks is the least number of blocks of any cost.
func (r reading) blocks(all []seen) string {
	least := -1
	for _, s := range all {
		for _, e := range s.cost {
			if e.N > 0 && (least < 0 || e.N < least) {
				least = e.N
			}
		}
	}
	switch {
	case least < 0:
		return "no common blocks"
	}
	return report.Counted(least, "block")
}

// larger is what to run where a host has what this one lacks.
func larger(name, flags string) string {
	return strings.TrimSpace("tare platforms --workload " + name + " " + flags)
}

const withMachines = "--platform docker,vm/bare,vm/oci"

// sameForServices is why vanilla and pinned are not compared; it takes what to run.
const sameForServices = "vanilla and pinned have the same CPUs beside the load here, or only one was measured: on a larger host, run %s"

// machines reports whether a machine with hardware support was measured at every whole
// size: a part of a CPU is not a machine's to have. Where not, the draft says so, and what
// would show it.
func (d *draft) machines(all []seen, name string) bool {
	ran, real := false, len(whole(all)) > 0
	var why []string
	for _, s := range all {
		for _, m := range marks {
			if m.kind != VM && m.kind != VMCN {
				continue
			}
			if s.has(m.kind, m.preset) {
				ran = true
				if e := emulated(s.of[m]); e != "" {
					real = false
					if !slices.Contains(why, e) {
						why = append(why, e)
					}
				}
			}
		}
		real = real && (s.fractional() || s.has(VM, Vanilla) || s.has(VM, Pinned))
	}
	switch {
	case !ran:
		d.rests("no virtual machine ran: on a host with KVM, run %s", larger(name, withMachines))
		return false
	case len(why) > 0:
		d.NotRepresentative = strings.Join(why, "; ")
		d.rests("the virtual machines were emulated, which neither confirms nor refutes: on a host with KVM, run %s", larger(name, withMachines))
		return false
	case !real:
		d.rests("a virtual machine is missing at some whole size")
		return false
	}
	return true
}

// whole are the sizes of whole CPUs, which every kind of platform can have.
func whole(all []seen) []seen {
	return slices.DeleteFunc(slices.Clone(all), seen.fractional)
}

// guestCPU is the model of CPU that a machine shows its guest: by its path, in which that
// of the host goes without saying.
func guestCPU(path string) string {
	head, _, _ := machine(path)
	for _, option := range strings.Split(head, "+")[1:] {
		if model, is := strings.CutPrefix(option, "cpu="); is {
			return model
		}
	}
	return "host"
}

// guests names the CPU models of the guests, each with what a vanilla machine costs then. It
// reports whether there were several: a model that lacks instructions may make a factor by
// itself.
func (r reading) guests(d *draft, all []seen) bool {
	costs := map[string][]string{} // by model
	for _, s := range all {
		for _, c := range s.others() {
			if KindOf(c.Platform) != VM || preset(c) != Vanilla {
				continue
			}
			if cost := r.cost(s.spot, c); cost.Value > 0 {
				model := guestCPU(c.Platform)
				costs[model] = append(costs[model], report.Said(cost, 1)+" times on "+sizeOf(s.spot))
				name := "VM over BM, " + sizeOf(s.spot) + ", guest's CPU " + model
				d.Figures = append(d.Figures, claim.Ours(name, cost, 1, "times"))
			}
		}
	}
	for _, model := range slices.Sorted(maps.Keys(costs)) {
		d.rests("with a guest's CPU of model %s: %s", model, strings.Join(costs[model], ", "))
	}
	return len(costs) > 1
}

// judgeComputing is S2.1.
func (r reading) judgeComputing() (claim.Judgement, bool) {
	const id = "S2.1"
	// At each size: a machine, a container, and the effect of pinning on either.
	r = r.together(4 * len(r.of(matrix, computing[0])))
	all := r.look(computing[0])
	if len(all) == 0 {
		return claim.Judgement{}, false
	}
	d := r.begin(id, all)
	d.extremes(all)
	if !d.machines(all, computing[0]) {
		return d.done()
	}
	models := r.guests(d, all)
	twice, nothing := claim.Threshold(id, "VM over BM"), claim.Threshold(id, "pinning does nothing")/100
	high, low, pinsVM := true, false, false
	pinned, tried := true, false // of sizes at which there is something to pin
	for _, s := range whole(all) {
		vm, gain := s.at(VM, Vanilla), r.gain(s, VM)
		high = high && above(vm, twice)
		low = low || below(vm, twice)
		pinsVM = pinsVM || below(gain, 1-nothing)
		if !s.apart() {
			continue
		}
		tried = true
		cn := s.at(CN, Pinned)
		pinned = pinned && apartFrom(cn, s.at(CN, Vanilla)) && apartFrom(cn, vm) && within(gain, nothing)
	}
	switch {
	case low:
		d.Verdict = claim.Refuted
		d.rests("the whole interval of a virtual machine's cost lies below %g times", twice)
	case pinsVM:
		d.Verdict = claim.Refuted
		d.rests("pinning a virtual machine gains more than %g %%", 100*nothing)
	case !tried:
		d.rests("vanilla and pinned have the same CPUs at every size here: on a larger host, run %s",
			larger(computing[0], withMachines+" --cpus 2,4,8"))
	case high && pinned && models:
		d.Verdict = claim.Confirmed
	case high && pinned:
		d.Verdict = claim.Qualified
		d.rests("only one model of the guest's CPU was measured: add one by --platform docker,vm:kvm/bare,vm:kvm+cpu=default/bare")
	default:
		d.rests("the differences are not significant at every size, or a platform is missing at some size")
	}
	return d.done()
}

// extremes are the figures that S2.1 has of all sizes together.
func (d *draft) extremes(all []seen) {
	pick := func(kind Kind, better func(a, b float64) bool) stats.Estimate {
		found := stats.Estimate{Value: math.NaN()}
		for _, s := range all {
			if e := s.at(kind, Vanilla); e.Value > 0 && (!(found.Value > 0) || better(e.Value, found.Value)) {
				found = e
			}
		}
		return found
	}
	less := func(a, b float64) bool { return a < b }
	more := func(a, b float64) bool { return a > b }
	d.Figures = append(d.Figures, claim.Measured(
		claim.Ours("VM over BM", pick(VM, less), 1, "times"),
		claim.Ours("VMCN over BM, greatest", pick(VMCN, more), 1, "times"),
		claim.Ours("VMCN over BM, least", pick(VMCN, less), 1, "times"),
	)...)
}

// gain is pinned against vanilla, of one platform at one size.
func (r reading) gain(s seen, kind Kind) stats.Estimate {
	vanilla, ok := s.of[mark{kind, Vanilla}]
	pinned, had := s.of[mark{kind, Pinned}]
	if !ok || !had {
		return stats.Absent(r.Report.Level)
	}
	return r.against(s.spot, vanilla, pinned)
}

// judgeCommunicating is S2.2.
func (r reading) judgeCommunicating() (claim.Judgement, bool) {
	const id = "S2.2"
	sizes := 0
	for _, name := range communicating {
		sizes += len(r.of(matrix, name))
	}
	r = r.together(3 * sizes) // a machine, a container, and one in a machine
	var all []seen
	for _, name := range communicating {
		all = append(all, r.look(name)...)
	}
	if len(all) == 0 {
		return claim.Judgement{}, false
	}
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	var ours []string
	for _, name := range communicating {
		if of := r.look(name); len(of) > 0 {
			part := r.begin(id, of)
			for _, f := range part.Figures {
				f.Name = name + ": " + f.Name
				d.Figures = append(d.Figures, f)
			}
			if part.Ours != "" {
				ours = append(ours, name+" on "+part.Ours)
			}
			d.why = append(d.why, part.why...)
		}
	}
	d.Ours = strings.Join(ours, "; ")
	cores, par := claim.Threshold(id, "cores"), claim.Threshold(id, "on a par")/100
	name := all[0].workload
	if n := r.hostCPUs(); float64(n) < cores {
		d.rests("this host has %s, and the claim is about %g: there, run %s",
			cpusText(float64(n)), cores, larger(name, withMachines+" --cpus 2,4,8"))
		d.machines(all, name)
		return d.done()
	}
	if !d.machines(all, name) {
		return d.done()
	}
	all = whole(all)
	below, less, ordered := 0, 0, 0
	inOrder, onPar, reached := claim.True, claim.True, false
	for _, s := range all {
		vm, cn, vmcn := s.at(VM, Vanilla), s.at(CN, Vanilla), s.at(VMCN, Vanilla)
		here := claim.Every(claim.More(vmcn, vm), claim.More(cn, vmcn))
		inOrder = claim.Every(inOrder, here)
		ordered += count(here)
		below += count(claim.More(vm, cn))
		less += count(claim.More(vmcn, cn))
		if s.size >= cores {
			reached = true
			onPar = claim.Every(onPar, claim.Equivalent(vm, par))
		}
	}
	const at = " at %d of %d sizes"
	verdict, why := claim.Decide(
		claim.When(claim.Is(2*below > len(all)), claim.Refuted,
			fmt.Sprintf("containers cost significantly less than the virtual machine"+at, below, len(all))),
		claim.When(claim.Is(2*less > len(all)), claim.Refuted,
			fmt.Sprintf("containers cost significantly less than those in the virtual machine"+at, less, len(all))),
		claim.When(claim.Is(!reached), claim.Inconclusive,
			fmt.Sprintf("%g CPUs were not measured: run %s", cores, larger(name, withMachines+" --cpus 2,4,8"))),
		claim.When(claim.Every(inOrder, onPar), claim.Confirmed, ""),
		claim.When(inOrder, claim.Inconclusive,
			fmt.Sprintf("the virtual machine is not equivalent to bare metal within %g %% from %g CPUs", 100*par, cores)),
		claim.When(claim.True, claim.Inconclusive, fmt.Sprintf("the virtual machine costs significantly least, "+
			"and the container outside of one significantly most,"+at, ordered, len(all))))
	if d.Verdict = verdict; why != "" {
		d.rests("%s", why)
	}
	return d.done()
}

// count is 1 of a statement that is true.
func count(t claim.Truth) int {
	if t == claim.True {
		return 1
	}
	return 0
}

// judgeWeb is S2.3.
func (r reading) judgeWeb() (claim.Judgement, bool) {
	const id = "S2.3"
	// On the smallest size every kind and preset, on the others the vanilla container; on each
	// a container in a machine against the machine, and a pinned machine against a vanilla one.
	sizes := len(r.of(matrix, serving[0]))
	r = r.together(len(marks) + max(0, sizes-1) + 2*sizes)
	all := r.look(serving[0])
	if len(all) == 0 {
		return claim.Judgement{}, false
	}
	d := r.begin(id, all)
	first := all[0]
	if i := slices.IndexFunc(all, func(s seen) bool { return s.size == 2 }); i >= 0 && first.at(CN, Vanilla).Value > 0 {
		cost := all[i].at(CN, Vanilla)
		d.Figures = append(d.Figures, claim.Measured(claim.Ours("vanilla CN over BM, 2 cores", cost, 1, "times"))...)
	}
	if !first.apart() || !first.has(CN, Pinned) {
		d.rests(sameForServices, larger(first.workload, withMachines+" --cpus 2,4,8"))
		return d.done()
	}
	machines := d.machines(all, first.workload)
	vanilla, pinned := first.at(CN, Vanilla), first.at(CN, Pinned)
	highest, lowest, beaten := claim.True, claim.True, claim.False
	for _, m := range marks {
		if m.kind != CN && !machines || !first.has(m.kind, m.preset) {
			continue
		}
		if m != (mark{CN, Vanilla}) {
			highest = claim.Every(highest, claim.More(vanilla, first.cost[m]))
		}
		if m != (mark{CN, Pinned}) {
			lowest = claim.Every(lowest, claim.More(first.cost[m], pinned))
			beaten = claim.Any(beaten, claim.More(pinned, first.cost[m]))
		}
	}
	least := claim.Threshold(id, "vanilla CN over BM, 2 cores")
	small := claim.False
	for _, s := range all {
		if s.size == 2 && s.apart() {
			small = claim.Any(small, claim.Below(s.at(CN, Vanilla), least))
		}
	}
	falls := claim.Every(claim.Needs(len(all) > 1), claim.More(vanilla, all[len(all)-1].at(CN, Vanilla)))
	asPublished := claim.Every(highest, lowest)
	if claim.Any(small, beaten, asPublished) == claim.True {
		d.NotRepresentative = "" // the containers decide
	}
	inside, pinnedLess := claim.Needs(machines), claim.Needs(machines)
	for _, s := range whole(all) {
		inside = claim.Every(
			inside,
			claim.Below(r.against(s.spot, s.of[mark{VM, Vanilla}], s.of[mark{VMCN, Vanilla}]), 1),
		)
		pinnedLess = claim.Every(pinnedLess, claim.Below(r.gain(s, VM), 1))
	}
	var but []string
	for _, clause := range []struct {
		holds claim.Truth
		why   string
	}{
		{falls, "the cost does not fall significantly with size"},
		{claim.Any(inside, claim.Is(!machines)), "a container in a virtual machine does not cost significantly less than the machine at every size"},
		{claim.Any(pinnedLess, claim.Is(!machines)), "a pinned virtual machine does not cost significantly less than a vanilla one at every size"},
	} {
		if clause.holds != claim.True {
			but = append(but, clause.why)
		}
	}
	verdict, why := claim.Decide(
		claim.When(small, claim.Refuted,
			fmt.Sprintf("the whole interval of a vanilla container's cost on 2 CPUs lies below %g times", least)),
		claim.When(beaten, claim.Refuted,
			"a pinned container is significantly more costly than another platform on "+sizeOf(first.spot)),
		claim.When(claim.Every(asPublished, falls, inside, pinnedLess), claim.Confirmed, ""),
		claim.When(asPublished, claim.Qualified, strings.Join(but, "; ")),
		claim.When(claim.True, claim.Inconclusive, "the differences are not significant on "+sizeOf(first.spot)))
	if d.Verdict = verdict; why != "" {
		d.rests("%s", why)
	}
	return d.done()
}

// judgeDatabase is S2.4.
func (r reading) judgeDatabase() (claim.Judgement, bool) {
	const id = "S2.4"
	// Of each size the three pinned platforms, pinning of each, and two vanilla machines; and the
	// smallest vanilla container.
	r = r.together(1 + 8*len(r.of(matrix, serving[1])))
	all := r.look(serving[1])
	if len(all) == 0 {
		return claim.Judgement{}, false
	}
	d := r.begin(id, all)
	first, last := all[0], all[len(all)-1]
	vanilla := first.at(CN, Vanilla)
	d.Figures = append(d.Figures, claim.Measured(claim.Ours("vanilla CN over BM", vanilla, 1, "times"))...)
	if !first.apart() || !first.has(CN, Pinned) {
		d.rests(sameForServices, larger(first.workload, withMachines+" --cpus 4,8,16,32"))
		return d.done()
	}
	machines := d.machines(all, first.workload)
	most, least := claim.Threshold(id, "vanilla CN over BM"), claim.Threshold(id, "vanilla CN over BM, at the least")
	small, large := claim.Threshold(id, "cores"), claim.Threshold(id, "cores from which pinning does nothing")
	nothing := claim.Threshold(id, "pinning does nothing") / 100
	gains, loses := claim.True, claim.False       // of pinned containers
	machinesGain, fades := claim.True, claim.True // of pinned machines, up to and from those sizes
	for _, s := range all {
		switch pinned := s.at(CN, Pinned); {
		case s.size <= small && s.apart():
			gains, loses = claim.Every(gains, claim.Below(pinned, 1)), claim.Any(loses, claim.Above(pinned, 1))
			for _, kind := range []Kind{VM, VMCN} {
				machinesGain = claim.Every(
					machinesGain,
					claim.Below(s.at(kind, Pinned), 1),
					claim.More(s.at(kind, Pinned), pinned),
				)
			}
		case s.size >= large:
			for _, kind := range []Kind{CN, VM, VMCN} {
				fades = claim.Every(fades, claim.Equivalent(r.gain(s, kind), nothing))
				if kind != CN {
					fades = claim.Every(fades, claim.Above(s.at(kind, Vanilla), 1))
				}
			}
		}
	}
	if claim.Any(loses, claim.Below(vanilla, least), claim.Every(gains, claim.Above(vanilla, most))) == claim.True {
		d.NotRepresentative = "" // the containers decide
	}
	var but []string
	if last.size < small {
		but = append(but, fmt.Sprintf("only sizes up to %s were measured, of %g", sizeOf(last.spot), small))
	}
	if last.size < large {
		but = append(but, fmt.Sprintf("no size from %g CPUs was measured", large))
	} else if machines && fades != claim.True {
		but = append(but, fmt.Sprintf("from %g CPUs pinning is not equivalent to none, or a virtual machine does not lose significantly", large))
	}
	if machines && machinesGain != claim.True {
		but = append(but, fmt.Sprintf("up to %g CPUs the pinned virtual machines do not lie between the pinned container and bare metal", small))
	}
	verdict, why := claim.Decide(
		claim.When(loses, claim.Refuted, "a pinned container costs significantly more than bare metal"),
		claim.When(claim.Below(vanilla, least), claim.Refuted,
			fmt.Sprintf("the whole interval of a vanilla container's cost on %s lies below %g times", sizeOf(first.spot), least)),
		claim.When(
			claim.Every(gains, claim.Above(vanilla, most), claim.Is(machines && len(but) == 0)),
			claim.Confirmed,
			"",
		),
		claim.When(claim.Every(gains, claim.Above(vanilla, most)), claim.Qualified, strings.Join(but, "; ")),
		claim.When(claim.True, claim.Inconclusive, "the intervals are inconclusive on "+sizeOf(first.spot)))
	if d.Verdict = verdict; why != "" {
		d.rests("%s", why)
	}
	return d.done()
}
