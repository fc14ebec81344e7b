package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tare/annex"
	"tare/annex/media"
	"tare/kernel/swap"
)

// failing are the swap areas whose devices do not take pages or do not give them back.
type failing struct {
	host swap.Host
	log  failureLog
	now  func() time.Time
	of   map[area]*failures
	// pending counts failures whose area could not be looked up yet.
	pending map[swap.Failure]int

	isUnreadable atomic.Bool // one does not give pages back
}

// failureLog gives the failures since it was last read.
type failureLog interface {
	Read() ([]swap.Failure, error)
}

// area identifies a swap area for as long as it is in use. The same path may be of another device later.
type area struct {
	path   string
	size   int64
	device swap.Device // nothing where it is not known
}

func newFailing(log failureLog) *failing {
	return &failing{log: log, now: time.Now, of: map[area]*failures{}, pending: map[swap.Failure]int{}}
}

func (f *failing) area(a swap.Area) area {
	device, _ := f.host.Below(a.Path) // nothing where it fails
	return area{a.Path, a.Size, device}
}

// failures are those of one area since it is in use.
type failures struct {
	reads, writes int
	lastWrite     time.Time
}

// failedFor is for how long nothing leaves to an area after a page that it did not take: zram that is
// full, or a volume without space, may have room again. One that does not give pages back is not trusted again.
const failedFor = 10 * time.Minute

// look reads what the kernel has logged, and gives what an operator should know; empty where nothing
// fails. holds tells that the kernel would put the next pages on an area that fails.
func (f *failing) look() (text string, holds bool, err error) {
	all, reading := f.log.Read()
	for _, one := range all {
		f.pending[one]++
	}
	areas, err := f.host.Areas()
	if err != nil {
		return "", false, fmt.Errorf("looking for swap devices that fail: %w", errors.Join(reading, err))
	}
	for one, count := range f.pending {
		f.note(one, count, areas)
	}
	clear(f.pending)
	if reading != nil {
		return "", false, fmt.Errorf("looking for swap devices that fail: %w", reading)
	}
	first := -1 << 16 // the priority of those that are filled next
	for _, a := range areas {
		if a.Size-a.Used >= annex.PageSize {
			first = max(first, a.Priority)
		}
	}
	var says []string
	inUse, isUnreadable := map[area]*failures{}, false
	for _, a := range areas {
		id := f.area(a)
		n := f.of[id]
		if n == nil {
			continue
		}
		inUse[id] = n
		isUnreadable = isUnreadable || n.reads > 0
		stays := n.reads > 0 || f.now().Sub(n.lastWrite) < failedFor
		holds = holds || stays && a.Priority == first && a.Size-a.Used >= annex.PageSize
		if stays {
			says = append(says, n.text(a.Path))
		}
	}
	f.of = inUse
	f.isUnreadable.Store(isUnreadable)
	return strings.Join(says, "; "), holds, nil
}

// note notes so many failures of the area on that device, or of those whose device is not known.
func (f *failing) note(one swap.Failure, count int, areas []swap.Area) {
	for _, a := range areas {
		id := f.area(a)
		if id.device != (swap.Device{}) && id.device != one.Device && f.host.Disk(id.device) != one.Device {
			continue
		}
		n := f.of[id]
		if n == nil {
			n = &failures{}
			f.of[id] = n
		}
		if one.Write {
			n.writes, n.lastWrite = n.writes+count, f.now()
		} else {
			n.reads += count
		}
	}
}

func (n *failures) text(area string) string {
	if n.reads > 0 {
		return fmt.Sprintf("swap area %s does not give pages back (failed reads in the kernel's log: %d): the kernel kills programs that touch them (SIGBUS). annexd moves nothing to it. Bring back what can be read (annex drain), stop the programs that have pages there, take it out of use (swapoff), and replace its device", area, n.reads)
	}
	return fmt.Sprintf("swap area %s does not take pages (failed writes in the kernel's log: %d): they stay in memory. annexd moves nothing to it for %v. A compressed device (zram) or a thin volume may be full: give it room. Otherwise look at its device", area, n.writes, failedFor)
}

// lookAtSwap looks for swap devices that fail, and ends eviction to one that does.
func (d *Daemon) lookAtSwap() {
	if d.parts.Failing == nil {
		return
	}
	text, holds, err := d.parts.Failing()
	if err != nil {
		d.fail("looking at swap", err)
		return
	}
	if holds && !d.swapFails {
		d.log(Decision{What: "error", Why: "swap", Error: text})
		d.movers.halt()
	}
	if holds != d.swapFails {
		d.memoryAt = 0 // data is to know
	}
	d.swapTrouble, d.swapFails = text, holds
}

// noteUnread notes that pages of a container cannot be read from swap.
func (d *Daemon) noteUnread(h *held, r annex.Result) {
	if unread := new(media.Unreadable); errors.As(r.Err, &unread) {
		h.isUnread = true
		d.lookAtSwap()
	}
}

// unread says of which containers pages cannot be read; empty where all can.
func (d *Daemon) unread(containers []string) string {
	if len(containers) == 0 {
		return ""
	}
	slices.Sort(containers)
	return fmt.Sprintf("it cannot be read from swap, and is lost unless its device can be read again: %s (%s)",
		strings.Join(few(containers), ", "), cmp.Or(d.swapTrouble, "the kernel's log says which device"))
}
