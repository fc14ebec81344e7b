package census

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"tare/probe/pagetable"
)

// FileCount is the part of one file. Every container sees the files of its image
// on a file system of its own, under a device number of its own; they are one
// file where one of their frames is the same.
type FileCount struct {
	Path    string `json:"path"`              // as the processes name it; the first of several names in their order
	Deleted bool   `json:"deleted,omitempty"` // the file is no longer at that path
	Device  uint64 `json:"device"`            // of that name, as stat has it
	Inode   uint64 `json:"inode"`
	Names   int    `json:"names"`   // how many different names (path, device, inode) it has
	Frames  uint64 `json:"frames"`  // frames of the file that are mapped, each once
	Tally   Tally  `json:"entries"` // of all its mappings, pages copied on write among them
}

// deleted marks a deleted file, as the kernel does.
const deleted = " (deleted)"

// Name is the path for a reader. That of a deleted file is marked, and one that only looks
// so is quoted: a path begins with a slash.
func (f *FileCount) Name() string {
	switch {
	case f.Deleted:
		return f.Path + deleted
	case strings.HasSuffix(f.Path, deleted):
		return strconv.Quote(f.Path)
	}
	return f.Path
}

// OtherFiles sums files that are not listed.
type OtherFiles struct {
	Files  int    `json:"files"`
	Frames uint64 `json:"frames"`
	Tally  Tally  `json:"entries"`
}

type fileName struct {
	path          string
	device, inode uint64
}

func (a fileName) compare(b fileName) int {
	return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.device, b.device), cmp.Compare(a.inode, b.inode))
}

// fileIndex numbers names of files, and unites those that turn out to be one file's.
type fileIndex struct {
	number map[fileName]int
	all    []FileCount
	parent []int // a forest of united names; a root is its own
}

func newFileIndex() *fileIndex { return &fileIndex{number: map[fileName]int{}} }

// of numbers the files of a process, one for each mapping; -1 is none.
func (f *fileIndex) of(s *pagetable.Space) []int {
	files := make([]int, len(s.Mappings))
	for i := range s.Mappings {
		m := &s.Mappings[i]
		if files[i] = -1; m.File == "" {
			continue
		}
		name := fileName{m.File, m.Device, m.Inode}
		k, ok := f.number[name]
		if !ok {
			k = len(f.all)
			f.number[name] = k
			f.all = append(
				f.all,
				FileCount{Path: m.File, Deleted: m.Deleted, Device: m.Device, Inode: m.Inode, Names: 1},
			)
			f.parent = append(f.parent, k)
		}
		files[i] = k
	}
	return files
}

func (f *fileIndex) find(i int) int {
	for f.parent[i] != i {
		f.parent[i] = f.parent[f.parent[i]]
		i = f.parent[i]
	}
	return i
}

func (f *fileIndex) unite(a, b int) {
	if a, b = f.find(a), f.find(b); a != b {
		f.parent[b] = a
	}
}

// united sums names into files, those with the most entries first, and all but
// the first most into one.
func (f *fileIndex) united(most int) (files []FileCount, rest OtherFiles) {
	for i := range f.all {
		r := f.find(i)
		if r == i {
			continue
		}
		one, other := &f.all[r], &f.all[i]
		if (fileName{other.Path, other.Device, other.Inode}).compare(fileName{one.Path, one.Device, one.Inode}) < 0 {
			one.Path, one.Deleted, one.Device, one.Inode = other.Path, other.Deleted, other.Device, other.Inode
		}
		one.Names++
		one.Frames += other.Frames
		one.Tally.Add(&other.Tally)
	}
	for i := range f.all {
		if f.find(i) == i && f.all[i].Tally.Entries > 0 {
			files = append(files, f.all[i])
		}
	}
	slices.SortFunc(files, func(a, b FileCount) int {
		return cmp.Or(cmp.Compare(b.Tally.Entries, a.Tally.Entries),
			fileName{a.Path, a.Device, a.Inode}.compare(fileName{b.Path, b.Device, b.Inode}))
	})
	if most > 0 && len(files) > most {
		for i := range files[most:] {
			file := &files[most+i]
			rest.Files++
			rest.Frames += file.Frames
			rest.Tally.Add(&file.Tally)
		}
		files = slices.Clip(files[:most])
	}
	return files, rest
}
