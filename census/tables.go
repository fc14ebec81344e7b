package census

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"tare/probe/pagetable"
)

// TableCount is what the page tables themselves take, and what holding equal
// ones once would save.
type TableCount struct {
	// Pages are the page-table pages of all processes. Where Known is false the
	// back end could not see them, and they are the least that the entries need.
	Pages TablePages `json:"pages"`
	// LastLevel are the last-level tables that hold at least one entry.
	LastLevel uint64 `json:"last_level"`
	// Equal and EqualAcross are the last-level tables that are wholly the same in
	// two or more processes, and in two or more groups. Two are the same if they
	// are for the same 2 MiB of addresses, and at every page of them have both
	// no entry, or the same frame (or place in swap) with the same permissions: those
	// of the mapping, and of the entry itself where the back end knows it. The
	// processor's accessed and dirty bits may differ, since one table would gather them.
	Equal       uint64 `json:"equal"`
	EqualAcross uint64 `json:"equal_across"`
	// Spare and SpareAcross are the tables of each such set but one.
	Spare       uint64 `json:"spare"`
	SpareAcross uint64 `json:"spare_across"`
	// Private are those of Spare that hold an entry of a private writable mapping:
	// they would have to be parted again where one of the processes writes.
	Private uint64 `json:"private"`
	// Groupable are the entries of last-level tables that are groupable, of frames
	// of memory; Sets the different (virtual page, frame) among them.
	Groupable       uint64 `json:"groupable"`
	GroupableAcross uint64 `json:"groupable_across"`
	Sets            uint64 `json:"sets"`
	SetsAcross      uint64 `json:"sets_across"`
	// HugeFiles are the last-level tables all of whose 512 entries map a file's own
	// pages, at addresses that are as far from 2 MiB as the pages are in the
	// file, within one mapping: with huge pages for files, one entry a level higher
	// would do.
	HugeFiles uint64 `json:"huge_files"`
}

// TablePages counts page-table pages of 4 KiB by level.
type TablePages struct {
	PTE uint64 `json:"pte"`
	PMD uint64 `json:"pmd"`
	PUD uint64 `json:"pud"`
	P4D uint64 `json:"p4d"`
	// Known is false where the back end could not see the tables of some process.
	Known bool `json:"known"`
}

// entryBytes is the size of an entry of a page table.
const entryBytes = 8

// perTable is how many entries a table has.
const perTable = pagetable.PageSize / entryBytes

// Bytes is the size of all page-table pages.
func (t *TableCount) Bytes() uint64 {
	p := t.Pages
	return (p.PTE + p.PMD + p.PUD + p.P4D) * pagetable.PageSize
}

// SpareBytes is what the wholly equal tables would save, were there one of
// each: over processes.
func (t *TableCount) SpareBytes() uint64 { return t.Spare * pagetable.PageSize }

// SpareAcrossBytes is what those tables would save that two or more groups
// have in common.
func (t *TableCount) SpareAcrossBytes() uint64 { return t.SpareAcross * pagetable.PageSize }

// Bound is the most that sharing could save over processes, in bytes: every
// groupable entry in a table that all its processes share, and no table
// taken for what is not. No kernel reaches it, since tables are shared whole.
func (t *TableCount) Bound() uint64 { return (t.Groupable - t.Sets) * entryBytes }

// BoundAcross is Bound across groups.
func (t *TableCount) BoundAcross() uint64 {
	return (t.GroupableAcross - t.SetsAcross) * entryBytes
}

// HugeFileBytes is the page-table memory that huge pages for files would save.
func (t *TableCount) HugeFileBytes() uint64 { return t.HugeFiles * pagetable.PageSize }

// HugeFileEntries are the translations that they would save.
func (t *TableCount) HugeFileEntries() uint64 { return t.HugeFiles * (perTable - 1) }

func (t *TableCount) add(p pagetable.Tables) {
	t.Pages.PTE += p.PTE
	t.Pages.PMD += p.PMD
	t.Pages.PUD += p.PUD
	t.Pages.P4D += p.P4D
	t.Pages.Known = t.Pages.Known && p.Known
}

// table is one last-level table of one process.
type table struct {
	number uint64 // virtual address / 2 MiB
	hash   uint64 // of all that must agree
	space  int32
	run    int32 // the first run with an entry in it
}

// agree are the bits of an entry that must be the same in tables that are shared.
const agree = pagetable.Frames | pagetable.Present | pagetable.Swapped | pagetable.Writable |
	pagetable.Zero | pagetable.NoFrame

// permission is the mapping's part of what must agree.
type permission struct{ write, execute, shared bool }

func permissionOf(m *pagetable.Mapping) permission {
	return permission{m.Write, m.Execute, m.Shared}
}

func (p permission) bits() uint64 { return bit(p.write) | bit(p.execute)<<1 | bit(p.shared)<<2 }

// stretch is the part of a run that lies in one table.
type stretch struct {
	run     int
	page    uint64
	entries []pagetable.Entry
}

// stretches cuts the runs of a process at the bounds of tables, from a run and a
// page on, and gives each with the number of its table.
func stretches(s *pagetable.Space, first int, from uint64) iter.Seq2[uint64, stretch] {
	return func(yield func(uint64, stretch) bool) {
		for r := first; r < len(s.Runs); r++ {
			run := &s.Runs[r]
			page, rest := run.Page, run.Entries
			if page < from {
				skip := min(from-page, uint64(len(rest)))
				page, rest = page+skip, rest[skip:]
			}
			for len(rest) > 0 {
				size := min(perTable-page%perTable, uint64(len(rest)))
				if !yield(page/perTable, stretch{r, page, rest[:size]}) {
					return
				}
				page, rest = page+size, rest[size:]
			}
		}
	}
}

// countTables finds the tables that are equal.
func (n *counter) countTables() {
	count := &n.count.Tables
	count.Groupable, count.GroupableAcross = n.entries, n.entriesAcross
	count.Sets, count.SetsAcross = n.sets, n.setsAcross
	count.Pages.Known = len(n.census.Spaces) > 0
	var all []table
	for i := range n.census.Spaces {
		s := &n.census.Spaces[i]
		count.add(s.Tables)
		first := len(all)
		for number, part := range stretches(s, 0, 0) {
			hash, some := hashOf(s, part)
			if !some {
				continue
			}
			if last := len(all) - 1; last >= first && all[last].number == number {
				all[last].hash = mix(all[last].hash, hash)
				continue
			}
			all = append(all, table{number, hash, int32(i), int32(part.run)})
			count.HugeFiles += bit(couldBeHuge(s, part))
		}
	}
	count.LastLevel = uint64(len(all))
	slices.SortFunc(all, func(a, b table) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.hash, b.hash), cmp.Compare(a.space, b.space))
	})
	var one, other contents
	for len(all) > 0 {
		same := 1
		for same < len(all) && all[same].number == all[0].number && all[same].hash == all[0].hash {
			same++
		}
		if same > 1 {
			n.countEqual(all[:same], &one, &other)
		}
		all = all[same:]
	}
}

// contents are the entries of one table, by their place in it.
type contents struct {
	entries     [perTable]pagetable.Entry
	permissions [perTable]permission
	private     bool // some are of a private writable mapping
}

// countEqual counts tables with one hash. They are compared entry by entry with the
// first, so that a collision can only hide that tables are equal.
func (n *counter) countEqual(tables []table, one, other *contents) {
	count := &n.count.Tables
	n.read(tables[0], one)
	group := n.census.Spaces[tables[0].space].Group
	same, abroad := uint64(1), false
	for _, t := range tables[1:] {
		if n.read(t, other); *other == *one {
			same++
			abroad = abroad || n.census.Spaces[t.space].Group != group
		}
	}
	if same == 1 {
		return
	}
	count.Equal += same
	count.Spare += same - 1
	if one.private {
		count.Private += same - 1
	}
	if abroad {
		count.EqualAcross += same
		count.SpareAcross += same - 1
	}
}

// read gathers what a table holds.
func (n *counter) read(t table, c *contents) {
	*c = contents{}
	s := &n.census.Spaces[t.space]
	for number, part := range stretches(s, int(t.run), t.number*perTable) {
		if number != t.number {
			return
		}
		p := permissionOf(&s.Mappings[s.Runs[part.run].Mapping])
		for i, e := range part.entries {
			if inLastLevel(e) {
				at := (part.page + uint64(i)) % perTable
				c.entries[at], c.permissions[at] = e&agree, p
				c.private = c.private || p.write && !p.shared
			}
		}
	}
}

// inLastLevel selects the entries that last-level tables hold.
func inLastLevel(e pagetable.Entry) bool { return sort(e) != none && !e.Has(pagetable.Huge) }

// hashOf hashes a stretch; some reports whether there is an entry in it.
func hashOf(s *pagetable.Space, part stretch) (hash uint64, some bool) {
	granted := permissionOf(&s.Mappings[s.Runs[part.run].Mapping]).bits()
	for i, e := range part.entries {
		if inLastLevel(e) {
			at := (part.page + uint64(i)) % perTable
			hash, some = mix(mix(hash, uint64(e&agree)), at<<8|granted), true
		}
	}
	return hash, some
}

// mix folds the 128-bit product of what was and what comes.
func mix(hash, next uint64) uint64 {
	high, low := bits.Mul64(hash^fibonacci, next^0xd1b54a32d192ed03)
	return high ^ low
}

// couldBeHuge reports whether a stretch is a whole table of a file's own pages, placed
// so that huge pages could map them.
func couldBeHuge(s *pagetable.Space, part stretch) bool {
	if len(part.entries) < perTable {
		return false
	}
	m := &s.Mappings[s.Runs[part.run].Mapping]
	if m.File == "" || filePage(m, part.page)%perTable != 0 {
		return false
	}
	for _, e := range part.entries {
		if sort(e) != framed || !isFile(e) {
			return false
		}
	}
	return true
}

// filePage is the page of the file that is mapped at a virtual page.
func filePage(m *pagetable.Mapping, page uint64) uint64 {
	return m.Offset/pagetable.PageSize + page - m.Start/pagetable.PageSize
}
