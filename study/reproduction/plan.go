// Package reproduction answers: which published claims hold on this host? It plans the runs that
// decide claims, finds those that are there already, and composes one page of what came of all.
//
// It measures nothing: each run is one of a study's own command. What a run takes comes from the
// study's design, and which claims it decides from package claim.
package reproduction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/claim"
	"tare/lab"
	"tare/record"
)

// Extent is how much is measured for a claim.
type Extent int

// The extents.
const (
	Usual Extent = iota // the claim's command, with time to decide it
	Quick               // minutes: the claim's short command, three blocks
	Full                // as published, where the study has that
)

const (
	fewBlocks  = 3  // what an interval takes
	manyBlocks = 20 // what a verdict is given time for, within these bounds

	leastToDecide, mostToDecide = 30 * time.Minute, time.Hour
)

// Designed is what a command line comes to on this host.
type Designed struct {
	Design lab.Design
	Takes  time.Duration // by the study's own estimate
	Full   bool          // the command has --full
	// Disruptive tells that the line allows what affects the whole host.
	Disruptive bool
}

// Designer reads the command line of a study, and designs what it measures. It runs nothing.
type Designer func(study string, line []string) (Designed, error)

// Run is a command, and the claims that it decides.
type Run struct {
	Claims     []claim.Claim // in the papers' order
	Study      string
	Command    []string
	Takes      time.Duration
	Conditions []record.Condition // that it measures

	budget time.Duration // 0 where its number of blocks is fixed
	least  time.Duration // the budget that an interval takes
	wanted time.Duration // the budget where nothing bounds that of all runs
}

// Left are claims for which nothing is run, and the reason.
type Left struct {
	Claims []claim.Claim
	Why    string
}

// Plan is what a reproduction runs, in the papers' order.
type Plan struct {
	Runs []Run
	Left []Left
}

// NewPlan plans the runs for some claims. A run whose conditions another one has is not planned:
// the other one decides its claims too.
func NewPlan(claims []claim.Claim, extent Extent, on claim.Abilities, disruptive bool, design Designer) Plan {
	var p Plan
	for _, c := range claims {
		if host := c.Elsewhere(on); host != "" {
			p.leave(c, "needs "+host)
			continue
		}
		run, err := newRun(c, extent, on, disruptive, design)
		if err != nil {
			p.leave(c, err.Error())
			continue
		}
		i := slices.IndexFunc(p.Runs, func(r Run) bool { return slices.Equal(r.Command, run.Command) })
		if i < 0 {
			p.Runs = append(p.Runs, run)
			continue
		}
		p.Runs[i].Claims = append(p.Runs[i].Claims, c)
	}
	p.merge()
	return p
}

func (p *Plan) leave(c claim.Claim, why string) {
	i := slices.IndexFunc(p.Left, func(l Left) bool { return l.Why == why })
	if i < 0 {
		p.Left = append(p.Left, Left{[]claim.Claim{c}, why})
		return
	}
	p.Left[i].Claims = append(p.Left[i].Claims, c)
}

// newRun is the run for one claim.
func newRun(c claim.Claim, extent Extent, on claim.Abilities, disruptive bool, design Designer) (Run, error) {
	if extent == Usual && c.Open(on) {
		extent = Quick // no number of blocks decides it
	}
	line := c.Command
	if extent == Quick && c.Quick != nil {
		line = c.Quick
	}
	d, err := design(c.Study, line)
	switch {
	case err != nil:
		return Run{}, err
	case d.Disruptive && !disruptive:
		return Run{}, fmt.Errorf("affects the whole host: give --disruptive to allow it")
	case extent == Quick:
		// Blocks that are disturbed are made again: the budget bounds that.
		most := roundedUp(d.Design.Expected(fewBlocks+1), 10*time.Second)
		line = append(slices.Clone(line), "--blocks", fmt.Sprint(fewBlocks), "--budget", written(most))
	case extent == Full && d.Full:
		line = append(slices.Clone(line), "--full")
	}
	if extent != Usual {
		if d, err = design(c.Study, line); err != nil {
			return Run{}, err
		}
	}
	run := Run{Claims: []claim.Claim{c}, Study: c.Study, Command: line, Takes: d.Takes}
	for _, g := range d.Design.Groups {
		for _, condition := range g.Conditions {
			run.Conditions = append(run.Conditions, condition.Condition)
		}
	}
	if d.Design.Plan.Blocks == 0 {
		run.budget = d.Design.Plan.Budget
		run.least = roundedUp(d.Design.Expected(fewBlocks), time.Minute)
		toDecide := min(max(roundedUp(d.Design.Expected(manyBlocks), time.Minute), leastToDecide), mostToDecide)
		run.wanted = max(run.budget, run.least, toDecide)
		run.give(run.wanted)
	}
	return run, nil
}

// Going gives a run that was stopped the time that is planned for it.
func (r Run) Going(stopped record.Run) record.Run {
	if r.budget > 0 {
		stopped.Plan.Budget = r.budget
	}
	return stopped
}

// give gives a run that has a budget another one.
func (r *Run) give(budget time.Duration) {
	if budget != r.budget {
		if i := slices.Index(r.Command, "--budget"); i >= 0 {
			r.Command = slices.Delete(slices.Clone(r.Command), i, i+2)
		}
		r.Command = append(slices.Clone(r.Command), "--budget", written(budget))
	}
	r.budget, r.Takes = budget, budget
}

// Fit shares a budget among runs. Each gets the time of an interval first. What is left is shared in
// proportion to the time that each would have without a budget. A run whose interval does not fit beside
// those before it gets nothing of it, and its time exceeds what is left.
func Fit(runs []*Run, budget time.Duration) {
	rest := budget
	var more time.Duration // what those that fit would have besides
	for _, r := range runs {
		least := r.Takes
		if r.budget > 0 {
			r.give(r.least)
			least = r.least
		}
		if least > rest {
			continue
		}
		rest -= least
		if r.budget > 0 {
			more += r.wanted - r.least
		}
	}
	if more == 0 {
		return
	}
	share, left := min(float64(rest)/float64(more), 1), budget
	for _, r := range runs {
		if r.Takes > left {
			continue
		}
		left -= r.Takes
		if r.budget > 0 {
			r.give(r.least + time.Duration(share*float64(r.wanted-r.least)).Truncate(time.Minute))
		}
	}
}

func roundedUp(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }

// written is a time as a flag takes it.
func written(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// merge has runs decide the claims of those whose conditions they have.
func (p *Plan) merge() {
	largestFirst := slices.Clone(p.Runs)
	slices.SortStableFunc(largestFirst, func(a, b Run) int {
		return cmp.Or(cmp.Compare(len(b.Conditions), len(a.Conditions)), cmp.Compare(b.wanted, a.wanted))
	})
	var kept []Run
	for _, r := range largestFirst {
		i := slices.IndexFunc(kept, func(other Run) bool { return other.covers(r) })
		if i < 0 {
			kept = append(kept, r)
			continue
		}
		kept[i].Claims = append(kept[i].Claims, r.Claims...)
		if kept[i].budget > 0 {
			kept[i].wanted = max(kept[i].wanted, r.wanted)
			kept[i].give(kept[i].wanted)
		}
	}
	for _, r := range kept {
		slices.SortFunc(r.Claims, func(a, b claim.Claim) int { return place(a) - place(b) })
	}
	slices.SortFunc(kept, func(a, b Run) int { return place(a.Claims[0]) - place(b.Claims[0]) })
	p.Runs = kept
}

// place is where a claim stands among all.
func place(c claim.Claim) int {
	return slices.IndexFunc(claim.All(), func(other claim.Claim) bool { return other.ID == c.ID })
}

// covers tells whether a run has all conditions of another one, and as many blocks of them. Two runs of
// the same conditions may differ in what these do not name: only a short one is a part of the other.
func (r Run) covers(other Run) bool {
	short := r.budget > 0 && other.budget == 0
	if r.Study != other.Study || r.budget == 0 && other.budget > 0 ||
		!short && len(r.Conditions) <= len(other.Conditions) {
		return false
	}
	return other.isPartOf(r.Conditions)
}
