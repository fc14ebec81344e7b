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
	id     annex.ID
	scans  []annex.Scan
	cost   monitor.Cost
	slow   bool // it takes long, and others may begin beside it
	behind bool // it has not come back, and is left behind
	err    error
}

// scan begins the scan that is due longest: one at a time, in a goroutine of its own, since
// a large container takes milliseconds, and one that is stuck takes longer. Those that were
// left behind are under way beside it.
func (d *Daemon) scan(ctx context.Context, now annex.Moment) {
	if !d.mayScan() || ctx.Err() != nil {
		return
	}
	id, due := d.schedule.Due(now)
	for due && d.isBehind(id) {
		d.schedule.Scanned(id, now, nil, monitor.Cost{}) // not before its next turn
		id, due = d.schedule.Due(now)
	}
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
	}()
	go d.await(id, whole)
}

// await gives what became of a scan to the goroutine of Run, and before that tells that it is slow.
func (d *Daemon) await(id annex.ID, whole <-chan scanned) {
	tell := func(s scanned) {
		select {
		case d.scans <- s:
		case <-d.ended:
		}
	}
	for _, late := range []struct {
		after time.Duration
		what  scanned
	}{
		{scanSlow, scanned{id: id, slow: true}},
		{scanWithin - scanSlow, scanned{id: id, behind: true, err: errLeftBehind}},
	} {
		timer := time.NewTimer(late.after)
		select {
		case s := <-whole:
			timer.Stop()
			tell(s)
			return
		case <-timer.C:
			tell(late.what)
		}
	}
	<-whole // what it found is of long ago
	select {
	case d.back <- id:
	case <-d.ended:
	}
}

// isBehind tells that a scan of a container is under way beside others.
func (d *Daemon) isBehind(id annex.ID) bool { _, is := d.behind[id]; return is }

// mayScan tells whether another scan may begin.
func (d *Daemon) mayScan() bool {
	slow := 0
	for _, behind := range d.behind {
		if !behind {
			slow++
		}
	}
	return !d.scanning && slow < mostSlow && len(d.behind) < mostBehind
}

// mostSlow is how many scans that take long go on beside each other: on a host that is short of
// CPU time all are slow, and more of them would make it slower.
const mostSlow = 4

// scanSlow is after how long others may begin beside a scan: one takes some milliseconds a GiB.
const scanSlow = 250 * time.Millisecond

// scanWithin is after how long a scan is left behind: a process whose memory map is locked,
// since it waits for a device, can be looked at by nobody. Until that scan comes back there is
// no other of its container, and everything else goes on.
const scanWithin = 5 * time.Second

// mostBehind is how many scans may be slow or left behind until no more are begun: each holds a
// thread, and what reads page tables.
const mostBehind = 32

var errLeftBehind = fmt.Errorf("looking at its page tables has not come back for %v: a process of it is stuck in the kernel (look for state D); it is not looked at again until that does", scanWithin)

// costs is a monitor that tells what a container's last scan took.
type costs interface {
	Cost(id annex.ID) monitor.Cost
}

// scanned hands on what a scan found.
func (d *Daemon) scanned(s scanned) {
	d.under(s)
	h := d.held[s.id]
	if h == nil || s.slow {
		return
	}
	if s.behind {
		isFirst := d.now() >= h.aside.until
		d.setAside(h, s.err)
		h.aside.isByScan = isFirst
	}
	now := d.now()
	h.scanned = true
	d.schedule.Scanned(s.id, now, s.scans, s.cost)
	d.trouble(h, "scanning "+h.container.Name, s.err)
	if s.err != nil {
		d.seek() // it may have ended
		return
	}
	if d.settings.Mode == config.Observe {
		d.shadow.look(s.id, s.scans)
	}
	d.parts.Data.Look(s.id, s.scans)
	d.planAt = min(d.planAt, now)
}

// under notes which scans are under way.
func (d *Daemon) under(s scanned) {
	if !d.isBehind(s.id) {
		d.scanning = false
	}
	if s.slow || s.behind {
		d.behind[s.id] = s.behind
	} else {
		delete(d.behind, s.id)
	}
}

// cameBack takes note of a scan that was left behind, and is no more: its container is looked
// at again when that is its turn. A pause since another call hung goes on.
func (d *Daemon) cameBack(id annex.ID) {
	delete(d.behind, id)
	if h := d.held[id]; h != nil {
		d.trouble(h, "scanning "+h.container.Name, nil)
		if h.aside.isByScan && len(h.aside.late) == 0 {
			d.takeUp(h)
		}
	}
}

// unscanned says that no container is looked at.
func (d *Daemon) unscanned() []string {
	if len(d.behind) < mostBehind {
		return nil
	}
	return []string{fmt.Sprintf("%d looks at page tables have not come back, since processes are stuck in the kernel (look for state D): no container is looked at until one does", len(d.behind))}
}

// adopted tells that every elastic container was looked at, so that it is known what had
// left before this start. Those whose scans were left behind may never be, nor may any where
// too many were.
func (d *Daemon) adopted() bool {
	if !d.looked {
		return false
	}
	if len(d.behind) >= mostBehind {
		return true
	}
	for id, h := range d.held {
		if h.watched && !h.scanned && !d.behind[id] {
			return false
		}
	}
	return true
}
