package quota

import (
	"fmt"
	"time"
)

// Unreachable says that no quota keeps a wanted p99.
type Unreachable struct {
	Wanted time.Duration
	// Best is the p99 at a quota of every CPU, which is as good as none.
	Best time.Duration
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("no quota keeps a p99 of %v: with all of the CPUs it is %v; ask for more than that, or make the service faster", u.Wanted, u.Best)
}

// Grid is the step between the quotas that [Smallest] considers: a hundredth of a
// CPU, in which engines write limits, in whole microseconds, as the kernel takes them.
func Grid(period time.Duration) time.Duration {
	return max((period/100 + time.Microsecond - 1).Truncate(time.Microsecond), time.Microsecond)
}

// Smallest finds the smallest quota on the [Grid] of a period at which the
// predicted p99 is at most the wanted one in every rerun (whatever the phase of the
// period, and at both ends of the demand's interval), with a burst of at most the
// quota. The error is an *[Unreachable] where there is none.
//
// It halves the range, and so takes it that more quota never makes the p99 worse;
// that holds but for the scatter of a simulation.
func Smallest(
	service Service,
	arrival Arrival,
	period, burst, wanted time.Duration,
	options Options,
) (time.Duration, Prediction, error) {
	fail := func(err error) (time.Duration, Prediction, error) {
		return 0, Prediction{}, fmt.Errorf("find the smallest quota: %w", err)
	}
	if wanted <= 0 {
		return fail(fmt.Errorf("a p99 of %v: want a positive time", wanted))
	}
	if period == 0 {
		period = DefaultPeriod
	}
	if period < MinPeriod || period > MaxPeriod {
		return fail(fmt.Errorf("period %v: the kernel takes %v to %v", period, MinPeriod, MaxPeriod))
	}
	if burst < 0 {
		return fail(fmt.Errorf("burst %v: the kernel takes none below 0", burst))
	}
	m, err := newModel(service, arrival, options)
	if err != nil {
		return fail(err)
	}
	at := func(steps int64) (Prediction, bool, error) {
		q := time.Duration(steps) * Grid(period)
		p, err := m.predict(Bandwidth{Quota: q, Period: period, Burst: min(burst, q)})
		return p, err == nil && p.P99.High <= float64(wanted)/float64(time.Microsecond), err
	}
	low := int64((MinQuota + Grid(period) - 1) / Grid(period))
	high := max(int64(time.Duration(m.service.CPUs)*period/Grid(period)), low)
	best, ok, err := at(high)
	if err != nil {
		return fail(err)
	}
	if !ok {
		// A quota of every CPU is as good as none.
		return fail(&Unreachable{Wanted: wanted, Best: time.Duration(best.P99.High) * time.Microsecond})
	}
	// high is enough, and what lies below low is not.
	for low < high {
		half := low + (high-low)/2
		p, ok, err := at(half)
		if err != nil {
			return fail(err)
		}
		if ok {
			high, best = half, p
		} else {
			low = half + 1
		}
	}
	return best.Bandwidth.Quota, best, nil
}
