package faults

import (
	"cmp"
	"iter"
	"slices"
)

// Share is how many of some faults were duplicated.
type Share struct {
	Faults uint64
	// Same are those on a virtual page with a page behind it, both of which another
	// target faulted on too: S1's measure. What is behind a page is its file's page, or
	// the frame that its entry had.
	Same uint64
	// Anywhere are those on a file's page, or a frame, that another target faulted on
	// at whatever address: what Same would be without address randomisation.
	Anywhere uint64
}

func (s *Share) add(same, anywhere bool) {
	s.Faults++
	if same {
		s.Same++
	}
	if anywhere {
		s.Anywhere++
	}
}

// Part is what a share is of.
type Part uint8

// The parts of the address space by which duplicated faults are listed.
const (
	PartAnonymous  Part = iota // private memory of no file
	PartFile                   // a file's, mapped privately, and not executable
	PartCode                   // a file's, mapped privately, executable
	PartSharedFile             // a file's or shared memory, mapped shared
	PartNoMapping              // none, or one that is not known
	Parts
)

var partNames = [Parts]string{"anonymous", "private file", "code", "shared", "no mapping"}

func (p Part) String() string {
	if p < Parts {
		return partNames[p]
	}
	return "unknown"
}

// Part is where the fault was.
func (f *Fault) Part() Part {
	m := &f.Mapping
	switch {
	case m.End == 0:
		return PartNoMapping
	case m.Flags&IsShared != 0:
		return PartSharedFile
	case m.Anonymous:
		return PartAnonymous
	case m.Flags&MayExecute != 0:
		return PartCode
	}
	return PartFile
}

// Site is an instruction in a file: its offset there. Code of no file has none.
type Site struct {
	File   File
	Offset uint64
}

// Site is where the faulting instruction is from; ok is false for the kernel's
// and for code of no file.
func (f *Fault) Site() (s Site, ok bool) {
	c := &f.Code
	if c.Inode == 0 || f.IP < c.Start {
		return Site{}, false
	}
	return Site{File{c.Device, c.Inode}, c.Page*pageSize + f.IP%pageSize}, true
}

// Duplicates says how many faults several targets took on the same.
//
// Anonymous memory is each target's own and counts as never duplicated, even
// where the entry was of the page of zeros, or of one that the kernel has merged. Of
// copy-on-write faults what was copied counts, not the copy; so of a write-protect fault.
type Duplicates struct {
	All    Share
	Kernel Share // of All, those that the kernel took
	ByType [Types]Share
	ByPart [Parts]Share
	ByFile map[File]Share
	BySite map[Site]Share
	// ByTarget is indexed as the recording's targets.
	ByTarget []Share
}

// behind is what lies behind a page: a file's page, or a frame.
type behind struct {
	file File
	page uint64
}

// frames is no file system's number: what lies behind is a frame.
const frames = ^uint64(0)

// behind gives both of what may lie behind a faulted page.
func (f *Fault) behind() iter.Seq[behind] {
	return func(yield func(behind) bool) {
		m := &f.Mapping
		if m.Anonymous || m.Inode == 0 {
			return
		}
		if m.Flags&IsShared == 0 && (f.State == Swapped || f.State == Moving) {
			// A private mapping's page that went to swap is a copy, the target's own: the
			// kernel writes no file's page there. Of one that moves the entry says nothing.
			return
		}
		if frame, ok := f.Frame(); ok {
			// What a private mapping has of a file's page may be a copy: its frame shows which.
			if !yield(behind{File{Device: frames}, frame}) || m.Flags&IsShared == 0 {
				return
			}
		}
		yield(behind{File{m.Device, m.Inode}, m.Page})
	}
}

// several stands for a target where there are more than one.
const several = -2

type placed struct {
	page uint64
	behind
}

// owners says which target faulted on what, or that several did.
type owners[K comparable] map[K]int32

func (o owners[K]) note(key K, target int32) {
	if was, ok := o[key]; !ok {
		o[key] = target
	} else if was != target {
		o[key] = several
	}
}

// Duplicates finds the duplicated faults of a recording. It goes through the
// records twice and keeps a key for each page that was faulted on. use selects which faults
// count; nil is all.
func (r *Recording) Duplicates(use func(*Fault) bool) Duplicates {
	same, anywhere := owners[placed]{}, owners[behind]{}
	used := func() iter.Seq[*Fault] {
		return func(yield func(*Fault) bool) {
			for f := range r.All() {
				if (use == nil || use(&f)) && !yield(&f) {
					return
				}
			}
		}
	}
	for f := range used() {
		for b := range f.behind() {
			same.note(placed{f.Page(), b}, f.Target)
			anywhere.note(b, f.Target)
		}
	}
	d := Duplicates{ByFile: map[File]Share{}, BySite: map[Site]Share{}, ByTarget: make([]Share, len(r.Targets))}
	for f := range used() {
		var isSame, isAnywhere bool
		for b := range f.behind() {
			isSame = isSame || same[placed{f.Page(), b}] == several
			isAnywhere = isAnywhere || anywhere[b] == several
		}
		d.add(f, isSame, isAnywhere)
	}
	return d
}

func (d *Duplicates) add(f *Fault, same, anywhere bool) {
	d.All.add(same, anywhere)
	if f.Kernel {
		d.Kernel.add(same, anywhere)
	}
	d.ByType[f.Type].add(same, anywhere)
	d.ByPart[f.Part()].add(same, anywhere)
	if f.Target >= 0 && int(f.Target) < len(d.ByTarget) {
		d.ByTarget[f.Target].add(same, anywhere)
	}
	if m := &f.Mapping; m.Inode != 0 && !m.Anonymous {
		increase(d.ByFile, File{m.Device, m.Inode}, same, anywhere)
	}
	if site, ok := f.Site(); ok {
		increase(d.BySite, site, same, anywhere)
	}
}

func increase[K comparable](m map[K]Share, key K, same, anywhere bool) {
	s := m[key]
	s.add(same, anywhere)
	m[key] = s
}

// Most gives the keys with the most faults, at most n, most first; keys with
// as many are in the order that compare gives.
func Most[K comparable](m map[K]Share, n int, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(cmp.Compare(m[b].Faults, m[a].Faults), compare(a, b))
	})
	return keys[:min(n, len(keys))]
}

// Compare orders files by number.
func (f File) Compare(g File) int {
	return cmp.Or(cmp.Compare(f.Device, g.Device), cmp.Compare(f.Inode, g.Inode))
}

// Compare orders sites by file and offset.
func (s Site) Compare(t Site) int {
	return cmp.Or(s.File.Compare(t.File), cmp.Compare(s.Offset, t.Offset))
}
