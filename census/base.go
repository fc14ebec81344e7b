package census

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"tare/probe/pagetable"
)

// Base is what it would save if images held the same file once: if they were
// built on one base image, whose files the kernel then has in memory once.
type Base struct {
	// Basis is by what files count as the same.
	Basis string     `json:"basis"`
	Files []BaseFile `json:"files"` // those that save most first
	// Saved sums them, in bytes.
	Saved uint64 `json:"saved_bytes"`
	// Unknown are files that could not be identified, although their path is in
	// several images: they are not in Files.
	Unknown int `json:"unknown"`
}

// BaseFile is a file that several images bring.
type BaseFile struct {
	Path   string   `json:"path"`
	Images []string `json:"images"` // that bring it
	Copies int      `json:"copies"` // different files of that content
	// Frames are those of all copies that are mapped, Pages the different pages of the
	// file among them.
	Frames uint64 `json:"frames"`
	Pages  uint64 `json:"pages"`
	// Saved is the memory of the frames that are a page's second, in bytes.
	Saved uint64 `json:"saved_bytes"`
}

// copyOf is one file of the machine, that may be another's copy.
type copyOf struct {
	root   int // in the index of files
	sample File
	images []string
}

// base compares the files that have one path in different images.
func (n *counter) base(ctx context.Context, members []Member, o SavingOptions) (*Base, error) {
	b := &Base{Basis: o.Basis}
	paths := map[string][]*copyOf{}
	byRoot := map[int]*copyOf{}
	for i := range n.census.Spaces {
		s := &n.census.Spaces[i]
		if s.Group >= len(members) {
			continue
		}
		for m, file := range n.files.of(s) {
			if file < 0 || n.files.all[n.files.find(file)].Frames == 0 {
				continue
			}
			root := n.files.find(file)
			c := byRoot[root]
			if c == nil {
				at := &s.Mappings[m]
				c = &copyOf{root: root, sample: File{s.PID, at.Start, at.End, at.File, at.Device, at.Inode}}
				byRoot[root] = c
				path := n.files.all[root].Path
				paths[path] = append(paths[path], c)
			}
			if image := members[s.Group].Image; image != "" && !slices.Contains(c.images, image) {
				c.images = append(c.images, image)
			}
		}
	}
	for path, copies := range paths {
		for _, alike := range b.alike(copies, o) {
			same := map[string][]*copyOf{}
			for _, c := range alike {
				if err := ctx.Err(); err != nil {
					return nil, fmt.Errorf("identify files: %w", context.Cause(ctx))
				}
				identity, ok := o.Identify(c.sample)
				if !ok {
					b.Unknown++
					continue
				}
				same[identity] = append(same[identity], c)
			}
			for _, copies := range same {
				if several(copies) {
					b.Files = append(b.Files, n.baseFile(path, imagesOf(copies), copies))
				}
			}
		}
	}
	slices.SortFunc(b.Files, func(x, y BaseFile) int {
		return cmp.Or(cmp.Compare(y.Saved, x.Saved), cmp.Compare(x.Path, y.Path), slices.Compare(x.Images, y.Images))
	})
	for _, f := range b.Files {
		b.Saved += f.Saved
	}
	return b, nil
}

// alike gives those copies that may be of one content, by their length.
func (b *Base) alike(copies []*copyOf, o SavingOptions) (all [][]*copyOf) {
	if !several(copies) {
		return nil
	}
	if o.Length == nil {
		return [][]*copyOf{copies}
	}
	byLength := map[int64][]*copyOf{}
	for _, c := range copies {
		if length, ok := o.Length(c.sample); ok {
			byLength[length] = append(byLength[length], c)
		} else {
			b.Unknown++
		}
	}
	for _, copies := range byLength {
		if several(copies) {
			all = append(all, copies)
		}
	}
	return all
}

// several reports whether they are different files that different images bring.
func several(copies []*copyOf) bool {
	return len(copies) > 1 && len(imagesOf(copies)) > 1
}

func imagesOf(copies []*copyOf) []string {
	var all []string
	for _, c := range copies {
		all = append(all, c.images...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (n *counter) baseFile(path string, images []string, copies []*copyOf) BaseFile {
	f := BaseFile{Path: path, Images: images, Copies: len(copies)}
	roots := map[int]bool{}
	for _, c := range copies {
		roots[c.root] = true
		f.Frames += n.files.all[c.root].Frames
	}
	f.Pages = n.pagesOf(roots)
	f.Saved = (f.Frames - f.Pages) * pagetable.PageSize
	return f
}

// pagesOf counts the different pages of files that are mapped as the files'
// own, files of one content taken for one.
func (n *counter) pagesOf(roots map[int]bool) (pages uint64) {
	const word = 64
	seen := map[uint64]uint64{}
	for i := range n.census.Spaces {
		s := &n.census.Spaces[i]
		files := n.files.of(s)
		for r := range s.Runs {
			run := &s.Runs[r]
			if file := files[run.Mapping]; file < 0 || !roots[n.files.find(file)] {
				continue
			}
			first := filePage(&s.Mappings[run.Mapping], run.Page)
			for k, e := range run.Entries {
				if sort(e) == framed && isFile(e) {
					at := first + uint64(k)
					seen[at/word] |= 1 << (at % word)
				}
			}
		}
	}
	for _, w := range seen {
		pages += uint64(bits.OnesCount64(w))
	}
	return pages
}
