package pagetable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tare/kernel/pagemap"
)

// Walk is the back end that reads the page tables themselves.
//
// Without flags it sets FileFrame by the mapping: in a private mapping of a
// file, a page is taken for the file's unless its entry says that it was
// written to (which is wrong of a copy that was swapped in and has only been
// read since). It never sets SharedFrame.
type Walk struct {
	walker *walker
	layout layout
	format x86Format
	flags  *flagger
	build  builder
	maps   *atlas
	taken  [tableEntries]Entry
	// zeros are the huge frames that were looked up in this census, and whether each is
	// the one of zeros.
	zeros map[uint64]bool
}

// NewWalk opens the back end that reads page tables by BPF. Its error is a
// [*probe.Missing] where this host lacks what it needs.
func NewWalk() (_ *Walk, err error) {
	w, err := newWalker()
	if err != nil {
		return nil, err
	}
	t := &Walk{walker: w}
	defer func() {
		if err != nil {
			_ = t.Close()
		}
	}()
	if !w.finds {
		return nil, needs.Missing("the kernel lets no BPF program find a process by its id (bpf_task_from_pid)", "Linux 6.2 or later")
	}
	if t.layout, err = hostLayout(); err != nil {
		return nil, err
	}
	zero, err := pagemap.ZeroFrame()
	if err != nil {
		return nil, needs.Missing("the page of zeros is not found ("+err.Error()+")", "")
	}
	t.format = t.layout.format(zero)
	if t.flags, err = newFlagger(); err != nil {
		return nil, err
	}
	return t, nil
}

// Name is "page tables".
func (t *Walk) Name() string { return "page tables" }

// Close unloads the programs.
func (t *Walk) Close() error {
	if t.flags != nil {
		return errors.Join(t.walker.close(), t.flags.close())
	}
	return t.walker.close()
}

// Take takes a census.
func (t *Walk) Take(ctx context.Context, processes []Process, flags bool) (*Census, error) {
	c := &Census{Backend: t.Name(), Flags: flags, Taken: time.Now()}
	t.build, t.zeros, t.maps = builder{}, map[uint64]bool{}, newAtlas()
	defer func() { t.build, t.maps = builder{}, nil }()
	seen := map[uint64]bool{} // address spaces
	for _, p := range processes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		space, f, err := t.space(ctx, p, seen, flags)
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", p.PID, err)
		}
		c.take(p, space, f)
	}
	t.build.trim(c.Spaces)
	c.Reading = time.Since(c.Taken)
	if flags {
		if err := t.flags.flag(ctx, c.Spaces, true); err != nil {
			return nil, err
		}
		c.Flagging = time.Since(c.Taken) - c.Reading
	}
	c.Elapsed = time.Since(c.Taken)
	return c, nil
}

// space reads one process. seen are the address spaces that have been.
func (t *Walk) space(ctx context.Context, p Process, seen map[uint64]bool, flags bool) (_ *Space, f fate, err error) {
	s, f, err := meet(p.PID)
	if err != nil || f != counted {
		return nil, f, err
	}
	// Known before what it maps: if it executes another program, this is not its memory any more.
	if err := t.walker.find(s.thread.PID); err != nil {
		return nil, gone, err
	}
	mm := t.walker.request.MM
	switch {
	case t.walker.request.Outcome == outcomeNoTask:
		// The kernel may keep a process from programs that it still shows to us.
		if again, f, err := meet(p.PID); err != nil || f != counted || again.stat.StartTicks != s.stat.StartTicks {
			return nil, gone, err
		}
		return nil, refused, nil
	case t.walker.request.Outcome != outcomeDone:
		return nil, gone, nil
	case seen[mm]:
		return nil, isTwin, nil
	}
	if f, err := s.read(t.maps); err != nil || f != counted {
		return nil, f, err
	}
	t.build.begin()
	space := &Space{PID: p.PID, Command: s.stat.Comm, Group: p.Group, Mappings: s.maps, Tables: Tables{Known: true}}
	defer func() {
		if err != nil || f != counted {
			t.build.abandon()
		}
	}()
	if f, err := t.tables(ctx, s.thread.PID, mm, space, flags); err != nil || f != counted {
		return nil, f, err
	}
	changed, f, err := s.after()
	if err != nil || f != counted {
		return nil, f, err
	}
	if err := t.walker.find(s.thread.PID); err != nil {
		return nil, gone, err
	}
	if t.walker.request.MM != mm {
		return nil, gone, nil
	}
	seen[mm] = true
	space.Changed = space.Changed || changed
	space.Runs = t.build.finish()
	return space, counted, nil
}

// tables reads all page tables of an address space.
func (t *Walk) tables(ctx context.Context, tid int, mm uint64, space *Space, flags bool) (fate, error) {
	w := t.walker
	w.request = t.layout.request(tid)
	w.request.MM = mm
	at := 0 // index of the first mapping that does not end below what is read
	for {
		if err := ctx.Err(); err != nil {
			return gone, err
		}
		if err := w.walk(); err != nil {
			return gone, err
		}
		switch w.request.Outcome {
		case outcomeDone:
		case outcomeUnreadable:
			return gone, fmt.Errorf("its topmost page table at %#x cannot be read", w.request.PGD)
		default:
			return gone, nil
		}
		for _, r := range w.found() {
			var err error
			if at, err = t.record(r, space.Mappings, at, flags); err != nil {
				return gone, err
			}
		}
		space.Tables.PTE += w.request.PTEs
		space.Tables.PMD += w.request.PMDs
		space.Tables.PUD += w.request.PUDs
		space.Tables.P4D += w.request.P4Ds
		// An entry that leads nowhere is one that was torn down while it was read.
		space.Changed = space.Changed || w.request.Strays > 0
		if w.request.Next == 0 {
			return counted, nil
		}
	}
}

// record takes what one record says of the mappings that it touches. Entries
// outside of all are none: the process unmapped them meanwhile. at is the
// mapping to begin with; the one for the next record is returned.
func (t *Walk) record(r record, maps []Mapping, at int, flags bool) (int, error) {
	first := r.Address / PageSize
	pages := leafPages(r.Level)
	if r.Level == 1 {
		pages = tableEntries
	}
	for at < len(maps) && maps[at].End/PageSize <= first {
		at++
	}
	var leaf Entry
	var words *[tableEntries]uint64
	if r.Level == 1 {
		words = t.walker.table(r.Slot)
	} else {
		var err error
		if leaf, err = t.leaf(r.Entry); err != nil || leaf == 0 {
			return at, err
		}
	}
	for i := at; i < len(maps) && maps[i].Start/PageSize < first+pages; i++ {
		m := &maps[i]
		from, to := max(m.Start/PageSize, first), min(m.End/PageSize, first+pages)
		has := behindOf(m)
		if flags {
			has = ownFrames // the flags will show the rest
		}
		if r.Level == 1 {
			taken := t.taken[:to-from]
			t.format.decodeTable(words[from-first:to-first], taken, has)
			t.build.add(from, i, taken)
			continue
		}
		e := leaf
		if e&Zero == 0 {
			e |= has.fileFrame(e)
		}
		for from < to {
			taken := t.taken[:min(to-from, tableEntries)]
			for j := range taken {
				taken[j] = e + Entry(from-first) + Entry(j)
			}
			t.build.add(from, i, taken)
			from += uint64(len(taken))
		}
	}
	return at, nil
}

// leaf reads an entry that maps a huge page.
func (t *Walk) leaf(raw uint64) (Entry, error) {
	e := t.format.decode(raw, true)
	// The huge page of zeros is never writable. It may be another each time
	// that the kernel had it freed, so it is known by its flags.
	if e&(Present|Writable) != Present {
		return e, nil
	}
	zero, known := t.zeros[e.Frame()]
	if !known {
		flags, err := t.flags.of(e.Frame())
		if err != nil {
			return 0, err
		}
		zero = flags&pagemap.ZeroPage != 0
		t.zeros[e.Frame()] = zero
	}
	switch {
	case zero:
		return e | Zero, nil
	case raw&x86Special != 0:
		return 0, nil // a device's memory
	}
	return e, nil
}

// fileFrame sets FileFrame by the mapping.
func (b behind) fileFrame(e Entry) Entry {
	if e&Present == 0 || b == ownFrames || b == mixedFrames && e&(Writable|Dirty) != 0 {
		return 0
	}
	return FileFrame
}

// decodeTable decodes entries of a last-level table.
func (f *x86Format) decodeTable(words []uint64, to []Entry, has behind) {
	to = to[:len(words)]
	physical, zero := f.physical, f.zero<<12
	var file, unless Entry
	switch has {
	case fileFrames:
		file = FileFrame
	case mixedFrames:
		file, unless = FileFrame, Writable|Dirty
	}
	for i, raw := range words {
		// Nearly all are nothing, or a page that is there.
		if raw == 0 {
			to[i] = 0
			continue
		}
		if raw&(x86Present|x86Special) != x86Present || raw&physical == zero {
			e := f.decode(raw, false)
			if e&Zero == 0 {
				e |= has.fileFrame(e)
			}
			to[i] = e
			continue
		}
		e := Present | Entry(raw&physical>>12) |
			Entry(raw&x86Writable)<<41 | Entry(raw&x86Accessed)<<39 | Entry((raw>>6|raw>>58)&1)<<43
		if e&unless == 0 {
			e |= file
		}
		to[i] = e
	}
}
