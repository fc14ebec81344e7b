package daemon

import (
	"context"
	"errors"
	"sync/atomic"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/media"
	"tare/container"
	"tare/kernel/swap"
)

// room knows of swap, and what of containers is there: [bound.Bound].
type room interface {
	Holds(bytes int64) error
	Container(c container.Container) (bound.Container, error)
}

// holds refuses, with a [*bound.Full], where swap cannot hold what would leave. What elastic
// containers have there already it holds: a daemon that has filled it may be started again.
func holds(b room, c config.Config, found []container.Container) error {
	leaves := c.Memory.High
	for _, one := range found {
		if c.Class(one) != annex.Elastic {
			continue
		}
		if has, err := b.Container(one); err == nil { // one that has just ended has nothing there
			leaves -= has.Swapped
		}
	}
	return b.Holds(max(leaves, 0))
}

// mover makes media of the swap that is in use.
func (h *Host) mover(c config.Config, inUse *areas, parts *Parts) (Mover, error) {
	if len(inUse.inUse()) == 0 {
		return nowhere{}, nil
	}
	// Of the configuration in force: a tier bounds an area from when that is put to use.
	tiers := newTiers(swap.Host{}, inUse, c.State.Directory, h.inForce)
	if err := tiers.open(); err != nil {
		return nil, err
	}
	h.closing(tiers.close)
	k, err := media.NewKernel(
		media.Options{
			Medium:  inUse,
			Brake:   h.brake,
			Late:    h.late,
			GiveWay: parts.giveWay,
			Budgets: tiers.of,
			Chunk:   c.Prefetch.Chunk,
		},
	)
	if err != nil {
		return nil, err
	}
	h.closing(k.Close)
	h.rebound = tiers.set
	parts.Tiers = tiers.status
	return k, nil
}

// brake is what media ask between two chunks.
func (h *Host) brake(r annex.Request) media.Verdict {
	if r.Op == annex.Evict && h.Daemon.Stopping() {
		return media.Stop
	}
	if r.Why == annex.Drained && h.Daemon.Stopping() {
		return media.Wait // nobody waits for it, and critical containers do
	}
	return media.Proceed
}

// late is what media tell of a request that has lost its turn.
func (h *Host) late(r annex.Request) { h.Daemon.Late(r) }

// nowhere is where there is no swap: an observing daemon moves nothing anyway.
type nowhere struct{}

func (nowhere) Forget(annex.Space) {}

func (nowhere) Do(_ context.Context, r annex.Request) annex.Result {
	return annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Asked: annex.Count(r.Runs), Err: media.ErrNoMedium}
}

// reclaims is a bound that reclaims only where the configuration wants it. It remembers why less was
// freed than has left.
type reclaims struct {
	*bound.Bound
	wanted func() bool
	why    atomic.Pointer[string]
}

func (r *reclaims) Reclaim(ctx context.Context, c container.Container, bytes int64) (freed int64, err error) {
	if !r.wanted() {
		r.note("protect.reclaim is off")
		return r.Bound.Freed(c, bytes)
	}
	freed, err = r.Bound.Reclaim(ctx, c, bytes)
	r.note("the kernel freed nothing of what had left")
	// What left goes when the container reaches its limit, or when the kernel wants memory.
	if near := new(bound.Near); errors.As(err, &near) {
		r.note(near.Error())
		err = bound.Besides(err, near)
	}
	if taken := new(bound.CacheTaken); errors.As(err, &taken) {
		r.note(taken.Error())
		err = bound.Besides(err, taken)
	}
	return freed, err
}

func (r *reclaims) note(why string) { r.why.Store(&why) }

// vain is why the last reclaim freed less than it was to.
func (r *reclaims) vain() string {
	if why := r.why.Load(); why != nil {
		return *why
	}
	return ""
}
