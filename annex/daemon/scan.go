package daemon

import (
	"context"

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
	if d.scanning || ctx.Err() != nil {
		return
	}
	id, due := d.schedule.Due(now)
	if !due {
		return
	}
	d.scanning = true
	go func() {
		scans, err := d.parts.Monitor.Scan(ctx, id)
		s := scanned{id: id, scans: scans, err: err}
		if costs, ok := d.parts.Monitor.(costs); ok {
			s.cost = costs.Cost(id)
		}
		d.scans <- s
	}()
}

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
	for _, one := range s.scans {
		if d.settings.Mode == config.Observe {
			one = d.shadow.scan(one)
		}
		d.parts.Data.Scan(one)
	}
	d.planAt = min(d.planAt, now)
}

// adopted tells that every elastic container was looked at, so that it is known what had
// left before this start.
func (d *Daemon) adopted() bool {
	if !d.looked {
		return false
	}
	for _, h := range d.held {
		if h.watched && !h.scanned {
			return false
		}
	}
	return true
}
