package census

import (
	"math"

	"tare/probe/pagetable"
)

// Classes parts entries by who else holds them. Each is in exactly one.
type Classes struct {
	// Groupable entries have the same virtual page and frame in another one.
	Groupable uint64 `json:"groupable"`
	// SharedFrame entries have their frame at another address: over processes in
	// any process, the same one included; across groups, in another group.
	SharedFrame uint64 `json:"shared_frame"`
	// Exclusive entries are the others.
	Exclusive uint64 `json:"exclusive"`
}

// Sum is all of them.
func (c Classes) Sum() uint64 { return c.Groupable + c.SharedFrame + c.Exclusive }

// Groupability is the share of groupable entries; NaN where there is none at all.
func (c Classes) Groupability() float64 { return share(c.Groupable, c.Sum()) }

// Tally counts entries. The unit is the entry of a base page, 4 KiB.
//
//	Entries = Classes.Sum() + Zero + Device + Swapped
//	Classes.Sum() = Across.Sum() = Active + Inactive + Unlisted, the last where flags are known
type Tally struct {
	Entries uint64 `json:"entries"`
	// Classes are over processes, which is S1's counting.
	Classes
	// Across is the same over groups: what one container has in common with another.
	Across Classes `json:"across"`

	Zero    uint64 `json:"zero"`    // map the page of zeros, or its huge sister
	Device  uint64 `json:"device"`  // have no frame of memory
	Swapped uint64 `json:"swapped"` // are in swap
	// ZeroGroupable and ZeroAcross are those of Zero that are zero at the same page
	// in another process, in another group: groupable, as S1 counted.
	ZeroGroupable uint64 `json:"zero_groupable"`
	ZeroAcross    uint64 `json:"zero_across"`

	// What follows is of the entries in Classes alone.

	Active     uint64 `json:"active"`     // on the kernel's active list (of a generation that counts as active)
	Inactive   uint64 `json:"inactive"`   // on the inactive list
	Unlisted   uint64 `json:"unlisted"`   // on neither: just faulted in, locked, or never reclaimed
	Referenced uint64 `json:"referenced"` // PG_referenced
	Huge       uint64 `json:"huge"`       // mapped by an entry of a higher level
	// THP are anonymous and in a transparent huge page, mapped as one or not, which
	// is all that S1's kernel had; today's flags large folios of files alike, and
	// those are in LargeFolio alone.
	THP        uint64 `json:"thp"`
	LargeFolio uint64 `json:"large_folio"` // frames that the kernel keeps together with others
	Anonymous  uint64 `json:"anonymous"`   // of anonymous frames
	KSM        uint64 `json:"ksm"`         // merged by the kernel
	// AnonymousExclusive are those of Anonymous whose frame nothing else in the
	// census maps: what KSM could at most merge.
	AnonymousExclusive uint64 `json:"anonymous_exclusive"`

	ActiveGroupable uint64 `json:"active_groupable"`
	ActiveAcross    uint64 `json:"active_across"` // and groupable across groups
	HugeActive      uint64 `json:"huge_active"`
	HugeGroupable   uint64 `json:"huge_groupable"`
	HugeAcross      uint64 `json:"huge_across"`
	THPActive       uint64 `json:"thp_active"`
	THPGroupable    uint64 `json:"thp_groupable"`
}

// Present are the entries that translate: all but the swapped ones.
func (t *Tally) Present() uint64 { return t.Entries - t.Swapped }

// Groupability is the groupable share over processes, the page of zeros left
// out; NaN where there are no entries.
func (t *Tally) Groupability() float64 { return t.Classes.Groupability() }

// GroupabilityWithZero is the groupable share over processes as S1 counted it,
// with the page of zeros as any other frame.
func (t *Tally) GroupabilityWithZero() float64 {
	return share(t.Groupable+t.ZeroGroupable, t.Classes.Sum()+t.Zero)
}

// AcrossWithZero is GroupabilityWithZero over groups.
func (t *Tally) AcrossWithZero() float64 {
	return share(t.Across.Groupable+t.ZeroAcross, t.Across.Sum()+t.Zero)
}

// ActiveShare is the share of entries on an active list.
func (t *Tally) ActiveShare() float64 { return share(t.Active, t.flagged()) }

// ActiveGroupableShare is the share of all entries that are active and
// groupable over processes: S1's "duplicated" entries.
func (t *Tally) ActiveGroupableShare() float64 { return share(t.ActiveGroupable, t.flagged()) }

// ActiveAcrossShare is the same across groups.
func (t *Tally) ActiveAcrossShare() float64 { return share(t.ActiveAcross, t.flagged()) }

// HugeOfActive is the share of active entries that one of a higher level maps.
func (t *Tally) HugeOfActive() float64 { return share(t.HugeActive, t.Active) }

// THPOfActive is the share of active entries in transparent huge pages.
func (t *Tally) THPOfActive() float64 { return share(t.THPActive, t.Active) }

// flagged are the entries whose frames' flags are known: all, or none.
func (t *Tally) flagged() uint64 { return t.Active + t.Inactive + t.Unlisted }

// share is part of whole, NaN of nothing.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return float64(part) / float64(whole)
}

// Add adds another's counts.
func (t *Tally) Add(o *Tally) {
	t.Entries += o.Entries
	t.Classes.add(o.Classes)
	t.Across.add(o.Across)
	t.Zero += o.Zero
	t.Device += o.Device
	t.Swapped += o.Swapped
	t.ZeroGroupable += o.ZeroGroupable
	t.ZeroAcross += o.ZeroAcross
	t.Active += o.Active
	t.Inactive += o.Inactive
	t.Unlisted += o.Unlisted
	t.Referenced += o.Referenced
	t.Huge += o.Huge
	t.THP += o.THP
	t.LargeFolio += o.LargeFolio
	t.Anonymous += o.Anonymous
	t.KSM += o.KSM
	t.AnonymousExclusive += o.AnonymousExclusive
	t.ActiveGroupable += o.ActiveGroupable
	t.ActiveAcross += o.ActiveAcross
	t.HugeActive += o.HugeActive
	t.HugeGroupable += o.HugeGroupable
	t.HugeAcross += o.HugeAcross
	t.THPActive += o.THPActive
	t.THPGroupable += o.THPGroupable
}

func (c *Classes) add(o Classes) {
	c.Groupable += o.Groupable
	c.SharedFrame += o.SharedFrame
	c.Exclusive += o.Exclusive
}

// sharing is what is known of one entry against the others.
type sharing struct {
	groupable, across   bool // same virtual page and frame: in another process, in another group
	mapped, mappedThere bool // same frame anywhere: in another entry, in another group
}

func (c *Classes) classify(groupable, mapped bool) {
	switch {
	case groupable:
		c.Groupable++
	case mapped:
		c.SharedFrame++
	default:
		c.Exclusive++
	}
}

// enter counts one entry that is present or swapped.
func (t *Tally) enter(e pagetable.Entry, s sharing, flags bool) {
	t.Entries++
	switch sort(e) {
	case swapped:
		t.Swapped++
		return
	case device:
		t.Device++
		return
	case zero:
		t.Zero++
		t.ZeroGroupable += bit(s.groupable)
		t.ZeroAcross += bit(s.across)
		return
	}
	t.Classes.classify(s.groupable, s.mapped)
	t.Across.classify(s.across, s.mappedThere)
	anonymous := isAnonymous(e)
	t.Anonymous += bit(anonymous)
	t.AnonymousExclusive += bit(anonymous && !s.groupable && !s.mapped)
	huge := e.Has(pagetable.Huge)
	if huge {
		t.Huge++
		t.HugeGroupable += bit(s.groupable)
		t.HugeAcross += bit(s.across)
	}
	if !flags {
		return
	}
	thp := anonymous && e.Has(pagetable.THP)
	t.THP += bit(thp)
	t.THPGroupable += bit(thp && s.groupable)
	t.LargeFolio += bit(e.Has(pagetable.Large))
	t.KSM += bit(e.Has(pagetable.KSM))
	t.Referenced += bit(e.Has(pagetable.Referenced))
	switch {
	case e.Has(pagetable.Unevictable) || !e.Has(pagetable.Active) && !e.Has(pagetable.OnList):
		t.Unlisted++
	case e.Has(pagetable.Active):
		t.Active++
		t.ActiveGroupable += bit(s.groupable)
		t.ActiveAcross += bit(s.across)
		t.HugeActive += bit(huge)
		t.THPActive += bit(thp)
	default:
		t.Inactive++
	}
}

// isAnonymous finds anonymous frames by their flag, and without flags by their
// being no file's.
func isAnonymous(e pagetable.Entry) bool {
	return e.Has(pagetable.Anon) || !e.Has(pagetable.FileFrame)
}

// isFile finds frames of the page cache. A private mapping of a file holds
// anonymous ones too, once it was written to.
func isFile(e pagetable.Entry) bool {
	return e.Has(pagetable.FileFrame) && !e.Has(pagetable.Anon)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// order is what an entry is at all.
type order uint8

const (
	none    order = iota // no entry
	framed               // a frame of memory behind it
	zero                 // the page of zeros
	device               // no frame of memory
	swapped              // in swap
)

// sort gives what an entry is. One that is neither present nor swapped is none:
// the kernel's markers, and what a back end put in to bridge a gap.
func sort(e pagetable.Entry) order {
	switch {
	case e.Has(pagetable.Present):
		switch {
		case e.Has(pagetable.Zero):
			return zero
		case e.Has(pagetable.NoFrame):
			return device
		}
		return framed
	case e.Has(pagetable.Swapped):
		return swapped
	}
	return none
}
