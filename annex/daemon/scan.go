package daemon

import (
	"context"
	"fmt"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/monitor"
)

// scanned is what became of looking at a container's page tables.
type scanned struct {
	id    annex.ID
	scans []annex.Scan
	cost  monitor.Cost
	err   error
}

// scan begins the scan that is due longest: one at a time, in a goroutine of its own, since
// a large container takes milliseconds, and one that is stuck takes longer.
func (d *Daemon) scan(ctx context.Context, now annex.Moment) {
	if d.scanning || d.behind.Load() || ctx.Err() != nil {
		return
	}
	id, due := d.schedule.Due(now)
	if !due {
		return
	}
	d.scanning = true
	whole := make(chan scanned, 1)
	go func() {
		scans, err := d.parts.Monitor.Scan(ctx, id)
		s := scanned{id: id, scans: scans, err: err}
		if costs, ok := d.parts.Monitor.(costs); ok {
			s.cost = costs.Cost(id)
		}
		whole <- s
		d.behind.Store(false)
	}()
	go func() {
		timer := time.NewTimer(scanWithin)
		defer timer.Stop()
		select {
		case s := <-whole:
			d.scans <- s
		case <-timer.C:
			d.behind.Store(true)
			select {
			case s := <-whole: // it came back just now
				d.behind.Store(false)
				d.scans <- s
			default:
				d.scans <- scanned{id: id, err: errLeftBehind}
			}
		}
	}()
}

// scanWithin is after how long a scan is left behind: a process whose memory map is locked,
// since it waits for a device, can be looked at by nobody. Until that scan comes back there is
// no other, and everything else goes on.
const scanWithin = 5 * time.Second

var errLeftBehind = fmt.Errorf("looking at its page tables has not come back for %v: a process of it is stuck in the kernel (look for state D); no container is looked at until it does", scanWithin)

// costs is a monitor that tells what a container's last scan took.
type costs interface {
	Cost(id annex.ID) monitor.Cost
}

// scanned hands on what a scan found.
func (d *Daemon) scanned(s scanned) {
	d.scanning = false
	h := d.held[s.id]
	if h == nil {
		return
	}
	now := d.now()
	h.scanned = true
	d.schedule.Scanned(s.id, now, s.scans, s.cost)
	if s.err != nil {
		d.trouble(h, "scanning "+h.container.Name, s.err)
		d.look() // it may have ended
		return
	}
	if d.settings.Mode == config.Observe {
		for i, one := range s.scans {
			s.scans[i] = d.shadow.scan(one)
		}
	}
	d.parts.Data.Look(s.id, s.scans)
	d.planAt = min(d.planAt, now)
}

// adopted tells that every elastic container was looked at, so that it is known what had
// left before this start.
func (d *Daemon) adopted() bool {
	if !d.looked {
		return false
	}
	if d.behind.Load() {
		return true // the others may never be
	}
	for _, h := range d.held {
		if h.watched && !h.scanned {
			return false
		}
	}
	return true
}
