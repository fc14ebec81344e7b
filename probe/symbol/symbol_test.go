package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// offsetOf is where a function stands in a file, by its symbol table.
func offsetOf(t *testing.T, path, name string) uint64 {
	t.Helper()
	e, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	symbols, err := e.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name != name {
			continue
		}
		for _, p := range e.Progs {
			if p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value < p.Vaddr+p.Filesz {
				return s.Value - p.Vaddr + p.Off
			}
		}
	}
	t.Fatalf("%s has no %s", path, name)
	return 0
}

const program = `package main

import "fmt"

//go:noinline
func answer(n int) int { return n * 42 }

func main() { fmt.Println(answer(1)) }
`

// TestGoProgramsWithoutSymbols compares, for each way in which Go programs are
// linked, what is found in the stripped program with where the symbol table of
// the one before stripping has it.
func TestGoProgramsWithoutSymbols(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		gcc  bool
		args []string
	}{
		{"static", false, nil},
		{"pie", false, []string{"-buildmode=pie"}},
		{"external", true, []string{"-ldflags=-linkmode=external"}},
		{"external-pie", true, []string{"-buildmode=pie", "-ldflags=-linkmode=external"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath("gcc"); c.gcc && err != nil {
				t.Skip("needs gcc")
			}
			strip, err := exec.LookPath("strip")
			if err != nil {
				t.Skip("needs strip (binutils)")
			}
			whole := filepath.Join(dir, c.name)
			build := exec.Command("go", append(append([]string{"build", "-o", whole}, c.args...), source)...)
			build.Dir = dir
			build.Env = append(os.Environ(), "GO111MODULE=off")
			if c.gcc {
				build.Env = append(build.Env, "CGO_ENABLED=1")
			}
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", build, err, out)
			}
			offset := offsetOf(t, whole, "main.answer")
			stripped := whole + ".stripped"
			if out, err := exec.Command(strip, "-o", stripped, whole).CombinedOutput(); err != nil {
				t.Fatalf("strip: %v\n%s", err, out)
			}
			for _, path := range []string{whole, stripped} {
				f, err := Open(path)
				if err != nil {
					t.Fatal(err)
				}
				if !f.Go {
					t.Errorf("%s is not reported for a Go program", path)
				}
				for _, at := range []uint64{offset, offset + 1} {
					if name, ok := f.Function(at); name != "main.answer" {
						t.Errorf("%s: at %#x is %q (%v), want main.answer", path, at, name, ok)
					}
				}
				if name, ok := f.Function(offset - 1); name == "main.answer" {
					t.Errorf("%s: before main.answer is %q (%v)", path, name, ok)
				}
			}
		})
	}
}

func TestLibrary(t *testing.T) {
	libraries, _ := filepath.Glob("/lib/*/libc.so.6")
	if len(libraries) == 0 {
		t.Skip("needs a libc at /lib/*/libc.so.6")
	}
	f, err := Open(libraries[0])
	if err != nil {
		t.Fatal(err)
	}
	e, err := elf.Open(libraries[0])
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	dynamic, err := e.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, s := range dynamic {
		if s.Name != "getppid" && s.Name != "qsort" {
			continue
		}
		for _, p := range e.Progs {
			if p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value < p.Vaddr+p.Filesz {
				checked++
				if name, ok := f.Function(s.Value - p.Vaddr + p.Off + 4); !ok || name != s.Name {
					t.Errorf("in %s is %q (%v)", s.Name, name, ok)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("nothing was compared")
	}
	if id, err := OpenBuildID(libraries[0]); err != nil || !bytes.Equal(id, f.BuildID) {
		t.Errorf("its build id is %x, and %x (%v)", f.BuildID, id, err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	if _, err := Open("/nonexistent"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open("symbol.go"); err == nil {
		t.Error("a source text is read as a program")
	}
}

func TestGNUNote(t *testing.T) {
	note := func(name string, kind uint32, desc ...byte) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
		b = binary.LittleEndian.AppendUint32(b, kind)
		return append(append(b, name...), desc...)
	}
	property := note("GNU\x00", 5, 1, 2, 3, 4)
	id := note("GNU\x00", noteGNUBuildID, 0xab, 0xcd, 0xef, 0x01)
	if got := gnuNote(append(property, id...), binary.LittleEndian); Key(got) != "abcdef01" {
		t.Errorf("behind another note: %x", got)
	}
	if got := gnuNote(id[:len(id)-1], binary.LittleEndian); got != nil {
		t.Errorf("cut short: %x", got)
	}
}

func FuzzRead(f *testing.F) {
	var tiny bytes.Buffer
	binary.Write(&tiny, binary.LittleEndian, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Phoff: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	})
	binary.Write(&tiny, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X | elf.PF_R), Vaddr: 0x400000, Filesz: 120, Memsz: 120})
	f.Add(tiny.Bytes(), uint64(64))
	f.Fuzz(func(t *testing.T, b []byte, offset uint64) {
		file, err := Read(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			file.Function(offset)
		}
	})
}

func FuzzLineTable(f *testing.F) {
	table := goTable(0x401000)
	if parsed := parseLineTable(table, binary.LittleEndian); parsed == nil {
		f.Fatal("the example is no table")
	} else if parsed.text = parsed.headerText; true {
		parsed.keep()
		if name, ok := parsed.function(0x401008); name != "main.f" || !ok {
			f.Fatalf("the example's function is %q (%v)", name, ok)
		}
		if name, ok := parsed.function(0x401010); ok {
			f.Fatalf("behind the example's function is %q", name)
		}
	}
	f.Add(table, uint64(8))
	f.Fuzz(func(t *testing.T, b []byte, address uint64) {
		if table := parseLineTable(b, binary.LittleEndian); table != nil {
			table.keep()
			if name, ok := table.function(address); ok && name == "" {
				t.Error("a function without a name")
			}
		}
	})
}
