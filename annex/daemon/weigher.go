package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/control"
)

// Own is the control group that the daemon itself runs in: [bound.Own].
type Own interface {
	// Yield has it weigh that share of what it does otherwise; a [*bound.Shared] says that it is
	// not the daemon's own.
	Yield(share float64) error
	Resume() error
	// Time is how long the daemon's threads have run, and waited for a processor.
	Time() (ran, waited time.Duration, err error)
}

const (
	// weighedEvery is how often it is seen to that the group weighs what it is to: others
	// change that, and move programs.
	weighedEvery = 10 * time.Second
	// weighedSoon is after how long it is tried again to have it weigh what it did.
	weighedSoon = time.Second
	// aloneEvery is how often it is tried again to have it weigh less where that was not to be.
	aloneEvery = time.Minute
)

// weigher has the daemon's group weigh what is wanted, in a goroutine of its own: neither does
// that of Run wait for the journal and the guard, nor does the weight for other settings.
type weigher struct {
	own  Own
	more chan struct{}

	mu     sync.Mutex
	wanted float64 // of what it weighs otherwise
	is     float64 // as far as is known
	why    error   // why it is not what is wanted
}

func newWeigher(own Own) *weigher {
	return &weigher{own: own, more: make(chan struct{}, 1), wanted: 1, is: 1}
}

// want says what it is to weigh from now on.
func (w *weigher) want(share float64) {
	w.mu.Lock()
	changed := w.wanted != share
	w.wanted = share
	w.mu.Unlock()
	if !changed {
		return
	}
	select {
	case w.more <- struct{}{}:
	default: // it is told already
	}
}

// told is what it weighs, and why not what is wanted.
func (w *weigher) told() (is float64, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.is, w.why
}

// run has it weigh what is wanted until ctx ends, and then what it did. The channel closes when
// it has ended.
func (w *weigher) run(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(0)
		defer timer.Stop()
		var alone time.Time // before which it is not tried to have it weigh less
		for {
			select {
			case <-ctx.Done():
				w.weigh(1)
				return
			case <-w.more:
			case <-timer.C:
			}
			w.mu.Lock()
			wanted := w.wanted
			w.mu.Unlock()
			if wanted < 1 && time.Now().Before(alone) {
				wanted = 1
			}
			err := w.weigh(wanted)
			switch {
			case err == nil:
				timer.Reset(weighedEvery)
			case wanted < 1:
				alone = time.Now().Add(aloneEvery)
				timer.Reset(0) // and it is to weigh what it did
			default:
				timer.Reset(weighedSoon)
			}
		}
	}()
	return ended
}

// weigh has it weigh so much, and notes what came of it.
func (w *weigher) weigh(share float64) error {
	var err error
	if share < 1 {
		err = w.own.Yield(share)
	} else {
		err = w.own.Resume()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.why = err
	case share == w.wanted || share < 1:
		w.is, w.why = share, nil
	default: // why it is not to weigh less is still so
		w.is = share
	}
	return err
}

// weigh decides what the daemon is to weigh, by what was just read of memory.
func (d *Daemon) weigh(now annex.Moment) {
	if d.weigher == nil {
		return
	}
	if d.state != control.Managing || d.settings.Mode != config.Manage || d.settings.Yield >= 1 || d.blind {
		d.precedence = precedence{}
		d.weigher.want(1)
		return
	}
	free, headroom := d.memory.Free, d.settings.Policy.Low
	if !d.precedence.short(now, free, headroom) && d.precedence.due(now) {
		ran, waited, err := d.parts.Own.Time()
		if err != nil {
			// Nobody would see that it is kept waiting.
			d.precedence = precedence{}
			d.fail("telling how long annexd waits for a processor", err)
		} else {
			d.precedence.read(used{now, ran, waited}, free, headroom)
		}
	}
	share := 1.0
	if d.precedence.yields {
		share = d.settings.Yield
	}
	d.weigher.want(share)
	if _, why := d.weigher.told(); why != nil && !errors.As(why, new(*bound.Shared)) {
		d.fail("having annexd weigh what it is to", why)
	}
}

// tellWeight tells what it weighs.
func (d *Daemon) tellWeight(to *control.Weight) {
	if d.weigher == nil {
		return
	}
	is, why := d.weigher.told()
	to.Yields = is < 1
	if why == nil {
		return
	}
	to.Unyielding = why.Error()
	if is < 1 {
		to.Unyielding = fmt.Sprintf("it weighs less than it is to: %v", why)
	}
}
