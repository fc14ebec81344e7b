package reproduction

import (
	"slices"
	"strings"
	"time"

	"tare/claim"
	"tare/record"
)

// State is how far a planned run is.
type State struct {
	// Decided says what decides its claims already; empty where nothing does.
	Decided string
	// Resume is the run that was stopped, or killed, and can be finished.
	Resume *record.Run
}

// Stored is what the store has.
type Stored struct {
	Runs   []record.Run // newest first, without their trials
	Latest map[string]claim.Judgement
	Here   record.Host
	// Short has a run count from the budget of an interval on. Otherwise it takes the whole one.
	Short bool
	// SameCode tells whether the code that measured a run is this tare's.
	SameCode func(record.Run) bool
	Killed   func(record.Run) bool
}

// StateOf finds what is there of a run: one by the same code, with the same conditions and at least the
// same budget. Verdicts that are decided are enough, unless the extent is Full.
func (s Stored) StateOf(r Run, extent Extent) State {
	enough := r.wanted
	if s.Short {
		enough = r.least
	}
	for _, run := range s.Runs {
		if !s.own(run) || run.Study != r.Study || !slices.Equal(plainLine(run.Command), plainLine(r.Command)) ||
			!r.isOf(run.Conditions) {
			continue
		}
		switch {
		case run.Status == record.Complete && (run.Plan.Budget == 0 || run.Plan.Budget >= enough):
			return State{Decided: run.ID}
		case run.Status == record.Interrupted || s.Killed(run):
			return State{Resume: &run}
		}
	}
	if extent == Full {
		return State{}
	}
	var by []string
	for _, c := range r.Claims {
		j, judged := s.Latest[c.ID]
		decided := judged &&
			(j.Verdict == claim.Confirmed || j.Verdict == claim.Refuted || j.Verdict == claim.Qualified)
		if !decided ||
			!slices.ContainsFunc(s.Runs, func(run record.Run) bool { return run.ID == j.Run && s.own(run) }) {
			return State{}
		}
		if !slices.Contains(by, j.Run) {
			by = append(by, j.Run)
		}
	}
	return State{Decided: strings.Join(by, ", ")}
}

// isOf tells whether a run that is planned has just these conditions.
func (r Run) isOf(conditions []record.Condition) bool {
	for _, c := range conditions {
		if !slices.Contains(r.Conditions, c.ID) {
			return false
		}
	}
	return len(conditions) == len(r.Conditions)
}

// Takes is how long a run takes at most. One that is finished has the budget that it was begun with.
func (s State) Takes(r Run) time.Duration {
	if s.Resume != nil && s.Resume.Plan.Budget > 0 {
		return s.Resume.Plan.Budget
	}
	return r.Takes
}

// own tells whether this tare could have made a run on this machine.
func (s Stored) own(run record.Run) bool {
	return s.SameCode(run) && claim.SameMachine(run.Host, s.Here)
}

// plainLine is a command line without the program, the state directory, --yes, and the budget: they do not
// change what is measured.
func plainLine(line []string) (plain []string) {
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] == "--home", line[i] == "--budget":
			i++ // and its value
		case line[i] == "--yes", strings.HasPrefix(line[i], "--home="), strings.HasPrefix(line[i], "--budget="):
		default:
			plain = append(plain, line[i])
		}
	}
	return plain
}
