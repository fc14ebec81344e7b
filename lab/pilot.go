package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

const (
	// shortestSlice is what a slice lasts where nothing asks for more. What disturbs a host
	// strikes a short slice more seldom, and leaves more others to compare with: on two shared
	// CPUs slices of 10 ms resolve the same in a tenth of the time that slices of 40 ms take.
	shortestSlice = 10 * time.Millisecond
	// longestSlice bounds what a slow service asks for.
	longestSlice = 2 * time.Second
	// longSlice is the length of the controls that are compared with it.
	longSlice = time.Second
	// quotaPeriods are how many periods of a CPU quota a slice holds: its own place in
	// them then changes what it may use by a tenth at most.
	quotaPeriods = 10
	// leastPilot and mostPilot are how many rounds the pilot has. From leastPilot on, no
	// further one begins once they have taken pilotShare of the group's time.
	leastPilot, mostPilot, pilotShare = 1, 3, 0.08
	// pilotStrips are the strips of each drive in a round of the pilot.
	// At least leastPilotStrips are measured, however long they take.
	pilotStrips, leastPilotStrips = 12, 2
	// warmStep is a burst of the warm-up. Its rate rises where it exceeds the best one by
	// warmWithin. After warmIdle bursts in turn without a rise, or after warmMost, an instance is
	// warm: those bursts do not count. A disturbance slows a burst, and adds nothing.
	warmStep, warmMost, warmWithin = 50 * time.Millisecond, 3 * time.Second, 0.03
	warmIdle                       = 2
	// settleSteps bursts of settleStep follow a thaw, settleRepeats times, to find how long
	// the program takes until it is as fast as before.
	settleStep, settleSteps, settleRepeats = 4 * time.Millisecond, 12, 3
	leastSettle                            = settleStep
	// settled is the part by which the rate may still be off.
	settled = 0.005
	// stillness is how long a program stands frozen in the trial of whether it bears it.
	stillness = 30 * time.Millisecond
)

// pilotOf runs a group's pilot and settles by it how its rounds proceed. Its slices are
// kept, as those of round 0, and count for nothing.
func (r *runner) pilotOf(ctx context.Context, g Group, p *progress) error {
	began := r.lab.now()
	defer func() { p.spent += r.lab.now().Sub(began) }()
	if p.executions {
		return r.pilotOfExecutions(ctx, g, p)
	}
	if _, available, err := hostMemory(); err == nil && tooLarge(g, available) {
		r.pairUp(g)
	}
	drives, err := drivesOf(g)
	if err != nil {
		return err
	}
	plan := record.RoundPlan{Rate: map[string]float64{}, Long: longSlice, InPairs: p.inPairs}
	var seen pilotSlices
	for plan.Pilot < max(mostPilot, r.turns(g)) {
		if err := r.pilotRound(ctx, g, drives, &plan, &seen); err != nil {
			return err
		}
		plan.Pilot++
		share := time.Duration(pilotShare * float64(r.shareOf()))
		if share > 0 && plan.Pilot >= max(leastPilot, r.turns(g)) && r.lab.now().Sub(began) > share {
			break
		}
	}
	r.allocate(g, &plan, &seen, drives, r.lab.now().Sub(began))
	return r.settleOn(g.Workload, plan)
}

// settleOn writes down how a group's rounds proceed, before the first slice that counts.
func (r *runner) settleOn(group string, plan record.RoundPlan) error {
	rounds := maps.Clone(r.design.Plan.Rounds)
	if rounds == nil {
		rounds = map[string]record.RoundPlan{}
	}
	rounds[group] = plan
	r.design.Plan.Rounds = rounds
	r.run.Plan = r.design.Plan
	return r.lab.Store.SetPlan(r.run.ID, r.run.Plan)
}

// pilotSlices are what a pilot has seen.
type pilotSlices struct {
	// ratios are the log ratios of strips, by part and condition, in each round.
	ratios map[string][][]float64
	strips []time.Duration // what each took
	rounds []time.Duration // what each took but for its strips
}

// pilotRound is one round of the pilot. The first one finds, besides, how long programs
// take to warm up and to settle, and how long a slice has to be.
func (r *runner) pilotRound(
	ctx context.Context,
	g Group,
	drives []workload.Drive,
	plan *record.RoundPlan,
	seen *pilotSlices,
) (err error) {
	first := plan.Pilot == 0
	warm := map[warming][]time.Duration{} // of each instance
	began := r.lab.now()
	draw := draws(r.design.Seed, g.Workload, -plan.Pilot)
	seats, err := r.openRound(ctx, g, 0, plan.Pilot, draw, func(ctx context.Context, s *seat) error {
		if !first {
			if err := r.warmSeat(ctx, s, drives, *plan); err != nil {
				return err
			}
			return r.bearsFreezing(ctx, s, drives[0])
		}
		for _, d := range drives {
			if d.HalfOf != "" || d.Whole {
				continue
			}
			took, rate, err := r.warmsUp(ctx, s, d)
			if err != nil {
				return err
			}
			of := warming{d.Name, s.condition.ID}
			if warm[of] = append(warm[of], took); d.Rate > 0 {
				rate = d.Rate // that is due, whatever came of it in so short a time
			}
			if known, ok := plan.Rate[d.Name]; !ok || rate < known {
				plan.Rate[d.Name] = rate
			}
		}
		return r.bearsFreezing(ctx, s, drives[0])
	})
	var stripped time.Duration
	defer func() {
		if left := r.closeRound(ctx, seats); left != nil {
			// What is left would run beside what is measured next. So err is passed on as text:
			// as a cannotSlice, it would have the group measured by blocks.
			err = also(left, flattened(err))
		}
		seen.rounds = append(seen.rounds, r.lab.now().Sub(began)-stripped)
	}()
	if err != nil {
		return err
	}
	if first {
		for _, of := range warm {
			plan.Warm = max(plan.Warm, slices.Min(of)) // the host's own changes make single ones longer
		}
		opening := r.lab.now().Sub(began)
		if err := r.chooseSlices(ctx, g, drives, seats, plan); err != nil {
			return err
		}
		began = r.lab.now().Add(-opening) // what it took to choose is no cost of a round
	}
	var all []record.TrialSlice
	for i := range pilotStrips {
		if share := r.shareOf(); i >= leastPilotStrips && share > 0 &&
			stripped > time.Duration(pilotShare*float64(share)) {
			break
		}
		for _, d := range drives {
			if d.HalfOf != "" && (i > 0 || first) {
				continue
			}
			start := r.lab.now()
			kept, err := r.strip(ctx, seats, i+1, stretchOf(d, *plan), draw)
			if err != nil {
				return err
			}
			took := r.lab.now().Sub(start)
			stripped += took
			seen.strips = append(seen.strips, took)
			all = append(all, kept...)
			r.provisional(g.Workload)
		}
	}
	for _, s := range seats {
		if s.dropped != nil {
			return s.unfit(s.dropped)
		}
	}
	seen.add(seats, all)
	if first {
		plan.Rate = saturated(seats, all)
	}
	return nil
}

// flattened is an error's text alone; nil stays nil.
func flattened(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// warming is what warms up: the instances of a condition, under a drive.
type warming struct{ drive, condition string }

// warmsUp loads an instance until its rate stands still, and gives after how long that was so,
// and the rate in operations per second.
func (r *runner) warmsUp(ctx context.Context, s *seat, d workload.Drive) (warm time.Duration, rate float64, err error) {
	idle := 0
	began := r.lab.now()
	for rose := began; ; {
		step := r.lab.now()
		all, err := r.load(ctx, s, d, workload.Stretch{Duration: warmStep, Rate: d.Rate})
		if err != nil {
			return 0, 0, fmt.Errorf("warm up %s: %w", d.Name, err)
		}
		now := all[0].Worked / r.lab.now().Sub(step).Seconds()
		if idle++; now > rate*(1+warmWithin) {
			idle, rose = 0, r.lab.now()
		}
		rate = max(rate, now)
		if took := r.lab.now().Sub(began); idle == warmIdle || took > warmMost {
			return max(warmStep, rose.Sub(began).Truncate(warmStep)), rate, nil
		}
	}
}

// bearsFreezing finds out whether a program goes on after it stood still.
func (r *runner) bearsFreezing(ctx context.Context, s *seat, d workload.Drive) error {
	if err := s.freeze(ctx); err != nil {
		return err
	}
	r.lab.rest(stillness)
	if err := s.thaw(ctx); err != nil {
		return err
	}
	if _, err := r.load(ctx, s, d, workload.Stretch{Duration: settleStep, Rate: d.Rate}); err != nil {
		return s.unfit(err)
	}
	return nil
}

// unfit says that a program fails where it is frozen in between, though it went before.
func (s *seat) unfit(err error) error {
	return &cannotSlice{fmt.Sprintf("%s does not go on after it was frozen on %s: %s", s.condition.Workload, s.condition.Platform, firstLine(err.Error()))}
}

// chooseSlices settles how long a slice lasts, and what of it is left out after a thaw.
func (r *runner) chooseSlices(
	ctx context.Context,
	g Group,
	drives []workload.Drive,
	seats []*seat,
	plan *record.RoundPlan,
) error {
	plan.Slice = shortestSlice
	slow := false
	for _, d := range drives {
		rate, ok := plan.Rate[d.Name]
		if !ok || rate <= 0 {
			continue
		}
		plan.Slice = max(plan.Slice, min(longestSlice, time.Duration(d.Least/rate*float64(time.Second))))
		slow = slow || rate*settleStep.Seconds() < 10
	}
	for _, c := range g.Conditions {
		if c.Setting.CPUs > 0 {
			period := c.Setting.CPUPeriod
			if period == 0 {
				period = 100 * time.Millisecond // the kernel's
			}
			plan.Slice = max(plan.Slice, quotaPeriods*period)
		}
	}
	plan.Slice = plan.Slice.Round(time.Millisecond)
	plan.Settle = leastSettle
	if slow {
		return nil // a few operations in each step would tell nothing
	}
	var rates [][]float64
	for _, s := range seats {
		for _, d := range drives {
			if d.HalfOf != "" || d.Whole || d.Rate > 0 {
				continue
			}
			for range settleRepeats {
				steps, err := r.settling(ctx, s, d)
				if err != nil {
					return err
				}
				rates = append(rates, steps)
			}
		}
	}
	plan.Settle = settlingTime(rates)
	return nil
}

// settling gives the rates of steps that follow upon a thaw.
func (r *runner) settling(ctx context.Context, s *seat, d workload.Drive) ([]float64, error) {
	if err := s.thaw(ctx); err != nil {
		return nil, err
	}
	rates := make([]float64, settleSteps)
	for i := range rates {
		all, err := r.load(ctx, s, d, workload.Stretch{Duration: settleStep})
		if err != nil {
			return nil, s.unfit(err)
		}
		rates[i] = all[0].Amount / all[0].Window.Seconds()
	}
	return rates, s.freeze(ctx)
}

// settlingTime is after how many steps the rates are, on the mean, within [settled] of
// those of the last half of the steps, or do not differ significantly.
func settlingTime(rates [][]float64) time.Duration {
	var logs [settleSteps][]float64
	for _, of := range rates {
		var plateau float64
		const half = settleSteps / 2
		for _, v := range of[half:] {
			plateau += math.Log(v) / (settleSteps - half)
		}
		for i, v := range of {
			if d := math.Log(v) - plateau; !math.IsInf(d, 0) && !math.IsNaN(d) {
				logs[i] = append(logs[i], d)
			}
		}
	}
	for i := range settleSteps / 2 {
		mean, sd := meanSD(logs[i])
		if math.Abs(mean) < max(settled, 2*sd/math.Sqrt(float64(max(1, len(logs[i]))))) {
			return max(leastSettle, time.Duration(i)*settleStep)
		}
	}
	return settleSteps / 2 * settleStep
}

func meanSD(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sd / float64(max(1, len(x)-1)))
}

// saturated are the rates of the slowest condition, by part: at half of them all can serve.
func saturated(seats []*seat, all []record.TrialSlice) map[string]float64 {
	rates := map[string]float64{}
	for _, s := range seats {
		amount, window := map[string]float64{}, map[string]float64{}
		for _, t := range all {
			if s.id == t.Trial {
				amount[t.Slice.Part] += t.Slice.Amount
				window[t.Slice.Part] += t.Slice.Window.Seconds()
			}
		}
		for part, of := range amount {
			if rate := of / window[part]; rate > 0 && (rates[part] == 0 || rate < rates[part]) {
				rates[part] = rate
			}
		}
	}
	return rates
}

// add gathers the log ratios of a round's strips.
func (seen *pilotSlices) add(seats []*seat, all []record.TrialSlice) {
	speeds := map[string]map[*seat][]float64{} // logarithms, by part
	for _, t := range all {
		for _, s := range seats {
			if s.id != t.Trial || t.Slice.Window <= 0 || t.Slice.Amount <= 0 {
				continue
			}
			if speeds[t.Slice.Part] == nil {
				speeds[t.Slice.Part] = map[*seat][]float64{}
			}
			speeds[t.Slice.Part][s] = append(speeds[t.Slice.Part][s], math.Log(t.Slice.Amount/t.Slice.Window.Seconds()))
		}
	}
	if seen.ratios == nil {
		seen.ratios = map[string][][]float64{}
	}
	for part, of := range speeds {
		var baselines, others []*seat
		for _, s := range seats {
			switch {
			case s.condition.Baseline:
				baselines = append(baselines, s)
			default:
				others = append(others, s)
			}
		}
		if len(others) == 0 && len(baselines) == 2 {
			others, baselines = baselines[1:], baselines[:1]
		}
		for _, o := range others {
			// One of the baseline's instances is enough to see how strips scatter.
			base, own := of[baselines[0]], of[o]
			if len(base) != len(own) {
				continue // somebody has dropped out
			}
			ratios := make([]float64, len(own))
			for i, v := range own {
				ratios[i] = v - base[i]
			}
			if len(ratios) > 0 {
				key := part + " " + o.condition.ID
				seen.ratios[key] = append(seen.ratios[key], ratios)
			}
		}
	}
}

// allocate settles how many strips a round has: the time of a strip against that of a
// round, as their variances ask for (Kalibera and Jones, ISMM 2013), within what leaves
// enough rounds in the budget.
func (r *runner) allocate(
	g Group,
	plan *record.RoundPlan,
	seen *pilotSlices,
	drives []workload.Drive,
	spent time.Duration,
) {
	plan.CostOfStrip, plan.CostOfRound = average(seen.strips), average(seen.rounds)
	// A strip of each part, with its share of what is measured more seldom.
	perStrip, perRound := time.Duration(0), plan.CostOfRound
	for _, d := range drives {
		if d.HalfOf != "" {
			perStrip += plan.CostOfStrip / openEvery
			continue
		}
		perStrip += plan.CostOfStrip
	}
	perRound += time.Duration(len(controlled(drives))) * controlTime(*plan) / controlEvery
	most := maxStrips
	if share := r.shareOf(); share > 0 {
		turns := time.Duration(r.turns(g))
		if most = stripsWithin((share-spent)/turns, perRound, perStrip); most == 0 {
			most = leastStrips
			r.tooShort(g, spent+leastRounds*turns*(perRound+leastStrips*perStrip))
		}
	}
	plan.Strips = most
	var strips, rounds float64
	known := false
	for _, of := range seen.ratios {
		c := stats.VarianceComponents(of, stats.Trim, r.design.Plan.Level)
		if math.IsNaN(c.Strips) {
			continue
		}
		strips = max(strips, c.Strips)
		// Few rounds of few strips scatter by themselves: what is not certain must not take
		// the strips from the rounds.
		if c.RoundsLeast > 0 {
			rounds, known = max(rounds, c.Rounds), true
		}
	}
	if strips > 0 {
		plan.VarianceOfStrips = &strips
	}
	if known {
		plan.VarianceOfRounds = &rounds
	}
	if strips > 0 && rounds > 0 {
		plan.Strips = stats.StripsPerRound(perRound, perStrip, strips, rounds, leastStrips, most)
	}
}

// reserve is the share of a budget that is not planned with: no round begins that is
// expected to exceed it, and rounds differ in length.
const reserve = 0.1

// stripsWithin is how many strips a round may have for [wantedRounds] to fit into a time,
// or else as many from [leastRounds] on as do; 0 where those do not.
func stripsWithin(left, round, strip time.Duration) int {
	left = time.Duration((1 - reserve) * float64(left))
	for rounds := time.Duration(wantedRounds); rounds >= leastRounds; rounds-- {
		if fit := int((left/rounds - round) / max(1, strip)); fit >= leastStrips {
			return min(fit, maxStrips)
		}
	}
	return 0
}

// tooShort tells that a budget does not hold the rounds that a verdict takes.
func (r *runner) tooShort(g Group, needs time.Duration) {
	needs = r.phase.began + time.Duration(float64(needs)/(1-reserve)*float64(max(1, r.phase.groups)))
	if r.budget() < r.design.Plan.Budget {
		needs = time.Duration(float64(needs) / explainFrom)
	}
	r.lab.tell(Event{Kind: Warned, Group: g.Workload, Text: fmt.Sprintf("%s: %v holds fewer than %d rounds, and fewer tell nothing for certain: give it %v",
		g.Workload, r.design.Plan.Budget, leastRounds, (needs + time.Second).Truncate(time.Second))})
}

// maxStrips bounds a round where there is no budget, or all of the variance is that of strips.
const maxStrips = 400

func average(of []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range of {
		sum += d
	}
	return sum / time.Duration(max(1, len(of)))
}
