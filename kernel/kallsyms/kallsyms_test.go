package kallsyms

import (
	"errors"
	"os"
	"strings"
	"testing"
)

const listing = `ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000100 t __pfx_mount_fs
ffffffff81000110 t do_mount
ffffffff81000200 W __x64_sys_weak
ffffffff81000200 T __x64_sys_mount
ffffffff81900000 T _etext
ffffffff82000000 D init_task
ffffffffa0000000 t ovl_mount	[overlay]
ffffffffa0000300 t bpf_prog_6deef7357e7b4530	[bpf]
`

func TestLookup(t *testing.T) {
	table, err := Parse(strings.NewReader(listing))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why     string
		address uint64
		name    string // empty where none is to be found
		module  string
		offset  uint64
	}{
		{"the first byte", 0xffffffff81000110, "do_mount", "", 0},
		{"within", 0xffffffff8100011f, "do_mount", "", 0xf},
		{"of two names the global one", 0xffffffff81000200, "__x64_sys_mount", "", 0},
		{"far behind, yet in the kernel's text", 0xffffffff818fffff, "__x64_sys_mount", "", 0x8ffdff},
		{"behind the kernel's text", 0xffffffff82000000, "", "", 0},
		{"a module", 0xffffffffa0000010, "ovl_mount", "overlay", 0x10},
		{"far behind the last module", 0xffffffffa0100000, "", "", 0},
		{"before everything: padding is no function", 0xffffffff81000100, "", "", 0},
		{"user space", 0x401000, "", "", 0},
	} {
		s, offset, ok := table.Lookup(c.address)
		if s.Name != c.name || s.Module != c.module || offset != c.offset || ok != (c.name != "") {
			t.Errorf("%s: %#x is %s+%#x of %q (%v), want %s+%#x of %q", c.why, c.address, s.Name, offset, s.Module, ok, c.name, c.offset, c.module)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ listing, says string }{
		{"", "no function"},
		{"ffffffff82000000 D init_task\n", "no function"},
		{"ffffffff81000000 T\n", "line 1"},
		{"ffffffff81000000 T a\nwhere T b\n", "line 2"},
		{"ffffffff81000000 T a [m] more\n", "is no symbol"},
	} {
		_, err := Parse(strings.NewReader(c.listing))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want an error that says %q", c.listing, err, c.says)
		}
	}
	_, err := Parse(strings.NewReader("0000000000000000 T do_mount\n0000000000000000 t ovl_mount [overlay]\n"))
	if !errors.Is(err, ErrHidden) {
		t.Errorf("a table of zeros: %v, want ErrHidden", err)
	}
}

func TestLoad(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others see every address as zero")
	}
	table, err := Load()
	if errors.Is(err, ErrHidden) || errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range table.symbols {
		if s.Name == "schedule" && s.Module == "" {
			if got, offset, ok := table.Lookup(s.Address + 1); !ok || got.Name != "schedule" || offset != 1 {
				t.Errorf("schedule's second byte is found as %s+%#x (%v)", got.Name, offset, ok)
			}
			return
		}
	}
	t.Errorf("among %d functions none is schedule", table.Len())
}

func FuzzParse(f *testing.F) {
	f.Add(listing, uint64(0xffffffff81000111))
	f.Add("0 t a", uint64(0))
	f.Fuzz(func(t *testing.T, listing string, address uint64) {
		table, err := Parse(strings.NewReader(listing))
		if err != nil {
			return
		}
		s, offset, ok := table.Lookup(address)
		if ok && (s.Address+offset != address || s.Name == "") {
			t.Errorf("%#x is found at %s, %#x+%#x", address, s.Name, s.Address, offset)
		}
	})
}
