package faults

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// recordingOf makes a recording of faults, without a kernel: as the programs would
// have written it.
func recordingOf(targets int, all ...Fault) *Recording {
	s := &stream{}
	put := func(fill func(b []byte)) {
		fill(s.room(1))
		s.n++
	}
	le := binary.LittleEndian
	for i, f := range all {
		back := func(m Mapping) uint32 {
			if m.End == 0 {
				return 0
			}
			put(func(b []byte) {
				le.PutUint64(b, m.Start)
				le.PutUint64(b[8:], m.End)
				le.PutUint64(b[16:], m.Flags)
				le.PutUint64(b[24:], m.Page)
				le.PutUint64(b[32:], m.Inode)
				le.PutUint32(b[40:], uint32(m.Device))
				le.PutUint16(b[44:], isMapping)
				if m.Anonymous {
					le.PutUint16(b[46:], 1)
				}
			})
			return 1
		}
		code := back(f.Code)
		data := back(f.Mapping)
		if data > 0 && code > 0 {
			code++
		}
		facts := facts(f.State) | factAllowed | facts(inPrivateFile)<<6
		if f.Mapping.Anonymous {
			facts = facts&^(7<<6) | 1<<6
		}
		if f.Write {
			facts |= factWrite
		}
		put(func(b []byte) {
			le.PutUint64(b, uint64(time.Duration(i)*time.Millisecond))
			le.PutUint64(b[8:], f.Address)
			le.PutUint64(b[16:], f.IP)
			le.PutUint64(b[24:], f.Entry)
			le.PutUint32(b[40:], data)
			le.PutUint16(b[44:], uint16(facts))
			le.PutUint16(b[46:], uint16(f.Target))
			le.PutUint32(b[56:], code)
		})
	}
	r := &Recording{To: time.Duration(len(all)) * time.Millisecond, streams: []*stream{s}, Targets: make([]Target, targets)}
	for i := range targets {
		r.of = append(r.of, int32(i))
	}
	return r
}

// What two targets have written of one page of a file, each for itself, and what then
// went to swap, is not the same page; what they share is, wherever it moves.
func TestCopiesInSwapAreNoDuplicates(t *testing.T) {
	private := Mapping{Start: 0x100000, End: 0x200000, Flags: MayRead | MayWrite, Device: 3, Inode: 7, Page: 10}
	shared := private
	shared.Flags |= IsShared
	for _, c := range []struct {
		what    string
		mapping Mapping
		state   State
		want    Share
	}{
		{"a copy in swap", private, Swapped, Share{Faults: 2}},
		{"a private page that moves", private, Moving, Share{Faults: 2}},
		{"a shared page that moves", shared, Moving, Share{Faults: 2, Same: 2, Anywhere: 2}},
		{"a page never touched", private, None, Share{Faults: 2, Same: 2, Anywhere: 2}},
	} {
		fault := Fault{Address: 0x106000, State: c.state, Mapping: c.mapping}
		if c.state != None {
			fault.Entry = 0x5000
		}
		other := fault
		other.Target = 1
		if got := recordingOf(2, fault, other).Duplicates(nil).All; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestDuplicates(t *testing.T) {
	file := func(start uint64) Mapping {
		return Mapping{Start: start, End: start + 1<<20, Flags: MayRead, Device: 3, Inode: 7, Page: 10}
	}
	heap := Mapping{Start: 0x10000, End: 0x20000, Flags: MayRead | MayWrite, Anonymous: true}
	code := Mapping{Start: 0x400000, End: 0x500000, Flags: MayRead | MayExecute, Device: 3, Inode: 9, Page: 1}
	const present = 1
	r := recordingOf(3,
		// The same page of the same file, in two targets.
		Fault{Target: 0, Address: 0x100000, IP: 0x400010, Mapping: file(0x100000), Code: code},
		Fault{Target: 1, Address: 0x100123, IP: 0x400010, Mapping: file(0x100000), Code: code},
		// In a third, elsewhere.
		Fault{Target: 2, Address: 0x700000, IP: 0x400020, Mapping: file(0x700000), Code: code},
		// The same address, another page of the file.
		Fault{Target: 2, Address: 0x100000, Mapping: file(0x0ff000)},
		// Anonymous memory at the same address.
		Fault{Target: 0, Address: 0x10000, Write: true, Mapping: heap},
		Fault{Target: 1, Address: 0x10000, Write: true, Mapping: heap},
		// Twice by one target.
		Fault{Target: 0, Address: 0x105000, Mapping: file(0x100000)},
		Fault{Target: 0, Address: 0x105000, Mapping: file(0x100000)},
		// A page of a private mapping that was read before: the same frame, and a
		// frame of its own.
		Fault{Target: 0, Address: 0x106000, Write: true, State: ReadOnly, Entry: 0x5000 | present, Mapping: file(0x100000)},
		Fault{Target: 1, Address: 0x106000, Write: true, State: ReadOnly, Entry: 0x5000 | present, Mapping: file(0x100000)},
		Fault{Target: 2, Address: 0x106000, Write: true, State: ReadOnly, Entry: 0x6000 | present, Mapping: file(0x100000)},
	)
	d := r.Duplicates(nil)
	if want := (Share{Faults: 11, Same: 4, Anywhere: 5}); d.All != want {
		t.Errorf("of all %+v, want %+v", d.All, want)
	}
	for typ, want := range map[Type]Share{
		Read:         {Faults: 6, Same: 2, Anywhere: 3},
		Anonymous:    {Faults: 2},
		WriteProtect: {Faults: 3, Same: 2, Anywhere: 2},
	} {
		if d.ByType[typ] != want {
			t.Errorf("%s: %+v, want %+v", typ, d.ByType[typ], want)
		}
	}
	if want := (Share{Faults: 2}); d.ByPart[PartAnonymous] != want {
		t.Errorf("anonymous %+v", d.ByPart[PartAnonymous])
	}
	if got := d.ByFile[File{3, 7}]; got.Faults != 9 || len(d.ByFile) != 1 {
		t.Errorf("by file %+v", d.ByFile)
	}
	sites := Most(d.BySite, 5, Site.Compare)
	if want := []Site{{File{3, 9}, 0x1010}, {File{3, 9}, 0x1020}}; !slices.Equal(sites, want) {
		t.Errorf("sites %+v, want %+v", sites, want)
	}
	if got := d.BySite[sites[0]]; got != (Share{2, 2, 2}) {
		t.Errorf("the first site: %+v", got)
	}
	if only := r.Duplicates(func(f *Fault) bool { return f.Target != 1 }); only.All.Same != 0 || only.All.Anywhere != 2 {
		t.Errorf("without the second target %+v", only.All)
	}
	bins := r.Series(-1, 4*time.Millisecond)
	if len(bins) != 3 || bins[0].Total() != 4 || bins[2].Total() != 3 || bins[1].From != 4*time.Millisecond {
		t.Errorf("series %+v", bins)
	}
	if bins := r.Series(2, time.Second); len(bins) != 1 || bins[0].Total() != 3 {
		t.Errorf("series of one target %+v", bins)
	}
}

// writePages makes a file page by page: written at once, the page cache holds it
// in larger pieces, of which one fault maps a whole one.
func writePages(t *testing.T, name string, pages int) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range pages {
		if _, err := f.Write(make([]byte, pageSize)); err != nil {
			t.Fatal(err)
		}
	}
}

// Processes that read the same file, two at the same address and one elsewhere.
func TestDuplicatesMade(t *testing.T) {
	const n = 50
	name := filepath.Join(t.TempDir(), "file")
	writePages(t, name, 16*n)
	var makers []*maker
	var targets []Target
	for _, where := range []string{"0x200000000000", "0x200000000000", "0x300000000000"} {
		m := begin(t, nil, "at", strconv.Itoa(n), name, where)
		makers = append(makers, m)
		targets = append(targets, Target{Name: where, PIDs: []int{m.pid}})
	}
	r := start(t, targets, Options{})
	var did []made
	for _, m := range makers {
		did = append(did, m.act())
	}
	for _, m := range makers {
		m.end()
	}
	rec := stop(t, r)
	d := rec.Duplicates(func(f *Fault) bool { return did[f.Target].holds(f.Address) })
	if want := (Share{Faults: 3 * n, Same: 2 * n, Anywhere: 3 * n}); d.All != want || d.ByType[Read] != want || d.ByPart[PartFile] != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	for f := range d.ByFile {
		if path := rec.Path(f); filepath.Base(path) != "file" {
			t.Errorf("the file is %q, want %q", path, name)
		}
	}
	if len(d.ByFile) != 1 || len(d.BySite) == 0 {
		t.Errorf("%d files, %d sites", len(d.ByFile), len(d.BySite))
	}
}
