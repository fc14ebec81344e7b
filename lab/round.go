package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"tare/platform"
	"tare/record"
	"tare/workload"
)

const (
	// leastRounds are those below which an interval over rounds covers too seldom.
	leastRounds = 5
	// wantedRounds are those beyond which more strips in each do as well as more rounds:
	// Student's quantile is then within a sixth of the normal one.
	wantedRounds = 10
	// leastStrips are those of which a trim leaves the extremes out, and keeps some.
	leastStrips = 5
	// openEvery is how many strips of each closed loop go with one of each open loop.
	openEvery = 6
	// controlEvery is how often a round measures the baseline alone and by long slices, too.
	controlEvery = 5
	// aloneSlices and longSlices are how many of each it then makes.
	aloneSlices, longSlices = 20, 1
)

// strips is what one strip leaves to the next.
type strips struct {
	watch     observer
	previous  string              // condition that was measured last
	span      time.Time           // when the watch began; zero where it does not watch
	measured  []record.TrialSlice // in that span
	unwritten []record.TrialSlice // of spans before it
}

// draws are all random choices of a round.
func draws(seed int64, group string, round int) *rand.Rand {
	// The third word only separates this use of a seed from others.
	return rand.New(rand.NewPCG(mixed(seed, group), 0x726f756e64<<24|uint64(round)))
}

// openRound launches the instances of a round, one after the other, and has each warmed up
// before it freezes. What fails takes no part; in the pilot, round 0, that is an error.
// The seats are to be closed whatever the error.
func (r *runner) openRound(
	ctx context.Context,
	g Group,
	round, turn int,
	draw *rand.Rand,
	after func(context.Context, *seat) error,
) ([]*seat, error) {
	seats := r.seats(g, r.cohort(g, turn), draw)
	if hasControls(round) {
		aheadOfAll(seats)
	}
	r.strips = strips{watch: r.observer()}
	for position, s := range seats {
		if ctx.Err() != nil {
			return seats, context.Cause(ctx)
		}
		r.lab.tell(
			Event{
				Kind:      Started,
				Group:     g.Workload,
				Condition: s.condition.ID,
				Label:     s.condition.Label,
				Block:     round,
				Rounds:    true,
				Text:      "launch",
				Left:      r.left(),
			},
		)
		err := r.launch(ctx, s, round, position)
		if err == nil {
			err = after(ctx, s)
		}
		if err == nil {
			err = s.freeze(ctx)
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return seats, context.Cause(ctx)
		}
		// Of a launch it is the engine that is gone, and of a program the program.
		engineGone := s.inst == nil && errors.Is(err, platform.ErrGone)
		if derr := r.drop(ctx, s, err); derr != nil || round == 0 || engineGone {
			return seats, errors.Join(fmt.Errorf("%s: %w", s.condition.ID, err), derr)
		}
	}
	r.strips.watch.meet(ctx, r.platforms)
	return seats, nil
}

// hasControls tells whether a round measures the baseline apart, too.
func hasControls(round int) bool { return round > 0 && round%controlEvery == 0 }

// drop ends a seat's part in its round, and its program at once: it would take CPU time
// from the others.
func (r *runner) drop(ctx context.Context, s *seat, why error) error {
	if s.dropped != nil {
		return nil
	}
	s.dropped = why
	r.lab.tell(
		Event{
			Kind:      Ended,
			Group:     s.condition.Workload,
			Condition: s.condition.ID,
			Label:     s.condition.Label,
			Block:     s.result.Block,
			Rounds:    true,
			Text:      firstLine(why.Error()),
		},
	)
	return r.stop(ctx, s)
}

// countFailures counts, for each condition, the rounds or executions in a row that failed.
// The error is of one that has failed too often to go on.
func (r *runner) countFailures(seats []*seat) error {
	failed := map[string]error{}
	for _, s := range seats {
		if s.dropped != nil {
			failed[s.condition.ID] = s.dropped
		}
	}
	for _, s := range seats {
		if failed[s.condition.ID] == nil {
			r.failures[s.condition.ID] = 0
		}
	}
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		if r.failures[id]++; r.failures[id] >= maxFailures {
			return fmt.Errorf("%s failed %d times in a row: %w", id, maxFailures, failed[id])
		}
	}
	return nil
}

// aheadOfAll has one instance of the baseline launched first, to be measured alone.
func aheadOfAll(seats []*seat) {
	for i, s := range seats {
		if s.condition.Baseline && s.replicate == 0 {
			seats[0], seats[i] = seats[i], seats[0]
		}
	}
}

// closeRound stops what a round launched.
func (r *runner) closeRound(ctx context.Context, seats []*seat) error {
	// A run that ends keeps what it has measured. Its programs end first: the record may be
	// another writer's for long, and they hold memory.
	errs := []error{r.endSpan(context.WithoutCancel(ctx), seats)}
	for _, s := range seats {
		if err := r.halt(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.condition.ID, err))
		}
	}
	errs = append(errs, r.write())
	for _, s := range seats {
		errs = append(errs, r.enter(s))
	}
	return errors.Join(errs...)
}

// completeRound measures the group's next round.
func (r *runner) completeRound(ctx context.Context, g Group, p *progress) (err error) {
	round := p.blocks + 1
	began := r.lab.now()
	defer func() { p.spent += r.lab.now().Sub(began) }()
	plan := r.design.Plan.Rounds[g.Workload]
	if p.executions {
		err = r.executeRound(ctx, g, round, plan)
	} else {
		err = r.sliceRound(ctx, g, round, plan)
	}
	if err != nil {
		return fmt.Errorf("%s, round %d: %w", g.Workload, round, err)
	}
	p.blocks++
	r.lab.tell(Event{Kind: Blocked, Group: g.Workload, Block: round, Rounds: true, Left: r.left()})
	if !p.executions || r.isDue(g.Workload, executionsEvery) {
		r.interim(g.Workload)
	}
	return nil
}

// interim shows the run so far.
func (r *runner) interim(group string) {
	if r.lab.Interim == nil {
		return
	}
	if run, err := r.lab.Store.Run(r.run.ID); err == nil {
		r.lab.Interim(run, group)
	}
}

// provisionalEvery is how often a group is shown that has no complete round so far, and
// executionsEvery one whose rounds are single executions: to show it takes the more time the
// longer it is.
const (
	provisionalEvery = 10 * time.Second
	executionsEvery  = 2 * time.Second
)

// provisional shows the run so far between two strips, as long as a group has no complete
// round.
func (r *runner) provisional(group string) {
	if r.groups[group].blocks == 0 && r.isDue(group, provisionalEvery) {
		r.interim(group)
	}
}

// isDue tells whether a group was last shown so long ago, and notes that it is shown.
func (r *runner) isDue(group string, every time.Duration) bool {
	last, ok := r.shown[group]
	if !ok {
		last = r.began
	}
	now := r.lab.now()
	if now.Sub(last) < every {
		return false
	}
	if r.shown == nil {
		r.shown = map[string]time.Time{}
	}
	r.shown[group] = now
	return true
}

// sliceRound launches the group's instances, measures its strips, and stops them.
func (r *runner) sliceRound(ctx context.Context, g Group, round int, plan record.RoundPlan) (err error) {
	draw := draws(r.design.Seed, g.Workload, round)
	drives, err := drivesOf(g)
	if err != nil {
		return err
	}
	seats, err := r.openRound(ctx, g, round, round-1, draw, func(ctx context.Context, s *seat) error {
		if err := r.warmSeat(ctx, s, drives, plan); err != nil {
			return err
		}
		if hasControls(round) && s.condition.Baseline && s.replicate == 0 {
			return r.control(ctx, s, drives, plan, draw)
		}
		return nil
	})
	defer func() { err = errors.Join(err, r.closeRound(ctx, seats)) }()
	if err != nil {
		return err
	}
	number, every := 0, min(openEvery, plan.Strips)
	for i := range plan.Strips {
		for _, d := range drives {
			if d.HalfOf != "" && i%every != every-1 {
				continue
			}
			number++
			r.lab.tell(
				Event{
					Kind:   Stripped,
					Group:  g.Workload,
					Block:  round,
					Rounds: true,
					Text:   fmt.Sprintf("strip %d: %s", number, d.Name),
					Left:   r.left(),
				},
			)
			if _, err := r.strip(ctx, seats, number, stretchOf(d, plan), draw); err != nil {
				return err
			}
			r.provisional(g.Workload)
		}
	}
	return r.countFailures(seats)
}

// stretchOf is a slice of a drive, as the pilot has settled it.
func stretchOf(d workload.Drive, plan record.RoundPlan) stretch {
	w := stretch{drive: d, settle: plan.Settle, length: plan.Slice, rate: d.Rate}
	if d.HalfOf != "" {
		w.rate = plan.Rate[d.HalfOf] / 2
	}
	return w
}

// warmSeat loads an instance as long as the pilot has found that it takes.
func (r *runner) warmSeat(ctx context.Context, s *seat, drives []workload.Drive, plan record.RoundPlan) error {
	for _, d := range drives {
		if d.HalfOf != "" || plan.Warm == 0 {
			continue
		}
		if _, err := r.load(ctx, s, d, workload.Stretch{Duration: plan.Warm, Rate: d.Rate}); err != nil {
			return fmt.Errorf("warm up %s: %w", d.Name, err)
		}
	}
	return nil
}

// control measures the baseline apart from the strips: beside no other instance, as it is
// launched first, and by long slices. What differs tells what slicing hides.
func (r *runner) control(
	ctx context.Context,
	s *seat,
	drives []workload.Drive,
	plan record.RoundPlan,
	draw *rand.Rand,
) error {
	if err := s.freeze(ctx); err != nil {
		return err
	}
	r.strips.watch.meet(ctx, r.platforms)
	for _, d := range controlled(drives) {
		alone := stretchOf(d, plan)
		alone.control = record.ControlAlone
		long := alone
		long.control, long.length = record.ControlLong, longOf(plan)
		for i := range aloneSlices + longSlices {
			w, number := alone, i+1
			if i >= aloneSlices {
				w, number = long, i+1-aloneSlices
			}
			if _, err := r.strip(ctx, []*seat{s}, number, w, draw); err != nil {
				return err
			}
		}
	}
	r.strips.previous = ""
	if err := r.keep(ctx, []*seat{s}); err != nil {
		return err
	}
	return s.dropped
}

// controlTime is how long a round's controls take under one drive.
func controlTime(plan record.RoundPlan) time.Duration {
	return aloneSlices*(plan.Settle+plan.Slice) + longSlices*(plan.Settle+longOf(plan))
}

// controlled are the drives whose slices could be longer.
func controlled(drives []workload.Drive) []workload.Drive {
	return slices.DeleteFunc(slices.Clone(drives), func(d workload.Drive) bool { return d.HalfOf != "" || d.Whole })
}

// longOf is how long the slices last that are compared with the usual ones.
func longOf(plan record.RoundPlan) time.Duration { return max(plan.Long, 2*plan.Slice) }

// drivesOf are the drives of a group: its conditions differ in setting and image alone.
func drivesOf(g Group) ([]workload.Drive, error) {
	c := g.Conditions[0]
	sliced, ok := c.Program.(workload.Sliced)
	if !ok {
		return nil, &cannotSlice{fmt.Sprintf("%s has no load that could be sliced", c.Program.Name())}
	}
	drives, err := sliced.Drives(c.Params)
	if err != nil {
		return nil, &cannotSlice{err.Error()}
	}
	if g.Drive != "" {
		drives = slices.DeleteFunc(drives, func(d workload.Drive) bool { return d.Name != g.Drive })
	}
	return drives, nil
}

// cohort are the conditions that take part beside the baseline; nil is all. Where each
// round has one, they take turns.
func (r *runner) cohort(g Group, turn int) map[string]bool {
	others := g.others()
	if !r.groups[g.Workload].inPairs || len(others) == 0 {
		return nil
	}
	return map[string]bool{others[turn%len(others)]: true}
}

// turns is after how many rounds each condition has taken part.
func (r *runner) turns(g Group) int {
	if !r.groups[g.Workload].inPairs {
		return 1
	}
	return max(1, len(g.others()))
}

// pairUp has each round hold the baseline and one other condition.
func (r *runner) pairUp(g Group) {
	p := r.groups[g.Workload]
	p.inPairs = true
	p.target *= r.turns(g)
}

// others are the group's conditions beside the baseline.
func (g Group) others() []string {
	var ids []string
	for _, c := range g.Conditions {
		if !c.Baseline {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// tooLarge tells whether all instances of a group together need more than half of the
// memory that is free.
func tooLarge(g Group, available int64) bool {
	var need int64
	for _, c := range g.Conditions {
		program, err := c.Program.Program(c.Params)
		if err != nil {
			return false // the design has refused it, or it is the trial's to say
		}
		need += program.MemoryNeed
		if c.Baseline && !g.Once {
			need += program.MemoryNeed
		}
	}
	return available > 0 && need > available/2
}

// shareOf is how long a group may take of what the budget leaves to the phase; 0 is
// without end.
func (r *runner) shareOf() time.Duration {
	budget := r.budget()
	if budget == 0 {
		return 0
	}
	return max(1, budget-r.phase.began) / time.Duration(max(1, r.phase.groups))
}
