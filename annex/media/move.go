package media

import (
	"fmt"
	"slices"

	"tare/annex"
	"tare/kernel/advise"
	"tare/kernel/pagemap"
)

// polite lets others go first before each call that moves something.
type polite struct {
	Target
	giveWay func()
}

func (p polite) Give(a advise.Advice, all []advise.Range) ([]advise.Passed, error) {
	p.giveWay()
	return p.Target.Give(a, all)
}

func (p polite) Map(all []advise.Range) (int, error) {
	p.giveWay()
	return p.Target.Map(all)
}

// moved is what became of a part of a chunk.
type moved struct {
	pages, skipped, bridged int
	cached                  int // of an eviction's skipped ones, those that are in swap by their entries
	reads                   int // that the device was asked for, at least
	unread                  []annex.Page
	refused                 error // of the rest, by the kernel
}

// place is where a page is.
type place uint8

const (
	nowhere place = iota // never touched, given back, or not mapped any more
	inMemory
	inMemoryOfSeveral
	inSwap // by its entry: the page itself may be in memory too, as swap cache
)

func placeOf(e pagemap.Entry) place {
	switch {
	case e.Present() && (e.FileOrShared() || !e.Exclusive()):
		return inMemoryOfSeveral
	case e.Present():
		return inMemory
	case e.Swapped() && e.SwapType() < pagemap.FirstSpecialType:
		return inSwap
	}
	return nowhere
}

// look reads where pages are, and calls see for each in their order.
func look(t Target, runs []annex.Run, see func(annex.Page, place)) error {
	var words [512]uint64
	for _, r := range runs {
		for r.Pages > 0 {
			to := words[:min(r.Pages, len(words))]
			n, err := t.Entries(r.First, to)
			if err != nil {
				return err
			}
			clear(to[n:]) // there is nothing beyond
			for i, w := range to {
				see(r.First+annex.Page(i), placeOf(pagemap.Entry(w)))
			}
			r.First, r.Pages = r.First+annex.Page(len(to)), r.Pages-len(to)
		}
	}
	return nil
}

// among lists the pages that are in a place, and counts the others.
func among(t Target, runs []annex.Run, wanted place) (pages []annex.Page, others int, err error) {
	err = look(t, runs, func(p annex.Page, at place) {
		if at == wanted {
			pages = append(pages, p)
		} else {
			others++
		}
	})
	return pages, others, err
}

// count is how many pages are in a place now.
func count(t Target, pages []annex.Page, wanted place) (int, error) {
	n := 0
	err := look(t, asRuns(pages), func(_ annex.Page, at place) {
		if at == wanted {
			n++
		}
	})
	return n, err
}

func asRuns(pages []annex.Page) []annex.Run {
	var runs []annex.Run
	for _, p := range pages {
		runs = join(runs, annex.Run{First: p, Pages: 1})
	}
	return runs
}

// evict has pages leave, in their order. Those that several processes map are not even
// asked for.
func evict(t Target, runs []annex.Run) (moved, error) {
	var pages []annex.Page
	var done moved
	err := look(t, runs, func(p annex.Page, at place) {
		switch at {
		case inMemory:
			pages = append(pages, p)
			return
		case inSwap:
			done.cached++
		}
		done.skipped++
	})
	if err != nil || len(pages) == 0 {
		return done, err
	}
	passed, err := t.Give(advise.PageOut, ranges(pages))
	if err != nil {
		return done, err
	}
	gone := 0
	err = look(t, asRuns(pages), func(_ annex.Page, at place) {
		switch at {
		case inSwap:
			done.pages++
		case nowhere:
			gone++
		}
	})
	if err != nil {
		return done, err
	}
	done.skipped += gone + min(within(pages, passed), len(pages)-done.pages-gone)
	done.refused = refusal(passed)
	return done, nil
}

// fetch brings pages that are in swap. Whether they came yet is not reported by their
// entries, which change when the program touches them: those that the kernel was asked for,
// and refused no part of, count as moved.
func fetch(t Target, runs []annex.Run, traits Traits) (moved, error) {
	pages, others, err := among(t, runs, inSwap)
	done := moved{skipped: others}
	if err != nil || len(pages) == 0 {
		return done, err
	}
	passed, err := bring(t, pages, traits, &done)
	if err != nil {
		return done, err
	}
	done.pages = len(pages)
	if len(passed) > 0 {
		gone, err := count(t, pages, nowhere)
		if err != nil {
			return done, err
		}
		left := min(gone+within(pages, passed), len(pages))
		done.pages, done.skipped = len(pages)-left, done.skipped+left
	}
	done.refused = refusal(passed)
	return done, nil
}

// mapIn brings pages that are in swap and maps them: a chunk is asked for, which the
// device can merge, and while it is read the one before is waited for and mapped.
func mapIn(t Target, runs []annex.Run, traits Traits) (moved, error) {
	pages, others, err := among(t, runs, inSwap)
	done := moved{skipped: others}
	if err != nil || len(pages) == 0 {
		return done, err
	}
	slices.Sort(pages)
	var passed []advise.Passed
	var coming []annex.Page
	for next := range slices.Chunk(pages, traits.Chunk) {
		refused, err := bring(t, next, traits, &done)
		if err != nil {
			return done, err
		}
		passed = append(passed, refused...)
		if len(coming) > 0 {
			if _, err := t.Map(ranges(coming)); err != nil {
				return done, err
			}
		}
		coming = next
	}
	if _, err := t.Map(ranges(coming)); err != nil {
		return done, err
	}
	var left []annex.Page
	here, gone := 0, 0
	err = look(t, asRuns(pages), func(p annex.Page, at place) {
		switch at {
		case inSwap:
			left = append(left, p)
		case nowhere:
			gone++
		default:
			here++
		}
	})
	if err == nil && len(left) > 0 {
		// Behind one that could not be mapped, or gone again: now each for itself.
		var read int
		if read, err = t.Map(each(left)); err == nil && read < len(left) {
			done.unread, _, err = among(t, asRuns(left), inSwap)
		}
		here += len(left) - len(done.unread)
	}
	if err != nil {
		return done, err
	}
	done.pages, done.skipped, done.refused = here, done.skipped+gone, refusal(passed)
	return done, nil
}

// bring has the kernel read pages. Among those of a chunk their order does not matter
// any more, and ascending they make the longest runs.
func bring(t Target, pages []annex.Page, traits Traits, done *moved) ([]advise.Passed, error) {
	ascending := slices.Clone(pages)
	slices.Sort(ascending)
	all := bridged(ascending, traits.Gap)
	done.bridged += covered(all) - len(pages)
	done.reads += len(all)
	return t.Give(advise.WillNeed, all)
}

// within is how many pages lie in ranges that the kernel refused for what they are.
func within(pages []annex.Page, passed []advise.Passed) int {
	n := 0
	for _, p := range pages {
		at := uint64(p) * annex.PageSize
		if slices.ContainsFunc(passed, func(r advise.Passed) bool {
			return !unmapped(r.Err) && r.Start <= at && at < r.End()
		}) {
			n++
		}
	}
	return n
}

// refusal is the first that is a fault.
func refusal(passed []advise.Passed) error {
	for _, p := range passed {
		if !forgivable(p.Err) {
			return fmt.Errorf("the kernel refused %s: %w", p.Range, p.Err)
		}
	}
	return nil
}
