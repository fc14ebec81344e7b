package claim

import (
	"fmt"
	"time"

	"tare/record"
)

// Verdict is what has come of a claim on a host.
type Verdict string

// The verdicts.
const (
	Confirmed    Verdict = "confirmed"    // our figures, with their intervals, say the same
	Refuted      Verdict = "refuted"      // they say otherwise
	Qualified    Verdict = "qualified"    // they say the same within bounds that the judgement names
	Inconclusive Verdict = "inconclusive" // they could not tell
	NotYetRun    Verdict = "not yet run"  // there are none
)

// Judgement is the verdict that a run reached on a claim.
type Judgement struct {
	Claim   string // its ID
	Verdict Verdict
	Ours    string   // our figures in words, as a person would set them beside the published ones
	Figures []Figure // ours, with intervals; named as the published ones where they are of the same thing
	Rests   string   // one line: what the verdict rests on
	// NotRepresentative says why the figures do not carry over (an emulated
	// virtual machine); empty where they do.
	NotRepresentative string
	Run               string    // its ID
	When              time.Time // it ended
	Host              string    // in one line
	// Since names what of the host is no longer as the run found it; filled by
	// [Best], which knows the host as it is.
	Since []string
}

// Judge is how a study reaches verdicts from a run of its own. It judges what
// the run can decide and is silent on the rest.
type Judge func(record.Run) []Judgement

// Settle makes a run's judgements fit to be shown, and says why not where a
// judge was wrong. It says of which run, when and where they are, and takes
// back what may not be said: a claim whose paper contradicts itself is
// confirmed only with a qualification. Settled judgements stay as they are.
func Settle(run record.Run, judgements []Judgement) ([]Judgement, error) {
	var settled []Judgement
	seen := map[string]bool{}
	for _, j := range judgements {
		c, err := Lookup(j.Claim)
		if err != nil {
			return nil, fmt.Errorf("judge run %s: %w", run.ID, err)
		}
		j.Claim = c.ID
		if why := j.fault(seen[c.ID]); why != "" {
			return nil, fmt.Errorf("judge run %s: the judgement of %s %s", run.ID, c.ID, why)
		}
		seen[c.ID] = true
		if j.Verdict == Confirmed && c.Inconsistency != "" {
			j.Verdict = Qualified
			j.Rests += "; not confirmed outright, for the paper is not at one with itself"
		}
		j.Run, j.When, j.Host = run.ID, run.Finished, hostText(run.Host)
		if j.When.IsZero() {
			j.When = run.Started
		}
		settled = append(settled, j)
	}
	return settled, nil
}

// fault says why a judgement cannot stand; empty where it can.
func (j Judgement) fault(again bool) string {
	switch j.Verdict {
	case Confirmed, Refuted, Qualified, Inconclusive:
	default:
		return fmt.Sprintf("has the verdict %q, which is none that a run reaches", j.Verdict)
	}
	switch {
	case again:
		return "is there twice"
	case j.Rests == "":
		return "rests on nothing"
	case j.Verdict != Inconclusive && j.Ours == "":
		return "has no figure of ours beside it"
	}
	names := map[string]bool{}
	for _, f := range j.Figures {
		why := f.fault()
		if why == "" && names[f.Name] {
			why = "is there twice"
		}
		if why != "" {
			return fmt.Sprintf("has a figure %q that %s", f.Name, why)
		}
		names[f.Name] = true
	}
	return ""
}

// TooFew is why a verdict rests on nothing: n blocks make no interval.
func TooFew(n int) string { return fmt.Sprintf("too few blocks for an interval: %d", n) }
