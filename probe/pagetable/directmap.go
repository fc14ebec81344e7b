package pagetable

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"tare/kernel/memory"
	"tare/kernel/pagemap"
)

// layout is where the kernel keeps what.
type layout struct {
	// base is where the kernel has physical address 0: the start of its map of all memory.
	base uint64
	// levels of page tables: 4, or 5.
	levels int
	// physical masks the address in an entry of a table.
	physical uint64
	// limit is the first physical address that no memory can have.
	limit uint64
}

// DirectMap gives where the kernel maps all memory, by which the address of a
// page table is distinguished from the entry that points to it, and how many levels page
// tables have. Both are fixed while the kernel runs. The error is a
// [*probe.Missing] where this host does not let it be found.
func DirectMap() (base uint64, levels int, err error) {
	l, err := hostLayout()
	return l.base, l.levels, err
}

// PhysicalMask masks the physical address in an entry of a table. It is fixed while the
// kernel runs; its error is that of [DirectMap].
func PhysicalMask() (uint64, error) {
	l, err := hostLayout()
	return l.physical, err
}

var hostLayout = sync.OnceValues(func() (layout, error) {
	w, err := newWalker()
	if err != nil {
		return layout{}, err
	}
	defer w.close()
	return w.layout()
})

const (
	gibibyte = 1 << 30
	// Where the map begins unless its place is drawn at random, which only moves it up
	// (Documentation/arch/x86/x86_64/mm.rst), by multiples of 1 GiB.
	lowestBase4 = 0xffff888000000000
	lowestBase5 = 0xff11000000000000
	// With four levels nothing of the kernel lies below.
	kernelHalf4 = 0xffff800000000000
)

// encrypted are the bits that mark encrypted memory, where AMD's processors
// may have one: never part of an address there.
var encrypted = []uint64{0, 1 << 51, 1 << 47}

// layout finds the base by trying. The topmost table of our own page tables has a known
// kernel address, which lies in the map and is less than the memory's size
// above the base. For each base that this leaves, the tables are followed to
// pages of our own, whose frames pagemap gives: the right base leads to them.
//
// Tried from the lowest on, no attempt reads above the map, where devices are:
// what is read has a physical address below the memory's end.
func (w *walker) layout() (layout, error) {
	flags, err := pagemap.Open("/proc/kpageflags")
	if err != nil {
		return layout{}, needs.Missing(err.Error(), "run as root, on a kernel with CONFIG_PROC_PAGE_MONITOR")
	}
	defer flags.Close()
	frames, err := pagemap.MaxFrame(flags)
	if err != nil {
		return layout{}, fmt.Errorf("%s: find the highest frame: %w", flags.Name(), err)
	}
	// Two pages, so far apart that no table of the last level has both.
	own, err := memory.MapAnonymous(2 * tableSpan)
	if err != nil {
		return layout{}, err
	}
	defer own.Close()
	pages := []uint64{own.Address(), own.Address() + 2*tableSpan - PageSize}
	own.Bytes()[0], own.Bytes()[len(own.Bytes())-1] = 1, 1

	if err := w.find(os.Getpid()); err != nil {
		return layout{}, err
	}
	pgd := w.request.PGD
	if w.request.Outcome != outcomeDone || pgd == 0 {
		return layout{}, needs.Missing(fmt.Sprintf("our own page table is not found (outcome %d)", w.request.Outcome), "")
	}
	l := layout{levels: 4, limit: frames * PageSize}
	lowest := uint64(lowestBase4)
	if pgd < kernelHalf4 {
		l.levels, lowest = 5, lowestBase5
	}
	top := pgd &^ (gibibyte - 1)
	if reach := (l.limit + gibibyte - 1) &^ (gibibyte - 1); top-lowest > reach {
		lowest = top - reach
	}
	// The kernel may move a page to another frame between the two readings.
	for range 3 {
		for _, bit := range encrypted {
			l.physical = x86Frame &^ bit
			for l.base = lowest; l.base <= top; l.base += gibibyte {
				leads, err := w.leads(l, pages)
				if err != nil {
					return layout{}, err
				}
				if leads {
					return l, nil
				}
			}
		}
	}
	return layout{}, needs.Missing(fmt.Sprintf("the kernel's map of all memory is not found below %#x", pgd), "the census by pagemap shows the same")
}

// leads reports whether a layout leads to the frames that pages of ours have.
func (w *walker) leads(l layout, pages []uint64) (bool, error) {
	format := l.format(0)
	for _, page := range pages {
		w.request = l.request(os.Getpid())
		w.request.Next = page &^ (tableSpan - 1)
		w.request.End = w.request.Next + tableSpan
		if err := w.walk(); err != nil {
			return false, err
		}
		found := w.found()
		if w.request.Outcome != outcomeDone || len(found) != 1 {
			return false, nil
		}
		at := page / PageSize % tableEntries
		var e Entry
		if r := found[0]; r.Level == 1 {
			e = format.decode(w.table(r.Slot)[at], false)
		} else if e = format.decode(r.Entry, true); e != 0 {
			e += Entry(page / PageSize % leafPages(r.Level))
		}
		own, err := pagemap.Own(page)
		if errors.Is(err, pagemap.ErrHidden) || errors.Is(err, os.ErrPermission) {
			return false, needs.Missing(err.Error(), "")
		}
		if err != nil {
			return false, err
		}
		if !e.Has(Present) || !own.Present() || e.Frame() != own.Frame() {
			return false, nil
		}
	}
	return true, nil
}

// leafPages is how many base pages one entry of a level maps.
func leafPages(level uint32) uint64 {
	pages := uint64(1)
	for ; level > 1; level-- {
		pages *= tableEntries
	}
	return pages
}

// request is one for all of a process' page tables.
func (l layout) request(pid int) request {
	end := uint64(1) << 47
	if l.levels == 5 {
		end = 1 << 56
	}
	return request{
		PID:      int32(pid),
		Levels:   uint32(l.levels),
		Base:     l.base,
		Limit:    l.limit,
		Physical: l.physical,
		End:      end,
	}
}

// format is how entries are read.
func (l layout) format(zero uint64) x86Format {
	// MAX_PHYSMEM_BITS less those of a page.
	swapFrames := uint64(1)<<(46-12) - 1
	if l.levels == 5 {
		swapFrames = 1<<(52-12) - 1
	}
	return x86Format{physical: l.physical, swapFrames: swapFrames, zero: zero}
}
