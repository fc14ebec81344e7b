package media

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"tare/annex"
	"tare/kernel/clock"
)

// Options are how a [Kernel] works. Only Medium must be given.
type Options struct {
	Medium Medium
	// Brake is asked before each chunk; without one all proceed.
	Brake Brake
	// GiveWay is called before each chunk, before the brake is asked, to let others go first for
	// a moment; nil does not.
	GiveWay func()
	// Budget bounds what is written; nil is no bound, unless Budgets has one, by its name,
	// for the medium that is being filled where there are several.
	Budget  *Budget
	Budgets func(name string) *Budget
	// Chunk is how many pages go at a time; 0 is what the medium wants.
	Chunk int
	// Fetches is how many requests may bring pages at once; 0 is [DefaultFetches]. Evictions
	// go one at a time, so that what leaves together lies together.
	Fetches int
	// Slow is how long the kernel may take over one chunk before others have the request's turn,
	// longer where calls of several containers take so long at a time, and Timeout before the request is given
	// up. 0 are [DefaultSlow] and [DefaultTimeout].
	Slow, Timeout time.Duration
	// Late is called, once a request, when that has lost its turn, and ends with this chunk; nil
	// tells nobody.
	Late func(annex.Request)
	// HungEach and Hung are how many chunks may be late in the kernel, of one container and of
	// all, before no more are begun. 0 are [DefaultHungEach] and [DefaultHung].
	HungEach, Hung int
	// Patience is how long a request waits for those that go first before the rest is left
	// off, and Pause how long between two looks; 0 are [DefaultPatience] and [DefaultPause].
	Patience, Pause time.Duration
	// Spaces is how many address spaces are held open while nothing is asked of them; 0 is
	// [DefaultSpaces]. Each takes two files.
	Spaces int

	// Now and Open are this host's where they are nil.
	Now  func() annex.Moment
	Open func(annex.Space) (Target, error)
}

// The defaults of [Options].
const (
	DefaultFetches  = 4
	DefaultSlow     = 500 * time.Millisecond // a chunk takes a disk some milliseconds, or tens where it is busy
	DefaultTimeout  = 10 * time.Second       // a disk that has stalled answers within that, or is broken
	DefaultHungEach = 2
	DefaultHung     = 256 // each keeps a thread
	DefaultPatience = time.Second
	DefaultPause    = time.Millisecond // Go's timers are no finer
	DefaultSpaces   = 1024
)

// Kernel executes requests by advice to this host's kernel. Evictions that are asked to
// stop do so after the chunk that is under way, of [Traits.Chunk] pages.
type Kernel struct {
	o        Options
	evicting chan struct{}
	fetching chan struct{}

	mu      sync.Mutex
	spaces  map[annex.Space]*held
	uses    uint64 // counts up, to tell what was used last
	stuck   int
	late    map[annex.ID]int // calls that are late, by container
	closed  bool
	account Account

	waitedFor int           // of those that are late, the ones that are not left behind
	slow      time.Duration // after how long calls are late, as learned; 0 is Options.Slow
}

// NewKernel prepares to execute requests. Close it.
func NewKernel(o Options) (*Kernel, error) {
	if o.Medium == nil {
		return nil, ErrNoMedium
	}
	if all, ok := o.Medium.(Together); ok && len(all) == 0 {
		return nil, ErrNoMedium
	}
	if o.Now == nil {
		o.Now = func() annex.Moment { return annex.Moment(clock.Monotonic()) }
	}
	if o.Open == nil {
		o.Open = opener()
	}
	if o.Late == nil {
		o.Late = func(annex.Request) {}
	}
	if o.Brake == nil {
		o.Brake = func(annex.Request) Verdict { return Proceed }
	}
	orElse(&o.Fetches, DefaultFetches)
	orElse(&o.Slow, DefaultSlow)
	orElse(&o.Timeout, DefaultTimeout)
	orElse(&o.HungEach, DefaultHungEach)
	orElse(&o.Hung, DefaultHung)
	orElse(&o.Patience, DefaultPatience)
	orElse(&o.Pause, DefaultPause)
	orElse(&o.Spaces, DefaultSpaces)
	return &Kernel{
		o:        o,
		evicting: make(chan struct{}, 1), fetching: make(chan struct{}, o.Fetches),
		spaces: map[annex.Space]*held{}, late: map[annex.ID]int{},
	}, nil
}

func orElse[T int | time.Duration](v *T, usual T) {
	if *v <= 0 {
		*v = usual
	}
}

// Full says that a medium has no room for what was to leave.
type Full struct {
	Medium string
	Room
}

func (f *Full) Error() string {
	return fmt.Sprintf("%s has no room left of its %d MiB: add swap, or manage less", f.Medium, f.Size>>20)
}

// Unreadable says that pages cannot be read from swap.
type Unreadable struct{ Pages int }

func (u *Unreadable) Error() string {
	return fmt.Sprintf("pages that could not be read from swap, whose device fails (the kernel's log says which): %d", u.Pages)
}

// Do executes a request. A space that is gone, hung or refused does not keep it from
// the request's others, nor does a page that cannot be read; the error tells of each.
func (k *Kernel) Do(ctx context.Context, r annex.Request) annex.Result {
	d := &doing{
		k: k, r: r,
		result: annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: k.o.Now(), Asked: annex.Count(r.Runs)},
		failed: map[annex.Space]error{},
	}
	err := d.do(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		d.result.Stopped, err = true, nil // left off, which is no fault
	}
	failures := slices.SortedFunc(maps.Keys(d.failed), bySpace)
	errs := []error{err}
	for _, s := range failures {
		errs = append(errs, d.failed[s])
	}
	if unread := annex.Count(d.result.Unread); unread > 0 {
		errs = append(errs, &Unreadable{unread})
	}
	d.result.Err = errors.Join(errs...)
	if d.result.Err != nil || d.result.Stopped {
		d.result.Parts = d.allParts()
	}
	d.result.Ended = k.o.Now()
	k.count(d)
	return d.result
}

// part is what became of one space so far.
func (d *doing) part(s annex.Space) *annex.Part {
	i := slices.IndexFunc(d.parts, func(p annex.Part) bool { return p.Space == s })
	if i < 0 {
		i = len(d.parts)
		d.parts = append(d.parts, annex.Part{Space: s})
	}
	return &d.parts[i]
}

// allParts is what became of every space of the request.
func (d *doing) allParts() []annex.Part {
	for _, r := range d.r.Runs {
		d.part(r.Space).Gone = errors.Is(d.failed[r.Space], ErrGone)
	}
	return d.parts
}

// mapChunks is how many chunks are mapped in one go: the next is read while one is waited
// for and mapped, which takes a third off the time that a disk takes.
const mapChunks = 4

// doing is a request under way.
type doing struct {
	k       *Kernel
	r       annex.Request
	result  annex.Result
	bridged int
	failed  map[annex.Space]error
	parts   []annex.Part
	budget  *Budget // of an eviction; nil is no bound
	waited  time.Duration
	reads   int    // that may still wait at the device, since it was last asked
	yield   func() // gives the turn to another, once
	isLate  bool   // it has done so
}

func (d *doing) do(ctx context.Context) error {
	k := d.k
	turn := k.fetching
	switch d.r.Op {
	case annex.Evict:
		turn = k.evicting
	case annex.Fetch, annex.Map:
	default:
		return fmt.Errorf("request %d asks for operation %d, which there is not", d.r.Number, d.r.Op)
	}
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	d.yield = sync.OnceFunc(func() { <-turn })
	defer d.yield()
	traits := k.o.Medium.Traits()
	if d.r.Op == annex.Evict {
		if err := k.room(); err != nil {
			return err
		}
		d.budget = k.budget()
	}
	size := traits.Chunk
	if k.o.Chunk > 0 && size > 1 {
		size = k.o.Chunk
	}
	traits.Chunk = max(1, size)
	if d.r.Op == annex.Map {
		size *= mapChunks
	}
	rest := cutter{runs: d.r.Runs}
	for {
		chunk := rest.next(max(1, size))
		if chunk == nil {
			return nil
		}
		for _, runs := range chunk {
			if d.failed[runs[0].Space] != nil {
				continue
			}
			if proceeds, err := d.step(ctx, traits, once(runs)); err != nil || !proceeds {
				return err
			}
		}
	}
}

// step does one space's part of a chunk.
func (d *doing) step(ctx context.Context, traits Traits, runs []annex.Run) (proceeds bool, err error) {
	k, pages := d.k, annex.Count(runs)
	evicts := d.r.Op == annex.Evict
	var took int64
	if d.budget != nil {
		took = int64(pages) * annex.PageSize
		if err := d.take(ctx, took); err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				d.result.Stopped = true // its time has come
				return false, nil
			}
			return false, err
		}
	}
	// Only now: the rate may have kept it, and what is allowed has changed since.
	if !evicts {
		if err := d.queue(ctx, traits.Depth); err != nil {
			return false, err
		}
	}
	if k.o.GiveWay != nil {
		k.o.GiveWay() // and what is allowed after that is asked
	}
	proceeds, err = d.proceeds(ctx)
	if err != nil || !proceeds {
		d.give(took)
		return false, err
	}
	done, err := d.call(ctx, runs[0].Space, func(t Target) (moved, error) {
		if d.r.Op == annex.Map && k.o.GiveWay != nil {
			t = polite{t, k.o.GiveWay} // it is of several chunks
		}
		switch d.r.Op {
		case annex.Evict:
			return evict(t, runs)
		case annex.Fetch:
			return fetch(t, runs, traits)
		}
		return mapIn(t, runs, traits)
	})
	d.give(took - int64(done.pages)*annex.PageSize)
	d.result.Moved += done.pages
	d.result.Skipped += done.skipped
	d.result.Cached += done.cached
	part := d.part(runs[0].Space)
	part.Done += done.pages + done.skipped
	part.Moved += done.pages
	for _, r := range asRuns(done.unread) {
		r.Space = runs[0].Space
		d.result.Unread = append(d.result.Unread, r)
	}
	d.bridged += done.bridged
	d.reads += done.reads
	if err == nil {
		if err = done.refused; err == nil {
			part.Done += pages - done.pages - done.skipped
		}
	}
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return false, err
	case err != nil:
		d.failed[runs[0].Space] = err
	case evicts && done.pages == 0 && done.skipped < pages:
		// Nothing left though something could have: there may be no room.
		if err := k.room(); err != nil {
			return false, err
		}
	}
	d.result.Stopped = d.result.Stopped || d.isLate
	return !d.isLate, nil
}

// room tells whether anything can leave: the error is a [*Full] where not.
func (k *Kernel) room() error {
	room, err := k.o.Medium.Room()
	if err != nil {
		return err
	}
	if room.Free < annex.PageSize {
		return &Full{k.o.Medium.Name(), room}
	}
	return nil
}

// take takes so many bytes of the budget, waiting until the request's time at most.
func (d *doing) take(ctx context.Context, bytes int64) error {
	if d.r.By != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.r.By.Since(d.k.o.Now()))
		defer cancel()
	}
	return d.budget.Take(ctx, bytes)
}

// give gives back what was taken and not used.
func (d *doing) give(bytes int64) {
	if d.budget != nil && bytes > 0 {
		d.budget.Return(bytes)
	}
}

// budget is that of the medium that is being filled.
func (k *Kernel) budget() *Budget {
	if k.o.Budget != nil || k.o.Budgets == nil {
		return k.o.Budget
	}
	m := k.o.Medium
	if several, ok := m.(interface{ Filling() Medium }); ok {
		m = several.Filling()
	}
	return k.o.Budgets(m.Name())
}

// proceeds waits until the request may go on, and tells whether it may at all.
func (d *doing) proceeds(ctx context.Context) (bool, error) {
	k := d.k
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if d.r.By != 0 && k.o.Now() >= d.r.By {
			break
		}
		verdict := k.o.Brake(d.r)
		if verdict == Proceed {
			return true, nil
		}
		if verdict == Stop || d.waited >= k.o.Patience {
			break
		}
		if err := sleep(ctx, k.o.Pause); err != nil {
			return false, err
		}
		d.waited += k.o.Pause
	}
	d.result.Stopped = true
	return false, nil
}

// A read of a disk takes some 50 us, so that a queue is looked at as often. Go's own
// timers would take a millisecond, in which the device has nothing to do. A device that
// is busier than it may be for that many looks is so for somebody else, whom waiting does
// not help.
const (
	glance  = 50 * time.Microsecond
	longest = 40
)

// queue waits until no more reads stand at the device than may.
func (d *doing) queue(ctx context.Context, depth int) error {
	// A map waits for its reads by itself.
	if depth == 0 || d.r.Op == annex.Map {
		return nil
	}
	for look := 0; d.reads >= depth && look < longest; look++ {
		reading, err := d.k.o.Medium.Reading()
		if err != nil {
			break // the kernel does not tell of this device
		}
		if d.reads = reading; reading < depth {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := clock.SleepUntil(clock.Monotonic() + glance); err != nil {
			return err
		}
	}
	d.reads = 0
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forgivable tells whether what the kernel passed by was for no fault: memory that is
// not mapped any more, or that does not leave, being locked.
func forgivable(err error) bool { return unmapped(err) || errors.Is(err, syscall.EINVAL) }

// unmapped tells whether it was a hole, around which the kernel did what was asked.
func unmapped(err error) bool { return errors.Is(err, syscall.ENOMEM) }
