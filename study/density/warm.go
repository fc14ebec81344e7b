package density

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"tare/lab"
	"tare/record"
)

// Covariates of a trial that tell how its critical service was warmed.
const (
	covariateRounds = "warm_rounds" // made before the first step
	covariateSteady = "warm_steady" // 1 where throughput was steady after the last; else 0
)

// steadyWithin is by how much the throughputs of the last two rounds may differ, as a part
// of the greater, for a service to be warm.
const steadyWithin = 0.05

// warmth is how a critical service was warmed.
type warmth struct {
	rounds int
	steady bool
}

// warm loads the critical service in rounds, each both loads of a step in small, until two
// rounds after one another come to the same throughput, or there were as many as there may
// be. A service that is still being compiled, and whose data is still being read, gains
// along a sweep what neighbours cost it. There are no neighbours meanwhile, so that a trial
// of many begins as one of few.
func (s *ascent) warm(ctx context.Context) (warmth, error) {
	var w warmth
	before := math.NaN()
	for s.Warm > 0 && !w.steady && w.rounds < s.WarmRounds {
		now := before
		err := s.ahead(func() error {
			if _, err := s.service.load(ctx, true, s.Warm/2); err != nil {
				return err
			}
			result, err := s.service.load(ctx, false, s.Warm/2)
			now = result.Rate
			return err
		})
		if err != nil {
			return w, s.service.running.Complaint(fmt.Errorf("warm %s up: %w", s.critical.name(), err))
		}
		w.rounds++
		w.steady, before = steady(before, now), now
	}
	return w, nil
}

// steady tells whether two rounds came to the same throughput; of none there is no telling.
func steady(before, now float64) bool {
	return math.Abs(now-before) <= steadyWithin*max(now, before)
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

// warmthOf reads it back; false where a trial tells of no round.
func warmthOf(t record.Trial) (warmth, bool) {
	w := warmth{int(t.Covariates[covariateRounds]), t.Covariates[covariateSteady] != 0}
	return w, w.rounds > 0
}

// warmed says how a run's services were warmed; empty where nothing tells.
func (r reading) warmed() string {
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
		return ""
	}
	least, most := slices.Min(rounds), slices.Max(rounds)
	took := plural(most, "round")
	if least != most {
		took = fmt.Sprintf("%d to %s", least, took)
	}
	text := fmt.Sprintf(" Before a trial's first step the service was loaded in rounds (at most %s) until two after one another had throughputs within %g %%: that took %s", bound, 100*steadyWithin, took)
	if unsteady > 0 {
		text += fmt.Sprintf(", and in %d of %s it did not come to that: there the first steps may be the least warm", unsteady, plural(len(rounds), "trial"))
	}
	return text + "."
}

// warming is the most that all rounds take.
func (o Options) warming() time.Duration { return time.Duration(o.WarmRounds) * o.Warm }
