package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
)

// settled is for how long nothing more must come back until a drain has ended though not
// everything is back: some memory may just be becoming free.
const settled = time.Second

// drain is an operator's wish to have everything back.
type drain struct {
	on      bool
	off     bool  // and every setting
	rate    int64 // bytes a second; 0 is no bound
	before  int64 // bytes that had come back before
	next    annex.Moment
	waiting bool         // something waits for next
	quiet   annex.Moment // since when nothing came back; 0 is not
	problem string
}

// may tells whether a request may begin now, and counts it if so.
func (r *drain) may(q annex.Request, now annex.Moment) bool {
	if r.rate == 0 {
		return true
	}
	if r.waiting = now < r.next; r.waiting {
		return false
	}
	took := time.Duration(float64(annex.Count(q.Runs)) * annex.PageSize / float64(r.rate) * float64(time.Second))
	r.next = max(r.next, now).After(took)
	return true
}

// Drain begins to bring everything back as far as it fits.
func (d *Daemon) Drain(ctx context.Context, bytesPerSecond int64) error {
	return d.order(ctx, func() error {
		switch {
		case d.settings.Mode == config.Observe:
			return &control.Refused{What: "drain", State: d.state, Mend: "mode is observe, in which nothing leaves"}
		case d.state == control.Off:
			return &control.Refused{What: "drain", State: d.state, Mend: "everything that fits has come back; annex reload takes up managing again"}
		}
		d.beginDrain(bytesPerSecond, false)
		return nil
	})
}

// Off does the same, and puts back every setting at once.
func (d *Daemon) Off(ctx context.Context) error {
	var done <-chan error
	err := d.order(ctx, func() error {
		if d.state == control.Off {
			return nil
		}
		if d.settings.Mode == config.Observe {
			d.log(Decision{What: "off"})
			d.enter(control.Off)
			d.brake()
			return nil
		}
		d.beginDrain(0, true)
		done = d.release()
		return nil
	})
	if err != nil {
		return err
	}
	return d.released(ctx, done)
}

func (d *Daemon) beginDrain(rate int64, off bool) {
	what := "drain"
	if off {
		what = "off"
	}
	d.log(Decision{What: what})
	d.drain = drain{on: true, off: off || d.drain.off, rate: rate, before: d.all.fetched + d.all.mapped}
	// A limit may have changed since the containers were last looked at.
	for _, id := range d.ids() {
		d.held[id].isUnread = false
		d.hold(id, d.held[id].container, d.held[id].class)
	}
	d.parts.Data.Drain(true)
	if off {
		d.movers.drop() // a reclaim that goes on would change settings again
	} else {
		d.movers.halt()
	}
	d.enter(control.Draining)
	d.memoryAt, d.planAt, d.soonest = 0, 0, 0
}

// drained looks whether a drain has ended: nothing is asked for any more, and nothing has
// been under way for a while.
func (d *Daemon) drained(now annex.Moment, asked int) {
	d.planAt = min(d.planAt, now.After(settled/4))
	// What had left before this start, or of one that was just found, scans tell.
	if asked > 0 || !d.movers.idle() || !d.adopted() {
		d.drain.quiet = 0
		return
	}
	var left int64
	for _, c := range d.parts.Data.Status().Contexts {
		left += c.ExtendedBytes
	}
	if d.drain.quiet == 0 {
		d.drain.quiet = now
	}
	if left > 0 && now.Since(d.drain.quiet) < settled {
		return
	}
	if left > 0 {
		d.drain.problem = d.whyLeft()
	}
	if d.drain.off {
		d.release() // what anything may have set since
		d.enter(control.Off)
		d.brake()
		return
	}
	d.enter(control.Drained)
}

// whyLeft says why not everything is back after a drain.
func (d *Daemon) whyLeft() string {
	d.lookAtSwap()
	var hangs, frozen, unread []string
	fits := true // what is left but for what hangs or cannot be read
	now := d.now()
	for _, c := range d.parts.Data.Status().Contexts {
		h := d.held[c.ID]
		if h == nil || c.ExtendedBytes == 0 {
			continue
		}
		part := fmt.Sprintf("%s (%d MiB)", c.Name, c.ExtendedBytes>>20)
		if c.ExtendedBytes < 1<<20 {
			part = fmt.Sprintf("%s (%d KiB)", c.Name, c.ExtendedBytes>>10)
		}
		if h.aside.isOn(now) {
			hangs = append(hangs, part)
			continue
		}
		if h.isUnread && d.memory.Free > d.settings.Policy.Low {
			unread = append(unread, part)
			continue
		}
		fits = false
		if h.what.frozen {
			frozen = append(frozen, part)
		}
	}
	var why []string
	if !fits {
		why = append(why, fmt.Sprintf("it does not fit: %d MiB are free, and %d MiB stay so as headroom: it comes back when the programs touch it, or when memory is freed and annex drain is asked again",
			d.memory.Free>>20, d.settings.Policy.Low>>20))
	}
	if text := d.unread(unread); text != "" {
		why = append(why, text)
	}
	if len(frozen) > 0 {
		why = append(why, "frozen or stopped, and untouched until that ends: "+strings.Join(few(frozen), ", "))
	}
	if len(hangs) > 0 {
		why = append(why, "calls for it hang in the kernel, and annex drain is to be asked again when they do no more: "+strings.Join(few(hangs), ", "))
	}
	return strings.Join(why, "; ")
}

// Reload takes the configuration that is there now, and takes up managing again. One that
// is wrong leaves that in force.
func (d *Daemon) Reload(ctx context.Context) (restart []string, err error) {
	if d.parts.Read == nil {
		return nil, &control.Refused{What: "reload", Mend: "there is no configuration to be read"}
	}
	// One at a time: what is read last is what is in force.
	d.reloading.Lock()
	defer d.reloading.Unlock()
	managing := false
	if err := d.order(ctx, func() error { managing = d.manages(); return nil }); err != nil {
		return nil, err
	}
	s, restart, err := d.parts.Read(managing)
	if err != nil {
		// The asker is told, but a signal's asker hears nothing.
		refused := fmt.Sprintf("the configuration in force is not the one that was to be read at %s: %s",
			time.Now().UTC().Format(time.DateTime+" MST"), strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil, errors.Join(
			err,
			d.order(context.WithoutCancel(ctx), func() error { d.refused = refused; return nil }),
		)
	}
	var done <-chan error
	// Whoever asked may have left by now: what has been read is in force in part already.
	if err := d.order(context.WithoutCancel(ctx), func() error { done = d.settle(s); return nil }); err != nil {
		return restart, err
	}
	return restart, d.released(ctx, done)
}

// manages tells whether it manages already, and is not to begin to: as it is after a drain.
func (d *Daemon) manages() bool {
	return d.settings.Mode == config.Manage && (d.state == control.Managing || d.state == control.Starting)
}

// settle has other settings in force. Where some are put back, what it returns tells when.
func (d *Daemon) settle(s Settings) (done <-chan error) {
	s = s.complete()
	d.log(Decision{What: "reload", Why: string(s.Mode)})
	d.turn(s.Mode)
	again := s.Mode != d.settings.Mode || d.drain.on || d.state == control.Off
	paced := s.Scan != d.settings.Scan
	unprotect := s.Mode == config.Observe || !s.Protect
	if s.Mode == config.Observe {
		d.movers.drop()
	}
	d.settings, d.refused = s, ""
	d.parts.Data.SetPolicy(s.Policy)
	if unprotect {
		done = d.release()
	}
	if again {
		// What is in memory and what is not is looked at anew: the shadow knew otherwise.
		d.movers.halt()
		d.shadow = newShadow()
		d.drain = drain{}
		d.parts.Data.Drain(false)
		d.looked = false
		d.enter(control.Starting)
	}
	if again || paced {
		d.schedule.Restart(s.Scan, d.now())
		for _, h := range d.held {
			h.scanned = false
		}
	}
	d.brake()
	d.look()
	d.memoryAt, d.pressureAt, d.planAt = 0, 0, 0
	return done
}

// turned is a mode that was left.
type turned struct {
	from config.Mode
	at   annex.Moment
}

// mostTurned is of how many changes of the mode is known.
const mostTurned = 64

// turn notes that another mode is to be in force.
func (d *Daemon) turn(to config.Mode) {
	if to == d.settings.Mode {
		return
	}
	d.modes = append(d.modes, turned{d.settings.Mode, d.now()})
	if len(d.modes) > mostTurned {
		d.modes = d.modes[1:]
	}
}

// modeAt is the mode that was in force at a moment.
func (d *Daemon) modeAt(at annex.Moment) config.Mode {
	for _, was := range d.modes {
		if at < was.at {
			return was.from
		}
	}
	return d.settings.Mode
}

// order has the goroutine of Run do something that may fail.
func (d *Daemon) order(ctx context.Context, f func() error) error {
	var err error
	if ending := d.do(ctx, func() { err = f() }); ending != nil {
		return ending
	}
	return err
}
