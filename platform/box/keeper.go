package box

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/kernel/pressure"
	"tare/kernel/process"
	"tare/platform"
)

// How often the keeper looks.
const (
	// watchEvery is how often danger is looked for.
	watchEvery = time.Second
	// stallWindow is what the share of stalls outside is taken over: the shortest of the
	// kernel's own averages.
	stallWindow = 10 * time.Second
	// followEvery is how often the limit follows compressed swap's pool, and how often new
	// groups are looked for where each is to be protected by itself.
	followEvery = 50 * time.Millisecond
	// followWithin is for how long limits may be behind the pool: a box that has had more
	// memory than was asked for over a whole window of the kernel's is another box.
	followWithin = stallWindow
	// soonest and latest are the pauses between two looks at the headroom: after some
	// had to be made the next comes soon, and each that finds enough puts it off. A class
	// that takes memory faster than the headroom lasts for the latest, 1 GiB/s of 64 MiB,
	// reclaims for itself.
	soonest, latest = 2 * time.Millisecond, 64 * time.Millisecond
)

// Sizes of the keeper's steps.
const (
	// coarse is by how much the limit may be off the pool's size: finer changes are not
	// worth their writes.
	coarse = 1 << 20
	// step bounds what is reclaimed at once, and so for how long it takes.
	step = 16 << 20
)

// keeper does for a box, while it is there, what the kernel does not: its limit follows
// the pool of compressed swap, its headroom is kept, groups that come are protected, and
// danger is remembered that comes and goes between two readings.
//
// It has a thread of its own, whose CPU time is in each reading: reclaim is done in
// the time of who asks for it. That thread stays where ordinary programs are, though the
// rest of this one may go ahead of them ([process.Ahead]): the kernel's own reclaim goes
// before nobody.
type keeper struct {
	box    *madeBox
	cancel context.CancelFunc
	done   chan struct{}

	limit  int64     // in force, of a box of control groups
	idle   int64     // the idle class' own, in force; -1 is none
	behind time.Time // since when they have not come nearer to the pool; zero where they have

	mu     sync.Mutex
	cpu    time.Duration
	spent  time.Duration // in reclaim
	err    error         // the first round's that had one
	danger end
	stalls []stalled
}

// stalled are stalls of the host and of the box up to a moment.
type stalled struct {
	at        time.Time
	host, box time.Duration // the box's with the keeper's own
}

// keep begins.
func keep(b *madeBox) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{
		box:    b,
		cancel: cancel,
		done:   make(chan struct{}),
		limit:  wholePages(b.spec.Memory),
		idle:   b.idleLimit(b.spec.Memory),
	}
	go k.run(ctx)
	return k
}

// end ends it, and waits for that. It may be called again, and for a box without one.
func (k *keeper) end() {
	if k == nil {
		return
	}
	k.cancel()
	<-k.done
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	runtime.LockOSThread() // and the thread ends with it
	k.failing(process.StayOrdinary())
	pause := k.pause()
	watched := time.Time{}
	for timer := time.NewTimer(0); ; timer.Reset(pause) {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		k.failing(k.tend(time.Now()))
		if k.box.spec.Protect == platform.ProtectHeadroom {
			made, err := k.makeRoom()
			k.failing(err)
			if pause = min(2*pause, latest); made {
				pause = soonest
			}
		}
		if time.Since(watched) >= watchEvery {
			watched = time.Now()
			k.failing(k.watch(watched))
		}
		k.mu.Lock()
		k.cpu = clock.Thread()
		k.mu.Unlock()
	}
}

// tend does what is to be done whenever the keeper looks.
func (k *keeper) tend(now time.Time) error {
	err := k.box.protectBelow()
	if k.box.spec.Kind == platform.BoxGroup {
		err = errors.Join(err, k.follow(now))
	}
	return err
}

// failing keeps the first error: a box that was not kept for a while was another one in
// that while.
func (k *keeper) failing(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
	}
}

// pause is the first one, and of a box without headroom to keep every one. Groups of
// instances are met before these have filled what is to be protected.
func (k *keeper) pause() time.Duration {
	switch {
	case k.box.spec.Protect == platform.ProtectHeadroom:
		return soonest
	case k.box.area.zram != nil || k.box.area.zswap || k.box.protectsBelow():
		return followEvery
	}
	return watchEvery
}

// used is the CPU time that the keeper has used, and for how long it waited in reclaim.
func (k *keeper) used() (cpu, reclaiming time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cpu, k.spent
}

// reclaiming times what has the kernel reclaim for the keeper, which stalls nobody in the
// box, and counts as a stall of the host.
func (k *keeper) reclaiming(do func() error) error {
	began := time.Now()
	err := do()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spent += time.Since(began)
	return err
}

// failed is what could not be done first.
func (k *keeper) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// follow brings the box's limit nearer to what compressed swap leaves of its memory, and
// the idle class' own by as much: what is kept for the critical class is no place for the
// pool of the idle one's pages.
func (k *keeper) follow(now time.Time) error {
	pool, uncharged, err := k.box.pool()
	if err != nil || !uncharged {
		return err
	}
	next := nextLimit(k.limit, k.box.spec.Memory-pool)
	if next == k.limit {
		k.behind = time.Time{}
		return nil
	}
	// Down, the idle class comes first, or the critical one's pages would be taken; up, it
	// comes last.
	steps := []func() (bool, error){
		func() (bool, error) { return k.bring(k.box.class(platform.Idle), &k.idle, k.box.idleLimit(next)) },
		func() (bool, error) { return k.bring(k.box.group, &k.limit, next) },
	}
	if next > k.limit {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if there, err := step(); err != nil {
			return err
		} else if !there {
			return k.late(now, pool)
		}
	}
	k.behind = time.Time{}
	return nil
}

// late refuses limits that have not come nearer to the pool for too long.
func (k *keeper) late(now time.Time, pool int64) error {
	if k.behind.IsZero() {
		k.behind = now
	}
	if now.Sub(k.behind) < followWithin {
		return nil
	}
	return fmt.Errorf("its limit is %d MiB and compressed swap holds %d MiB, for nobody: more than its %d MiB, which the kernel has not got down to in %v", k.limit>>20, pool>>20, k.box.spec.Memory>>20, followWithin)
}

// bring gives a group the next limit, and tells whether it has it: where it cannot have
// it now, it keeps the one it has.
func (k *keeper) bring(group cgroup.Group, have *int64, next int64) (bool, error) {
	if next == *have {
		return true, nil
	}
	if next < *have && unified(k.box.layout) {
		// Version 2 would call the OOM killer for a limit that it does not get to.
		usage, err := group.MemoryUsage()
		if err != nil {
			return false, err
		}
		if usage > next {
			if err := k.reclaiming(func() error { return group.ReclaimMemory(usage-next, *have) }); err != nil {
				return false, err
			}
			if usage, err = group.MemoryUsage(); err != nil {
				return false, err
			}
		}
		if usage > next {
			return false, nil // tried again
		}
	}
	err := k.reclaiming(func() error { return group.LimitMemory(next) })
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EINTR) {
		return false, nil // version 1 does not get to it now, and has left what was
	}
	if err != nil {
		return false, err
	}
	*have = next
	return true, nil
}

// nextLimit is a limit on the way from one to another: up at once, which nobody has to
// wait for, and down by steps that do not ask too much at a time.
func nextLimit(have, want int64) int64 {
	want = max(wholePages(want), Smallest)
	switch {
	case want > have-coarse && want < have+coarse:
		return have
	case want < have-step:
		return have - step
	}
	return want
}

// Headroom is what is kept free of a box by [platform.ProtectHeadroom]: 64 MiB, or a
// sixteenth of a box that is smaller than 1 GiB.
func Headroom(memory int64) int64 { return min(64<<20, memory/16) }

// makeRoom reclaims from the idle class where the box has less than its headroom free,
// and tells whether it had.
func (k *keeper) makeRoom() (bool, error) {
	free, err := k.free()
	if err != nil {
		return false, err
	}
	want := roomWanted(free, Headroom(k.box.spec.Memory))
	if want == 0 {
		return false, nil
	}
	idle := k.box.class(platform.Idle)
	before, err := idle.MemoryUsage()
	if err != nil {
		return false, err
	}
	if before == 0 {
		return false, nil
	}
	if err := k.reclaiming(func() error { return idle.ReclaimMemory(min(want, before), k.idle) }); err != nil {
		return false, err
	}
	after, err := idle.MemoryUsage()
	// Where nothing came of it, trying at once again would only burn CPU time.
	return after < before, err
}

// roomWanted is how much to reclaim: nothing while the headroom is there, else what is
// missing and a quarter of it more, in steps.
func roomWanted(free, headroom int64) int64 {
	if free >= headroom {
		return 0
	}
	return min(headroom-free+headroom/4, step)
}

// free is what the box can still give without anyone reclaiming.
func (k *keeper) free() (int64, error) {
	if k.box.spec.Kind == platform.BoxMachine {
		_, available, err := k.box.ground.memory()
		return available, err
	}
	usage, err := k.box.group.MemoryUsage()
	return k.limit - usage, err
}

// watch looks for danger.
func (k *keeper) watch(now time.Time) error {
	b := k.box
	k.sample(now)
	s := situation{kind: b.spec.Kind, own: b.own, outside: k.outside()}
	var err error
	if s.total, s.available, err = b.ground.memory(); err != nil {
		return err
	}
	if b.area.path != "" {
		one, _, err := b.ground.swap.Area(b.area.path)
		if err != nil {
			return err
		}
		s.swapUsed, s.swapSize = one.Used, one.Size
	}
	killed, err := b.class(platform.Critical).OOMKills()
	if err != nil {
		return err
	}
	s.criticalKilled = b.kills.count(platform.Critical, killed)
	s.memory = b.spec.Memory
	if s.pool, _, err = b.pool(); err != nil {
		return err
	}
	k.remember(danger(s))
	return nil
}

// sample notes the stalls up to now, of a box that is not the machine itself.
func (k *keeper) sample(now time.Time) {
	if k.box.spec.Kind == platform.BoxMachine {
		return
	}
	host, hosts := pressure.Host(pressure.Memory).Read()
	own, boxs := k.box.stalls()
	k.mu.Lock()
	defer k.mu.Unlock()
	if hosts != nil || boxs != nil {
		k.stalls = nil // what was missed could be either's
		return
	}
	k.stalls = append(k.stalls, stalled{now, host.Some.Total, own.Some.Total + k.spent})
	for len(k.stalls) > 2 && now.Sub(k.stalls[1].at) >= stallWindow {
		k.stalls = k.stalls[1:]
	}
}

// outside is the share of the last moments in which somebody outside waited; -1 where it
// is unknown yet, or at all.
func (k *keeper) outside() float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return outside(k.stalls)
}

// outside is, of the time over which there are samples, the part in which somebody on
// the host waited for memory and nobody in the box did. So it is the least that those
// outside waited: what they did while somebody inside did too does not show. Less than
// the whole window tells nothing.
func outside(samples []stalled) float64 {
	if len(samples) < 2 {
		return -1
	}
	first, last := samples[0], samples[len(samples)-1]
	over := last.at.Sub(first.at)
	if over < stallWindow {
		return -1
	}
	return max(0, float64(last.host-first.host-(last.box-first.box))/float64(over))
}

// remember keeps the first danger.
func (k *keeper) remember(e end) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.danger.why == "" {
		k.danger = e
	}
}

// judge says why going on is refused, by a reading or by what came before it.
func (k *keeper) judge(r platform.BoxReading, total int64) end {
	k.remember(danger(situation{
		memory:         k.box.spec.Memory,
		pool:           r.Pool,
		kind:           k.box.spec.Kind,
		own:            k.box.own,
		total:          total,
		available:      r.HostAvailable,
		swapUsed:       r.SwapUsed,
		swapSize:       r.SwapSize,
		outside:        k.outside(),
		criticalKilled: r.Classes[platform.Critical].OOMKills,
	}))
	return k.met()
}

// met is the danger that was met first.
func (k *keeper) met() end {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.danger
}
