package platforms

import (
	"fmt"
	"slices"
	"strings"

	"tare/claim"
	"tare/model/size"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// judgeParts is S2.5.
func (r reading) judgeParts() (claim.Judgement, bool) {
	const id = "S2.5"
	// A term for size of vanilla containers, of pinned ones, and of machines.
	r = r.together(3 * len(r.names(matrix)))
	all := r.parted()
	if len(all) == 0 {
		return claim.Judgement{}, false
	}
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	for at, name := range map[string]string{
		"wordpress": "vanilla CN over VM, WordPress, 2 cores", "cassandra": "vanilla CN over VM, Cassandra, 2 cores",
	} {
		d.Figures = append(d.Figures, claim.Measured(r.overMachine(name, at)...)...)
	}
	slices.SortFunc(d.Figures, func(a, b claim.Figure) int { return strings.Compare(a.Name, b.Name) })
	smallest, constant := claim.Threshold(id, "no effect of size")/100, claim.Threshold(id, "constant over sizes")/100
	var ours []string
	shrinks, none, flat, sized := claim.True, claim.True, claim.True, claim.True
	fitted := map[mark][]string{} // the workloads of each
	for _, p := range r.deciding(all) {
		m := mark{p.kind(), p.column.preset}
		if p.emulated != "" || p.err != nil || p.sizeErr != nil {
			continue // what was emulated is no evidence
		}
		slope := p.compared.Slope
		name := "size term, " + p.workload + ", " + m.String()
		d.Figures = append(d.Figures, claim.Measured(claim.Ours(name, slope, 1, ""))...)
		ours = append(ours, fmt.Sprintf("%s %s: %s by %s", p.workload, m, report.Said(slope, 1), p.compared.With.Form))
		cost := p.sizeOfSmallest()
		d.Figures = append(d.Figures, claim.Measured(claim.Ours("cost of size, smallest, "+p.workload+", "+m.String(), cost, 1, "times"))...)
		fitted[m] = append(fitted[m], p.workload)
		switch m {
		case mark{CN, Vanilla}:
			shrinks = claim.Every(shrinks, claim.Above(cost, 1+smallest))
			none = claim.Every(none, claim.Below(cost, 1+smallest))
		case mark{CN, Pinned}:
			flat = claim.Every(flat, claim.Equivalent(cost, constant))
			sized = claim.Every(sized, claim.Above(cost, 1+constant))
		case mark{VM, Vanilla}:
			flat = claim.Every(flat, claim.Equivalent(cost, constant))
		}
	}
	d.Ours = strings.Join(ours, "; ")
	vanilla := fitted[mark{CN, Vanilla}]
	if len(vanilla) == 0 {
		d.rests("%s", r.unfitted(all))
		return d.done()
	}
	// Every is said of all workloads of the run: those that had too few sizes are named.
	others := slices.DeleteFunc(r.names(matrix), func(name string) bool { return slices.Contains(vanilla, name) })
	every := len(others) == 0
	const several = 3 // workloads, of S2's five
	refutes := every && len(vanilla) >= several
	d.rests("size term of vanilla containers fitted in %d of %d workloads: %s",
		len(vanilla), len(vanilla)+len(others), strings.Join(vanilla, ", "))
	if !every {
		d.rests("too few sizes in %s: run %s", strings.Join(others, ", "), larger(others[0], "--cpus "+r.fourSizes()))
	}
	pinned, machines := len(fitted[mark{CN, Pinned}]) == len(vanilla), len(fitted[mark{VM, Vanilla}]) == len(vanilla)
	costless := fmt.Sprintf("the cost of size of the smallest vanilla container is significantly below %g %% in ", 100*smallest)
	const costly, everywhere, fittedAlone = "pinned containers have a cost of size in ", "every workload", "the fitted workloads"
	var but []string
	if !pinned {
		but = append(but, "too few whole sizes for a size term of pinned containers in each workload: run "+larger(vanilla[0], "--cpus 1,2,4,8"))
	}
	if !machines {
		but = append(but, "no size term of virtual machines with hardware support in each workload")
	}
	sized = claim.Every(sized, claim.Needs(pinned))
	verdict, why := claim.Decide(
		claim.When(claim.Every(none, claim.Needs(refutes)), claim.Refuted, costless+everywhere),
		claim.When(none, claim.Inconclusive, costless+fittedAlone),
		claim.When(claim.Every(sized, claim.Needs(refutes)), claim.Refuted, costly+everywhere),
		claim.When(sized, claim.Inconclusive, costly+fittedAlone),
		claim.When(claim.Every(shrinks, flat, claim.Needs(pinned && machines && every)), claim.Confirmed, ""),
		claim.When(claim.Every(shrinks, flat), claim.Qualified, strings.Join(but, "; ")),
		claim.When(claim.True, claim.Inconclusive, "the intervals are inconclusive, or differ between workloads"))
	if d.Verdict = verdict; why != "" {
		d.rests("%s", why)
	}
	return d.done()
}

// deciding are the columns by which claims are judged: one of each kind and preset.
func (r reading) deciding(all []parted) (kept []parted) {
	for _, p := range all {
		for _, s := range r.of(matrix, p.workload) {
			if c, ok := s.one(p.kind(), p.column.preset); ok {
				if c.Platform == p.column.platform {
					kept = append(kept, p)
				}
				break
			}
		}
	}
	return kept
}

// sizeOfSmallest is how many times as much the smallest size costs, for its size alone.
func (p parted) sizeOfSmallest() stats.Estimate {
	least := 1.0
	for _, at := range p.points {
		least = min(least, at.CHR())
	}
	e, err := p.compared.With.SizeAt(least)
	if err != nil {
		return stats.Absent(e.Interval.Level)
	}
	return size.Ratio(e)
}

// overMachine are the figures of a vanilla container against a vanilla machine on 2 CPUs.
func (r reading) overMachine(name, of string) []claim.Figure {
	for _, s := range r.of(matrix, of) {
		cn, ok := s.one(CN, Vanilla)
		vm, had := s.one(VM, Vanilla)
		if s.size == 2 && ok && had && emulated(vm) == "" {
			return []claim.Figure{claim.Ours(name, r.against(s, vm, cn), 1, "times")}
		}
	}
	return nil
}

// unfitted says why there is no term of size.
func (r reading) unfitted(all []parted) string {
	for _, p := range all {
		if p.kind() == CN && p.column.preset == Vanilla {
			for _, err := range []error{p.err, p.sizeErr} {
				if err != nil {
					return fmt.Sprintf("%s: %v; for four sizes, run %s", p.workload, err, larger(p.workload, "--cpus "+r.fourSizes()))
				}
			}
		}
	}
	return "no vanilla container was measured at several sizes: run " + larger(r.names(matrix)[0], "--cpus "+r.fourSizes())
}

// fourSizes are four that this host has, with quotas of parts of a CPU where it has few.
func (r reading) fourSizes() string {
	switch n := r.hostCPUs(); {
	case n >= 8:
		return "1,2,4,8"
	case n >= 4:
		return "0.5,1,2,4"
	case n >= 2:
		return "0.5,1,1.5,2"
	}
	return "0.25,0.5,0.75,1"
}

// onHost is what a container costs on a host of one size, by block.
type onHost struct {
	cpus            int
	vanilla, pinned map[int]float64
	vanillaOf       record.Condition
	emulated        string
}

// hostCosts are a spot's costs by size of host, the smallest first: each over bare metal
// of the same host.
func (r reading) hostCosts(s spot) (all []onHost) {
	var counts []int
	for _, c := range s.all {
		if n := int(number(c, factorHost)); n > 0 && !slices.Contains(counts, n) {
			counts = append(counts, n)
		}
	}
	slices.Sort(counts)
	for _, n := range counts {
		at := onHost{cpus: n}
		var base *record.Condition
		for i, c := range s.all {
			if int(number(c, factorHost)) == n && preset(c) == "" {
				base = &s.all[i]
			}
		}
		if base == nil {
			continue
		}
		for _, c := range s.all {
			if int(number(c, factorHost)) != n {
				continue
			}
			switch preset(c) {
			case Vanilla:
				at.vanilla, at.vanillaOf = r.costBlocks(s, *base, c), c
			case Pinned:
				at.pinned = r.costBlocks(s, *base, c)
			}
			at.emulated = emulated(*base, c)
		}
		all = append(all, at)
	}
	return all
}

// judgeHosts is S2.6.
func (r reading) judgeHosts() (claim.Judgement, bool) {
	const id = "S2.6"
	r = r.together(2) // of the host's size, and of pinning there
	spots := r.of(ofHosts, "")
	if len(spots) == 0 {
		return claim.Judgement{}, false
	}
	// A host whose own CPUs were taken off line decides before one that was emulated.
	slices.SortStableFunc(spots, func(a, b spot) int { return strings.Compare(emulated(a.all...), emulated(b.all...)) })
	s := spots[0]
	all := r.hostCosts(s)
	if len(all) < 2 {
		return claim.Judgement{}, false
	}
	smallest := claim.Threshold(id, "smallest effect") / 100
	small, large := all[0], all[len(all)-1]
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	more := r.Ratio(small.vanilla, large.vanilla)
	pinning := r.Ratio(large.vanilla, large.pinned)
	d.Figures = claim.Measured(
		claim.Ours("overhead, larger host over smaller", more, 1, "times"),
		claim.Ours("pinned over vanilla, larger host", pinning, 1, "times"),
	)
	if more.Value > 0 {
		d.Ours = fmt.Sprintf("%s: overhead on %s is %s times that on %s",
			sizeOf(s), cpusText(float64(large.cpus)), report.Said(more, 1), cpusText(float64(small.cpus)))
	}
	if pinning.Value > 0 {
		d.Ours += fmt.Sprintf(", pinned relative to vanilla there is %s times", report.Said(pinning, 1))
	}
	d.rests("%s with %s and %s of the host's CPUs, %s",
		s.workload, report.Rounded(s.size/float64(small.cpus), 2), report.Rounded(s.size/float64(large.cpus), 2),
		report.Counted(more.N, "block"))
	switch why := emulated(s.all...); {
	case why != "":
		d.NotRepresentative = why
		d.rests("the hosts were emulated machines, which neither confirm nor refute: on a host of your own, run %s",
			larger(s.workload, "--host-cpus 1,2 --disruptive"))
	case within(more, smallest):
		d.Verdict = claim.Refuted
	case above(more, 1) && within(pinning, smallest):
		d.Verdict = claim.Confirmed
	case above(more, 1) && (above(pinning, 1+smallest) || below(pinning, 1-smallest)):
		d.Verdict = claim.Qualified
		d.rests("pinning makes a significant difference there")
	case above(more, 1):
		d.Verdict = claim.Qualified
		d.rests("whether pinning makes a difference there is inconclusive")
	default:
		d.rests("the intervals are inconclusive")
	}
	return d.done()
}

// tasked is what one process and many cost a container.
type tasked struct {
	spot
	tasks     int // of the many
	one, many stats.Estimate
	// more is by how many points the overhead of the many exceeds that of the one.
	more stats.Estimate
	of   record.Condition // the many's
}

// tasks are the costs by number of processes, of one column over all spots.
func (r reading) tasks() (all []tasked) {
	for _, s := range r.of(ofTasking, "") {
		for _, col := range s.columns() {
			byTasks := map[int]map[int]float64{}
			conditions := map[int]record.Condition{}
			for _, c := range s.all {
				if (column{c.Platform, preset(c)}) != col {
					continue
				}
				n := int(number(c, factorTasks))
				for _, b := range s.all {
					if KindOf(b.Platform) == BM && int(number(b, factorTasks)) == n {
						byTasks[n], conditions[n] = r.costBlocks(s, b, c), c
					}
				}
			}
			least, most := 0, 0
			for n := range byTasks {
				if least == 0 || n < least {
					least = n
				}
				most = max(most, n)
			}
			if least == most {
				continue
			}
			t := tasked{
				spot: s, tasks: most, of: conditions[most],
				one: r.geometric(byTasks[least]), many: r.geometric(byTasks[most]),
			}
			t.more = r.meanOf(scaled(overhead.Difference(byTasks[least], byTasks[most]), 100))
			all = append(all, t)
		}
	}
	return all
}

// columns are a spot's platforms with their presets, each once, without bare metal.
func (s spot) columns() (all []column) {
	for _, c := range s.all {
		if at := (column{c.Platform, preset(c)}); KindOf(c.Platform) != BM && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// geometric is the mean of ratios.
func (r reading) geometric(blocks map[int]float64) stats.Estimate {
	ones := map[int]float64{}
	for block := range blocks {
		ones[block] = 1
	}
	return r.Ratio(ones, blocks)
}

// judgeTasks is S2.8.
func (r reading) judgeTasks() (claim.Judgement, bool) {
	const id = "S2.8"
	r = r.together(2) // what the many cost, and how much more that is
	all := r.tasks()
	i := slices.IndexFunc(all, func(t tasked) bool {
		c, ok := t.spot.one(CN, Vanilla)
		return ok && c.Platform == t.of.Platform && preset(t.of) == Vanilla
	})
	if i < 0 {
		return claim.Judgement{}, false
	}
	t, points := all[i], claim.Threshold(id, "smallest effect")
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	d.Figures = claim.Measured(
		claim.Ours("overhead, one process", t.one, 1, "times"),
		claim.Ours("overhead, many processes", t.many, 1, "times"),
		claim.Ours("difference", t.more, 1, "points"),
	)
	if t.more.Value == t.more.Value {
		d.Ours = fmt.Sprintf(
			"%s, %s: one process takes %s times bare metal's time, %d take %s times; difference %s points",
			t.of.Platform,
			sizeOf(t.spot),
			report.Said(t.one, 1),
			t.tasks,
			report.Said(t.many, 1),
			report.Said(t.more, 1),
		)
	}
	d.rests("%s cut in %d, %s, %s; S2 had thirty on 16 cores",
		t.workload, t.tasks, sizeOf(t.spot), report.Counted(t.more.N, "block"))
	verdict, why := claim.Decide(
		claim.When(claim.Is(same(t.of)), claim.Inconclusive,
			"the container has all CPUs of the host, where S2 had 16 of 112: on a larger host, run "+
				larger(t.workload, "--tasks one,many")),
		claim.When(claim.Every(claim.Above(t.more, points), claim.Above(t.many, 1)), claim.Confirmed, ""),
		claim.When(claim.Below(t.more, points), claim.Refuted, ""),
		claim.When(claim.True, claim.Inconclusive, "the interval is inconclusive"))
	if d.Verdict = verdict; why != "" {
		d.rests("%s", why)
	}
	return d.done()
}
