package symbol

import (
	"debug/elf"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
)

// What is read of a file at most, in bytes. Whoever made the file may have claimed
// anything in its headers, and a file with holes may be long without having bytes;
// the largest programs in use stay well below.
const (
	// All headers, with the sections' names. Of n bytes of names each of n/64 sections may
	// take all: debug/elf copies them.
	mostHeaders = 256 << 10
	mostSymbols = 128 << 20 // a symbol table, of 24 bytes a symbol
	mostSection = 512 << 20 // any other section
	mostNames   = 256 << 20 // the names of a table's functions together
	mostTables  = 8         // places that look like Go's line table; one more than a program has is rare
)

// allowance bounds the bytes that are kept of files together: attackers may have made hundreds.
type allowance struct {
	most int64
	used atomic.Int64
}

// keeping is for all files of this process. Those beyond it have no names.
var keeping = &allowance{most: 1 << 30}

// admit counts what a file is to keep, for as long as somebody has the file.
func (a *allowance) admit(f *File, size int64) bool {
	if a.used.Add(size) > a.most {
		a.used.Add(-size)
		return false
	}
	runtime.AddCleanup(f, func(size int64) { a.used.Add(-size) }, size)
	return true
}

// tables are the sections that are read by name.
var tables = []string{".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro", ".rodata", ".rela.dyn", moduleSection}

// budget reads until so many bytes have been read.
type budget struct {
	io.ReaderAt
	left  int64
	spent bool // the limit counts no more
}

func (b *budget) ReadAt(p []byte, off int64) (int, error) {
	if !b.spent {
		if b.left -= int64(len(p)); b.left < 0 {
			return 0, fmt.Errorf("its headers are longer than the %d KiB that are read", mostHeaders>>10)
		}
	}
	return b.ReaderAt.ReadAt(p, off)
}

// parse reads the headers of a file of so many bytes, and refuses one of which more
// would have to be read than there is, or than is right.
func parse(r io.ReaderAt, size int64) (*elf.File, error) {
	headers := &budget{ReaderAt: r, left: mostHeaders}
	e, err := elf.NewFile(headers)
	if err != nil {
		return nil, err
	}
	headers.spent = true
	for _, s := range e.Sections {
		if err := admit(s, size); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// admit refuses a section that is one of those to be read and cannot be.
func admit(s *elf.Section, size int64) error {
	most := uint64(mostSection)
	switch s.Type {
	case elf.SHT_NOBITS, elf.SHT_NULL:
		return nil
	case elf.SHT_SYMTAB, elf.SHT_DYNSYM:
		most = mostSymbols
	case elf.SHT_STRTAB:
	default:
		if !slices.Contains(tables, s.Name) {
			return nil
		}
	}
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		// Its real length shows only when it has been unpacked. No linker compresses these.
		return fmt.Errorf("section %q is compressed", s.Name)
	case s.Offset > uint64(size) || s.FileSize > uint64(size)-s.Offset:
		return fmt.Errorf("section %q reaches beyond the file's end", s.Name)
	case s.Size > most:
		return fmt.Errorf("section %q has %d bytes: at most %d are read", s.Name, s.Size, most)
	}
	return nil
}
