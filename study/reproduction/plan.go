// Package reproduction answers: which published claims hold on this host? It plans the runs that
// decide claims, finds those that are there already, and composes one page of what came of all.
//
// It measures nothing: each run is one of a study's own command. What a run takes comes from the
// study's design, and which claims it decides from package claim.
package reproduction

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/claim"
	"tare/lab"
)

// Extent is how much is measured for a claim.
type Extent int

// The extents.
const (
	Usual Extent = iota // the claim's command, with time for an interval
	Quick               // minutes: the claim's short command, three blocks
	Full                // as published, where the study has that
)

// fewBlocks are what an interval takes.
const fewBlocks = 3

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
	Claims  []claim.Claim // in the papers' order
	Study   string
	Command []string
	Takes   time.Duration

	budget     time.Duration // 0 where its number of blocks is fixed
	conditions []string
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
// the other one decides its claims too, and has its time.
func NewPlan(claims []claim.Claim, extent Extent, on claim.Abilities, disruptive bool, design Designer) Plan {
	var p Plan
	for _, c := range claims {
		if host := c.Elsewhere(on); host != "" {
			p.leave(c, "needs "+host)
			continue
		}
		run, err := newRun(c, extent, disruptive, design)
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
func newRun(c claim.Claim, extent Extent, disruptive bool, design Designer) (Run, error) {
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
		most := roundedUp((fewBlocks+1)*d.Design.Pass(), 10*time.Second)
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
			run.conditions = append(run.conditions, condition.ID)
		}
	}
	if d.Design.Plan.Blocks == 0 {
		run.budget = d.Design.Plan.Budget
		run.give(max(run.budget, roundedUp(fewBlocks*d.Design.Pass(), time.Minute)))
	}
	return run, nil
}

// give gives a run that has a budget another one.
func (r *Run) give(budget time.Duration) {
	if budget != r.budget {
		if i := slices.Index(r.Command, "--budget"); i >= 0 {
			r.Command = slices.Delete(slices.Clone(r.Command), i, i+2)
		}
		r.Command = append(slices.Clone(r.Command), "--budget", written(budget))
	}
	r.budget, r.Takes = budget, max(budget, r.Takes)
}

func roundedUp(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }

// written is a time as a flag takes it.
func written(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// merge has runs decide the claims of those whose conditions they have.
func (p *Plan) merge() {
	largestFirst := slices.Clone(p.Runs)
	slices.SortStableFunc(largestFirst, func(a, b Run) int { return len(b.conditions) - len(a.conditions) })
	var kept []Run
	for _, r := range largestFirst {
		i := slices.IndexFunc(kept, func(other Run) bool { return other.covers(r) })
		if i < 0 {
			kept = append(kept, r)
			continue
		}
		kept[i].Claims = append(kept[i].Claims, r.Claims...)
		if kept[i].budget > 0 {
			kept[i].give(kept[i].budget + r.budget)
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

// covers tells whether a run has all conditions of another one, and more.
func (r Run) covers(other Run) bool {
	if r.Study != other.Study || len(r.conditions) <= len(other.conditions) {
		return false
	}
	return !slices.ContainsFunc(other.conditions, func(c string) bool { return !slices.Contains(r.conditions, c) })
}
