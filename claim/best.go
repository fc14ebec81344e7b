package claim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"tare/record"
)

// Runs is where runs are kept: a [record.Store].
type Runs interface {
	// Runs lists all runs, newest first, without their trials.
	Runs() ([]record.Run, error)
	// Run gives one with its trials.
	Run(name string) (record.Run, error)
}

// Best gives, by claim, the best-founded verdict of the complete runs on this machine; a claim that
// none judges is absent. Runs by the newest measuring code come first ([record.Plan].Code), among
// them those of most blocks, among these the newest: a quick run hides no long one. Runs of one
// design on an unchanged host are pooled, and judged as one. Judges are by study. The notes tell of
// runs that could not be judged, a line each, which is no reason to be silent on the others.
func Best(runs Runs, judges map[string]Judge, here record.Host) (map[string]Judgement, []string, error) {
	list, err := runs.Runs()
	if err != nil {
		return nil, nil, err
	}
	l := ledger{runs: runs, judges: judges, here: here, found: map[string]Judgement{}}
	for _, study := range slices.Sorted(maps.Keys(judges)) {
		of := slices.DeleteFunc(slices.Clone(list), func(r record.Run) bool {
			return r.Study != study || r.Status != record.Complete || !SameMachine(r.Host, here)
		})
		slices.SortStableFunc(of, func(a, b record.Run) int { return cmp.Compare(b.Plan.Code, a.Plan.Code) })
		for len(of) > 0 && !l.isWhole(study) {
			n := slices.IndexFunc(of, func(r record.Run) bool { return r.Plan.Code != of[0].Plan.Code })
			if n < 0 {
				n = len(of)
			}
			if err := l.add(of[:n]); err != nil {
				return nil, nil, err
			}
			of = of[n:]
		}
	}
	return l.found, l.notes, nil
}

// ledger collects verdicts.
type ledger struct {
	runs   Runs
	judges map[string]Judge
	here   record.Host
	found  map[string]Judgement
	notes  []string
}

// isWhole reports whether all claims of a study are judged.
func (l *ledger) isWhole(study string) bool {
	return !slices.ContainsFunc(Of(study), func(c Claim) bool {
		_, judged := l.found[c.ID]
		return !judged
	})
}

// add judges runs of one study and one code, of which the list has no trials.
func (l *ledger) add(list []record.Run) error {
	var pools []pool
	for _, listed := range list {
		run, err := l.runs.Run(listed.ID)
		var pruned *record.NotFound
		if errors.As(err, &pruned) {
			continue // since it was listed
		}
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pools, func(p pool) bool { return alike(p[0], run) })
		if i < 0 {
			pools = append(pools, pool{run})
		} else {
			pools[i] = append(pools[i], run)
		}
	}
	slices.SortStableFunc(pools, func(a, b pool) int { return cmp.Compare(b.blocks(), a.blocks()) })
	for _, p := range pools {
		l.judge(p)
	}
	return nil
}

// judge enters the verdicts of a pool on claims that have none yet.
func (l *ledger) judge(p pool) {
	run := p.run()
	judgements, err := Settle(run, l.judges[run.Study](run))
	if err != nil {
		l.notes = append(l.notes, err.Error())
		return
	}
	for _, j := range judgements {
		c, err := Lookup(j.Claim)
		if err == nil && c.Study != run.Study {
			err = fmt.Errorf("run %s judges %s, which is for %s to decide: its word is left out", run.ID, c.ID, c.Study)
		}
		if err != nil {
			l.notes = append(l.notes, err.Error())
			continue
		}
		if _, judged := l.found[c.ID]; judged {
			continue
		}
		if len(p) > 1 {
			j.Rests += fmt.Sprintf("; %d runs pooled: %s", len(p), strings.Join(p.ids(), ", "))
		}
		j.Since = changes(run.Host, l.here)
		l.found[c.ID] = j
	}
}

// pool is runs of one design on one unchanged host, the newest first.
type pool []record.Run

func (p pool) ids() (all []string) {
	for _, r := range p {
		all = append(all, r.ID)
	}
	return all
}

// blocks are those in which something was measured, or the rounds.
func (p pool) blocks() (n int) {
	for _, r := range p {
		seen := map[int]bool{}
		for _, t := range r.Trials {
			if t.Block > 0 && t.Error == "" {
				seen[t.Block] = true
			}
		}
		n += len(seen)
	}
	return n
}

// run is the newest with the trials of all. The blocks of each come after those of older ones.
func (p pool) run() record.Run {
	whole := p[0]
	if len(p) == 1 {
		return whole
	}
	whole.Trials = nil
	before := 0
	for _, r := range slices.Backward(p) {
		last := before
		for _, t := range r.Trials {
			if t.Block > 0 {
				t.Block += before
				last = max(last, t.Block)
			}
			whole.Trials = append(whole.Trials, t)
		}
		before = last
	}
	return whole
}

// alike reports whether two runs measured the same in the same way.
func alike(a, b record.Run) bool {
	conditions := func(r record.Run) (all []record.Condition) {
		for _, c := range r.Conditions {
			c.InForce, c.Process, c.Packages = nil, nil, nil // of a launch, and of an image that is named
			all = append(all, c)
		}
		return all
	}
	return len(a.Conditions) > 0 && len(changes(a.Host, b.Host)) == 0 && a.Plan.Design == b.Plan.Design &&
		a.Plan.Level == b.Plan.Level && a.Plan.SmallestEffect == b.Plan.SmallestEffect &&
		reflect.DeepEqual(conditions(a), conditions(b))
}
