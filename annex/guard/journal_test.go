package guard

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/file"
)

func text(t testing.TB, lines ...line) []byte {
	t.Helper()
	var all []byte
	for _, l := range lines {
		b, err := l.text()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

var (
	head  = line{Version: version, Boot: "this"}
	lower = Entry{Number: 1, Kind: Momentary, File: "/sys/fs/cgroup/memory/a\nb/memory.limit_in_bytes", Identity: 7, Found: "9223372036854771712", Written: "4096"}
	still = Entry{Number: 2, Kind: Lasting, File: "/sys/fs/cgroup/memory/c/memory.swappiness", Identity: 8, Found: "60", Written: "0"}
)

func opening(e Entry) line { return line{Number: e.Number, Open: &e} }

func TestParse(t *testing.T) {
	whole := text(t, head, opening(lower), opening(still), line{Number: 1, End: Restored})
	got, err := Parse(bytes.NewReader(whole))
	want := Journal{Boot: "this", Open: []Entry{still}, Last: 2, Whole: int64(len(whole))}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	got, err = Parse(bytes.NewReader(text(t, head, opening(lower), line{Number: 1, End: Failed})))
	if err != nil || len(got.Open) != 1 {
		t.Errorf("what could not be put back stays open: %+v, %v", got, err)
	}
	if got, err := Parse(strings.NewReader("")); err != nil || len(got.Open) != 0 || got.Boot != "" {
		t.Errorf("nothing: %+v, %v", got, err)
	}
}

// A journal that ends anywhere tells what its whole lines do, and no more.
func TestParseTorn(t *testing.T) {
	lines := [][]byte{text(t, head), text(t, opening(lower)), text(t, opening(still)), text(t, line{Number: 1, End: Restored})}
	open := [][]Entry{nil, nil, {lower}, {lower, still}, {still}}
	whole := bytes.Join(lines, nil)
	for end := range len(whole) + 1 {
		n, at := 0, 0
		for n < len(lines) && at+len(lines[n]) <= end {
			at += len(lines[n])
			n++
		}
		got, err := Parse(bytes.NewReader(whole[:end]))
		if err != nil || got.Whole != int64(at) || !slices.Equal(got.Open, open[n]) {
			t.Fatalf("after %d bytes: %+v, %v; want %d whole, open %+v", end, got, err, at, open[n])
		}
	}
}

// What is no journal is told from one that is damaged, or was being begun.
func TestParseNoJournal(t *testing.T) {
	for what, is := range map[string]bool{"# a readme\n\nfor people\n": true, "no end of a line": true, "\n": true, "0a1": false, "0a1b2c3d {\"": false, "0a1b2c3d x": true} {
		none := new(NoJournal)
		if j, err := Parse(strings.NewReader(what)); errors.As(err, &none) != is || len(j.Open) > 0 {
			t.Errorf("%q: %+v, %v", what, j, err)
		}
	}
}

// One damaged line takes nothing else with it, and is named.
func TestParseDamaged(t *testing.T) {
	for name, c := range map[string]struct {
		text []byte
		line int
		open []Entry
	}{
		"a bit":           {bytes.Replace(text(t, head, opening(lower), opening(still)), []byte(`"4096"`), []byte(`"4097"`), 1), 2, []Entry{still}},
		"garbage":         {slices.Concat(text(t, head), []byte("garbage\n"), text(t, opening(still))), 2, []Entry{still}},
		"no head":         {slices.Concat([]byte("\x00\x00\n"), text(t, opening(still))), 1, []Entry{still}},
		"a long line":     {slices.Concat(text(t, head), bytes.Repeat([]byte("x"), 3*longest), []byte("\n"), text(t, opening(still))), 2, []Entry{still}},
		"neither":         {text(t, head, line{Number: 3}), 2, nil},
		"without number":  {text(t, head, line{End: Restored}), 2, nil},
		"open and closed": {text(t, head, line{Number: 1, Open: &lower, End: Gone}), 2, nil},
	} {
		got, err := Parse(bytes.NewReader(c.text))
		damaged := new(Damaged)
		if !errors.As(err, &damaged) || !slices.Equal(damaged.Lines, []int{c.line}) || !slices.Equal(got.Open, c.open) || got.Whole != int64(len(c.text)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestParseUnknown(t *testing.T) {
	got, err := Parse(bytes.NewReader(text(t, line{Version: version + 1, Boot: "this"}, opening(lower))))
	unknown := new(Unknown)
	if !errors.As(err, &unknown) || len(got.Open) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(text(f, head, opening(lower), opening(still), line{Number: 1, End: Restored}))
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := Parse(bytes.NewReader(b))
		if j.Whole > int64(len(b)) || err == nil && j.Whole > 0 && b[j.Whole-1] != '\n' {
			t.Fatalf("%+v of %d bytes", j, len(b))
		}
		// What it tells can be written down, and tells the same.
		again, err := begin(j.Boot, j.Open)
		if err != nil {
			t.Skip(err) // escapes may make a line too long
		}
		k, err := Parse(bytes.NewReader(again))
		if err != nil || !slices.Equal(j.Open, k.Open) {
			t.Errorf("%+v became %+v, %v", j, k, err)
		}
	})
}

// Each entry is on the disk when the knob is touched, and a journal that has grown is
// made anew with what is open.
func TestStoreIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	s, err := create(path, "this", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.most = 4096
	kept, _, err := s.enter(still)
	if err != nil {
		t.Fatal(err)
	}
	for grown := int64(0); grown <= s.size; {
		grown = s.size
		e, _, err := s.enter(lower)
		if err != nil {
			t.Fatal(err)
		}
		if j, err := read(path); err != nil || !slices.Equal(j.Open, []Entry{kept, e}) {
			t.Fatalf("%+v, %v; want %+v and %+v", j, err, kept, e)
		}
		if _, err := s.cross(e.Number, Restored); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != s.size || s.size > 1000 {
		t.Errorf("%d bytes, %v; it counts %d", info.Size(), err, s.size)
	}
	if j, err := read(path); err != nil || !slices.Equal(j.Open, []Entry{kept}) {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestCheck(t *testing.T) {
	roots := []string{"/sys/fs/cgroup/memory"}
	for name, ok := range map[string]bool{
		"/sys/fs/cgroup/memory/a/memory.limit_in_bytes":   true,
		"/sys/fs/cgroup/memory/a/b/memory.swappiness":     true,
		"/proc/sys/vm/page-cluster":                       false,
		"/sys/fs/cgroup/memory/memory.swappiness":         false, // everybody's
		"/sys/fs/cgroup/memory/a/../memory.swappiness":    false,
		"/sys/fs/cgroup/memory/../memory.swappiness":      false,
		"/sys/fs/cgroup/memory/a/cgroup.procs":            false,
		"/etc/a/memory.swappiness":                        false,
		"/proc/sys/kernel/core_pattern":                   false,
		"/sys/fs/cgroup/memory-of-another/a/memory.low":   false,
		"/sys/fs/cgroup/memory/a/memory.limit_in_bytes/":  false,
		"sys/fs/cgroup/memory/a/memory.limit_in_bytes":    false,
		"/sys/fs/cgroup/memory//a/memory.limit_in_bytes":  false,
		"/sys/fs/cgroup/memory/a/memory.limit_in_bytes\n": false,
	} {
		if err := check(name, roots); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestEqual(t *testing.T) {
	const limit, swappiness = "/g/memory.limit_in_bytes", "/g/memory.swappiness"
	for _, c := range []struct {
		file, a, b string
		want       bool
	}{
		{limit, "9223372036854771712", "-1", true},
		{limit, "max", "-1", true},
		{limit, "4097", "4096", true}, // whole pages
		{limit, "0", "-1", false},
		{limit, "4096", "8192000", false},
		{limit, "x", "y", false},
		{swappiness, "60", "60", true},
		{swappiness, "1", "0", false},
	} {
		if got := equal(c.file, c.a, c.b); got != c.want {
			t.Errorf("%s: %q and %q: %t", c.file, c.a, c.b, got)
		}
	}
}

// What a journal says, root writes.
func TestAJournalThatOthersCouldWriteIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(dir, "journal")
	if err := os.WriteFile(journal, text(t, head, opening(still)), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Recover(t.Context(), Options{Journal: journal})
	if exposed := new(file.Exposed); !errors.As(err, &exposed) || len(all) != 0 {
		t.Errorf("it is put back as %v (%v), want a refusal", all, err)
	}
}
