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
	above, under, onPar, reached := 0, 0, true, false
	all = whole(all)
	for _, s := range all {
		vm, cn, vmcn := s.at(VM, Vanilla), s.at(CN, Vanilla), s.at(VMCN, Vanilla)
		if apartFrom(vm, cn) && apartFrom(vm, vmcn) {
			above++
		}
		if apartFrom(cn, vm) {
			under++
		}
		if s.size >= cores {
			reached = true
			onPar = onPar && within(vm, par)
		}
	}
	switch {
	case 2*under > len(all):
		d.Verdict = claim.Refuted
		d.rests("containers cost significantly less than the virtual machine at %d of %d sizes", under, len(all))
	case above == len(all) && reached && onPar:
		d.Verdict = claim.Confirmed
	case !reached:
		d.rests("%g CPUs were not measured: run %s", cores, larger(name, withMachines+" --cpus 2,4,8"))
	default:
		d.rests("containers cost significantly more than the virtual machine at %d of %d sizes", above, len(all))
	}
	return d.done()
}

// judgeWeb is S2.3.
func (r reading) judgeWeb() (claim.Judgement, bool) {
	const id = "S2.3"
	// On the smallest size every kind and preset, on the others the vanilla container.
	r = r.together(len(marks) + max(0, len(r.of(matrix, serving[0]))-1))
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
	highest, lowest, beaten := true, true, false
	for _, m := range marks {
		if m.kind != CN && !machines || !first.has(m.kind, m.preset) {
			continue
		}
		if m != (mark{CN, Vanilla}) {
			highest = highest && apartFrom(first.cost[m], first.at(CN, Vanilla))
		}
		if m != (mark{CN, Pinned}) {
			lowest = lowest && apartFrom(first.at(CN, Pinned), first.cost[m])
			beaten = beaten || apartFrom(first.cost[m], first.at(CN, Pinned))
		}
	}
	least := claim.Threshold(id, "vanilla CN over BM, 2 cores")
	small := slices.ContainsFunc(all, func(s seen) bool {
		return s.size == 2 && s.apart() && below(s.at(CN, Vanilla), least)
	})
	if small || beaten || highest && lowest {
		d.NotRepresentative = "" // the containers decide
	}
	falls := len(all) > 1 && apartFrom(all[len(all)-1].at(CN, Vanilla), first.at(CN, Vanilla))
	switch {
	case small:
		d.Verdict = claim.Refuted
		d.rests("the whole interval of a vanilla container's cost on 2 CPUs lies below %g times", least)
	case beaten:
		d.Verdict = claim.Refuted
		d.rests("a pinned container is significantly more costly than another platform on %s", sizeOf(first.spot))
	case highest && lowest && falls && machines:
		d.Verdict = claim.Confirmed
	case highest && lowest:
		d.Verdict = claim.Qualified
		if !falls {
			d.rests("the cost does not fall significantly with size")
		}
	default:
		d.rests("the differences are not significant on %s", sizeOf(first.spot))
	}
	return d.done()
}

// judgeDatabase is S2.4.
func (r reading) judgeDatabase() (claim.Judgement, bool) {
	const id = "S2.4"
	// The pinned container of each size, and the smallest vanilla one.
	r = r.together(1 + len(r.of(matrix, serving[1])))
	all := r.look(serving[1])
	if len(all) == 0 {
		return claim.Judgement{}, false
	}
	d := r.begin(id, all)
	first := all[0]
	d.Figures = append(d.Figures, claim.Measured(claim.Ours("vanilla CN over BM", first.at(CN, Vanilla), 1, "times"))...)
	if !first.apart() || !first.has(CN, Pinned) {
		d.rests(sameForServices, larger(first.workload, withMachines+" --cpus 4,8,16,32"))
		return d.done()
	}
	most, least := claim.Threshold(id, "vanilla CN over BM"), claim.Threshold(id, "vanilla CN over BM, at the least")
	cores := claim.Threshold(id, "cores")
	gains, loses := true, false
	for _, s := range all {
		if s.size > cores || !s.apart() {
			continue
		}
		gains = gains && below(s.at(CN, Pinned), 1)
		loses = loses || above(s.at(CN, Pinned), 1)
	}
	vanilla := first.at(CN, Vanilla)
	switch {
	case loses:
		d.Verdict = claim.Refuted
		d.rests("a pinned container costs significantly more than bare metal")
	case below(vanilla, least):
		d.Verdict = claim.Refuted
		d.rests("the whole interval of a vanilla container's cost on %s lies below %g times", sizeOf(first.spot), least)
	case gains && above(vanilla, most):
		d.Verdict = claim.Confirmed
		if all[len(all)-1].size < cores {
			d.Verdict = claim.Qualified
			d.rests("only sizes up to %s were measured, of %g", sizeOf(all[len(all)-1].spot), cores)
		}
	default:
		d.rests("the intervals are inconclusive on %s", sizeOf(first.spot))
	}
	return d.done()
}
