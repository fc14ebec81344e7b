package place

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tare/kernel/cgroup"
	"tare/probe/bursts"
	"tare/study/kit"
)

// ApplyOptions say how changes are tried.
type ApplyOptions struct {
	Pairs  int           // of a window with the change and one without; at least FewestPairs
	Window time.Duration // how long each is
	Settle time.Duration // after each change, before the window
	Seed   int64         // of the order within each pair
	// Journal is where changes are written down before they are made.
	Journal *Journal
	// Progress receives a line for each thing done; it may be nil.
	Progress func(string)
}

// FewestPairs is the least number of pairs by which a change is judged.
const FewestPairs = 6

// Trial is one action, tried.
type Trial struct {
	Action
	Concerned []Concerned
	Windows   []Window
	Judged
}

// Window is what one window with or without the change held.
type Window struct {
	Pair int
	With bool
	Span time.Duration
	// Waits are those of the containers that answer, for a CPU.
	Waits bursts.Histogram
	// Behind is how much of them was behind those that compute, a second.
	Behind time.Duration
	// Wakeups, a second, are theirs too: how much they had to do.
	Wakeups float64
	// Others is the CPU time of those that compute, in CPUs, and Critical that of
	// those that answer.
	Others, Critical float64
	// Each is what every container that is concerned had, in the order of [Trial.Concerned].
	Each []Had
}

// Applied is what came of trying a proposal's actions.
type Applied struct {
	Trials []Trial
	// Stopped is why it ended before its time, if it did.
	Stopped error
}

// Kept is the trial whose change stays, if one does.
func (a *Applied) Kept() (Trial, bool) {
	for _, t := range a.Trials {
		if t.Kept {
			return t, true
		}
	}
	return Trial{}, false
}

// Duration is about how long trying one action takes.
func (o ApplyOptions) Duration() time.Duration {
	return time.Duration(2*o.Pairs) * (o.Window + o.Settle)
}

// Check refuses options that could not give a result.
func (o ApplyOptions) Check() error {
	switch {
	case o.Pairs < FewestPairs:
		return kit.Usagef("%d pairs of windows: want at least %d, the fewest for a significant result", o.Pairs, FewestPairs)
	case o.Window < Shortest:
		return kit.Usagef("windows of %v: want at least %v", o.Window, Shortest)
	case o.Settle < 0:
		return kit.Usagef("settling for %v: want 0 or more", o.Settle)
	case o.Journal == nil:
		return errors.New("no journal to write changes down in")
	}
	return nil
}

// Apply tries a proposal's actions one after the other, until one helps. Each is applied and reverted in
// turns, in an order drawn for each pair of windows, and all containers concerned are compared.
// An action that helped is applied once more and stays; see [judge] for the rule. Any other is
// reverted, and so is everything where ctx ends or another program changes the same files.
// The error is what could not be applied or reverted; what was tried until then is returned with it.
func Apply(ctx context.Context, w *Watched, p *Proposal, o ApplyOptions) (*Applied, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	recording, err := w.record(bursts.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = recording.Stop() }() // its readings have been taken
	a := &Applied{}
	random := rand.New(rand.NewPCG(uint64(o.Seed), 0))
	for _, action := range p.Actions {
		if action.Not != "" {
			continue
		}
		all, err := concerned(w.Subjects, p.Victims, action)
		if err != nil {
			return a, err
		}
		t := &trial{
			Trial:     Trial{Action: action, Concerned: all},
			watched:   w,
			proposal:  p,
			options:   o,
			recording: recording,
			random:    random,
		}
		err = t.run(ctx)
		a.Trials = append(a.Trials, t.Trial)
		if errors.Is(err, ErrStopped) {
			a.Stopped = ErrStopped
		}
		if err == ErrStopped { // and nothing else beside it
			return a, nil
		}
		if err != nil || t.Kept {
			return a, err
		}
	}
	return a, nil
}

// trial is a Trial under way.
type trial struct {
	Trial
	watched   *Watched
	proposal  *Proposal
	options   ApplyOptions
	recording *bursts.Recording
	random    *rand.Rand
}

func (t *trial) changes() cgroup.Changes {
	var all cgroup.Changes
	for _, c := range t.Changes {
		all = append(all, c.Changes...)
	}
	return all
}

func (t *trial) run(ctx context.Context) (err error) {
	var entries []Entry
	for _, c := range t.Changes {
		name := t.watched.Subjects[c.Subject].Container.Name
		entries = append(entries, Entry{Time: time.Now().UTC(), Container: name, Changes: c.Changes})
	}
	if err := t.options.Journal.begin(entries); err != nil {
		return err
	}
	all := t.changes()
	defer func() {
		if t.Kept {
			return
		}
		if undo := all.Undo(); undo != nil {
			t.report("%v", undo)
			var foreign *cgroup.Foreign
			if !errors.As(err, &foreign) || !errors.As(undo, &foreign) { // or err reports it already
				err = errors.Join(err, undo)
			}
			if slices.ContainsFunc(all, cgroup.Change.Made) {
				return // the journal keeps it, for tare place --undo
			}
		}
		if end := t.options.Journal.end(len(entries), false); end != nil {
			err = errors.Join(err, end)
		}
	}()
	for pair := range t.options.Pairs {
		first := t.random.IntN(2) == 0
		for _, with := range []bool{first, !first} {
			if err := t.window(ctx, pair, with, all); err != nil {
				return err
			}
		}
		t.report("%s: pair %d of %d", t.Kind, pair+1, t.options.Pairs)
	}
	t.Judged = judge(
		t.Windows,
		fairShare(t.watched.Subjects, t.proposal.Victims, t.proposal.Culprits),
		t.Concerned,
		t.options.Seed,
	)
	if !t.Kept {
		return nil
	}
	if err := all.Make(); err != nil {
		t.Kept, t.Why = false, "it helped, but could not be applied again: "+err.Error()
		return err
	}
	return t.options.Journal.end(len(entries), true)
}

func (t *trial) window(ctx context.Context, pair int, with bool, all cgroup.Changes) error {
	set := all.Undo
	if with {
		set = all.Make
	}
	if err := set(); err != nil {
		return err
	}
	if !kit.Wait(ctx, t.options.Settle) {
		return ErrStopped
	}
	before, err := t.recording.Read()
	if err != nil {
		return err
	}
	if !kit.Wait(ctx, t.options.Window) {
		return ErrStopped
	}
	after, err := t.recording.Read()
	if err != nil {
		return err
	}
	t.Windows = append(t.Windows, windowOf(after.Since(before), pair, with, t.proposal, t.Concerned))
	return nil
}

// windowOf adds up what both sides had in a window, and what each had that is concerned.
func windowOf(r *bursts.Reading, pair int, with bool, p *Proposal, all []Concerned) Window {
	w := Window{Pair: pair, With: with, Span: r.Span(), Each: had(r, all)}
	seconds := r.Span().Seconds()
	for _, i := range p.Victims {
		g := &r.Groups[i]
		w.Waits.Merge(g.AllWaits())
		for _, b := range g.Behind {
			if slices.Contains(p.Culprits, b.Group) {
				w.Behind += time.Duration(float64(b.Time) / seconds)
			}
		}
		w.Wakeups += float64(g.Wakeups) / seconds
		w.Critical += g.CPUTime.Seconds() / seconds
	}
	for _, i := range p.Culprits {
		w.Others += r.Groups[i].CPUTime.Seconds() / seconds
	}
	return w
}

func (t *trial) report(format string, args ...any) {
	if t.options.Progress != nil {
		t.options.Progress(fmt.Sprintf(format, args...))
	}
}
