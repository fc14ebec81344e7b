// Package kallsyms gives the names of the kernel's functions: it reads
// /proc/kallsyms and finds the function that an address lies in.
//
// It knows functions only, no data, and no line numbers. The names are the
// running kernel's and its modules' at the moment of reading; programs that the
// kernel compiled later (BPF) are not among them. The format is that of
// kernel/kallsyms.c: an address, a type as nm(1) has it, a name, and in brackets
// the module.
package kallsyms

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
)

// ErrHidden says that the kernel shows every address as zero.
var ErrHidden = errors.New("kernel addresses are hidden: run as root (CAP_SYSLOG) with sysctl kernel.kptr_restrict=0 or 1")

// file is where the kernel lists its symbols.
const file = "/proc/kallsyms"

// moduleReach is how far behind its symbol's address an address outside of the
// kernel's own text may lie to be that function's. Between modules lie code
// without a name (compiled seccomp filters) and gaps, and symbols come without
// a size; no function of a module is longer.
const moduleReach = 64 << 10

// Symbol is one function.
type Symbol struct {
	Address uint64
	Name    string
	Module  string // empty for the kernel itself
	global  bool
}

// Table is all functions, for lookup by address. It does not change once read.
type Table struct {
	symbols   []Symbol // sorted by address, one an address
	text, end uint64   // the kernel's own text, from _stext to _etext; 0 where unknown
}

// Load reads the running kernel's table.
func Load() (*Table, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// Parse reads a table. Its error wraps [ErrHidden] where there are functions
// and every address is zero.
func Parse(r io.Reader) (*Table, error) {
	t := &Table{}
	seen := false
	scan := bufio.NewScanner(r)
	for n := 1; scan.Scan(); n++ {
		address, kind, name, module, err := parseLine(scan.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case !strings.ContainsAny(kind, "tTwW"):
			continue
		case module == "" && name == "_stext":
			t.text = address
		case module == "" && name == "_etext":
			t.end = address
		}
		if marker(name) {
			continue
		}
		seen = true
		if address == 0 {
			continue
		}
		t.symbols = append(t.symbols, Symbol{Address: address, Name: name, Module: module, global: kind == "T"})
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	switch {
	case !seen:
		return nil, errors.New("no function is listed")
	case len(t.symbols) == 0:
		return nil, ErrHidden
	}
	t.sort()
	return t, nil
}

func parseLine(line string) (address uint64, kind, name, module string, err error) {
	fields := strings.Fields(line)
	if len(fields) < 3 || len(fields) > 4 || len(fields[1]) != 1 {
		return 0, "", "", "", fmt.Errorf("%q is no symbol", line)
	}
	address, err = strconv.ParseUint(fields[0], 16, 64)
	if err != nil {
		return 0, "", "", "", fmt.Errorf("%q: the address is no hexadecimal number", line)
	}
	if len(fields) == 4 {
		module = strings.Trim(fields[3], "[]")
	}
	return address, fields[1], fields[2], module, nil
}

// marker recognises symbols that are places and not functions: bounds of sections,
// the padding before functions (__pfx_, __cfi_), arm64's mapping symbols.
func marker(name string) bool {
	switch name {
	case "_text", "_stext", "_etext", "_sinittext", "_einittext", "startup_64":
		return true
	}
	return strings.HasPrefix(name, "__pfx_") || strings.HasPrefix(name, "__cfi_") || strings.HasPrefix(name, "$")
}

// sort orders the functions and keeps one name an address: a global one
// before a local or weak one, else the first listed.
func (t *Table) sort() {
	sort.SliceStable(t.symbols, func(i, j int) bool {
		a, b := &t.symbols[i], &t.symbols[j]
		if a.Address != b.Address {
			return a.Address < b.Address
		}
		return a.global && !b.global
	})
	kept := t.symbols[:0]
	for _, s := range t.symbols {
		if len(kept) > 0 && kept[len(kept)-1].Address == s.Address {
			continue
		}
		kept = append(kept, s)
	}
	t.symbols = kept
}

// Len is the number of functions.
func (t *Table) Len() int { return len(t.symbols) }

// Lookup finds the function that an address lies in, and how far behind its
// beginning. It is false where the table has none: symbols have no size, so an
// address in the kernel's own text belongs to the function before it, and one
// elsewhere only where that is near.
func (t *Table) Lookup(address uint64) (s Symbol, offset uint64, ok bool) {
	i := sort.Search(len(t.symbols), func(i int) bool { return t.symbols[i].Address > address }) - 1
	if i < 0 {
		return Symbol{}, 0, false
	}
	s = t.symbols[i]
	offset = address - s.Address
	inText := t.text <= address && address < t.end
	if !inText && offset >= moduleReach {
		return Symbol{}, 0, false
	}
	return s, offset, true
}
