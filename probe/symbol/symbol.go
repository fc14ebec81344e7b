// Package symbol finds the functions of ELF files: programs, libraries, with or
// without a symbol table.
//
// It reads the symbol table, the dynamic symbols, and Go's line table, which
// stripped Go programs keep because the Go runtime itself needs it. It reads no
// DWARF, so functions that were inlined are part of those that they were inlined
// into, and it does not demangle. Formats: the ELF specification, and for Go's
// table src/internal/abi/symtab.go and src/cmd/link/internal/ld/pcln.go.
package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"unsafe"

	"tare/kernel/file"
)

// File is the functions of one ELF file. It holds no descriptor, and may be
// asked by several goroutines.
type File struct {
	// BuildID is the GNU build id, empty where the file has none.
	BuildID []byte
	// Go: it has a Go line table.
	Go bool

	segments  []segment
	functions []function // sorted by address, one an address
	goTable   *lineTable
}

// segment is where a part of the file comes to lie.
type segment struct {
	offset, size, address uint64
}

// function is one function; size 0 means that it reaches up to the next one.
type function struct {
	address, size uint64
	name          string
}

func sizeOf(functions []function) (size int64) {
	for _, f := range functions {
		size += int64(unsafe.Sizeof(f)) + int64(len(f.name))
	}
	return size
}

// Open reads the file at path, which has to be a regular one.
func Open(path string) (*File, error) {
	f, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Of(f)
}

// Of reads an open file.
func Of(f *os.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := Read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("symbols of %s: %w", f.Name(), err)
	}
	return file, nil
}

// Read reads a file of so many bytes. A file without any symbol is no error: it
// knows no function. One that claims more than it has, or more than can be right, is
// one: the file may be an attacker's.
func Read(r io.ReaderAt, size int64) (*File, error) {
	e, err := parse(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{BuildID: buildID(e)}
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			f.segments = append(f.segments, segment{p.Off, p.Filesz, p.Vaddr})
		}
	}
	known := merged(symbols(e, elf.SHT_SYMTAB), symbols(e, elf.SHT_DYNSYM))
	table := findLineTable(e, known)
	f.Go = table != nil
	if keeping.admit(f, sizeOf(known)) {
		f.functions = known
	}
	if f.Go && keeping.admit(f, int64(len(table.functab)+len(table.names))) {
		table.keep()
		f.goTable = table
	}
	return f, nil
}

// OpenBuildID reads nothing but the build id of the file at path.
func OpenBuildID(path string) ([]byte, error) {
	f, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	e, err := parse(f, info.Size())
	if err != nil {
		return nil, err
	}
	return buildID(e), nil
}

// symbols reads the functions of a symbol table: none where there is none, or it is
// damaged. debug/elf's own reader takes the names from any section, of any length, and
// copies them before it is known how long they are together.
func symbols(e *elf.File, kind elf.SectionType) []function {
	s := e.SectionByType(kind)
	if s == nil || uint64(s.Link) >= uint64(len(e.Sections)) || e.Sections[s.Link].Type != elf.SHT_STRTAB {
		return nil
	}
	table, err := s.Data()
	names, namesErr := e.Sections[s.Link].Data()
	if err != nil || namesErr != nil {
		return nil
	}
	size := elf.Sym64Size
	if e.Class == elf.ELFCLASS32 {
		size = elf.Sym32Size
	}
	var all []function
	// Functions of several files may have one name: so long may they be together.
	for left := min(16*len(names), mostNames); len(table) >= size; table = table[size:] {
		name, f := symbolOf(e, table)
		if f.address == 0 || uint64(name) >= uint64(len(names)) {
			continue
		}
		text, _, ended := bytes.Cut(names[name:], []byte{0})
		if !ended || len(text) == 0 {
			continue
		}
		if left -= len(text); left < 0 {
			return nil
		}
		f.name = string(text)
		all = append(all, f)
	}
	return all
}

// symbolOf parses a table's first symbol; without an address it is of no function.
func symbolOf(e *elf.File, b []byte) (name uint32, f function) {
	order := e.ByteOrder
	info, section := b[4], b[6:]
	if e.Class == elf.ELFCLASS32 {
		info, section = b[12], b[14:]
		f = function{address: uint64(order.Uint32(b[4:])), size: uint64(order.Uint32(b[8:]))}
	} else {
		f = function{address: order.Uint64(b[8:]), size: order.Uint64(b[16:])}
	}
	kind := elf.ST_TYPE(info)
	// Without a type they are labels of assembly code, where they have a
	// size, and marks of sections where not.
	isCode := kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC || kind == elf.STT_NOTYPE && f.size > 0
	if !isCode || elf.SectionIndex(order.Uint16(section)) == elf.SHN_UNDEF {
		return 0, function{}
	}
	return order.Uint32(b), f
}

// merged merges tables; of several names at one address the first stays,
// but one with a size before one without.
func merged(tables ...[]function) []function {
	all := slices.Concat(tables...)
	sort.SliceStable(all, func(i, j int) bool {
		if all[i].address != all[j].address {
			return all[i].address < all[j].address
		}
		return all[i].size > 0 && all[j].size == 0
	})
	kept := all[:0]
	for _, f := range all {
		if len(kept) > 0 && kept[len(kept)-1].address == f.address {
			continue
		}
		kept = append(kept, f)
	}
	return slices.Clone(kept) // without room for those that went
}

// Function names the function that the byte at an offset of the file is of.
// What a process has at an address is found at the offset
//
//	address - mapping's address + mapping's offset
//
// wherever the file is mapped, be it position independent or not.
func (f *File) Function(offset uint64) (string, bool) {
	address, ok := f.address(offset)
	if !ok {
		return "", false
	}
	i := sort.Search(len(f.functions), func(i int) bool { return f.functions[i].address > address }) - 1
	if i >= 0 {
		if s := f.functions[i]; s.size == 0 || address < s.address+s.size {
			// A symbol without a size says where something begins, and Go's
			// table, where it covers the place, what it is.
			if name, found := f.goTable.function(address); s.size == 0 && found {
				return name, true
			}
			return s.name, true
		}
	}
	return f.goTable.function(address)
}

// Maps reports whether a mapping of so many bytes from an offset on can be one of
// this file's code: the kernel maps whole pages around a segment.
func (f *File) Maps(offset, length uint64) bool {
	const page = 64 << 10 // of the largest that a supported machine has
	for _, s := range f.segments {
		if offset <= s.offset && s.offset-offset < page && offset+length >= s.offset+s.size &&
			offset+length-(s.offset+s.size) < page {
			return true
		}
	}
	return false
}

// address is where the byte at an offset of the file lies when it is loaded
// where it was linked to.
func (f *File) address(offset uint64) (uint64, bool) {
	for _, s := range f.segments {
		if offset >= s.offset && offset-s.offset < s.size {
			return offset - s.offset + s.address, true
		}
	}
	return 0, false
}

// buildID finds the GNU build id among the notes.
func buildID(e *elf.File) []byte {
	for _, p := range e.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<16 {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			continue
		}
		if id := gnuNote(notes, e.ByteOrder); id != nil {
			return id
		}
	}
	return nil
}

const noteGNUBuildID = 3

func gnuNote(notes []byte, order binary.ByteOrder) []byte {
	for len(notes) >= 12 {
		name, desc := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:]))
		kind := order.Uint32(notes[8:])
		notes = notes[12:]
		atDesc := (name + 3) &^ 3
		next := atDesc + (desc+3)&^3
		if atDesc+desc > uint64(len(notes)) {
			return nil
		}
		if kind == noteGNUBuildID && bytes.Equal(notes[:name], []byte("GNU\x00")) && desc > 0 {
			return bytes.Clone(notes[atDesc : atDesc+desc])
		}
		notes = notes[min(next, uint64(len(notes))):]
	}
	return nil
}

// Key is a build id as text, for maps and messages.
func Key(buildID []byte) string { return hex.EncodeToString(buildID) }
