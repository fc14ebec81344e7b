// Package trace holds what containers did with their memory as a file: when they woke and
// slept, which pages they touched first and in which order, what scans found of their page
// tables, and the requests they served. A simulation is driven by it instead of a kernel.
//
// It records, reads and prints, and judges nothing. docs/annex-trace.md has the format to
// the byte: blocks that are compressed, checked and understood each by itself, so that a
// trace is written and read as a stream, in bounded memory, and one that was cut is good up to
// the cut.
//
// Pages are seen when they fault, or by scans: a page that stays in memory is not seen to be
// touched again. A recording holds whole activations only where the pages had left before.
package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"tare/annex"
)

// Header is what is said once.
type Header struct {
	// Host is where it was recorded; of a trace that was made, by what.
	Host string `json:"host"`
	// Clock is what moments are counted by: "monotonic", or "virtual" where nothing ran.
	Clock string `json:"clock"`
	// PageSize is in bytes.
	PageSize   int         `json:"page_size"`
	Containers []Container `json:"containers"`
}

// Container is one of those that events name, by their place in the header.
type Container struct {
	ID    annex.ID    `json:"id"`
	Name  string      `json:"name"`
	Class annex.Class `json:"class"`
	// Pages is its size: how much private anonymous memory it has, in memory or in swap. 0 is not known.
	Pages int64 `json:"pages"`
}

// Check tells what is wrong with a header.
func (h Header) Check() error {
	if h.PageSize != annex.PageSize {
		return fmt.Errorf("its pages are of %d bytes, and only those of %d are understood", h.PageSize, annex.PageSize)
	}
	seen := map[annex.ID]bool{}
	for i, c := range h.Containers {
		switch {
		case c.ID == "" || seen[c.ID]:
			return fmt.Errorf("container %d has the id %q, which is empty or another's", i, c.ID)
		case !slices.Contains(annex.Classes, c.Class):
			return fmt.Errorf("container %d has the class %q: want one of %q", i, c.Class, annex.Classes)
		case c.Pages < 0:
			return fmt.Errorf("container %d has %d pages", i, c.Pages)
		}
		seen[c.ID] = true
	}
	return nil
}

// Kind is what an event tells.
type Kind uint8

// The kinds, and which parts of an [Event] they have beside At and Container.
const (
	Started   Kind = 1 + iota // a container began
	Ended                     // it is gone
	Woke                      // it runs after having been dormant
	Slept                     // it last ran at that moment: CPU
	Touched                   // pages in the order of first touch: Space, Took, Write, Pages
	Requested                 // a request that came then: Space, CPU, Took, Write, Pages
	Scanned                   // what a scan found: Space, Took, Stretches, More
	Lost                      // events that were not recorded: Count; of no container
)

var kinds = [...]string{Started: "started", Ended: "ended", Woke: "woke", Slept: "slept", Touched: "touched", Requested: "requested", Scanned: "scanned", Lost: "lost"}

func (k Kind) String() string {
	if !k.valid() {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kinds[k]
}

func (k Kind) valid() bool { return k >= Started && k <= Lost }

// has tells which parts an event of a kind has.
func (k Kind) hasSpace() bool { return k == Touched || k == Requested || k == Scanned }
func (k Kind) hasPages() bool { return k == Touched || k == Requested }
func (k Kind) hasCPU() bool   { return k == Slept || k == Requested }

// Most is how many pages, or runs of a scan, an event has at most: what is more is told by
// several.
const Most = 1 << 16

// Event is one thing that happened.
type Event struct {
	Kind      Kind
	At        annex.Moment
	Container int // its place in the header
	Space     annex.Space
	// CPU is, of Slept, the processor time since it woke; of Requested, the time that serving
	// it takes if all its pages are there.
	CPU time.Duration
	// Took is over how long the pages were touched, waiting for memory not counted; of
	// Requested how long it was until the answer, 0 where that is not known; of Scanned
	// how long the scan took.
	Took time.Duration
	// Write tells that the pages were written and not only read.
	Write     bool
	Pages     []annex.Page
	Stretches []Stretch
	// More tells that the next event goes on with this scan.
	More bool
	// Count is how many events were lost.
	Count uint64
}

// Stretch is the states of consecutive pages of a scan.
type Stretch struct {
	First annex.Page
	Runs  []States
}

// States is a state that so many consecutive pages have.
type States struct {
	State annex.State
	Pages uint64
}

// Compact gives a scan's stretches as runs of states.
func Compact(stretches []annex.Stretch) []Stretch {
	var to []Stretch
	for _, s := range stretches {
		if len(s.States) == 0 {
			continue
		}
		one := Stretch{First: s.First}
		for _, state := range s.States {
			if n := len(one.Runs); n > 0 && one.Runs[n-1].State == state {
				one.Runs[n-1].Pages++
				continue
			}
			one.Runs = append(one.Runs, States{state, 1})
		}
		to = append(to, one)
	}
	return to
}

// Scans gives a scan as the events that tell it: one, or several that continue each other
// where it has more than Most runs.
func Scans(container int, s annex.Scan) []Event {
	head := Event{Kind: Scanned, At: s.Began, Container: container, Space: s.Space, Took: s.Ended.Since(s.Began)}
	events, runs := []Event{head}, 0
	for _, stretch := range Compact(s.Stretches) {
		for len(stretch.Runs) > 0 {
			if runs == Most {
				events[len(events)-1].More = true
				events, runs = append(events, head), 0
			}
			n := min(Most-runs, len(stretch.Runs))
			last := &events[len(events)-1]
			last.Stretches = append(last.Stretches, Stretch{stretch.First, stretch.Runs[:n]})
			for _, r := range stretch.Runs[:n] {
				stretch.First += annex.Page(r.Pages)
			}
			stretch.Runs = stretch.Runs[n:]
			runs += n
		}
	}
	return events
}

// Source gives a trace event by event, in the order in which they happened, and io.EOF at
// its end. What an event holds is the caller's.
type Source interface {
	Header() Header
	Next() (Event, error)
}

// Length is how long a trace lasts, from its first event to its last one. It reads the trace to
// its end: where that is no good one, the error is a *Cut or a *Corrupt, and the length that
// of what came before.
func Length(from Source) (time.Duration, error) {
	var first, last annex.Moment
	for begun := false; ; begun = true {
		e, err := from.Next()
		switch {
		case errors.Is(err, io.EOF):
			return last.Since(first), nil
		case err != nil:
			return last.Since(first), err
		case !begun:
			first = e.At
		}
		last = max(last, e.At)
	}
}
