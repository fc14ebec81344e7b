package platforms

import (
	"fmt"
	"slices"
	"strings"

	"tare/advise"
	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// stand is what evidence of this host shows of a rule.
type stand string

// The stands.
const (
	stands   stand = "supported"
	against  stand = "contradicted"
	notShown stand = "not shown"
)

// A practice is one of S2's five, with this run's evidence.
type practice struct {
	rule     string // a name that stays
	set      string // what S2 says to do
	setting  advise.Setting
	instead  string // what to do where the evidence is against it
	whom     string
	stand    stand
	evidence []advise.Evidence
	why      string // it is not shown
}

// practices are S2's five, each with this run's evidence.
func (r reading) practices() []practice {
	r = r.together(len(r.cells()))
	return []practice{r.noSmallVanilla(), r.pinComputing(), r.noPinnedMachines(), r.containersInMachines(), r.shares()}
}

func (r reading) evidence(says string, figure stats.Estimate, of ...record.Condition) advise.Evidence {
	e := advise.Evidence{Run: r.Run.ID, Says: says, Figure: figure, Unit: "times"}
	for _, c := range of {
		if c.ID != "" {
			e.Conditions = append(e.Conditions, c.ID)
		}
	}
	return e
}

// sameOrInconclusive is why pinning is not shown to gain or lose.
const sameOrInconclusive = "vanilla and pinned have the same CPUs at every size, or the intervals are inconclusive"

// settle gives a practice its stand: one that holds anywhere and is nowhere wrong stands,
// one that is wrong everywhere is contradicted.
func (p practice) settle(holds, wrong, asked int, why string) practice {
	switch {
	case holds > 0 && wrong == 0:
		p.stand = stands
	case asked > 0 && wrong == asked:
		p.stand = against
	default:
		p.stand, p.why = notShown, why
	}
	return p
}

// noSmallVanilla: vanilla containers of one or two CPUs lose against pinned ones.
func (r reading) noSmallVanilla() practice {
	p := practice{
		rule: "no-small-vanilla-containers", whom: "containers of one or two CPUs",
		set:     "pin it (--cpuset-cpus) instead of giving it a quota (--cpus)",
		setting: advise.OwnCPUs,
		instead: "give it a quota (--cpus): pinning gains nothing",
	}
	holds, wrong, asked := 0, 0, 0
	for _, name := range r.names(matrix) {
		for _, s := range r.look(name) {
			gain := r.gain(s, CN)
			if s.size > 2 || s.fractional() || !s.apart() || !gain.Known() {
				continue
			}
			asked++
			loss := flipped(gain)
			says := fmt.Sprintf("vanilla against pinned, %s, %s", name, sizeOf(s.spot))
			p.evidence = append(p.evidence, r.evidence(says, loss, s.of[mark{CN, Vanilla}], s.of[mark{CN, Pinned}]))
			switch {
			case above(loss, 1+r.smallest()):
				holds++
			case below(loss, 1+r.smallest()):
				wrong++
			}
		}
	}
	return p.settle(holds, wrong, asked, sameOrInconclusive)
}

func (s seen) fractional() bool { return Size{CPUs: s.size}.fractional() }

// flipped is a ratio the other way round.
func flipped(e stats.Estimate) stats.Estimate {
	e.Value, e.Interval.Low, e.Interval.High = 1/e.Value, 1/e.Interval.High, 1/e.Interval.Low
	return e
}

// pinComputing: of what contains a program that computes, the pinned container is the
// cheapest.
func (r reading) pinComputing() practice {
	p := practice{
		rule: "pinned-containers-for-computing", whom: "programs that compute",
		set:     "run it in a pinned container (--cpuset-cpus)",
		setting: advise.OwnCPUs,
		instead: "choose any platform: the pinned container is not the cheapest",
	}
	holds, wrong, asked := 0, 0, 0
	for _, s := range r.look(computing[0]) {
		pinned := s.at(CN, Pinned)
		if !s.apart() || !pinned.Known() {
			continue
		}
		cheapest, beaten, compared := true, false, false
		for _, m := range marks {
			if other := s.cost[m]; m != (mark{CN, Pinned}) && other.Known() && emulated(s.of[m]) == "" {
				compared = true
				ratio := r.against(s.spot, s.of[mark{CN, Pinned}], s.of[m])
				says := fmt.Sprintf("%s against pinned CN, %s", m, sizeOf(s.spot))
				p.evidence = append(p.evidence, r.evidence(says, ratio, s.of[m], s.of[mark{CN, Pinned}]))
				cheapest = cheapest && above(ratio, 1)
				// No cheaper by more than what is of interest is no reason for it.
				beaten = beaten || below(ratio, 1+r.smallest())
			}
		}
		if !compared {
			continue
		}
		asked++
		switch {
		case beaten:
			wrong++
		case cheapest:
			holds++
		}
	}
	return p.settle(holds, wrong, asked, sameOrInconclusive)
}

// noPinnedMachines: pinning a virtual machine that computes gains nothing.
func (r reading) noPinnedMachines() practice {
	p := practice{
		rule: "no-pinned-machines-for-computing", whom: "virtual machines that compute",
		set: "leave the virtual machine unpinned", instead: "pin the virtual machine's CPUs",
	}
	limit := claim.Threshold("S2.1", "pinning does nothing") / 100
	holds, wrong, asked := 0, 0, 0
	for _, s := range r.look(computing[0]) {
		gain := r.gain(s, VM)
		if !gain.Known() || emulated(s.of[mark{VM, Vanilla}]) != "" || same(s.of[mark{VM, Vanilla}]) {
			continue
		}
		asked++
		says := "pinned VM against vanilla VM, " + sizeOf(s.spot)
		p.evidence = append(p.evidence, r.evidence(says, gain, s.of[mark{VM, Vanilla}], s.of[mark{VM, Pinned}]))
		switch {
		case above(gain, 1-limit):
			holds++
		case below(gain, 1-limit):
			wrong++
		}
	}
	return p.settle(holds, wrong, asked, "no virtual machine with hardware support ran both pinned and vanilla")
}

// containersInMachines: what does input and output and cannot be pinned goes into a
// container in a virtual machine rather than one on the host.
func (r reading) containersInMachines() practice {
	p := practice{
		rule: "containers-in-machines-for-io", whom: "services that cannot be pinned",
		set: "run its container in a virtual machine", instead: "run its container on the host itself",
	}
	holds, wrong, asked := 0, 0, 0
	for _, name := range serving {
		for _, s := range r.look(name) {
			cn, vmcn := s.of[mark{CN, Vanilla}], s.of[mark{VMCN, Vanilla}]
			if !s.has(CN, Vanilla) || !s.has(VMCN, Vanilla) || emulated(vmcn) != "" {
				continue
			}
			asked++
			ratio := r.against(s.spot, cn, vmcn)
			says := fmt.Sprintf("vanilla VMCN against vanilla CN, %s, %s", name, sizeOf(s.spot))
			p.evidence = append(p.evidence, r.evidence(says, ratio, cn, vmcn))
			switch {
			case below(ratio, 1):
				holds++
			case above(ratio, 1):
				wrong++
			}
		}
	}
	return p.settle(holds, wrong, asked, "no container in a virtual machine with hardware support served a load")
}

// shares: their order by kind of work, as S2.7 has it. A run of a few sizes does not show
// whether its bands are right.
func (r reading) shares() practice {
	p := practice{
		rule: "share-of-the-host", whom: "vanilla containers",
		set:     "give it a larger share of the host's CPUs the more input and output it does",
		instead: "choose its share of the host's CPUs without regard to its input and output",
	}
	j, ok := r.judgeShares()
	if !ok {
		return p.settle(0, 0, 0, "no vanilla container was measured")
	}
	for _, b := range r.kindBrackets() {
		for _, at := range []struct {
			says string
			shareCost
		}{{"largest share with a cost above 10 %", b.atOver}, {"smallest share with less from there on", b.atBelow}} {
			if at.cost.Known() {
				says := fmt.Sprintf("%s, %s, %s of the CPUs", b.workload, at.says, report.Rounded(chr(at.of), 2))
				p.evidence = append(p.evidence, r.evidence(says, at.cost, at.of, at.base))
			}
		}
	}
	switch j.Verdict {
	case claim.Confirmed, claim.Qualified:
		p.stand = stands
	case claim.Refuted:
		p.stand = against
	default:
		p.stand, p.why = notShown, j.Rests
	}
	return p
}

// judgeRules is S2.10.
func (r reading) judgeRules() (claim.Judgement, bool) {
	const id = "S2.10"
	if len(r.of(matrix, "")) == 0 {
		return claim.Judgement{}, false
	}
	all := r.practices()
	d := &draft{Judgement: claim.Judgement{Claim: id, Verdict: claim.Inconclusive}}
	count := map[stand]int{}
	var said []string
	for i, p := range all {
		count[p.stand]++
		text := fmt.Sprintf("%d (%s) %s", i+1, p.rule, p.stand)
		said = append(said, text)
		if p.why != "" {
			d.rests("%d: %s", i+1, p.why)
		}
	}
	d.Ours = strings.Join(said, "; ")
	d.Figures = []claim.Figure{
		{Name: "rules that stand", Value: float64(count[stands])},
		{Name: "rules contradicted", Value: float64(count[against])},
	}
	d.why = slices.Insert(d.why, 0, fmt.Sprintf("%d of %d rules could be judged", len(all)-count[notShown], len(all)))
	rules, majority := int(claim.Threshold(id, "rules")), int(claim.Threshold(id, "majority"))
	switch {
	case count[against] >= majority:
		d.Verdict = claim.Refuted
	case count[stands] == rules:
		d.Verdict = claim.Confirmed
	case count[notShown] <= rules-majority:
		d.Verdict = claim.Qualified
	}
	return d.done()
}

// Advice is what a run recommends: S2's practices where they stand, and their opposites
// where the evidence is against them.
func Advice(run record.Run) []advise.Advice {
	var all []advise.Advice
	for _, p := range read(run).practices() {
		a := advise.Advice{Rule: p.rule, Source: "S2", Set: p.set, For: p.whom, Setting: p.setting, Evidence: p.evidence}
		switch p.stand {
		case notShown:
			continue
		case against:
			a.Rule, a.Set, a.Against, a.Setting = "not-"+p.rule, p.instead, p.set, advise.Setting{}
		}
		if a.Holds() {
			all = append(all, a)
		}
	}
	return all
}
