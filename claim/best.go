package claim

import (
	"errors"
	"fmt"

	"tare/record"
)

// Runs is where runs are kept: a [record.Store].
type Runs interface {
	// Runs lists all runs, newest first, without their trials.
	Runs() ([]record.Run, error)
	// Run gives one with its trials.
	Run(name string) (record.Run, error)
}

// Latest gives, by claim, the verdict of the newest complete run on this
// machine that judges it; a claim that none judges is absent. Judges are by
// study. The notes tell of runs that could not be judged, a line each, which is
// no reason to be silent on the others.
func Latest(runs Runs, judges map[string]Judge, here record.Host) (map[string]Judgement, []string, error) {
	found, open := map[string]Judgement{}, map[string]int{}
	for _, c := range all {
		if judges[c.Study] != nil {
			open[c.Study]++
		}
	}
	list, err := runs.Runs()
	if err != nil {
		return nil, nil, err
	}
	var notes []string
	for _, r := range list {
		// Once all of a study's claims are judged its older runs need not be read.
		if open[r.Study] == 0 || r.Status != record.Complete || !sameMachine(r.Host, here) {
			continue
		}
		run, err := runs.Run(r.ID)
		var pruned *record.NotFound
		if errors.As(err, &pruned) {
			continue // since it was listed
		}
		if err != nil {
			return nil, nil, err
		}
		judgements, err := Settle(run, judges[r.Study](run))
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		for _, j := range judgements {
			c, err := Lookup(j.Claim)
			if err != nil {
				return nil, nil, err
			}
			if c.Study != r.Study {
				notes = append(notes, fmt.Sprintf("run %s judges %s, which is for %s to decide: its word is left out", run.ID, c.ID, c.Study))
				continue
			}
			if _, judged := found[c.ID]; judged {
				continue
			}
			j.Since = changes(run.Host, here)
			found[c.ID] = j
			open[r.Study]--
		}
	}
	return found, notes, nil
}
