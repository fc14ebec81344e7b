package quota

import "math"

// never is a moment that does not come.
const never = int64(math.MaxInt64)

// pool is a group's account of CPU time (the kernel's struct cfs_bandwidth).
// Times are nanoseconds.
type pool struct {
	quota, period, burst, slice int64 // quota 0 is no limit

	runtime int64
	active  bool  // the timer that fills it runs
	fill    int64 // when it next fires; while it does not run, when it last did
	idle    bool  // no CPU took anything since it last fired
	slackAt int64 // when what was given back is handed out; never

	throttled []*account // in order of their throttling
	freed     []*account // what distribute works with

	periods, short int64 // that the timer ended, and those among them in which a CPU was throttled
}

// account is what one CPU has of the pool (struct cfs_rq). It is negative where
// the CPU ran past it.
type account struct {
	remaining int64
	throttled bool
	cpu       int
}

func newPool(b Bandwidth, k Kernel, phase int64) pool {
	p := pool{
		quota: int64(b.Quota), period: int64(b.Period), burst: int64(b.Burst), slice: int64(k.Slice),
		runtime: int64(b.Quota), slackAt: never, fill: phase,
	}
	return p
}

// start starts the timer in its old phase where it stands still
// (start_cfs_bandwidth). It fills nothing: that was done when it stopped.
func (p *pool) start(now int64) {
	if p.active {
		return
	}
	p.active = true
	if p.fill <= now {
		p.fill += ((now-p.fill)/p.period + 1) * p.period
	}
}

// take gives an account what it lacks of want, as far as there is any
// (__assign_cfs_rq_runtime), and reports whether it may run.
func (p *pool) take(a *account, want, now int64) bool {
	p.start(now)
	if p.runtime > 0 {
		amount := min(p.runtime, want-a.remaining)
		p.runtime -= amount
		a.remaining += amount
		p.idle = false
	}
	return a.remaining > 0
}

// charge accounts for time used (account_cfs_rq_runtime), and reports whether the
// CPU may run on.
func (p *pool) charge(a *account, used, now int64) bool {
	if p.quota == 0 {
		return true
	}
	a.remaining -= used
	if a.remaining > 0 {
		return true
	}
	if a.throttled {
		return false
	}
	return p.take(a, p.slice, now)
}

// throttle notes that a CPU has nothing left (throttle_cfs_rq).
func (p *pool) throttle(a *account) {
	a.throttled = true
	p.throttled = append(p.throttled, a)
}

// giveBack returns what a CPU whose last task went to sleep does not keep
// (return_cfs_rq_runtime).
func (p *pool) giveBack(a *account, now int64) {
	if p.quota == 0 || a.remaining <= kept {
		return
	}
	p.runtime += a.remaining - kept
	a.remaining = kept
	// Where the pool is soon filled anyway, others wait for that
	// (start_cfs_slack_bandwidth).
	if p.runtime > p.slice && len(p.throttled) > 0 && p.slackAt == never && p.fill-now >= slackDelay+slackMargin {
		p.slackAt = now + slackDelay
	}
}

// next is when a timer of the pool fires next.
func (p *pool) next() int64 {
	if !p.active {
		return p.slackAt
	}
	return min(p.fill, p.slackAt)
}

// fire does what is due now, and calls released for each CPU that may run again.
func (p *pool) fire(now int64, released func(*account)) {
	if p.slackAt <= now {
		p.slackAt = never
		if p.fill-now >= slackMargin && p.runtime > p.slice {
			p.distribute(released)
		}
	}
	if p.active && p.fill <= now {
		p.refill(released)
	}
}

// refill is the end of a period (do_sched_cfs_period_timer).
func (p *pool) refill(released func(*account)) {
	p.periods++
	p.runtime = min(p.runtime+p.quota, p.quota+p.burst)
	switch {
	case len(p.throttled) > 0:
		p.short++
		p.distribute(released)
		p.idle = false
	case p.idle:
		p.active = false
		return
	default:
		p.idle = true
	}
	p.fill += p.period
}

// distribute pays what throttled CPUs owe, and a nanosecond more
// (distribute_cfs_runtime): the rest they take as they run.
func (p *pool) distribute(released func(*account)) {
	n := 0
	for n < len(p.throttled) && p.runtime > 0 {
		a := p.throttled[n]
		amount := min(1-a.remaining, p.runtime)
		p.runtime -= amount
		a.remaining += amount
		if a.remaining <= 0 {
			break // the pool is empty, and the debt larger than a period's quota
		}
		a.throttled = false
		n++
	}
	p.freed = append(p.freed[:0], p.throttled[:n]...)
	p.throttled = append(p.throttled[:0], p.throttled[n:]...)
	for _, a := range p.freed {
		released(a)
	}
}
