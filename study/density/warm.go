package density

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"tare/lab"
	"tare/load"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Covariates of a trial: how its critical service was warmed.
const (
	covariateRounds = "warm_rounds" // made before the first step
	covariateSteady = "warm_steady" // 1 where throughput was steady after the last; else 0
)

// A service is warm when its last rounds agree: two that do may do so by chance.
const (
	steadyRounds = 3
	// steadyWithin is by how much their throughputs may differ, as a part of the greatest,
	// where their intervals do not meet, or are not known.
	steadyWithin = 0.05
	// steadyRise is by how much the last's may be the greatest, as a part of the greatest of
	// the others: a service that still gains is not warm however wide the intervals are.
	steadyRise = 0.02
	// steadyLevel is that of the intervals.
	steadyLevel = 0.95
)

// warmth is how a critical service was warmed.
type warmth struct {
	rounds int
	steady bool
}

// warm loads the critical service in rounds, each both loads of a step in small, until three
// rounds after one another come to the same throughput, or there were as many as there may
// be. A service that is still being compiled, and whose data is still being read, gains
// along a sweep what neighbours cost it. There are no neighbours meanwhile, so that a trial
// of many begins as one of few.
func (s *ascent) warm(ctx context.Context) (warmth, error) {
	var w warmth
	var rounds []stats.Estimate
	for s.Warm > 0 && !w.steady && w.rounds < s.WarmRounds {
		var now load.Result
		err := s.ahead(func() error {
			if _, err := s.service.load(ctx, true, s.Warm/2); err != nil {
				return err
			}
			var err error
			now, err = s.service.load(ctx, false, s.Warm/2)
			return err
		})
		if err != nil {
			return w, s.service.running.Err.WithLastLine(fmt.Errorf("warm %s up: %w", s.critical.name(), err))
		}
		w.rounds++
		closed := Step{Closed: answers(now)}
		round := closed.ownThroughput(steadyLevel)
		round.Value = now.Rate
		rounds = append(rounds, round)
		w.steady = steady(rounds)
	}
	return w, nil
}

// steady reports whether the last rounds had the same throughput, within their intervals or closely,
// and without a gain in the last.
func steady(rounds []stats.Estimate) bool {
	if len(rounds) < steadyRounds {
		return false
	}
	last := rounds[len(rounds)-steadyRounds:]
	least, most := math.Inf(1), 0.0
	lows, highs := 0.0, math.Inf(1) // where all intervals meet, if they do
	known := true
	for _, e := range last {
		least, most = min(least, e.Value), max(most, e.Value)
		lows, highs = max(lows, e.Interval.Low), min(highs, e.Interval.High)
		known = known && e.Known()
	}
	before := 0.0
	for _, e := range last[:steadyRounds-1] {
		before = max(before, e.Value)
	}
	if last[steadyRounds-1].Value > (1+steadyRise)*before {
		return false
	}
	return most-least <= steadyWithin*most || known && lows <= highs
}

// keep notes how it went.
func (w warmth) keep(b lab.Bench) {
	b.Covariate(covariateRounds, float64(w.rounds))
	if w.rounds == 0 {
		return
	}
	is := 0.0
	if w.steady {
		is = 1
	}
	b.Covariate(covariateSteady, is)
}

// warmthOf reads it back; false where a trial has no round.
func warmthOf(t record.Trial) (warmth, bool) {
	w := warmth{int(t.Covariates[covariateRounds]), t.Covariates[covariateSteady] != 0}
	return w, w.rounds > 0
}

// warmed says how a run's services were warmed, and, as a note, how many were not warm at the end.
// Both are empty where no trial has it.
func (r reading) warmed() (note, method string) {
	var rounds []int
	unsteady, bound := 0, ""
	for _, a := range r.arms {
		bound = cmp.Or(bound, a.condition.Factors[factorWarm])
		for _, s := range a.sweeps {
			for _, w := range s.warmed {
				rounds = append(rounds, w.rounds)
				if !w.steady {
					unsteady++
				}
			}
		}
	}
	if len(rounds) == 0 {
		return "", ""
	}
	least, most := slices.Min(rounds), slices.Max(rounds)
	took := report.Counted(most, "round")
	if least != most {
		took = fmt.Sprintf("%d to %s", least, took)
	}
	method = fmt.Sprintf(" Before the first step of a trial the service was loaded in rounds (at most %s), until %d successive rounds had the same throughput, "+
		"within their intervals or %g %%, and the last was at most %g %% above the others. That took %s.",
		bound, steadyRounds, 100*steadyWithin, 100*steadyRise, took)
	if unsteady > 0 {
		note = fmt.Sprintf(" In %d of %s throughput was not steady after the warm-up, so their first steps may be too slow.",
			unsteady, report.Counted(len(rounds), "trial"))
	}
	return note, method
}

// warming is the most that all rounds take.
func (o Options) warming() time.Duration { return time.Duration(o.WarmRounds) * o.Warm }
