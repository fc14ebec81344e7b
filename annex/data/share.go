package data

import (
	"cmp"
	"slices"

	"tare/annex"
)

// divide gives each context its share of memory, in pages: an awake one what it makes use of, a
// sleeping one its record while there is memory for it, in the order in which they are
// expected to wake. So a share shrinks to nothing with sleep where memory is short, and is
// whole again at the moment of waking. What is left over goes to those who have it.
func (m *Manager) divide() {
	left := m.memory.pages() - m.policy.high()
	type claim struct {
		*context
		at annex.Moment
	}
	var awake, asleep []claim
	wanted := 0
	for _, c := range m.contexts {
		c.share = 0
		if !c.managed() {
			continue
		}
		left += c.pages.count().resident
		if c.activity.isAwake() {
			awake = append(awake, claim{c, 0})
			wanted += c.wants(m.now, m.policy)
		} else {
			asleep = append(asleep, claim{c, m.wakes(c)})
		}
	}
	left = max(left, 0)
	slices.SortStableFunc(asleep, func(a, b claim) int { return cmp.Compare(a.at, b.at) })
	fits := left
	for _, c := range awake {
		want := c.wants(m.now, m.policy)
		if wanted > fits { // more than there is: each gets the same part of what it wants
			want = int(int64(want) * int64(fits) / int64(wanted))
		}
		c.share = want
		left -= want
	}
	for _, c := range asleep {
		c.share = min(c.pages.count().record, left)
		left -= c.share
	}
	for _, c := range append(awake, asleep...) {
		more := min(max(c.pages.count().resident-c.share, 0), left)
		c.share += more
		left -= more
	}
}

// wants is the working set of an awake context: its record, or the extents that were seen
// to be used, whichever is more.
func (c *context) wants(now annex.Moment, p Policy) int {
	at, window, used := stampOf(now), stamp(p.Working/stampStep), 0
	for a := range c.pages.areas() {
		for j := range a.extents {
			if x := &a.extents[j]; x.uses > 0 && at-min(x.used, at) <= window {
				used += 1 << a.shift
			}
		}
	}
	n := c.pages.count()
	return max(n.record, min(used, n.resident+n.away))
}
