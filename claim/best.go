package claim

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"tare/record"
)

// Runs is where runs are kept: a [record.Store].
type Runs interface {
	// Runs lists all runs, newest first, without their trials.
	Runs() ([]record.Run, error)
	// Run gives one with its trials.
	Run(name string) (record.Run, error)
}

// Best gives, by claim, the verdict of the best-founded of the complete runs on this machine, as [Founded]
// has them; a claim that none judges is absent. Judges are by study. The notes tell of runs that could
// not be judged, a line each, which is no reason to be silent on the others.
func Best(runs Runs, judges map[string]Judge, here record.Host) (map[string]Judgement, []string, error) {
	l := ledger{judges: judges, here: here, found: map[string]Judgement{}}
	for _, study := range slices.Sorted(maps.Keys(judges)) {
		for p, err := range Founded(runs, study, here) {
			if err != nil {
				return nil, nil, err
			}
			if l.judge(p); l.isWhole(study) {
				break
			}
		}
	}
	return l.found, l.notes, nil
}

// Founded gives the complete runs of a study on this machine, the best-founded first. Runs by the
// newest measuring code come first ([record.Plan].Code). Among them one with an interval comes before those
// that have a part of its conditions, then that of most blocks, of the longest measuring, and the newest.
// So a quick run hides no long one. Runs of one design on an unchanged host are pooled. Only as many are
// read as are asked for.
func Founded(runs Runs, study string, here record.Host) iter.Seq2[Pool, error] {
	return func(yield func(Pool, error) bool) {
		list, err := runs.Runs()
		if err != nil {
			yield(nil, err)
			return
		}
		list = slices.DeleteFunc(slices.Clone(list), func(r record.Run) bool {
			return r.Study != study || r.Status != record.Complete || !SameMachine(r.Host, here)
		})
		slices.SortStableFunc(list, func(a, b record.Run) int { return cmp.Compare(b.Plan.Code, a.Plan.Code) })
		for len(list) > 0 {
			n := slices.IndexFunc(list, func(r record.Run) bool { return r.Plan.Code != list[0].Plan.Code })
			if n < 0 {
				n = len(list)
			}
			pools, err := pooled(runs, list[:n])
			if err != nil {
				yield(nil, err)
				return
			}
			for _, p := range pools {
				if !yield(p, nil) {
					return
				}
			}
			list = list[n:]
		}
	}
}

// pooled pools runs of one study and one code, of which the list has no trials.
func pooled(runs Runs, list []record.Run) (pools []Pool, err error) {
	for _, listed := range list {
		run, err := runs.Run(listed.ID)
		var pruned *record.NotFound
		if errors.As(err, &pruned) {
			continue // since it was listed
		}
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(pools, func(p Pool) bool { return alike(p[0], run) })
		if i < 0 {
			pools = append(pools, Pool{run})
		} else {
			pools[i] = append(pools[i], run)
		}
	}
	return bestFirst(pools), nil
}

// bestFirst orders pools as [Founded] has them, of those that come newest first.
func bestFirst(pools []Pool) (ordered []Pool) {
	for len(pools) > 0 {
		best := -1
		for i, p := range pools {
			switch {
			case slices.ContainsFunc(pools, func(other Pool) bool { return other.covers(p) }):
			case best < 0 || p.blocks() > pools[best].blocks(),
				p.blocks() == pools[best].blocks() && p.took() > pools[best].took():
				best = i
			}
		}
		ordered, pools = append(ordered, pools[best]), slices.Delete(pools, best, best+1)
	}
	return ordered
}

// covers tells whether a pool has an interval, and all conditions of another one and more.
func (p Pool) covers(other Pool) bool {
	const interval = 3 // blocks
	own, others := p[0].Conditions, other[0].Conditions
	return len(own) > len(others) && p.blocks() >= interval &&
		!slices.ContainsFunc(others, func(c record.Condition) bool {
			return !slices.ContainsFunc(own, func(o record.Condition) bool { return o.ID == c.ID })
		})
}

// ledger collects verdicts.
type ledger struct {
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

// judge enters the verdicts of a pool on claims that have none yet.
func (l *ledger) judge(p Pool) {
	run := p.Run()
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
			j.Rests += fmt.Sprintf("; %d runs pooled: %s", len(p), strings.Join(p.IDs(), ", "))
		}
		j.Since = changes(run.Host, l.here)
		l.found[c.ID] = j
	}
}

// Pool is runs of one design on one unchanged host, the newest first.
type Pool []record.Run

// IDs are those of its runs.
func (p Pool) IDs() (all []string) {
	for _, r := range p {
		all = append(all, r.ID)
	}
	return all
}

// blocks are those in which something was measured without a disturbance, or the rounds.
func (p Pool) blocks() (n int) {
	for _, r := range p {
		n += Blocks(r)
	}
	return n
}

// Blocks is how many blocks, or rounds, a run has of each of its groups, at least, in which nothing was
// disturbed. Trials that failed are among them: a condition that always fails does so again.
func Blocks(run record.Run) int {
	type place struct {
		group string
		block int
	}
	last, disturbed := map[place]int{}, map[place]bool{}
	for _, t := range run.Trials {
		at := place{t.Workload, t.Block}
		last[at] = max(last[at], t.Attempt)
	}
	for _, t := range run.Trials {
		at := place{t.Workload, t.Block}
		if t.Block == 0 || t.Attempt == record.MadeAgain || t.Attempt != last[at] {
			continue
		}
		disturbed[at] = disturbed[at] || len(t.Taint) > 0
	}
	count := map[string]int{}
	for _, c := range run.Conditions {
		count[c.Workload] = 0
	}
	for at := range disturbed {
		if !disturbed[at] {
			count[at.group]++
		}
	}
	if len(count) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(count)))
}

// took is for how long its trials measured.
func (p Pool) took() (all time.Duration) {
	for _, r := range p {
		for _, t := range r.Trials {
			if t.Attempt != record.MadeAgain && len(t.Taint) == 0 {
				all += t.Elapsed
			}
		}
	}
	return all
}

// Run is the newest with the trials of all. The blocks of each come after those of older ones. A pool may
// have been judged once for each of its runs, and measuring went on where nothing was decided. So the part
// of intervals that may miss is divided by their number.
func (p Pool) Run() record.Run {
	whole := p[0]
	if len(p) == 1 {
		return whole
	}
	whole.Plan.Level = 1 - (1-whole.Plan.Level)/float64(len(p))
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
