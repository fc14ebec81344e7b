// Package census finds what the page tables of several containers have in
// common: which entries another process or another container holds too, what the
// kernel knows of their frames, and what it would save to hold them once.
//
// It is pure: it reads a [pagetable.Census] and touches nothing else. It does not
// decide which processes belong together (the caller numbers the groups), and it
// knows nothing of a page's bytes but through a function that the caller gives.
//
// # What is counted
//
// An entry is a process, a virtual page and a frame. S1 (Characterization of
// containers, section 5.2.1) calls a mapping groupable if virtual page and frame
// are the same in several processes, and exclusive otherwise. That is counted
// here, over processes; and once more over groups, which are containers, since
// the workers of one server agree with each other whether or not anybody
// else does. Of what S1 has as exclusive, a frame that is mapped at another
// address is counted apart: address randomisation, and not the data, keeps it from
// being groupable.
//
// The kernel's page of zeros stands apart, since everybody's untouched memory would be
// groupable through it; S1 did not separate it, so the shares are given with it
// too. Devices' entries have no frame of memory, swapped ones none at present: both
// stand apart as well. An entry of a huge page counts as 512.
package census

import (
	"fmt"

	"tare/probe/pagetable"
)

// Options say how much is reported.
type Options struct {
	// Files is how many files are listed, those with the most entries first; the
	// rest are summed. 0 lists all.
	Files int
}

// Count is what the page tables of a census have in common.
type Count struct {
	All       Tally          `json:"all"`       // the sum of all processes
	Kinds     ByKind         `json:"kinds"`     // the same by what is mapped
	Groups    []GroupCount   `json:"groups"`    // in the caller's order
	Processes []ProcessCount `json:"processes"` // in the census' order
	Files     []FileCount    `json:"files"`     // most entries first, then by path
	// OtherFiles sums the files that Options left out.
	OtherFiles OtherFiles `json:"other_files"`
	Frames     Frames     `json:"frames"`
	Tables     TableCount `json:"tables"`
	// Flags means that the back end read the frames' flags: without, nothing is
	// known of activity, large folios and merged pages, and their counts are 0.
	Flags bool `json:"flags"`
}

// ByKind is a tally for each kind of mapping.
type ByKind [pagetable.Kinds]Tally

// GroupCount is the part of one group.
type GroupCount struct {
	Name      string `json:"name"`
	Processes int    `json:"processes"`
	Tally     Tally  `json:"entries"`
	Kinds     ByKind `json:"kinds"`
	Frames    Frames `json:"frames"`
	// OwnFrames are the frames that no other group maps.
	OwnFrames uint64 `json:"own_frames"`
}

// ProcessCount is the part of one process.
type ProcessCount struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Group   int    `json:"group"` // index in Count.Groups
	Tally   Tally  `json:"entries"`
}

// Frames counts each frame once, however often it is mapped.
type Frames struct {
	// Mapped are the frames of memory behind the entries, the page of zeros not
	// among them.
	Mapped uint64 `json:"mapped"`
	// KSM are those of them that the kernel has merged.
	KSM uint64 `json:"ksm"`
}

// Bytes is the memory behind the entries, each frame once.
func (f Frames) Bytes() uint64 { return f.Mapped * pagetable.PageSize }

// KSMSaved is the memory that merging has saved among the entries counted: of
// every merged frame, all mappings but one. Processes outside the census may
// share the frames too, and are not in it.
func (c *Count) KSMSaved() uint64 { return (c.All.KSM - c.Frames.KSM) * pagetable.PageSize }

// Of counts a census. groups[i] is the name of group i; a group without a name
// is called by its number. It neither changes nor keeps the census.
func Of(c *pagetable.Census, groups []string, o Options) *Count {
	n := newCounter(c, groups)
	n.readFrames()
	n.classify()
	n.countTables()
	return n.result(o)
}

// counter holds what the passes over a census hand to one another.
type counter struct {
	census *pagetable.Census
	frames frameTable
	files  *fileIndex
	count  *Count
	// sets are the different (virtual page, frame) pairs that are groupable, of
	// base pages: over processes, and over groups.
	sets, setsAcross uint64
	// entries are the groupable entries of base pages, which belong to sets.
	entries, entriesAcross uint64
}

func newCounter(c *pagetable.Census, groups []string) *counter {
	count := &Count{Flags: c.Flags}
	total := len(groups)
	for i := range c.Spaces {
		total = max(total, c.Spaces[i].Group+1)
	}
	count.Groups = make([]GroupCount, total)
	for i := range count.Groups {
		if i < len(groups) {
			count.Groups[i].Name = groups[i]
		} else {
			count.Groups[i].Name = fmt.Sprintf("group %d", i)
		}
	}
	count.Processes = make([]ProcessCount, len(c.Spaces))
	for i := range c.Spaces {
		s := &c.Spaces[i]
		count.Processes[i] = ProcessCount{PID: s.PID, Command: s.Command, Group: s.Group}
		count.Groups[s.Group].Processes++
	}
	return &counter{census: c, count: count, files: newFileIndex()}
}

// result sums the processes' tallies and orders the files.
func (n *counter) result(o Options) *Count {
	c := n.count
	for i := range c.Processes {
		p := &c.Processes[i]
		c.Groups[p.Group].Tally.Add(&p.Tally)
		c.All.Add(&p.Tally)
	}
	for g := range c.Groups {
		for k := range c.Kinds {
			c.Kinds[k].Add(&c.Groups[g].Kinds[k])
		}
	}
	c.Files, c.OtherFiles = n.files.united(o.Files)
	return c
}
