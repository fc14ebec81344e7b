package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sort"
	"strings"
	"time"

	"tare/image"
	"tare/kernel/accounting"
	"tare/kernel/filesystem"
	"tare/kernel/socket"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

const (
	// maxTries bounds how often a tainted trial is executed in all within its block.
	maxTries = 3
	// maxFailures in a row of one condition end the run: it will not mend itself.
	maxFailures = 3
	// DefaultPilot is the number of blocks from which Stein's second stage
	// takes its variance. After fewer, the t interval that is printed over all
	// blocks covers too seldom (docs/statistics.md).
	DefaultPilot = 10
)

// Lab is what a run needs of the world. Its function fields are replaced in
// tests by fakes.
type Lab struct {
	Store     *record.Store
	Platforms func(name string) (platform.Platform, error)
	// Image provides the image of a source.
	Image func(ctx context.Context, src workload.Source) (image.Image, error)
	// Generate runs a load program in the load generator's place; netns is the path
	// that keeps the network namespace to run it in, empty for the host's.
	Generate func(ctx context.Context, img image.Image, netns string, args []string) ([]byte, error)
	// Boxes makes a bound around programs of this host's kernel; nil makes none.
	Boxes func(ctx context.Context, spec platform.BoxSpec) (platform.Box, error)
	// Watch is called with what happens; Interim is given the run so far after each block or round,
	// and every few seconds as long as a group has no complete round.
	Watch   func(Event)
	Interim func(run record.Run, group string)
	// TrialLimit bounds one trial; 0 is DefaultTrialLimit.
	TrialLimit time.Duration
	// Now is the clock, and Rest waits; nil are the host's.
	Now  func() time.Time
	Rest func(time.Duration)
	// Proc is where the host's accounts are read; empty is /proc.
	Proc string
	// PortFree tells whether nobody on the host listens at a TCP port; nil tries to.
	PortFree func(port int) bool
	// Judge gives the causes of taint, of a condition that was seen with so much steal before;
	// nil judges by the thresholds of this package.
	Judge func(beside accounting.Interval, ownSteal float64, memoryLimited bool) []string
}

func (l *Lab) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

func (l *Lab) rest(d time.Duration) {
	if l.Rest != nil {
		l.Rest(d)
		return
	}
	time.Sleep(d)
}

func (l *Lab) portFree(port int) bool {
	if l.PortFree != nil {
		return l.PortFree(port)
	}
	return socket.PortFree(port)
}

func (l *Lab) judge(beside accounting.Interval, ownSteal float64, memoryLimited bool) []string {
	if l.Judge != nil {
		return l.Judge(beside, ownSteal, memoryLimited)
	}
	return causes(beside, ownSteal, memoryLimited)
}

func (l *Lab) tell(e Event) {
	if l.Watch != nil {
		l.Watch(e)
	}
}

// Interrupted says that a run ended before its plan did; what was measured is
// kept, and the run can be resumed.
type Interrupted struct {
	Run    string
	Reason string
}

func (i *Interrupted) Error() string { return i.Reason }

// runner is the state of one run.
type runner struct {
	lab       *Lab
	design    Design
	run       record.Run
	name      string // of instances: unique on the host, for ever
	platforms map[string]platform.Platform
	images    map[string]image.Image // by condition
	further   map[workload.Source]image.Image
	inForce   map[string]bool // conditions whose settings have been read back
	ownSteal  ownSteal
	boots     map[string]bool // of machines, that have been reported
	failures  map[string]int  // in a row, by condition
	trials    int
	groups    map[string]*progress
	strips    strips
	shown     map[string]time.Time // when a group without a complete round was last shown
	began     time.Time
	// phase is the part of the budget that is being spent.
	phase phase
}

// progress is how far one group is.
type progress struct {
	// rounds tells that it is measured by rounds, which blocks then counts, and executions
	// that each slice of them is an execution. inPairs tells that a round has the baseline
	// and one condition, for want of memory.
	rounds, executions, inPairs bool

	blocks  int           // complete
	tainted int           // of them, those that stayed so
	attempt map[int]int   // attempts made, by block
	spent   time.Duration // on all its blocks
	piloted time.Duration // of that, by the pilot of its rounds
	target  int           // blocks wanted; 0 while not known
	// targetIsLimit tells that tare set the target, so that a group without a budget ends.
	targetIsLimit bool
	warm          bool
	done          bool
}

// Code is the version of what measures. It rises where figures of before and after a change are not
// to be taken together.
const Code = 2

// Run carries out a design and returns the run as recorded. The error is nil
// where the plan was fulfilled, *Interrupted where what was measured stands but
// more was wanted, and any other where nothing comparable was measured.
func (l *Lab) Run(ctx context.Context, d Design, run record.Run) (record.Run, error) {
	if err := d.Validate(); err != nil {
		return run, err
	}
	d.Plan.Code = Code
	run.Study, run.Seed, run.Plan = d.Study, d.Seed, d.Plan
	run.Conditions = d.conditions()
	r := newRunner(l, d, run)
	return r.carryOut(ctx, func() error { return l.Store.Begin(r.run) })
}

// Resume goes on with a run that was interrupted. The design must be the one
// that the run began with.
func (l *Lab) Resume(ctx context.Context, d Design, run record.Run) (record.Run, error) {
	if run.Status == record.Complete {
		return run, fmt.Errorf("run %s is complete: nothing to resume", run.ID)
	}
	if run.Status == record.Imported {
		return run, fmt.Errorf("run %s was imported: it cannot be resumed", run.ID)
	}
	if run.Plan.Code != Code {
		return run, fmt.Errorf("run %s cannot be resumed: other code began it: measure it anew", run.ID)
	}
	// A run of a list has no trials, and what was measured would be measured again.
	whole, err := l.Store.Run(run.ID)
	if err != nil {
		return run, err
	}
	run.Trials = whole.Trials
	d.Seed, d.Plan = run.Seed, run.Plan
	now := l.now()
	d.Plan.Paused += max(0, now.Sub(leftOff(run)))
	d.Plan.Resumed = now
	if err := d.Validate(); err != nil {
		return run, err
	}
	explained, err := explainedBefore(&d, run)
	if err != nil {
		return run, err
	}
	if err := SameConditions(run.Conditions, d.conditions()); err != nil {
		return run, fmt.Errorf("run %s cannot be resumed: %w", run.ID, err)
	}
	r := newRunner(l, d, run)
	r.phase.explaining = explained
	r.recover()
	return r.carryOut(ctx, func() error {
		if err := sameThings(run.Conditions, r.design.conditions()); err != nil {
			return fmt.Errorf("run %s cannot be resumed: %w", run.ID, err)
		}
		if err := l.Store.Resume(run.ID); err != nil {
			return err
		}
		r.run.Plan = r.design.Plan
		return l.Store.SetPlan(run.ID, r.run.Plan)
	})
}

// leftOff is when a run was left: where it was killed, its last trial's end, or when it
// was last resumed, if no trial has ended since: the pause before that is counted.
func leftOff(run record.Run) time.Time {
	if !run.Finished.IsZero() {
		return run.Finished
	}
	at := run.Started
	if run.Plan.Resumed.After(at) {
		at = run.Plan.Resumed
	}
	for _, t := range run.Trials {
		if end := endOf(t); end.After(at) {
			at = end
		}
	}
	return at
}

// endOf is when a trial ended; of one that was killed, the end of its last slice.
func endOf(t record.Trial) time.Time {
	end := t.Started.Add(t.Elapsed)
	for _, s := range t.Slices {
		if at := s.Started.Add(s.Window); at.After(end) {
			end = at
		}
	}
	return end
}

// sameThings refuses to go on with another program or another runtime under the
// name of the first.
func sameThings(was, is []record.Condition) error {
	known := map[string]record.Condition{}
	for _, c := range was {
		known[c.ID] = c
	}
	for _, c := range is {
		old := known[c.ID]
		if old.Image != "" && old.Image != c.Image {
			return fmt.Errorf("the image of %s was %s and is %s now", c.ID, old.Image, c.Image)
		}
		if old.Version != "" && old.Version != c.Version {
			return fmt.Errorf("%s was %s and is %s now", c.Platform, old.Version, c.Version)
		}
		if old.Process != nil && c.Process != nil && !reflect.DeepEqual(old.Process, c.Process) {
			return fmt.Errorf("the program of %s was executed otherwise (arguments, environment, directory or user): give the environment that it had, or measure it anew", c.ID)
		}
	}
	return nil
}

func newRunner(l *Lab, d Design, run record.Run) *runner {
	// Of a run that is resumed, what was left before has the names of then.
	name := platform.Unique(run.ID[strings.LastIndexByte(run.ID, '-')+1:])
	r := &runner{
		lab: l, design: d, run: run, name: name,
		platforms: map[string]platform.Platform{},
		images:    map[string]image.Image{}, further: map[workload.Source]image.Image{},
		inForce: map[string]bool{}, boots: map[string]bool{}, ownSteal: ownSteal{},
		failures: map[string]int{},
		groups:   map[string]*progress{},
	}
	for _, g := range d.Groups {
		r.groups[g.Workload] = &progress{attempt: map[int]int{}, target: d.Plan.Blocks}
	}
	return r
}

// SameConditions refuses to go on with other conditions, or with others under the names of the first.
func SameConditions(was, is []record.Condition) error {
	left := map[string]record.Condition{}
	for _, c := range was {
		left[c.ID] = c
	}
	for _, c := range is {
		old, ok := left[c.ID]
		switch {
		case !ok:
			return fmt.Errorf("condition %s was not part of it", c.ID)
		case !maps.Equal(old.Factors, c.Factors), !maps.Equal(old.Params, c.Params), old.Setting != c.Setting:
			return fmt.Errorf("condition %s was another one: measure it anew", c.ID)
		}
		delete(left, c.ID)
	}
	for id := range left {
		return fmt.Errorf("condition %s is not there any more", id)
	}
	return nil
}

// recover takes up the state that a run's trials show. A block that was cut
// short is executed again, as another attempt.
func (r *runner) recover() {
	// Names go on where they ended; the trial that was cut short had one too.
	r.trials = len(r.run.Trials) + 1
	for _, g := range r.design.Groups {
		p := r.groups[g.Workload]
		if r.recoverRounds(g, p) {
			continue
		}
		p.warm = false // caches have gone cold since
		p.target = max(p.target, r.run.Plan.Targets[g.Workload])
		tainted := map[int]map[int]bool{}
		done := map[int]map[int]int{}
		for _, t := range r.run.Trials {
			if t.Workload != g.Workload || t.Block == 0 {
				continue
			}
			p.spent += t.Elapsed
			if t.Attempt == record.MadeAgain {
				continue
			}
			if done[t.Block] == nil {
				done[t.Block] = map[int]int{}
			}
			done[t.Block][t.Attempt]++
			if len(t.Taint) > 0 {
				if tainted[t.Block] == nil {
					tainted[t.Block] = map[int]bool{}
				}
				tainted[t.Block][t.Attempt] = true
			}
			p.attempt[t.Block] = max(p.attempt[t.Block], t.Attempt)
		}
		for p.blocks+1 <= len(done) && done[p.blocks+1][p.attempt[p.blocks+1]] == g.Executions() {
			p.blocks++
			if tainted[p.blocks][p.attempt[p.blocks]] {
				p.tainted++
			}
		}
	}
}

// carryOut is the life of a run: prepare, begin, warm up, blocks, finish.
func (r *runner) carryOut(ctx context.Context, begin func() error) (record.Run, error) {
	defer r.release(ctx)
	if err := r.prepare(ctx); err != nil {
		return r.run, err
	}
	guarded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	every := time.NewTicker(time.Second)
	defer every.Stop()
	go guard(guarded, every.C, hostMemory, cancel)
	bounded, release := r.design.bounded(guarded)
	defer release()
	defer r.waitWithin(bounded)()
	if err := begin(); err != nil {
		return r.run, err
	}
	r.began = r.lab.now()
	err := r.measureAll(bounded)
	if busy := (*record.Busy)(nil); errors.As(err, &busy) && bounded.Err() != nil {
		err = also(context.Cause(bounded), busy) // what has ended the wait
	}
	status, reason := record.Complete, ""
	if err != nil {
		reason = firstLine(err.Error())
		status = record.Interrupted
		// What was stopped from outside can be resumed, however early; what
		// failed by itself before anything could be compared will fail again.
		// A budget that was too short once will be again.
		outside := errors.Is(err, platform.ErrGone) || guarded.Err() != nil
		if !r.measuredAnything() && !outside {
			status = record.Failed
		}
	}
	if ferr := r.lab.Store.Finish(r.run.ID, status, reason); ferr != nil && err == nil {
		err = ferr
	}
	stored, lerr := r.lab.Store.Run(r.run.ID)
	if lerr == nil {
		r.run = stored
	} else if err == nil {
		err = lerr
	}
	if err != nil && status == record.Interrupted {
		return r.run, &Interrupted{Run: r.run.ID, Reason: reason}
	}
	return r.run, err
}

// lastWrites is how long what was measured may wait to be written when its run has ended.
const lastWrites = 10 * time.Second

// waitWithin has the store wait for other writers as long as a run goes on, and for
// [lastWrites] beyond, until stop is called. What was measured is kept in memory meanwhile.
func (r *runner) waitWithin(ctx context.Context) (stop func()) {
	waits, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() { time.AfterFunc(lastWrites, cancel) })
	r.lab.Store.Waits = waits
	r.lab.Store.OnBusy = func(busy *record.Busy) bool {
		r.lab.tell(Event{Kind: Warned, Text: "what was measured waits to be written: " + busy.Error()})
		return waits.Err() == nil
	}
	return func() {
		unwatch()
		cancel()
		r.lab.Store.Waits, r.lab.Store.OnBusy = nil, nil
	}
}

func (r *runner) measuredAnything() bool {
	for _, p := range r.groups {
		if p.blocks > 0 {
			return true
		}
	}
	return false
}

// prepare makes images and platforms ready. Nothing is recorded before it has
// succeeded: what cannot run is no run.
func (r *runner) prepare(ctx context.Context) error {
	ctx, cancel := r.design.preparing(ctx)
	defer cancel()
	if err := r.prepareGroups(ctx, r.design.Groups); err != nil {
		return err
	}
	r.run.Conditions, r.run.Plan = r.design.conditions(), r.design.Plan
	return nil
}

func (r *runner) prepareGroups(ctx context.Context, groups []Group) error {
	images := map[workload.Source]image.Image{}
	asked := map[string]platform.Platform{}
	for gi := range groups {
		g := &groups[gi]
		for ci := range g.Conditions {
			c := &g.Conditions[ci]
			img, err := r.provide(ctx, images, g.Workload, c.Source)
			if err != nil {
				return err
			}
			if err := fit(*c, img, r.run.Host); err != nil {
				return err
			}
			r.images[c.ID] = img
			c.Image, c.ImageRef, c.Packages = img.Digest, img.Name, img.Packages
			p, ok := asked[c.Platform]
			if !ok {
				var err error
				if p, err = r.lab.Platforms(c.Platform); err != nil {
					return err
				}
				if err := p.Check(ctx); err != nil {
					return fmt.Errorf("platform %s: %w", c.Platform, unready(ctx, err))
				}
				asked[c.Platform] = p
			}
			// What was chosen where the name left it open is part of every result: the
			// engine of "vm/bare".
			c.Platform = p.Name()
			r.platforms[c.Platform] = p
			if c.Process, err = processOf(*c, p, img); err != nil {
				return err
			}
			if err := room(ctx, *c, p, filesystem.At); err != nil {
				return err
			}
			c.Version = p.Version(ctx)
			c.NotRepresentative = platform.NotRepresentative(p)
			r.lab.tell(Event{Kind: Preparing, Group: g.Workload, Condition: c.ID, Text: g.Workload + " for " + c.Platform})
			if err := p.Prepare(ctx, img); err != nil {
				return fmt.Errorf("platform %s: image of %s: %w", c.Platform, g.Workload, unready(ctx, err))
			}
			for _, src := range c.Further {
				if r.further[src], err = r.provide(ctx, images, g.Workload, src); err != nil {
					return err
				}
				if err := p.Prepare(ctx, r.further[src]); err != nil {
					return fmt.Errorf("platform %s: further image of %s: %w", c.Platform, g.Workload, unready(ctx, err))
				}
			}
		}
	}
	for gi := range groups {
		if err := r.chooseDesign(ctx, &groups[gi]); err != nil {
			return err
		}
	}
	return nil
}

// provide finds or makes the image of a source, once a run.
func (r *runner) provide(
	ctx context.Context,
	images map[workload.Source]image.Image,
	of string,
	src workload.Source,
) (image.Image, error) {
	if img, ok := images[src]; ok {
		return img, nil
	}
	r.lab.tell(Event{Kind: Preparing, Group: of, Text: "image of " + of})
	img, err := r.lab.Image(ctx, src)
	if err != nil {
		return image.Image{}, fmt.Errorf("image of %s: %w", of, unready(ctx, err))
	}
	for _, w := range img.Warnings {
		r.lab.tell(Event{Kind: Warned, Group: of, Text: "image of " + of + ": " + w})
	}
	images[src] = img
	return img, nil
}

func (r *runner) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	names := make([]string, 0, len(r.platforms))
	for name := range r.platforms {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := r.platforms[name].Release(ctx); err != nil {
			r.lab.tell(Event{Kind: Warned, Text: "platform " + name + ": " + firstLine(err.Error()) + "; `tare clean` removes what is left"})
		}
	}
}

// measure executes blocks, one group after the other, until each has what the
// plan wants.
func (r *runner) measure(ctx context.Context) error {
	for {
		active := false
		for _, g := range r.design.Groups {
			p := r.groups[g.Workload]
			if p.done = p.done || r.enough(g); p.done {
				continue
			}
			active = true
			if p.rounds {
				if err := r.advance(ctx, g, p); err != nil {
					return err
				}
				continue
			}
			if !p.warm {
				if err := r.warmUp(ctx, g); err != nil {
					return err
				}
				p.warm = true
			}
			if err := r.completeBlock(ctx, g, p); err != nil {
				return err
			}
		}
		if !active {
			return nil
		}
	}
}

// enough is the stop rule for one group, asked between blocks.
func (r *runner) enough(g Group) bool {
	p, plan := r.groups[g.Workload], r.design.Plan
	if p.rounds {
		return r.enoughRounds(g, p)
	}
	// Blocks that stayed tainted tell nothing, and there is a bound to waiting
	// for a quieter host.
	if p.target > 0 && (p.blocks-p.tainted >= p.target || p.blocks >= 2*p.target) {
		return true
	}
	if plan.Budget > 0 && p.blocks > 0 {
		next := p.spent / time.Duration(p.blocks)
		if r.outOfTime(next) {
			return true
		}
	}
	return false
}

// warmUp executes every condition once: page caches, engines and the CPU's
// frequency settle, and a condition that cannot run shows itself before
// anything is measured. Its trials are kept as block 0 and not analysed.
func (r *runner) warmUp(ctx context.Context, g Group) error {
	for i, c := range g.Conditions {
		r.lab.tell(Event{Kind: Started, Group: g.Workload, Condition: c.ID, Label: c.Label, Text: "warm-up", Left: r.left()})
		t, err := r.runTrial(ctx, c, 0, 1)
		t.Position = i
		if err != nil {
			return fmt.Errorf("%s in the warm-up: %w", c.ID, err)
		}
		if _, err := r.lab.Store.AddTrial(r.run.ID, t); err != nil {
			return err
		}
		if t.Error != "" {
			return fmt.Errorf("%s: %s", c.ID, t.Error)
		}
		r.lab.tell(Event{Kind: Ended, Group: g.Workload, Condition: c.ID, Elapsed: t.Elapsed})
		if !r.inForce[c.ID] {
			r.lab.tell(Event{Kind: Warned, Group: g.Workload, Text: c.ID + ": its settings could not be read back so far: the program ended sooner"})
		}
	}
	return nil
}

// completeBlock executes the group's next block.
func (r *runner) completeBlock(ctx context.Context, g Group, p *progress) error {
	block := p.blocks + 1
	p.attempt[block]++
	began := r.lab.now()
	taint, err := r.executeBlock(ctx, g, block, p.attempt[block])
	p.spent += r.lab.now().Sub(began)
	if err != nil {
		return err
	}
	if len(taint) > 0 {
		p.tainted++
	}
	p.blocks = block
	r.setTarget(g, p)
	if len(taint) > 0 && !r.enough(g) {
		r.lab.tell(
			Event{
				Kind:  Warned,
				Group: g.Workload,
				Block: block,
				Text:  fmt.Sprintf("%s: block %d stays disturbed (%s) and counts for nothing: one more is measured", g.Workload, block, taint[0]),
			},
		)
	}
	r.lab.tell(Event{Kind: Blocked, Group: g.Workload, Block: block, Left: r.left()})
	if r.lab.Interim != nil {
		if run, err := r.lab.Store.Run(r.run.ID); err == nil {
			r.lab.Interim(run, g.Workload)
		}
	}
	return nil
}

// executeBlock executes all trials of a block in an order that is drawn, and, when they are
// done, again those that were tainted, within a bound: the others of the block stand. Taint is
// judged alike in all conditions and before anything is seen of a trial's result. The taint
// returned is what no repetition was without.
func (r *runner) executeBlock(ctx context.Context, g Group, block, attempt int) (taint []string, err error) {
	due, position := order(g, r.design.Seed, block, attempt), 0
	for try := 1; len(due) > 0; try++ {
		var again []slot
		for i, s := range due {
			c := g.Conditions[s.condition]
			r.lab.tell(
				Event{Kind: Started, Group: g.Workload, Condition: c.ID, Label: c.Label, Block: block, Left: r.left()},
			)
			t, err := r.runTrial(ctx, c, block, attempt)
			t.Position, t.Replicate = position, s.replicate
			position++
			if err != nil {
				// Interrupted, or the platform is gone: the trial tells nothing of
				// its condition, and the block will be executed again.
				return nil, fmt.Errorf("%s in block %d: %w", c.ID, block, err)
			}
			// What is due before it is: the rest, and those that wait to be made again.
			ahead := time.Duration(len(due) - i - 1 + len(again))
			repeats := len(t.Taint) > 0 && try < maxTries && !r.outOfTime(t.Elapsed*(ahead+1))
			if repeats {
				t.Attempt = record.MadeAgain
				again = append(again, s)
			} else {
				taint = append(taint, t.Taint...)
			}
			if _, err := r.lab.Store.AddTrial(r.run.ID, t); err != nil {
				return nil, err
			}
			if repeats {
				r.lab.tell(
					Event{
						Kind:      Tainted,
						Group:     g.Workload,
						Condition: c.ID,
						Label:     c.Label,
						Block:     block,
						Text:      t.Taint[0],
					},
				)
			}
			r.lab.tell(
				Event{
					Kind:      Ended,
					Group:     g.Workload,
					Condition: c.ID,
					Label:     c.Label,
					Block:     block,
					Elapsed:   t.Elapsed,
					Text:      t.Error,
				},
			)
			if t.Error == "" {
				r.failures[c.ID] = 0
				continue
			}
			r.failures[c.ID]++
			if r.failures[c.ID] >= maxFailures {
				return nil, fmt.Errorf("%s failed %d times in a row: %s", c.ID, maxFailures, t.Error)
			}
		}
		due = again
	}
	return taint, nil
}

// outOfTime says that what takes so long would exceed the budget.
func (r *runner) outOfTime(takes time.Duration) bool {
	budget := r.budget()
	return budget > 0 && r.lab.now().Sub(r.began)+takes > budget
}

// setTarget asks Stein's second stage, once the pilot is complete, how many
// blocks the wanted precision takes.
func (r *runner) setTarget(g Group, p *progress) {
	plan := r.design.Plan
	if plan.Precision == 0 || plan.Blocks > 0 || p.target > 0 || p.blocks-p.tainted < plan.PilotBlocks {
		return
	}
	run, err := r.lab.Store.Run(r.run.ID)
	if err != nil {
		return
	}
	wanted := overhead.SteinBlocks(
		run,
		g.Workload,
		overhead.Options{SmallestEffect: plan.SmallestEffect, Level: plan.Level},
		plan.Precision,
	)
	if wanted == 0 {
		return // the pilot does not tell yet
	}
	p.target = max(p.blocks-p.tainted, wanted)
	r.design.Plan.StageTwoBlocks = max(r.design.Plan.StageTwoBlocks, p.target)
	targets := maps.Clone(r.design.Plan.Targets)
	if targets == nil {
		targets = map[string]int{}
	}
	targets[g.Workload] = p.target
	r.design.Plan.Targets = targets
	r.run.Plan = r.design.Plan
	if err := r.lab.Store.SetPlan(r.run.ID, r.run.Plan); err != nil {
		r.lab.tell(Event{Kind: Warned, Text: firstLine(err.Error())})
	}
}

// left estimates how long the run still takes; 0 where it is unknown.
func (r *runner) left() time.Duration {
	plan := r.design.Plan
	var byBlocks time.Duration
	known := true
	for _, p := range r.groups {
		if p.blocks == 0 || p.target == 0 {
			known = false
			continue
		}
		byBlocks += p.spent / time.Duration(p.blocks) * time.Duration(max(p.target-p.blocks, 0))
	}
	if plan.Budget > 0 {
		byBudget := max(plan.Budget-r.lab.now().Sub(r.began), 0)
		if !known || byBudget < byBlocks {
			return byBudget
		}
	}
	if !known {
		return 0
	}
	return byBlocks
}

// Overrun is what a run may take beyond its budget, for what is under way then: a quarter
// of it, and at least overrunLeast. What a budget plans fits into it, and what hangs does not.
func Overrun(budget time.Duration) time.Duration { return max(budget/4, overrunLeast) }

const (
	overrunLeast = 30 * time.Second
	// slowLaunch is what each condition of a first round may take beyond what was expected.
	slowLaunch = 10 * time.Second
)

// OutOfBudget says that a run was cut short because something of it did not end.
type OutOfBudget struct{ Budget, Overrun time.Duration }

func (o *OutOfBudget) Error() string {
	return fmt.Sprintf("it goes on %v after the budget of %v: give a larger --budget, or see why it does not end", o.Overrun, o.Budget)
}

// bounded ends all that a design measures when its budget and [Overrun] are over. The
// warm-up and one block are let to end where they are expected to take longer.
func (d Design) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.Plan.Budget == 0 {
		return context.WithCancel(ctx)
	}
	limit := max(d.Plan.Budget, d.Expected(1))
	limit += max(Overrun(limit), slowLaunch*time.Duration(len(d.conditions())))
	return context.WithTimeoutCause(ctx, limit, &OutOfBudget{d.Plan.Budget, limit - d.Plan.Budget})
}

// preparationLeast is what images and platforms may take to get ready, however small the
// budget: some are fetched over slow lines, and compiled. What hangs is ended all the same.
const preparationLeast = 30 * time.Minute

// Unready says that images and platforms were not ready in time.
type Unready struct{ Budget, After time.Duration }

func (u *Unready) Error() string {
	return fmt.Sprintf("not ready after %v: run it again, which keeps the packages that were fetched, or give a larger --budget", u.After)
}

// preparing ends what makes a design ready when its budget and [Overrun] are over, or
// [preparationLeast] where that is more.
func (d Design) preparing(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.Plan.Budget == 0 {
		return context.WithCancel(ctx)
	}
	limit := max(d.Plan.Budget+Overrun(d.Plan.Budget), preparationLeast)
	return context.WithTimeoutCause(ctx, limit, &Unready{d.Plan.Budget, limit})
}

// unready is why making something ready failed: the end of its time, where that is over.
func unready(ctx context.Context, err error) error {
	late := (*Unready)(nil)
	switch {
	case !errors.As(context.Cause(ctx), &late):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return late
	}
	return fmt.Errorf("%w: %w", late, err)
}

// ErrStopped is the cause with which a caller cancels a run that its user stopped.
var ErrStopped = errors.New("stopped by the user")
