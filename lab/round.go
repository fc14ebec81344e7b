package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"tare/platform"
	"tare/record"
	"tare/workload"
)

const (
	// leastRounds are those below which an interval over rounds covers too seldom.
	leastRounds = 5
	// wantedRounds are those beyond which more strips in each do as well as more rounds:
	// Student's quantile is then within 15 % of the normal one.
	wantedRounds = 10
	// leastStrips are those of which a trim of 20 % leaves out the extremes.
	leastStrips = 5
	// openEvery is how many strips of each closed loop go with one of each open loop.
	openEvery = 6
	// controlEvery is how often a round measures the baseline alone and by long slices, too.
	controlEvery = 5
	// aloneSlices and longSlices are how many of each it then makes.
	aloneSlices, longSlices = 8, 2
)

// strips is what one strip leaves to the next.
type strips struct {
	watch    observer
	previous string // condition that was measured last
}

// draws are all random choices of a round.
func draws(seed int64, group string, round int) *rand.Rand {
	// The third word only separates this use of a seed from others.
	return rand.New(rand.NewPCG(mixed(seed, group), 0x726f756e64<<24|uint64(round)))
}

// openRound launches the instances of a round, one after the other, and warms each up
// before it freezes. What fails takes no part.
func (r *runner) openRound(ctx context.Context, g Group, round int, draw *rand.Rand, after func(context.Context, *seat) error) ([]*seat, error) {
	seats := r.seats(g, r.cohort(g, round), draw)
	if round > 0 && round%controlEvery == 0 {
		aheadOfAll(seats)
	}
	r.strips = strips{watch: r.observer()}
	for position, s := range seats {
		r.lab.tell(Event{Kind: Started, Group: g.Workload, Condition: s.condition.ID, Label: s.condition.Label, Block: round, Rounds: true, Text: "launch", Left: r.left()})
		err := r.launch(ctx, s, round, position)
		if err == nil {
			err = after(ctx, s)
		}
		if err == nil {
			err = s.freeze(ctx)
		}
		if err == nil {
			r.failures[s.condition.ID] = 0
			continue
		}
		if ctx.Err() != nil {
			return seats, context.Cause(ctx)
		}
		s.dropped = err
		var cannot *cannotSlice
		if errors.As(err, &cannot) || errors.Is(err, platform.ErrGone) && round == 0 {
			return seats, err
		}
		if round == 0 {
			return seats, fmt.Errorf("%s: %w", s.condition.ID, err)
		}
		if r.failures[s.condition.ID]++; r.failures[s.condition.ID] >= maxFailures {
			return seats, fmt.Errorf("%s failed %d times in a row: %w", s.condition.ID, maxFailures, err)
		}
		r.lab.tell(Event{Kind: Ended, Group: g.Workload, Condition: s.condition.ID, Label: s.condition.Label, Block: round, Rounds: true, Text: firstLine(err.Error())})
	}
	r.strips.watch.meet(ctx, r.platforms)
	return seats, nil
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
	var errs []error
	for _, s := range seats {
		if err := r.stop(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.condition.ID, err))
		}
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
	r.interim(g.Workload)
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

// provisionalEvery is how often a group is shown that has no complete round so far.
const provisionalEvery = 10 * time.Second

// provisional shows the run so far between two strips, as long as a group has no complete
// round.
func (r *runner) provisional(group string) {
	if r.groups[group].blocks > 0 {
		return
	}
	last, ok := r.shown[group]
	if !ok {
		last = r.began
	}
	now := r.lab.now()
	if now.Sub(last) < provisionalEvery {
		return
	}
	if r.shown == nil {
		r.shown = map[string]time.Time{}
	}
	r.shown[group] = now
	r.interim(group)
}

// sliceRound launches the group's instances, measures its strips, and stops them.
func (r *runner) sliceRound(ctx context.Context, g Group, round int, plan record.RoundPlan) (err error) {
	draw := draws(r.design.Seed, g.Workload, round)
	drives, err := drivesOf(g)
	if err != nil {
		return err
	}
	controls := round%controlEvery == 0
	seats, err := r.openRound(ctx, g, round, draw, func(ctx context.Context, s *seat) error {
		if err := s.warmUp(ctx, drives, plan); err != nil {
			return err
		}
		if first := controls && s.condition.Baseline && s.replicate == 0; first {
			return r.control(ctx, s, drives, plan)
		}
		return nil
	})
	defer func() { err = errors.Join(err, r.closeRound(ctx, seats)) }()
	if err != nil {
		return err
	}
	number := 0
	for i := range plan.Strips {
		for _, d := range drives {
			if d.HalfOf != "" && i%openEvery != openEvery-1 {
				continue
			}
			number++
			r.lab.tell(Event{Kind: Stripped, Group: g.Workload, Block: round, Rounds: true, Text: fmt.Sprintf("strip %d: %s", number, d.Name), Left: r.left()})
			if _, err := r.strip(ctx, seats, number, stretchOf(d, plan), draw); err != nil {
				return err
			}
			r.provisional(g.Workload)
		}
	}
	return r.dropouts(g, round, seats)
}

// dropouts tells of what has failed in the midst of a round.
func (r *runner) dropouts(g Group, round int, seats []*seat) error {
	for _, s := range seats {
		if s.dropped == nil || s.id == 0 {
			continue
		}
		r.lab.tell(Event{Kind: Ended, Group: g.Workload, Condition: s.condition.ID, Label: s.condition.Label, Block: round, Rounds: true, Text: firstLine(s.dropped.Error())})
		if r.failures[s.condition.ID]++; r.failures[s.condition.ID] >= maxFailures {
			return fmt.Errorf("%s failed %d times in a row: %w", s.condition.ID, maxFailures, s.dropped)
		}
	}
	return nil
}

// stretchOf is a slice of a drive, as the pilot has settled it.
func stretchOf(d workload.Drive, plan record.RoundPlan) stretch {
	w := stretch{drive: d, settle: plan.Settle, length: plan.Slice, rate: d.Rate}
	if d.HalfOf != "" {
		w.rate = plan.Rate[d.HalfOf] / 2
	}
	return w
}

// warmUp loads an instance as long as the pilot has found that it takes.
func (s *seat) warmUp(ctx context.Context, drives []workload.Drive, plan record.RoundPlan) error {
	for _, d := range drives {
		if d.HalfOf != "" || plan.Warm == 0 {
			continue
		}
		if _, err := s.slicer.Load(ctx, workload.Stretch{Drive: d.Name, Duration: plan.Warm}); err != nil {
			return withOutput(fmt.Errorf("warm up %s: %w", d.Name, err), s.trial)
		}
	}
	return nil
}

// control measures the baseline apart from the strips: beside no other instance, if it is
// launched first, and by long slices. What differs tells what slicing hides.
func (r *runner) control(ctx context.Context, s *seat, drives []workload.Drive, plan record.RoundPlan) error {
	var kept []record.TrialSlice
	make := func(w stretch, n int) error {
		for i := range n {
			if err := s.freeze(ctx); err != nil {
				return err
			}
			slices, err := s.measure(ctx, w, uint64(i))
			if err != nil {
				return err
			}
			for _, one := range slices {
				one.Strip = i + 1
				kept = append(kept, record.TrialSlice{Trial: s.id, Slice: one})
			}
		}
		return nil
	}
	for _, d := range drives {
		if d.HalfOf != "" || d.Whole {
			continue
		}
		alone, long := stretchOf(d, plan), stretchOf(d, plan)
		alone.control, long.control, long.length = record.ControlAlone, record.ControlLong, max(plan.Long, 2*plan.Slice)
		if err := make(alone, aloneSlices); err != nil {
			return err
		}
		if err := make(long, longSlices); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return r.lab.Store.AddStrip(kept)
}

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
	return drives, nil
}

// cohort are the conditions of a round besides the baseline; nil is all. Where all
// instances together need more than half of the memory that is free, each round has one,
// in turn.
func (r *runner) cohort(g Group, round int) map[string]bool {
	if !r.groups[g.Workload].inPairs {
		return nil
	}
	var others []string
	for _, c := range g.Conditions {
		if !c.Baseline {
			others = append(others, c.ID)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return map[string]bool{others[max(round-1, 0)%len(others)]: true}
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
		if c.Baseline {
			need += program.MemoryNeed
		}
	}
	return available > 0 && need > available/2
}

// shareOf is how long a group may take of the run's budget; 0 is without end.
func (r *runner) shareOf() time.Duration {
	if r.design.Plan.Budget == 0 {
		return 0
	}
	return r.design.Plan.Budget / time.Duration(len(r.design.Groups))
}
