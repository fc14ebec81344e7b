package bound

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/knob"
)

// Sizes of a reclaim.
const (
	// slack is how much of what has left stays. On version 1: should the container want
	// memory in the moment in which its limit is low, the kernel finds that at once, and neither
	// waits nor ends anything. 1 MiB is two batches of charges on each of two CPUs, or eight of
	// the kernel's reclaim; a huge page that does not fit is made of small ones. On version 2:
	// its counts lag behind, and for what is not there it would take pages in use.
	slack = 1 << 20
	// worth is what lowering a limit is worth.
	worth = 256 << 10
	// step bounds what is asked for at once on version 1, and so for how long (some 3 ms)
	// somebody else's change of the limit would not be seen.
	step = 16 << 20
	// piece is the same on version 2, where the kernel hears of no signal until it has
	// reclaimed that, or finds no more.
	piece = 1 << 20
)

// Distance is how far a container has to stay from its own limit for that to be lowered
// at all: a sixteenth of it, and 8 MiB at least. Nearer, its own growth reclaims what has
// left.
func Distance(limit int64) int64 { return max(8<<20, limit/16) }

// Near says that a container is too near its own limit for that to be lowered.
type Near struct {
	Group        string
	Usage, Limit int64
}

func (n *Near) Error() string {
	return fmt.Sprintf("cgroup %s has %d of its %d MiB, within %d MiB of its limit, which is not lowered then: what has left is reclaimed as it grows", n.Group, n.Usage>>20, n.Limit>>20, Distance(n.Limit)>>20)
}

// Stuck says that the kernel, asked to reclaim, waits for a device and cannot be called
// back. When the device answers, the limit is put back at once.
type Stuck struct{ Group string }

func (s *Stuck) Error() string {
	return fmt.Sprintf("reclaiming from cgroup %s waits for a device that does not answer: look at the swap device (dmesg)", s.Group)
}

// Freed tells how many of the bytes that were just evicted from a container are free already:
// all but what it has in memory unmapped, which is what left and stays as swap cache.
func (b *Bound) Freed(c container.Container, bytes int64) (int64, error) {
	g, err := b.Place(c)
	if err != nil {
		return 0, err
	}
	unmapped, err := g.UnmappedMemory()
	if err != nil {
		return 0, err
	}
	return max(0, bytes-unmapped), nil
}

// Unmapped is how much of a container is in memory and mapped by nobody: what left and stays, and
// what was read from swap and not touched.
func (b *Bound) Unmapped(c container.Container) (int64, error) {
	g, err := b.Place(c)
	if err != nil {
		return 0, err
	}
	return g.UnmappedMemory()
}

// Reclaim has the kernel free so many bytes of what eviction left of a container as swap
// cache, as far as that is there: less is no error, and freed tells how many of them are free
// in the end, those among them that the kernel had freed at once. It takes no longer than ctx,
// and a fifth of a second.
//
// On version 2 memory.reclaim does it. On version 1 the container's limit is lowered,
// which the kernel does when it has reclaimed as much, and put back at once; the guard
// sees to that where this program is killed meanwhile. The error is a [*Near] where the
// container is too near its limit for that, a [*Stuck], or [ErrObserving].
func (b *Bound) Reclaim(ctx context.Context, c container.Container, bytes int64) (freed int64, err error) {
	if b.options.Knobs == nil {
		return 0, ErrObserving
	}
	g, err := b.Place(c)
	if err != nil {
		return 0, err
	}
	before, err := g.UnmappedMemory()
	if err != nil {
		return 0, err
	}
	err = b.reclaim(ctx, g, bytes)
	after, reading := g.UnmappedMemory()
	if reading != nil {
		return 0, errors.Join(err, reading)
	}
	return min(bytes, max(0, bytes-before)+max(0, before-after)), err
}

func (b *Bound) reclaim(ctx context.Context, g cgroup.Group, bytes int64) error {
	place, _ := g.For("memory")
	bytes, err := b.reclaimable(g, place, bytes)
	if err != nil || bytes < worth {
		return err
	}
	before, err := g.MemoryUsage()
	if err != nil {
		return err
	}
	if b.isStuck(place) {
		return &Stuck{place.Path}
	}
	ctx, cancel := context.WithTimeout(ctx, b.within)
	done := make(chan error, 1)
	began := b.now()
	go func() {
		defer cancel()
		reclaim := b.lower
		if place.Version == 2 {
			reclaim = b.ask
		}
		done <- reclaim(ctx, g, place, bytes)
	}()
	select {
	case err = <-done:
	case <-b.late(ctx):
		b.stuck(place, done)
		return &Stuck{place.Path}
	}
	err = Besides(err, context.DeadlineExceeded) // the rest leaves when memory is wanted
	b.tell(g, before, bytes, b.now().Since(began), err)
	return err
}

// Besides is what is left of an error without those that it was joined of ([errors.Join]) and
// that are one that was reckoned with; nil where nothing is. So a limit that was not put back
// is reported also where the kernel had no more to give, or time was up.
func Besides(err, reckoned error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if errors.Is(err, reckoned) {
			return nil
		}
		return err
	}
	var left []error
	for _, one := range joined.Unwrap() {
		left = append(left, Besides(one, reckoned))
	}
	return errors.Join(left...)
}

// late tells that a context has ended, and more time has passed than the kernel needs to
// leave off.
func (b *Bound) late(ctx context.Context) <-chan struct{} {
	late := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(stopWithin, func() { close(late) }) })
	return late
}

// stuck counts a reclaim that does not come back, for as long as it does not.
func (b *Bound) stuck(place cgroup.Place, done <-chan error) {
	add := func(n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.account.Stuck += n
		b.stuckIn[place.Path] += n
		if b.stuckIn[place.Path] == 0 {
			delete(b.stuckIn, place.Path)
		}
	}
	add(1)
	go func() {
		<-done
		add(-1)
	}()
}

// isStuck tells that a reclaim from a group has not come back: another would keep another thread.
func (b *Bound) isStuck(place cgroup.Place) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stuckIn[place.Path] > 0
}

func (b *Bound) tell(g cgroup.Group, before, asked int64, took time.Duration, err error) {
	after, reading := g.MemoryUsage()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account.Reclaims++
	b.account.Asked += asked
	if reading == nil {
		b.account.Freed += max(0, before-after)
	}
	b.account.Took += took
	b.account.Longest = max(b.account.Longest, took)
	if err != nil {
		b.account.Refused++
	}
}

// reclaimable is how much of that may be asked for: no more than has left, so that nothing
// goes that is in use.
func (b *Bound) reclaimable(g cgroup.Group, place cgroup.Place, bytes int64) (int64, error) {
	unmapped, err := g.UnmappedMemory()
	if err != nil {
		return 0, err
	}
	if place.Version == 2 {
		return min(bytes, unmapped-slack), nil
	}
	levels, err := g.MemoryLevels()
	if err != nil {
		return 0, err
	}
	if len(levels) > 0 && levels[0].Path == place.Path && levels[0].Limit != cgroup.NoBound {
		if own := levels[0]; own.Free() < Distance(own.Limit) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.account.Near++
			return 0, &Near{place.Path, own.Usage, own.Limit}
		}
	}
	return min(bytes, unmapped-slack), nil
}

// swappinessFile is what version 1 calls a group's swappiness.
const swappinessFile = "memory.swappiness"

// anonymousOnly is the swappiness at which the kernel reclaims no page cache, but where the classic lists
// have much that is inactive (cache_trim_mode in mm/vmscan.c).
const anonymousOnly = 200

// swappinesses are the words by which memory.reclaim takes anonymous memory alone, the best first: max
// (Linux 6.16) never takes page cache, 200 (6.9) seldom does, and before that there is no such word. The
// kernel refuses what it does not know.
var swappinesses = []string{" swappiness=max", " swappiness=" + text(anonymousOnly), ""}

// CacheTaken says that the kernel took page cache in place of what had left for swap.
type CacheTaken struct {
	Group string
	Bytes int64
}

func (c *CacheTaken) Error() string {
	return fmt.Sprintf("the kernel took %d MiB of page cache from cgroup %s in place of what had left for swap: Linux 6.16 with control groups of version 2 spares it", c.Bytes>>20, c.Group)
}

// lower reclaims by lowering the limit. The kernel takes anonymous memory alone from a group
// that has page cache, for as long as that is reclaimed from: at the usual swappiness it takes
// the cache, files in use among it, and leaves most of what has left for swap.
func (b *Bound) lower(ctx context.Context, g cgroup.Group, place cgroup.Place, bytes int64) error {
	cache, err := g.PageCache()
	if err != nil {
		return err
	}
	// It goes on where page cache goes, which frees memory too; but it is reported.
	steps := func() error {
		return errors.Join(b.lowerInSteps(ctx, g, place, bytes), spares(g, place, cache, bytes))
	}
	if cache < worth {
		return steps()
	}
	value, ok, err := g.Swappiness()
	if err != nil {
		return err
	}
	if !ok || value == anonymousOnly {
		return steps()
	}
	_, err = b.options.Knobs.While(ctx, place.File(swappinessFile), text(anonymousOnly), steps)
	return err
}

// spares looks how much page cache a group has lost since it had before, while asked bytes were asked
// for: more than an eighth is a [*CacheTaken].
func spares(g cgroup.Group, place cgroup.Place, before, asked int64) error {
	now, err := g.PageCache()
	if err != nil {
		return err
	}
	if lost := before - now; lost > max(worth, asked/8) {
		return &CacheTaken{place.Path, lost}
	}
	return nil
}

// lowerInSteps lowers the limit until so much was reclaimed, or there is no more to be had.
func (b *Bound) lowerInSteps(ctx context.Context, g cgroup.Group, place cgroup.Place, bytes int64) error {
	page := int64(os.Getpagesize())
	for bytes >= worth {
		usage, err := g.MemoryUsage()
		if err != nil {
			return err
		}
		part := min(bytes, step)
		target := (usage - part) / page * page
		if target <= 0 {
			return nil
		}
		_, err = b.options.Knobs.Momentarily(ctx, place.File("memory.limit_in_bytes"), text(target))
		if errors.Is(err, syscall.EBUSY) {
			return Besides(err, syscall.EBUSY) // there is no more to be had
		}
		if err != nil {
			return err
		}
		bytes -= part
	}
	return nil
}

// ask reclaims by memory.reclaim, piece by piece: of anonymous memory alone where the kernel
// knows how, since what has left is that. Where page cache goes all the same, the rest is left too.
// The kernel frees up to twice what it
// is asked for; so what has left is looked at anew before each piece, and the slack of it stays:
// asked for what is not there, the kernel takes pages in use. In place of pages that are being
// written yet it takes some too (mm/vmscan.c): those are given places in swap, by which that is
// reported, and once an eighth of all is of such the rest is left, to go with what leaves next or
// when memory is wanted.
func (b *Bound) ask(ctx context.Context, g cgroup.Group, place cgroup.Place, bytes int64) error {
	k, err := knob.Open(place.File("memory.reclaim"))
	if gone := new(knob.Gone); errors.As(err, &gone) && g.Exists() {
		return &cgroup.Unchangeable{Group: place.Path, What: "it has no memory.reclaim", Mend: "boot Linux 5.19 or newer"}
	}
	if err != nil {
		return err
	}
	defer k.Close()
	before, accounted, err := b.slots(g, place)
	if err != nil {
		return err
	}
	cache, err := g.PageCache()
	if err != nil {
		return err
	}
	asked := int64(0)
	for bytes >= worth {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := min(bytes, piece)
		err := b.askFor(func(text string) error { return k.Write(ctx, text) }, part)
		if errors.Is(err, syscall.EAGAIN) {
			return nil // there is less
		}
		if err != nil {
			return err
		}
		asked += part
		after, _, err := b.slots(g, place)
		if err != nil || accounted && after-before > max(worth, asked/8) {
			return err
		}
		// A kernel that knows no swappiness here takes page cache first, whatever is asked.
		if plain := int(b.swappiness.Load()) == len(swappinesses)-1; !plain {
			if err := spares(g, place, cache, asked); err != nil {
				return err
			}
		}
		left, err := g.UnmappedMemory()
		if err != nil {
			return err
		}
		bytes = min(bytes-part, left-slack)
	}
	return nil
}

// askFor asks for so much, in the best way that this kernel knows, and keeps to that.
func (b *Bound) askFor(write func(text string) error, bytes int64) error {
	for {
		best := b.swappiness.Load()
		err := write(text(bytes) + swappinesses[best])
		if !errors.Is(err, syscall.EINVAL) || int(best) == len(swappinesses)-1 {
			return err
		}
		b.swappiness.CompareAndSwap(best, best+1)
	}
}

// slots is how much of a group has places in swap, which the kernel counts exactly; false
// where it does not account for swap.
func slots(g cgroup.Group, place cgroup.Place) (bytes int64, accounted bool, err error) {
	levels, err := g.SwapLevels()
	if err != nil || len(levels) == 0 || levels[0].Path != place.Path {
		return 0, false, err
	}
	return levels[0].Usage, true, nil
}
