// Package bound is what the memory extension defends, and what it asks of the kernel's
// control groups for that: the host's memory, or a group's that stands for it; how much of
// it is free, whether critical containers wait, what a container has and may have; and
// the few things that are set, each by a guard that puts it back: a protection of critical
// containers, and a limit that is lowered for a moment so that what eviction left as swap
// cache is reclaimed.
//
// It decides nothing and moves no page. All that it sets goes through annex/guard; without
// one it only looks.
//
// Figures are the kernel's: /proc/meminfo, memory.stat and its neighbours
// (Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst), PSI
// (Documentation/accounting/psi.rst).
package bound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tare/annex"
	"tare/annex/guard"
	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/kernel/swap"
)

// Knobs changes what the kernel is told, and puts it back: [guard.Guard].
type Knobs interface {
	Momentarily(ctx context.Context, file, text string) (guard.Outcome, error)
	While(ctx context.Context, file, text string, do func() error) (guard.Outcome, error)
	Keep(ctx context.Context, file, text string) error
	Restore(files ...string) ([]guard.Outcome, error)
}

// Options are what is defended, and by what.
type Options struct {
	// Group is the control group whose memory is defended: its path ("/box"), or its
	// directory in the hierarchy with the memory controller. Empty is the host's memory.
	Group string
	// Areas are the swap areas that pages are to leave for, by their paths; none is all
	// that are in use.
	Areas []string
	// SwapReserve is the share of those that is left alone, from 0 to below 1.
	SwapReserve float64
	// PoolInside has memory that compressed swap takes, and that is charged to no group,
	// count as taken from the group that is defended. The host's memory has it in it anyway.
	PoolInside bool
	// Knobs is nil where nothing is to be changed.
	Knobs Knobs
	// Unit asks systemd for a unit, of the name that a group has, and gives up in time; nil is never.
	Unit func(ctx context.Context, name string) (Unit, error)
	// Layout is nil for this host's.
	Layout *cgroup.Layout
}

// Bound is what is defended. Its methods may be called at the same time.
type Bound struct {
	options Options
	layout  cgroup.Layout
	group   cgroup.Group // empty is the host
	swap    swap.Host
	meminfo func() (io.ReadCloser, error)
	now     func() annex.Moment
	slots   func(cgroup.Group, cgroup.Place) (bytes int64, accounted bool, err error)
	within  time.Duration // that reclaiming may take

	swappiness atomic.Int32 // the first of swappinesses that the kernel has not refused

	// changing is held while protections are changed, which may wait for the guard and for systemd.
	changing sync.Mutex
	// silent is why systemd did not answer last, at silentSince; nil where it did.
	silent      error
	silentSince time.Time
	protected   map[string]protection // by key

	mu      sync.Mutex // never while something is waited for: the status asks
	account Account
	stuckIn map[string]int // reclaims that do not come back, by group
	lows    map[string]low // by file
}

// Unbounded says that a group has no limit, and none above it, that could be defended.
type Unbounded struct{ Group, Mend string }

func (u *Unbounded) Error() string {
	return fmt.Sprintf("cgroup %s has no limit of memory, nor has one above it: %s, or defend the host", u.Group, u.Mend)
}

// NoGroup says that there is no such group to defend.
type NoGroup struct{ Group string }

func (n *NoGroup) Error() string {
	return fmt.Sprintf("there is no cgroup %s: make it, or defend the host", n.Group)
}

// New looks at what is to be defended. The error is a [*NoGroup] where there is none of that
// name, and an [*Unbounded] where it has no limit.
func New(o Options) (*Bound, error) {
	if o.SwapReserve < 0 || o.SwapReserve >= 1 {
		return nil, fmt.Errorf("a swap reserve of %v: want a share from 0 to below 1", o.SwapReserve)
	}
	b := &Bound{
		options:   o,
		meminfo:   meminfo,
		now:       func() annex.Moment { return annex.Moment(clock.Monotonic()) },
		slots:     slots,
		within:    reclaimWithin,
		protected: map[string]protection{},
		lows:      map[string]low{},
		stuckIn:   map[string]int{},
	}
	if o.Layout != nil {
		b.layout = *o.Layout
	} else {
		var err error
		if b.layout, err = cgroup.Host(); err != nil {
			return nil, err
		}
	}
	if o.Group != "" {
		b.group = b.at(o.Group)
		if !b.group.Exists() {
			return nil, &NoGroup{o.Group}
		}
	}
	_, err := b.Memory()
	return b, err
}

// at is the group of a path, or of a directory.
func (b *Bound) at(name string) cgroup.Group {
	if path, _, ok := b.pathOf(name); ok {
		return b.layout.At(path)
	}
	return b.layout.At(name)
}

// pathOf is the path of a group by its directory, and the hierarchy that this is in.
func (b *Bound) pathOf(dir string) (path string, in cgroup.Hierarchy, ok bool) {
	dir = filepath.Clean(dir)
	for _, h := range b.layout.Hierarchies {
		rest, within := strings.CutPrefix(dir, h.Mount)
		if !within || rest != "" && rest[0] != '/' || ok && len(h.Mount) < len(in.Mount) {
			continue
		}
		if h.Root != "/" {
			rest = h.Root + rest
		}
		path, in, ok = "/"+strings.TrimPrefix(rest, "/"), h, true
	}
	return path, in, ok
}

// Host tells that the host's memory is defended.
func (b *Bound) Host() bool { return b.options.Group == "" }

// String names what is defended.
func (b *Bound) String() string {
	if b.Host() {
		return "host"
	}
	if place, ok := b.group.For("memory"); ok {
		return place.Dir()
	}
	return b.group.String()
}

// Memory tells how much there is, and is free. Of the host that is what the kernel
// reckons can be had without swapping (MemAvailable): clean page cache, which it drops by
// itself in the background. Of a group it is what is left up to the limit, its own or
// one above it, whichever is nearer: a group has nobody who reclaims in the background, so
// that even page cache has to be reclaimed by who wants memory, while he waits.
func (b *Bound) Memory() (annex.Memory, error) {
	m := annex.Memory{At: b.now()}
	total, available, err := b.hostMemory()
	if err != nil {
		return m, err
	}
	m.Limit, m.Free = total, available
	uncharged, pool, err := b.pool()
	if err != nil {
		return m, err
	}
	m.Pool = pool
	if !b.Host() {
		levels, err := b.group.MemoryLevels()
		if err != nil {
			return m, err
		}
		bounded := false
		for _, l := range levels {
			if l.Limit == cgroup.NoBound {
				continue
			}
			bounded = true
			m.Limit, m.Free = min(m.Limit, l.Limit), min(m.Free, l.Free())
		}
		if !bounded {
			return m, &Unbounded{b.group.String(), b.limitMend()}
		}
		if b.options.PoolInside {
			m.Free = max(0, m.Free-uncharged)
		}
	}
	m.SwapSize, m.SwapFree, err = b.swapRoom()
	return m, err
}

func (b *Bound) limitMend() string {
	place, ok := b.group.For("memory")
	if !ok {
		return "boot without cgroup_disable=memory"
	}
	if place.Version == 1 {
		return "echo BYTES > " + place.File("memory.limit_in_bytes")
	}
	return "echo BYTES > " + place.File("memory.max")
}

func (b *Bound) hostMemory() (total, available int64, err error) {
	f, err := b.meminfo()
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	return parseMeminfo(f)
}

// Bounds on what waits for the kernel.
const (
	// reclaimWithin is how long reclaiming what one eviction left may take: what is left
	// then leaves when memory is wanted.
	reclaimWithin = 200 * time.Millisecond
	// stopWithin is how long the kernel is given to leave off.
	stopWithin = 100 * time.Millisecond
)

// Account is what was asked of the kernel since the start.
type Account struct {
	// Reclaims are how often it was asked to, Asked and Freed the bytes.
	Reclaims     uint64
	Asked, Freed int64
	// Took is for how long that took, the longest of it Longest.
	Took, Longest time.Duration
	// Refused are those that the kernel did not get to, and Near those that were not tried,
	// since the container was near its limit.
	Refused, Near uint64
	// Stuck are those in which a thread now waits for a device, and cannot be called back.
	Stuck int
}

// Account tells it.
func (b *Bound) Account() Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.account
}

// ErrObserving says that nothing is changed, as the daemon was told.
var ErrObserving = errors.New("nothing is changed: the daemon observes (mode: manage has it act)")

// text is how the kernel is told an amount.
func text(n int64) string { return strconv.FormatInt(n, 10) }
