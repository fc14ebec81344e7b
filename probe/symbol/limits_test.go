package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// crafted is a file of an attacker: an ELF header, and two sections behind it that
// claim what the test wants.
func crafted(t *testing.T, header elf.Header64, sections ...elf.Section64) []byte {
	t.Helper()
	copy(header.Ident[:], "\x7fELF\x02\x01\x01")
	header.Type, header.Machine, header.Version = uint16(elf.ET_EXEC), uint16(elf.EM_X86_64), 1
	header.Ehsize, header.Shentsize, header.Shoff = 64, 64, 64
	header.Phentsize = 56
	var b bytes.Buffer
	for _, part := range []any{header, sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// A file may be 64 GiB long and take no room on its disk, and its headers may claim
// all of it. Whatever they claim, reading it takes no more memory than it should.
func TestFilesThatClaimTooMuch(t *testing.T) {
	const size = 64 << 30
	names := elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 512, Size: 1}
	for _, c := range []struct {
		what     string
		header   elf.Header64
		sections []elf.Section64
		want     string
	}{
		{
			"a symbol table of 32 GiB", elf.Header64{Shnum: 3, Shstrndx: 1},
			[]elf.Section64{{}, names, {Type: uint32(elf.SHT_SYMTAB), Link: 1, Off: 4096, Size: size / 2 / 24 * 24, Entsize: 24}}, "at most",
		},
		{
			"names of 32 GiB", elf.Header64{Shnum: 2, Shstrndx: 1},
			[]elf.Section64{{}, {Type: uint32(elf.SHT_STRTAB), Off: 512, Size: size / 2}}, "headers are longer",
		},
		{
			"strings of 32 GiB", elf.Header64{Shnum: 4, Shstrndx: 1},
			[]elf.Section64{{}, names, {Type: uint32(elf.SHT_SYMTAB), Link: 3, Off: 4096, Size: 48, Entsize: 24}, {Type: uint32(elf.SHT_STRTAB), Off: 4096, Size: size / 2}}, "at most",
		},
		{
			"hundreds of millions of sections", elf.Header64{Shnum: 0, Shstrndx: 1},
			[]elf.Section64{{Size: size / 2 / 64}, names}, "headers are longer",
		},
		{
			"symbols beyond the file's end", elf.Header64{Shnum: 3, Shstrndx: 1},
			[]elf.Section64{{}, names, {Type: uint32(elf.SHT_DYNSYM), Link: 1, Off: size - 24, Size: 48, Entsize: 24}}, "beyond the file's end",
		},
		{
			"an offset near the end of numbers", elf.Header64{Shnum: 3, Shstrndx: 1},
			[]elf.Section64{{}, names, {Type: uint32(elf.SHT_DYNSYM), Link: 1, Off: 1<<63 - 1, Size: 48, Entsize: 24}}, "",
		},
		{
			"compressed symbols", elf.Header64{Shnum: 3, Shstrndx: 1},
			[]elf.Section64{{}, names, {Type: uint32(elf.SHT_SYMTAB), Flags: uint64(elf.SHF_COMPRESSED), Link: 1, Off: 0, Size: 64, Entsize: 24}}, "",
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(path, crafted(t, c.header, c.sections...), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, size); err != nil {
				t.Skipf("needs a file system with holes: %v", err)
			}
			var err error
			took := allocated(func() { _, err = Open(path) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if took > 256<<20 {
				t.Errorf("reading it has taken %d MiB", took>>20)
			}
		})
	}
}

// Each of many sections may have the same long name.
func TestNamesOfSectionsTakeLittle(t *testing.T) {
	const count, length = 10_000, 40_000
	header := elf.Header64{Shnum: count, Shstrndx: 1}
	sections := make([]elf.Section64, count)
	sections[1] = elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 64 + 64*count, Size: length}
	b := append(crafted(t, header, sections...), bytes.Repeat([]byte("n"), length-1)...)
	if took := allocated(func() { _, _ = Read(bytes.NewReader(append(b, 0)), int64(len(b)+1)) }); took > 64<<20 {
		t.Errorf("reading it has taken %d MiB", took>>20)
	}
}

// withNames is a file with a symbol table of so many functions, each of which has the name
// that a section of some type begins with.
func withNames(t *testing.T, count int, kind elf.SectionType, name string, size uint64) []byte {
	t.Helper()
	at := uint64(64 + 4*64)
	table := uint64(count) * elf.Sym64Size
	b := crafted(t, elf.Header64{Shnum: 4, Shstrndx: 1}, elf.Section64{},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 15, Size: 1},
		elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 3, Off: at, Size: table, Entsize: elf.Sym64Size},
		elf.Section64{Type: uint32(kind), Off: at + table, Size: size})
	one := elf.Sym64{Info: byte(elf.STT_FUNC), Shndx: 1, Value: 0x1000, Size: 8}
	var symbol bytes.Buffer
	if err := binary.Write(&symbol, binary.LittleEndian, one); err != nil {
		t.Fatal(err)
	}
	return append(append(b, bytes.Repeat(symbol.Bytes(), count)...), name...)
}

// Each of many functions may have the same long name.
func TestNamesOfFunctionsTakeLittle(t *testing.T) {
	name := strings.Repeat("n", 1<<16) + "\x00"
	for _, c := range []struct{ count, known int }{{10, 1}, {4096, 0}} {
		b := withNames(t, c.count, elf.SHT_STRTAB, name, uint64(len(name)))
		var f *File
		var err error
		took := allocated(func() { f, err = Read(bytes.NewReader(b), int64(len(b))) })
		if err != nil || len(f.functions) != c.known || took > 16<<20 {
			t.Errorf("of %d: %v, %d functions; reading it has taken %d MiB", c.count, err, len(f.functions), took>>20)
		}
	}
}

// What a symbol table names as its text may be no section of text, and so of any length.
func TestNamesOfFunctionsInAnotherSection(t *testing.T) {
	b := withNames(t, 2, elf.SHT_PROGBITS, "main.f\x00", mostSection+1)
	r := &counted{ReaderAt: holes{bytes.NewReader(b)}}
	f, err := Read(r, 1<<40)
	if err != nil || len(f.functions) > 0 || r.bytes > 1<<20 {
		t.Errorf("%v, %d functions after %d bytes were read", err, len(f.functions), r.bytes)
	}
}

// goTable is Go's table of one function at 0 up to 16, main.f.
func goTable(text uint64) []byte {
	table := []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}
	// The function is described at 12 behind the pairs' beginning.
	for _, word := range []uint64{1, 0, text, 72, 80, 80, 80, 80} {
		table = binary.LittleEndian.AppendUint64(table, word)
	}
	table = append(table, "main.f\x00\x00"...)
	for _, half := range []uint32{0, 12, 16, 0, 0} {
		table = binary.LittleEndian.AppendUint32(table, half)
	}
	return table
}

// withTables is a file with a section for line tables, relocations of so many bytes, and
// its text at address 0.
func withTables(t *testing.T, tables []byte, size uint64, relocations uint64) []byte {
	t.Helper()
	names := "\x00.gopclntab\x00.rela.dyn\x00.text\x00"
	at := uint64(64 + 5*64)
	behind := at + uint64(len(names))
	b := crafted(t, elf.Header64{Shnum: 5, Shstrndx: 1}, elf.Section64{},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: at, Size: uint64(len(names))},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: behind, Size: size},
		elf.Section64{Name: 12, Type: uint32(elf.SHT_RELA), Off: behind, Size: relocations},
		elf.Section64{Name: 22, Type: uint32(elf.SHT_PROGBITS), Size: 1 << 30})
	return append(append(b, names...), tables...)
}

// A section may be full of what looks like a table, and each place has an address to be
// looked for among the relocations.
func TestManyFalseTables(t *testing.T) {
	const relocations = 1 << 20
	tables := bytes.Repeat(goTable(1<<40), 100)
	b := withTables(t, tables, uint64(len(tables)), relocations)
	r := &counted{ReaderAt: holes{bytes.NewReader(b)}}
	f, err := Read(r, 1<<40)
	if most := int64(relocations + len(b) + 4096); err != nil || f.Go || r.bytes > most {
		t.Errorf("%v, Go %v, and %d bytes were read: at most %d", err, f.Go, r.bytes, most)
	}
	tries := 0
	finder := tableFinder{File: elfOf(t, b), left: mostTables, relocations: func() []byte { tries++; return nil }}
	finder.read(finder.Section(".gopclntab"))
	if tries != mostTables {
		t.Errorf("the relocations were looked through %d times", tries)
	}
}

// A file of a few bytes may have tables of holes, and an attacker many such files.
func TestFilesKeepLittle(t *testing.T) {
	const section = 64 << 20
	tables := goTable(0x401000)
	b := withTables(t, tables, section, 0)
	file := func() *File {
		f, err := Read(holes{bytes.NewReader(b)}, 1<<40)
		if err != nil || !f.Go {
			t.Fatalf("%v, %+v", err, f)
		}
		return f
	}
	if kept := cap(file().goTable.functab) + cap(file().goTable.names); kept > 256 {
		t.Errorf("it keeps %d bytes of its %d", kept, section)
	}
	b = withNames(t, 2, elf.SHT_STRTAB, "main.f\x00", 7)
	one, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(one.functions) == 0 {
		t.Fatal(err)
	}
	before := keeping
	t.Cleanup(func() { keeping = before })
	keeping = &allowance{most: sizeOf(one.functions)}
	second, _ := Read(bytes.NewReader(b), int64(len(b)))
	third, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(second.functions) == 0 || len(third.functions) > 0 {
		t.Errorf("%v, the second has %d functions, and the third %d", err, len(second.functions), len(third.functions))
	}
	runtime.KeepAlive(second)
	for keeping.used.Load() > 0 { // as nobody has them
		runtime.GC()
	}
}

func elfOf(t *testing.T, b []byte) *elf.File {
	t.Helper()
	e, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// holes is a file that goes on with zeros.
type holes struct{ *bytes.Reader }

func (h holes) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.Reader.ReadAt(p, off)
	if err == io.EOF {
		clear(p[n:])
		return len(p), nil
	}
	return n, err
}

// counted counts what is read.
type counted struct {
	io.ReaderAt
	bytes int64
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.bytes += int64(len(p))
	return c.ReaderAt.ReadAt(p, off)
}

// allocated are the bytes that f takes in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What is not read may be of any length: debug information is, and there are
// programs without any.
func TestSectionsThatAreNotRead(t *testing.T) {
	names := elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 512, Size: 1}
	b := crafted(t, elf.Header64{Shnum: 3, Shstrndx: 1}, elf.Section64{}, names,
		elf.Section64{Type: uint32(elf.SHT_PROGBITS), Off: 512, Size: 1 << 40})
	b = append(b, make([]byte, 1024)...)
	if _, err := Read(bytes.NewReader(b), int64(len(b))); err != nil {
		t.Error(err)
	}
}
