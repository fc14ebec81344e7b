package daemon

import (
	"errors"
	"fmt"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/media"
)

// For how long nothing is tried of a container of which a call hung: twice as long each time that
// one does so again.
const (
	asideFirst = 10 * time.Second
	asideMost  = 10 * time.Minute
)

// never is later than any moment.
const never = annex.Moment(1<<63 - 1)

// aside is what is known of calls for a container from which the kernel does not come back.
type aside struct {
	late  map[uint64]bool // requests with a call that is late
	until annex.Moment    // nothing is tried until then
	pause time.Duration   // until the last such moment; 0 is that none hung
	why   string
	// isByScan tells that a scan alone hung, so that its return ends the pause.
	isByScan bool
}

// isLate notes that the kernel does not come back from a call of a request: until it does nothing
// more is asked of its container, and others have its turn.
func (d *Daemon) isLate(r annex.Request) {
	d.movers.lose(r)
	d.stopTook(d.now())
	d.planAt = 0
	h := d.held[r.ID]
	if h == nil {
		return
	}
	if h.aside.late == nil {
		h.aside.late = map[uint64]bool{}
	}
	h.aside.late[r.Number] = true
	d.parts.Data.Aside(r.ID, never)
}

// hangs looks whether a result tells that calls for a container hang, or do no more.
func (d *Daemon) hangs(r annex.Result) {
	h := d.held[r.ID]
	if h == nil {
		return
	}
	wasLate := h.aside.late[r.Number]
	delete(h.aside.late, r.Number)
	hung, stuck := new(media.Hung), new(bound.Stuck)
	switch {
	case errors.As(r.Err, &hung), errors.As(r.Err, &stuck):
		d.setAside(h, r.Err)
		h.aside.isByScan = false
	case len(h.aside.late) > 0:
	case d.now() < h.aside.until:
		d.parts.Data.Aside(h.id, h.aside.until)
	case wasLate || r.Moved > 0:
		d.takeUp(h)
	}
}

// setAside has nothing tried of a container for a while, since a call for it hung.
func (d *Daemon) setAside(h *held, why error) {
	now := d.now()
	if now >= h.aside.until { // or another call hung besides
		h.aside.pause = min(max(2*h.aside.pause, asideFirst), asideMost)
		h.aside.until, h.aside.why = now.After(h.aside.pause), why.Error()
		d.log(Decision{What: "aside", Container: h.container.Name, Why: fmt.Sprintf("for %v", h.aside.pause), Error: h.aside.why})
	}
	d.parts.Data.Aside(h.id, h.aside.until)
	d.movers.shelve(h.id)
}

// takeUp ends that.
func (d *Daemon) takeUp(h *held) {
	if h.aside.pause > 0 {
		d.log(Decision{What: "aside", Container: h.container.Name, Why: "ended"})
	}
	h.aside = aside{}
	d.parts.Data.Aside(h.id, 0)
}

// isOn tells that nothing is moved of it.
func (a *aside) isOn(now annex.Moment) bool { return now < a.until || len(a.late) > 0 }

// problem says why nothing is moved of it; empty where it is.
func (a *aside) problem(now annex.Moment) string {
	switch {
	case a.pause > 0 && now < a.until:
		return fmt.Sprintf("it is set aside for %v more: %s", a.until.Since(now).Round(time.Second), a.why)
	case len(a.late) > 0:
		return "it is set aside until the kernel comes back from a call for its memory, which takes long: a process of it may stand still (state D)"
	}
	return ""
}

// setAsides says of which containers calls hang.
func (d *Daemon) setAsides() []string {
	n, first := 0, (*held)(nil)
	for _, id := range d.ids() {
		if h := d.held[id]; h.aside.pause > 0 && h.aside.isOn(d.now()) {
			if n++; first == nil {
				first = h
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("calls for the memory of containers hang in the kernel, and these are set aside (containers: %d; %s: %s)", n, first.container.Name, first.aside.problem(d.now()))}
}
