// Package lab makes a design happen: it draws the blocks, runs each trial
// (launch, drive, observe, stop), repeats what was disturbed from outside,
// decides when enough is known, and keeps the list of everything on the host
// that is ours.
//
// It knows no particular question (packages under study do) and no particular
// platform beyond their list (platforms.go). It prints nothing: what happens is
// reported as [Event]s, what was measured goes to package record at once.
//
// # Two designs
//
// Rounds of slices (record.DesignRounds) answer small questions. An instance is one launch
// of a program under one condition. A round launches one instance of every condition, the
// baseline's twice, and keeps all of them up, frozen by the cgroup freezer but for the one
// that is loaded. A slice is a short stretch of load on one instance, or the one execution
// of a program that runs to its end. A strip is one slice of every instance, in an order
// that is drawn. What disturbs a strip disturbs all its slices, and what one launch happens
// to get (its memory, its ports) differs from round to round. A pilot settles how long
// slices are and how many strips a round has; the plan keeps that before anything counts.
//
// Blocks (record.DesignBlocks) are for what cannot be sliced: randomised complete blocks
// (Montgomery, Design and Analysis of Experiments, ch. 4). Every condition is launched and
// measured once in each block, the baseline twice, in an order drawn for that block.
//
// A run ends after a number of rounds or blocks, by its budget, or when its intervals are
// as narrow as was asked for: never by a verdict. docs/statistics.md has the model.
package lab

import (
	"cmp"
	"fmt"
	"time"

	"tare/record"
	"tare/workload"
)

// Design is what a study asks for.
type Design struct {
	Study  string
	Groups []Group
	Seed   int64
	Plan   record.Plan
	// Explain, where not nil, is asked once most of the budget has been spent whether what
	// was found is to be explained: by further groups, which the rest is then for. plan
	// is the run's, with what it has to keep of them. Asked about a run whose plan has
	// that already, it gives the same groups.
	Explain func(run record.Run) (groups []Group, plan record.Plan, err error)
}

// Group is one workload's conditions, which are compared with one another.
// Each group has blocks of its own, drawn and repeated independently.
type Group struct {
	Workload   string
	Conditions []Condition // the baseline is the one marked so
	// Once has the baseline executed once in each block. It is for studies whose
	// findings are levels (a share of something counted) and no effects: nothing
	// there rests on what the procedure finds between equals.
	Once bool
	// Drive is the only kind of load that its slices have; empty is all of its workload's.
	Drive string
}

// Executions is how many trials a block of the group has.
func (g Group) Executions() int {
	if g.Once {
		return len(g.Conditions)
	}
	return len(g.Conditions) + 1
}

// Condition is a condition with what it takes to make it happen.
type Condition struct {
	record.Condition
	Program workload.Workload
	Source  workload.Source
	// Further are the images besides, that its procedure launches programs from
	// ([Bench.ImageOf]).
	Further []workload.Source
	// Procedure, where not nil, is how its trials go; nil launches the program
	// once and lets the workload drive it.
	Procedure Procedure
	// Watch, where not nil, begins to watch the program of each trial of the default
	// procedure once it runs, and is ended after it was driven: what it tells of goes
	// into covariates and attachments, and its own weight into the figures, so that a
	// study compares such conditions with one another alone.
	Watch Watch
	// Around, where not nil, makes of the host what a trial is to find, before anything
	// of it begins, and is undone after all of it is gone.
	Around Around
	// Limit bounds one trial; 0 is the lab's.
	Limit time.Duration
	// Takes is how long a trial is expected to take, and Warms that of the warm-up; 0 is as long.
	Takes, Warms time.Duration
}

// Pass is how long one block of each of a design's groups is expected to take.
func (d Design) Pass() (all time.Duration) {
	for _, g := range d.Groups {
		all += g.Pass()
	}
	return all
}

// Expected is how long some blocks are expected to take, with the warm-up before them.
func (d Design) Expected(blocks int) time.Duration {
	all := time.Duration(blocks) * d.Pass()
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			all += cmp.Or(c.Warms, c.Takes)
		}
	}
	return all
}

// Pass is how long one block is expected to take.
func (g Group) Pass() (all time.Duration) {
	for _, c := range g.Conditions {
		all += c.Takes
		if c.Baseline && !g.Once {
			all += c.Takes
		}
	}
	return all
}

// Validate refuses a design that cannot be run, before anything is started.
func (d Design) Validate() error {
	if len(d.Groups) == 0 {
		return fmt.Errorf("nothing to weigh: the design has no conditions")
	}
	seen := map[string]bool{}
	for _, g := range d.Groups {
		baselines := 0
		for _, c := range g.Conditions {
			if seen[c.ID] {
				return fmt.Errorf("condition %s stands twice in the design", c.ID)
			}
			seen[c.ID] = true
			if c.Baseline {
				baselines++
			}
		}
		if baselines != 1 {
			return fmt.Errorf("%s has %d baselines, want exactly one", g.Workload, baselines)
		}
	}
	if d.Plan.Blocks == 0 && d.Plan.Budget == 0 && d.Plan.Precision == 0 {
		return fmt.Errorf("the design says neither how many blocks, nor how precise, nor how long")
	}
	return nil
}

// conditions lists all conditions of all groups.
func (d Design) conditions() []record.Condition {
	var all []record.Condition
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			all = append(all, c.Condition)
		}
	}
	return all
}

// Event is something that happened, for whoever shows progress.
type Event struct {
	Kind      EventKind
	Group     string // workload
	Condition string // ID
	Label     string // of the condition, as pages have it; empty where there is none
	Block     int
	Rounds    bool   // Block is a round, and 0 the pilot
	Text      string // one line
	Elapsed   time.Duration
	Left      time.Duration // estimate; 0 where there is none
}

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	Preparing EventKind = "preparing" // an image or a platform
	Started   EventKind = "started"   // a trial
	Reported  EventKind = "told"      // how far a long trial is ([Bench.Tell])
	Stripped  EventKind = "strip"     // a strip begins, which Text names
	Ended     EventKind = "ended"     // a trial
	Tainted   EventKind = "tainted"   // a trial, which will be made again
	Blocked   EventKind = "block"     // a block or round is complete
	Warned    EventKind = "warning"
)
