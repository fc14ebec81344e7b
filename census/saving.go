package census

import (
	"cmp"
	"context"
	"slices"

	"tare/probe/pagetable"
)

// Member is a container of a machine, as the census' group of the same index.
type Member struct {
	Name string
	// Image is what containers of one image have in common: its digest, or else its
	// name. Containers without an image are taken together.
	Image string
}

// SavingOptions give what page tables alone do not say. Without them, that
// is left out, and not guessed.
type SavingOptions struct {
	// Contents gives a page's contents: a hash of its bytes, and whether they are all
	// zero; false where it could not be read. nil leaves contents out. It may be
	// called from one goroutine at a time.
	Contents func(pid int, page uint64) (hash uint64, zero, ok bool)
	// Sample is about how many pages a container are read; 0 reads all.
	Sample int
	// Seed draws the sample.
	Seed uint64
	// Identify gives a file's identity by its contents, for files of one path in
	// several images; false where it could not be read. nil leaves other bases out.
	Identify func(File) (identity string, ok bool)
	// Length gives a file's length in bytes; false where it is not known. nil leaves
	// lengths out. Where Identify reads files, it spares those that no other of their path
	// is as long as.
	Length func(File) (bytes int64, ok bool)
	// Basis is what Identify goes by: "path and length", "path and SHA-256".
	Basis string
}

// File is a file as one process maps it.
type File struct {
	PID           int
	Start, End    uint64 // of the mapping, virtual bytes
	Path          string // as the process names it
	Device, Inode uint64
}

// Saving is what a set of containers holds twice, and what each way of holding
// it once would save. The ways overlap: what one has saved, another cannot.
type Saving struct {
	Containers int `json:"containers"`
	Processes  int `json:"processes"`
	// Entries are all entries.
	Entries Tally `json:"entries"`
	// Mapped is the memory mapped, each entry counted; Resident each frame once. What
	// lies between them is shared already.
	Mapped   uint64 `json:"mapped_bytes"`
	Resident uint64 `json:"resident_bytes"`
	// Tables are the page tables, with what sharing them, and huge pages for files,
	// would save.
	Tables TableCount `json:"page_tables"`
	// KSM is what merging equal pages saves now.
	KSM uint64 `json:"ksm_bytes"`
	// KSMCandidates is the most that it could save further: anonymous memory that
	// only one entry maps. How much of it is equal, page tables do not say: Contents
	// does.
	KSMCandidates uint64 `json:"ksm_candidates_bytes"`
	// Contents compares the candidates; nil where nobody has read them.
	Contents *Contents `json:"contents,omitempty"`
}

// ImageSaving is the Saving among the containers of one image.
type ImageSaving struct {
	Image string   `json:"image"`
	Names []string `json:"names"` // of its containers
	Saving
}

// Machine is the Saving of a machine.
type Machine struct {
	All Saving `json:"all"`
	// Images have those first that map the most memory.
	Images []ImageSaving `json:"images"`
	// Base is what a common base image would save; nil where nobody has identified
	// files.
	Base *Base `json:"base,omitempty"`
}

// Save gives what containers of a machine hold twice. members[i] is the census'
// group i. The error is ctx's: reading contents takes its time.
func Save(ctx context.Context, c *pagetable.Census, members []Member, o SavingOptions) (*Machine, error) {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name
	}
	n := newCounter(c, names)
	n.readFrames()
	n.classify()
	n.countTables()
	whole := n.result(Options{Files: 1})
	machine := &Machine{All: savingOf(whole)}

	var sample *sample
	if o.Contents != nil {
		var err error
		if sample, err = n.sample(ctx, o); err != nil {
			return nil, err
		}
		machine.All.Contents = sample.compare(nil)
	}
	if o.Identify != nil {
		var err error
		if machine.Base, err = n.base(ctx, members, o); err != nil {
			return nil, err
		}
	}
	for _, image := range images(members) {
		in := func(group int) bool { return group < len(members) && members[group].Image == image }
		part := *c
		part.Spaces = nil
		for i := range c.Spaces {
			if in(c.Spaces[i].Group) {
				part.Spaces = append(part.Spaces, c.Spaces[i])
			}
		}
		s := ImageSaving{Image: image, Saving: savingOf(Of(&part, names, Options{Files: 1}))}
		s.Containers = 0
		for _, m := range members {
			if m.Image == image {
				s.Names = append(s.Names, m.Name)
				s.Containers++
			}
		}
		if sample != nil {
			s.Contents = sample.compare(in)
		}
		machine.Images = append(machine.Images, s)
	}
	slices.SortStableFunc(machine.Images, func(a, b ImageSaving) int { return cmp.Compare(b.Mapped, a.Mapped) })
	return machine, nil
}

// images lists the images, in their order.
func images(members []Member) []string {
	var all []string
	for _, m := range members {
		all = append(all, m.Image)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func savingOf(c *Count) Saving {
	return Saving{
		Containers: len(c.Groups), Processes: len(c.Processes), Entries: c.All,
		Mapped: c.All.Classes.Sum() * pagetable.PageSize, Resident: c.Frames.Bytes(),
		Tables: c.Tables, KSM: c.KSMSaved(), KSMCandidates: c.All.AnonymousExclusive * pagetable.PageSize,
	}
}
