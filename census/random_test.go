package census_test

import (
	"fmt"
	"math/rand/v2"

	"tare/probe/pagetable"
)

// random makes a census of a few processes whose pages and frames are so few
// that everything happens: equal frames, equal pages, neighbouring tables, runs
// that begin and end anywhere.
func random(r *rand.Rand) (*pagetable.Census, []string) {
	groups := make([]string, 1+r.IntN(4))
	for i := range groups {
		groups[i] = fmt.Sprintf("container-%d", i)
	}
	c := &pagetable.Census{Flags: r.IntN(4) > 0}
	frames := 1 + r.IntN(60)
	for i := range r.IntN(7) {
		s := pagetable.Space{PID: 100 + i, Command: "random", Group: r.IntN(len(groups))}
		page := uint64(r.IntN(8))
		if r.IntN(2) == 0 {
			page = 1<<35 - 1024 + uint64(r.IntN(600)) // at the upper end, and over a table's bound
		}
		for range r.IntN(6) {
			page += uint64(r.IntN(3) * r.IntN(300))
			size := 1 + uint64(r.IntN(12))
			m := pagetable.Mapping{
				Start: page * pagetable.PageSize, End: (page + size) * pagetable.PageSize,
				Kind:  pagetable.Kind(r.IntN(int(pagetable.Kinds))),
				Write: r.IntN(2) == 0, Execute: r.IntN(2) == 0, Shared: r.IntN(2) == 0,
			}
			if r.IntN(2) == 0 {
				m.File, m.Device, m.Inode = fmt.Sprintf("/lib/%d", r.IntN(3)), uint64(r.IntN(2)), uint64(r.IntN(2))
			}
			s.Mappings = append(s.Mappings, m)
			for at := uint64(0); at < size; {
				run := pagetable.Run{Page: page + at, Mapping: len(s.Mappings) - 1}
				for n := 1 + r.IntN(int(size-at)); n > 0; n-- {
					run.Entries = append(run.Entries, entry(r, frames))
				}
				s.Runs = append(s.Runs, run)
				at += uint64(len(run.Entries) + r.IntN(2))
			}
			page += size
		}
		c.Spaces = append(c.Spaces, s)
		if r.IntN(3) == 0 { // a fork of it, or the same image started twice
			s.PID, s.Group = s.PID+50, r.IntN(len(groups))
			c.Spaces = append(c.Spaces, s)
		}
	}
	return c, groups
}

func entry(r *rand.Rand, frames int) pagetable.Entry {
	frame := uint64(r.IntN(frames))
	if r.IntN(2) == 0 {
		frame += 1<<40 - 100 // the largest there can be
	}
	e := pagetable.Entry(frame)
	switch r.IntN(12) {
	case 0:
		return 0
	case 1:
		return e | pagetable.Swapped
	case 2:
		return 7 | pagetable.Present | pagetable.Zero
	case 3:
		return e | pagetable.Present | pagetable.NoFrame
	}
	for _, f := range []pagetable.Entry{
		pagetable.Writable, pagetable.Dirty, pagetable.Accessed, pagetable.Active, pagetable.Referenced,
		pagetable.OnList, pagetable.THP, pagetable.Large,
	} {
		if r.IntN(2) == 0 {
			e |= f
		}
	}
	for _, f := range []pagetable.Entry{pagetable.Huge, pagetable.Unevictable} {
		if r.IntN(6) == 0 {
			e |= f
		}
	}
	// A frame is always a file's or always anonymous, and merged or not.
	switch frame % 3 {
	case 0:
		e |= pagetable.FileFrame
	case 1:
		e |= pagetable.Anon | pagetable.KSM
	default:
		e |= pagetable.Anon
	}
	return e | pagetable.Present
}
