package pagetable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"tare/kernel/pagemap"
	"tare/kernel/process"
	"tare/probe"
)

// Files is the back end that reads /proc/PID/pagemap. It knows nothing of what
// an entry allows, nor whether it was used; whether a page is mapped by an entry of a
// higher level PAGEMAP_SCAN reports (Linux 6.7), and on older kernels it is taken so where a
// huge page is mapped whole and aligned.
type Files struct {
	flags  *flagger
	zero   uint64
	build  builder
	maps   *atlas
	words  []uint64
	taken  []Entry
	huge   []pagemap.Region
	zeros  map[uint64]bool
	cannot bool // scan
}

const (
	// chunk is how many entries are read at once, 32 MiB of addresses: whole huge
	// pages, and so few that they stay in the processor's cache.
	chunk = 1 << 13
	// wary is how many are read where it is not known whether there are any.
	wary = 1 << 12
	// hugeRegions is the room for ranges of huge pages, in one call.
	hugeRegions = 64
)

// NewFiles opens the back end that reads pagemap. Its error is a
// [*probe.Missing] where this host lacks what it needs.
func NewFiles() (*Files, error) {
	const name = "census by pagemap"
	if size := os.Getpagesize(); size != PageSize {
		return nil, &probe.Missing{Probe: name, What: fmt.Sprintf("pages here are of %d bytes", size), Mend: fmt.Sprintf("a kernel with pages of %d", PageSize)}
	}
	zero, err := pagemap.ZeroFrame()
	switch {
	case errors.Is(err, pagemap.ErrHidden):
		return nil, &probe.Missing{Probe: name, What: "the kernel hides frame numbers", Mend: "run as root, or with CAP_SYS_ADMIN"}
	case errors.Is(err, fs.ErrNotExist):
		return nil, &probe.Missing{Probe: name, What: err.Error(), Mend: "a kernel with CONFIG_PROC_PAGE_MONITOR"}
	case err != nil:
		return nil, err
	}
	flags, err := newFlagger()
	if err != nil {
		return nil, err
	}
	return &Files{
		flags: flags, zero: zero,
		words: make([]uint64, chunk), taken: make([]Entry, chunk), huge: make([]pagemap.Region, hugeRegions),
	}, nil
}

// Name is "pagemap".
func (t *Files) Name() string { return "pagemap" }

// Close closes the files.
func (t *Files) Close() error { return t.flags.close() }

// Take takes a census.
func (t *Files) Take(ctx context.Context, processes []Process, flags bool) (*Census, error) {
	c := &Census{Backend: t.Name(), Flags: flags, Taken: time.Now()}
	t.build, t.zeros, t.maps = builder{}, map[uint64]bool{}, newAtlas()
	defer func() { t.build, t.maps = builder{}, nil }()
	var seen []int // processes, in the kernel's order of their address spaces
	for _, p := range processes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at, twin := t.twin(seen, p.PID)
		space, f, err := t.space(ctx, p, twin, flags)
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", p.PID, err)
		}
		c.take(p, space, f)
		if f == counted {
			seen = slices.Insert(seen, at, p.PID)
		}
	}
	t.build.trim(c.Spaces)
	c.Reading = time.Since(c.Taken)
	if flags {
		if err := t.flags.flag(ctx, c.Spaces, false); err != nil {
			return nil, err
		}
		c.Flagging = time.Since(c.Taken) - c.Reading
	}
	c.Elapsed = time.Since(c.Taken)
	return c, nil
}

// twin finds a process' place among those that were counted, and whether one
// of them has the same address space. Where the kernel does not say, none has.
func (t *Files) twin(seen []int, pid int) (at int, twin bool) {
	return slices.BinarySearchFunc(seen, pid, func(a, b int) int {
		order, err := process.CompareMemory(a, b)
		if err != nil {
			return -1 // one of them has ended
		}
		return order
	})
}

func (t *Files) space(ctx context.Context, p Process, twin, flags bool) (_ *Space, f fate, err error) {
	s, f, err := meet(p.PID)
	switch {
	case err != nil || f != counted:
		return nil, f, err
	case twin:
		return nil, isTwin, nil
	}
	// The file stays with the address space that the process has now: if it
	// executes another program, nothing more is read.
	entries, err := pagemap.Open(s.thread.Path("pagemap"))
	if err != nil {
		f, err := fateOf(err)
		return nil, f, err
	}
	defer entries.Close()
	if f, err := s.read(t.maps); err != nil || f != counted {
		return nil, f, err
	}
	t.build.begin()
	defer func() {
		if err != nil || f != counted {
			t.build.abandon()
		}
	}()
	for i := range s.maps {
		if f, err := t.mapping(ctx, entries, s.maps, i, flags); err != nil || f != counted {
			return nil, f, err
		}
	}
	changed, f, err := s.after()
	if err != nil || f != counted {
		return nil, f, err
	}
	space := &Space{PID: p.PID, Command: s.stat.Comm, Group: p.Group, Mappings: s.maps, Changed: changed}
	space.Runs = t.build.finish()
	space.Tables = least(space.Runs)
	return space, counted, nil
}

// mapping reads the entries of one mapping.
func (t *Files) mapping(
	ctx context.Context,
	entries *pagemap.File,
	maps []Mapping,
	index int,
	flags bool,
) (fate, error) {
	m := &maps[index]
	if m.Start >= 1<<63 {
		return counted, nil // [vsyscall] lies in the kernel's half, where a process has no entries
	}
	page, end := m.Start/PageSize, m.End/PageSize
	size := uint64(wary)
	for page < end {
		if err := ctx.Err(); err != nil {
			return gone, err
		}
		// Chunks end where tables do, so that no huge page lies in two.
		n := min(end-page, size-page%tableEntries)
		words := t.words[:n]
		got, err := pagemap.Words(entries, page, words)
		if err != nil {
			return fateOf(fmt.Errorf("at %#x: %w", page*PageSize, err))
		}
		if uint64(got) < n {
			return gone, nil // its memory is no more
		}
		found, err := t.take(entries, index, m, page, words, flags)
		if err != nil {
			return fateOf(err)
		}
		page += n
		size = chunk
		if found || page >= end || end-page <= wary || t.cannot {
			continue
		}
		// Nothing far and wide: the kernel passes over it faster than it can be read.
		size = wary
		regions, next, err := pagemap.Scan(
			entries,
			page*PageSize,
			end*PageSize,
			pagemap.CategoryPresent|pagemap.CategorySwapped,
			1,
			t.huge[:1],
		)
		switch {
		case errors.Is(err, pagemap.ErrCannotScan):
			t.cannot = true
		case err != nil:
			return fateOf(err)
		case len(regions) > 0:
			page = regions[0].Start / PageSize
		default:
			page = next / PageSize
		}
	}
	return counted, nil
}

// take takes the words of one stretch of a mapping, and reports whether there was any entry.
func (t *Files) take(
	entries *pagemap.File,
	index int,
	m *Mapping,
	page uint64,
	words []uint64,
	flags bool,
) (found bool, err error) {
	taken := t.taken[:len(words)]
	whole := -(page) % tableEntries // of the first aligned page
	wholeUntil := uint64(len(words))
	first, last := uint64(0), uint64(0) // from where to where huge pages may be
	shared := SharedFrame
	if !flags {
		shared = 0
	}
	for i, w := range words {
		e := pagemap.Entry(w)
		switch {
		case w == 0:
			taken[i] = 0
			continue
		case e.Present():
			x := Present | Entry(e.Frame())&Frames
			if e.FileOrShared() {
				x |= FileFrame
			}
			if !e.Exclusive() {
				x |= shared
			}
			if e.Frame() == t.zero {
				x = x&^FileFrame | Zero
			}
			taken[i] = x
		case e.Swapped() && !e.Guard():
			taken[i] = absent(e.SwapType(), e.SwapOffset(), e.SwapOffset())
		default:
			taken[i] = 0 // marks that are left where nothing is
		}
		found = found || taken[i] != 0
	}
	if !found {
		return false, nil
	}
	for i := whole; i+tableEntries <= wholeUntil; i += tableEntries {
		a, z := taken[i], taken[i+tableEntries-1]
		if a&z&Present != 0 && a.Frame()%tableEntries == 0 && z.Frame() == a.Frame()+tableEntries-1 {
			if last == 0 {
				first = i
			}
			last = i + tableEntries
		}
	}
	if last > 0 {
		if err := t.findHuge(entries, page, first, last); err != nil {
			return false, err
		}
		if err := t.findZeros(m, taken[first:last]); err != nil {
			return false, err
		}
	}
	t.build.add(page, index, taken)
	return true, nil
}

// findHuge marks the pages that are mapped by entries of a higher level, of those
// from first to last after page, which may be.
func (t *Files) findHuge(entries *pagemap.File, page, first, last uint64) error {
	start, end := (page+first)*PageSize, (page+last)*PageSize
	for at := start; at < end && !t.cannot; {
		regions, next, err := pagemap.Scan(entries, at, end, pagemap.CategoryHuge, 0, t.huge)
		switch {
		case errors.Is(err, pagemap.ErrCannotScan):
			t.cannot = true
			continue
		case err != nil:
			return err
		}
		for _, r := range regions {
			mark(t.taken[r.Start/PageSize-page : r.End/PageSize-page])
		}
		if next <= at {
			break
		}
		at = next
	}
	if !t.cannot {
		return nil
	}
	for i := first; i < last; i += tableEntries {
		block := t.taken[i : i+tableEntries]
		if block[0]&Present == 0 {
			continue
		}
		flags, err := t.flags.of(block[0].Frame())
		if err != nil {
			return err
		}
		if flags&pagemap.CompoundHead != 0 && flags&(pagemap.THP|pagemap.HugeTLB) != 0 &&
			block[tableEntries-1].Frame() == block[0].Frame()+tableEntries-1 {
			mark(block)
		}
	}
	return nil
}

func mark(entries []Entry) {
	for i, e := range entries {
		if e&Present != 0 {
			entries[i] |= Huge
		}
	}
}

// findZeros marks the huge page of zeros, which pagemap takes for a file's.
func (t *Files) findZeros(m *Mapping, taken []Entry) error {
	for i := 0; i < len(taken); i += tableEntries {
		e := taken[i]
		if !e.Has(Present | Huge | FileFrame) {
			continue
		}
		zero, known := t.zeros[e.Frame()]
		if !known {
			flags, err := t.flags.of(e.Frame())
			if err != nil {
				return err
			}
			zero = flags&pagemap.ZeroPage != 0
			t.zeros[e.Frame()] = zero
		}
		if zero {
			for j, e := range taken[i : i+tableEntries] {
				taken[i+j] = e&^FileFrame | Zero
			}
		}
	}
	return nil
}

// least counts the tables that entries need at least.
func least(runs []Run) (t Tables) {
	lastPTE, lastPMD := ^uint64(0), ^uint64(0)
	for _, r := range runs {
		for at, end := r.Page, r.Page+uint64(len(r.Entries)); at < end; at = (at/tableEntries + 1) * tableEntries {
			if pmd := at / tableEntries / tableEntries; pmd != lastPMD {
				lastPMD = pmd
				t.PMD++
			}
			// A page that is mapped huge needs no last-level table.
			if pte := at / tableEntries; pte != lastPTE && r.Entries[at-r.Page]&Huge == 0 {
				lastPTE = pte
				t.PTE++
			}
		}
	}
	return t
}
