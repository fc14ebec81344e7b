package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math"
	"sort"
	"sync"
)

// The magic numbers of Go's line table that are read here: since Go 1.18 and
// since Go 1.20. Their layouts are the same as far as functions go. (Go 1.16's
// and older programs have their symbols found only where they are not stripped.)
const (
	magicGo118 = 0xfffffff0
	magicGo120 = 0xfffffff1
)

// lineTable is the part of Go's table that names functions.
type lineTable struct {
	order   binary.ByteOrder
	text    uint64 // the address that entries count from
	count   int
	functab []byte // count pairs of u32: the entry, where its function's name is; then the end
	names   []byte // text, each ended by zero
	end     uint64 // of the last function

	// Until it is kept: what the pairs' second halves point into.
	funcdata   []byte
	headerText uint64
}

// tableFinder finds a file's line table.
type tableFinder struct {
	*elf.File
	known       []function
	left        int           // how many more places that look like a table are tried
	relocations func() []byte // read once
}

// findLineTable finds a file's table: in its own section, or, in programs linked
// position independent, in the data that is relocated, by its magic.
func findLineTable(e *elf.File, known []function) *lineTable {
	f := &tableFinder{File: e, known: known, left: mostTables, relocations: sync.OnceValue(func() []byte {
		s := e.Section(".rela.dyn")
		if s == nil {
			return nil
		}
		data, err := s.Data()
		if err != nil {
			return nil
		}
		return data
	})}
	if s := e.Section(".gopclntab"); s != nil {
		return f.read(s)
	}
	for _, name := range []string{".data.rel.ro.gopclntab", ".data.rel.ro", ".rodata"} {
		s := e.Section(name)
		if s == nil || e.Section(".note.go.buildid") == nil && e.Section(".go.buildinfo") == nil {
			continue
		}
		if t := f.read(s); t != nil {
			return t
		}
	}
	return nil
}

func (f *tableFinder) read(s *elf.Section) *lineTable {
	data, err := s.Data()
	if err != nil {
		return nil
	}
	for _, magic := range []uint32{magicGo120, magicGo118} {
		want := make([]byte, 4)
		f.ByteOrder.PutUint32(want, magic)
		for at := 0; ; {
			i := bytes.Index(data[at:], want)
			if i < 0 {
				break
			}
			at += i
			if t := parseLineTable(data[at:], f.ByteOrder); t != nil {
				if f.left--; f.left < 0 {
					return nil
				}
				if t.text = f.textStart(t, s.Addr+uint64(at)); t.text != 0 {
					return t
				}
			}
			at += len(want)
		}
	}
	return nil
}

// Where moduledata (src/runtime/symtab.go) has the address of runtime.text in
// programs of Go 1.26, of 64 bits: behind the table's header, six slices, the
// bucket table and the bounds of the text. Go 1.26 has given moduledata a section.
const (
	moduleSection    = ".go.module"
	moduleTextOffset = 8 + 6*24 + 8 + 2*8
)

// textStart is the address of runtime.text, that entries count from. Up to Go
// 1.25 the table's header has it; since then only moduledata does. In programs
// linked position independent both are filled in at load, from a relocation.
// Where nothing says, Go's text begins where the section does: so the Go linker
// lays it out (an external linker puts C code before).
func (f *tableFinder) textStart(t *lineTable, tableAddress uint64) uint64 {
	section := f.Section(".text")
	if section == nil {
		return 0
	}
	within := func(address uint64) bool {
		return address >= section.Addr && address < section.Addr+section.Size
	}
	if within(t.headerText) {
		return t.headerText
	}
	for _, known := range f.known {
		if known.name == "runtime.text" && within(known.address) {
			return known.address
		}
	}
	if f.Class == elf.ELFCLASS64 {
		// The header's third word.
		if address := f.relocated(tableAddress + 8 + 2*8); within(address) {
			return address
		}
		if m := f.Section(moduleSection); m != nil && m.Size >= moduleTextOffset+8 {
			var word [8]byte
			if _, err := m.ReadAt(word[:], moduleTextOffset); err == nil {
				if address := f.ByteOrder.Uint64(word[:]); within(address) {
					return address
				}
			}
			if address := f.relocated(m.Addr + moduleTextOffset); within(address) {
				return address
			}
		}
	}
	return section.Addr
}

// relocated is what the dynamic linker writes to an address: the addend of a
// relative relocation there; 0 where there is none.
func (f *tableFinder) relocated(address uint64) uint64 {
	for data := f.relocations(); len(data) >= 24; data = data[24:] {
		if f.ByteOrder.Uint64(data) == address {
			return f.ByteOrder.Uint64(data[16:])
		}
	}
	return 0
}

// parseLineTable parses a table that begins with b; nil where it is none.
func parseLineTable(b []byte, order binary.ByteOrder) *lineTable {
	// u32 magic, two zero bytes, the instructions' alignment, the width of an
	// address; then in that width: functions, files, text start, and offsets of
	// names, compilation units, files, line programs and functions.
	if len(b) < 8 || b[4] != 0 || b[5] != 0 || (b[6] != 1 && b[6] != 2 && b[6] != 4) || (b[7] != 4 && b[7] != 8) {
		return nil
	}
	width := int(b[7])
	if len(b) < 8+8*width {
		return nil
	}
	word := func(n int) uint64 {
		at := b[8+n*width:]
		if width == 4 {
			return uint64(order.Uint32(at))
		}
		return order.Uint64(at)
	}
	count, names, namesEnd, functab := word(0), word(3), word(4), word(7)
	size := uint64(len(b))
	// Each function has a pair of u32, and one u32 stands behind the last.
	if count == 0 || count > size/8 || names >= namesEnd || namesEnd > size ||
		functab >= size || (count*2+1)*4 > size-functab {
		return nil
	}
	t := &lineTable{
		order: order, count: int(count), headerText: word(2),
		functab: b[functab:][:(count*2+1)*4], funcdata: b[functab:], names: b[names:namesEnd],
	}
	t.end = uint64(t.entry(t.count))
	return t
}

func (t *lineTable) entry(i int) uint32 { return t.order.Uint32(t.functab[8*i:]) }

// keep leaves the section that the table was read from, which may be much longer.
func (t *lineTable) keep() {
	t.functab, t.names = bytes.Clone(t.functab), bytes.Clone(t.names)
	for i := range t.count {
		second := t.functab[8*i+4:]
		// A description begins with the entry and then the name's offset.
		described, name := uint64(t.order.Uint32(second)), uint32(math.MaxUint32)
		if described+8 <= uint64(len(t.funcdata)) {
			name = t.order.Uint32(t.funcdata[described+4:])
		}
		t.order.PutUint32(second, name)
	}
	t.funcdata = nil
}

// name is the i-th function's.
func (t *lineTable) name(i int) (string, bool) {
	offset := uint64(t.order.Uint32(t.functab[8*i+4:]))
	if offset >= uint64(len(t.names)) {
		return "", false
	}
	text, _, ended := bytes.Cut(t.names[offset:], []byte{0})
	return string(text), ended && len(text) > 0
}

// function names the function at an address; a nil table knows none.
func (t *lineTable) function(address uint64) (string, bool) {
	if t == nil || address < t.text || address-t.text >= t.end {
		return "", false
	}
	offset := address - t.text
	i := sort.Search(t.count, func(i int) bool { return uint64(t.entry(i)) > offset }) - 1
	if i < 0 {
		return "", false
	}
	return t.name(i)
}
