package reproduction

import (
	"slices"
	"strings"

	"tare/claim"
	"tare/lab"
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
	// Blocks is how many undisturbed blocks a run has of each of its groups, at least.
	Blocks func(record.Run) (int, error)
}

// StateOf finds the stored run that a planned one would repeat: by the same code, with the same conditions, an
// interval, and at least as much time. Full takes no verdict in place of a run. Otherwise decided verdicts are
// enough. Unless the extent is Quick, their runs must have all of the conditions.
func (s Stored) StateOf(r Run, extent Extent) (State, error) {
	enough := r.wanted
	if s.Short {
		enough = r.least
	}
	for _, run := range s.Runs {
		if !s.own(run) || run.Study != r.Study || !slices.Equal(plainLine(run.Command), plainLine(r.Command)) ||
			lab.SameConditions(run.Conditions, r.Conditions) != nil {
			continue
		}
		switch {
		case run.Status == record.Complete && (run.Plan.Budget == 0 || max(run.Plan.Budget, run.Took()) >= enough):
			blocks, err := s.Blocks(run)
			if err != nil {
				return State{}, err
			}
			if blocks >= fewBlocks {
				return State{Decided: run.ID}, nil
			}
		case (run.Status == record.Interrupted || s.Killed(run)) && claim.Unchanged(run.Host, s.Here) == nil:
			return State{Resume: &run}, nil
		}
	}
	if extent == Full {
		return State{}, nil
	}
	var by []string
	for _, c := range r.Claims {
		j, judged := s.Latest[c.ID]
		decided := judged &&
			(j.Verdict == claim.Confirmed || j.Verdict == claim.Refuted || j.Verdict == claim.Qualified)
		if !decided || !slices.ContainsFunc(s.Runs, func(run record.Run) bool {
			return run.ID == j.Run && s.own(run) && (extent == Quick || r.isPartOf(run.Conditions))
		}) {
			return State{}, nil
		}
		if !slices.Contains(by, j.Run) {
			by = append(by, j.Run)
		}
	}
	return State{Decided: strings.Join(by, ", ")}, nil
}

// isPartOf tells whether some conditions have all that a run is planned with.
func (r Run) isPartOf(conditions []record.Condition) bool {
	return !slices.ContainsFunc(r.Conditions, func(c record.Condition) bool {
		return !slices.ContainsFunc(conditions, func(other record.Condition) bool { return other.ID == c.ID })
	})
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
