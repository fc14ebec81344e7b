package pages

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"tare/census"
	"tare/probe/pagetable"
	"tare/report"
)

const mebibyte = 1 << 20

// percent is part of whole as a cell; a dash of nothing.
func percent(part, whole uint64) report.Cell {
	if whole == 0 {
		return report.Absent()
	}
	return report.Cell{Text: percentText(float64(part), float64(whole))}
}

// percentText has a digit more where there is little.
func percentText(part, whole float64) string {
	p := 100 * part / whole
	switch {
	case p == 0 || p >= 10:
		return strconv.FormatFloat(p, 'f', 1, 64)
	case p >= 0.1:
		return strconv.FormatFloat(p, 'f', 2, 64)
	}
	return strconv.FormatFloat(p, 'g', 2, 64)
}

// size is bytes in words, to three digits: "2.29 GiB".
func size(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && bytes >= 999.5 {
		bytes, units = bytes/1024, units[1:]
	}
	return report.Measured(bytes).Text + " " + units[0]
}

// mib is bytes in MiB.
func mib(bytes uint64) report.Cell { return report.Measured(float64(bytes) / mebibyte) }

// whole is what shares of a tally are of: entries with memory of their own behind
// them. The page of zeros is apart.
func whole(t *census.Tally) uint64 { return t.Classes.Sum() }

// classesNote explains the columns of shares.
const classesNote = "Groupable: the same virtual page and frame in two or more processes, or containers. " +
	"Shared frame: another container maps the frame, at another address. Exclusive: no other container maps it."

// classesMethod says what is counted.
const classesMethod = "An entry is a process, a virtual page of 4 KiB and the frame behind it; a huge page counts as 512. " +
	"The page of zeros, which backs all untouched memory, is apart. Its share is of all entries; the other shares leave it out."

// containersTable is one row a container.
func containersTable(c *census.Count) report.Table {
	t := report.Table{
		Title:  "Page-table entries by container",
		Note:   classesNote + " Mapped memory counts each entry; own memory counts the frames that no other container here maps.",
		Method: classesMethod,
		Columns: []report.Column{
			{Head: "container"}, {Head: "processes", Number: true, Optional: true}, {Head: "entries", Number: true},
			{Head: "mapped, MiB", Number: true, Optional: true}, {Head: "own, MiB", Number: true},
			{Head: "groupable: processes, %", Number: true}, {Head: "groupable: containers, %", Number: true},
			{Head: "shared frame, %", Number: true}, {Head: "exclusive, %", Number: true},
			{Head: "zeros, %", Number: true, Optional: true},
		},
	}
	row := func(name string, processes int, tally *census.Tally, own report.Cell) []report.Cell {
		w := whole(tally)
		return []report.Cell{
			{Text: name}, {Text: strconv.Itoa(processes)}, {Text: strconv.FormatUint(w, 10)},
			mib(tally.Classes.Sum() * pagetable.PageSize), own,
			percent(tally.Groupable, w), percent(tally.Across.Groupable, w), percent(tally.Across.SharedFrame, w),
			percent(tally.Across.Exclusive, w), percent(tally.Zero, w+tally.Zero),
		}
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		t.Rows = append(t.Rows, row(g.Name, g.Processes, &g.Tally, mib(g.OwnFrames*pagetable.PageSize)))
	}
	if len(c.Groups) > 1 {
		t.Rows = append(t.Rows, row("all", len(c.Processes), &c.All, mib(c.Frames.Bytes())))
		t.Note += " In the last row it is the memory of all."
	}
	return t
}

// kindsTable is one row a kind of mapping.
func kindsTable(c *census.Count) report.Table {
	t := report.Table{
		Title:  "Page-table entries by kind of mapping",
		Note:   "Share: of all entries. The other columns: of the row's entries.",
		Method: "A private mapping of a file keeps its row after a page of it was written and copied.",
		Columns: []report.Column{
			{Head: "mapping"}, {Head: "entries", Number: true}, {Head: "share, %", Number: true},
			{Head: "groupable: processes, %", Number: true}, {Head: "groupable: containers, %", Number: true},
			{Head: "shared frame, %", Number: true, Optional: true}, {Head: "exclusive, %", Number: true},
			{Head: "active, %", Number: true, Optional: true}, {Head: "huge, %", Number: true, Optional: true},
		},
	}
	all := whole(&c.All)
	for k := range pagetable.Kinds {
		tally := &c.Kinds[k]
		w := whole(tally)
		if w == 0 {
			continue
		}
		activity, huge := report.Absent(), report.Absent()
		if c.Flags {
			activity, huge = percent(tally.Active, w), percent(tally.THP, w)
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: census.KindName(k)}, {Text: strconv.FormatUint(w, 10)}, percent(w, all),
			percent(tally.Groupable, w), percent(tally.Across.Groupable, w), percent(tally.Across.SharedFrame, w),
			percent(tally.Across.Exclusive, w), activity, huge,
		})
	}
	slices.SortStableFunc(t.Rows, func(a, b []report.Cell) int { return -cmp.Compare(number(a[1]), number(b[1])) })
	return t
}

func number(c report.Cell) float64 {
	v, err := strconv.ParseFloat(c.Text, 64)
	if err != nil {
		return math.Inf(-1)
	}
	return v
}

// classBars are the classes of each container, as bars.
func classBars(c *census.Count) report.Bars {
	b := report.Bars{
		Title: "Shared and exclusive page-table entries", Unit: "%",
		Note: "Share of each container's entries. Groupable: another container has the same page and frame.",
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if w := whole(&g.Tally); w > 0 {
			b.Rows = append(b.Rows, report.Bar{Label: g.Name, Segments: classSegments(g.Tally.Across, w)})
		}
	}
	return b
}

func classSegments(classes census.Classes, whole uint64) []report.Segment {
	of := func(name string, part uint64) report.Segment {
		return report.Segment{Name: name, Value: 100 * float64(part) / float64(whole)}
	}
	return []report.Segment{of("groupable", classes.Groupable), of("shared frame", classes.SharedFrame), of("exclusive", classes.Exclusive)}
}

// activityTable is what the kernel's lists hold.
func activityTable(c *census.Count) (report.Table, bool) {
	t := report.Table{
		Title: "Active and huge pages",
		Note:  "Referenced: used since the kernel last checked. Huge: in a transparent huge page.",
		Method: "Active and inactive are the kernel's two lists of each memory control group. " +
			"A page is put on a list some time after its first fault: fresh pages are on none, and locked ones stay off.",
		Columns: []report.Column{
			{Head: "pages"}, {Head: "entries", Number: true}, {Head: "share, %", Number: true},
			{Head: "groupable: processes, %", Number: true}, {Head: "groupable: containers, %", Number: true},
			{Head: "huge, %", Number: true},
		},
	}
	a := &c.All
	w := whole(a)
	if !c.Flags || w == 0 {
		return t, false
	}
	row := func(name string, entries uint64, of ...report.Cell) []report.Cell {
		if of == nil {
			of = []report.Cell{report.Absent(), report.Absent(), report.Absent()}
		}
		return append([]report.Cell{{Text: name}, {Text: strconv.FormatUint(entries, 10)}, percent(entries, w)}, of...)
	}
	t.Rows = [][]report.Cell{
		row("active", a.Active,
			percent(a.ActiveGroupable, a.Active), percent(a.ActiveAcross, a.Active), percent(a.THPActive, a.Active)),
		row("inactive", a.Inactive),
		row("on neither list", a.Unlisted),
		row("referenced", a.Referenced),
	}
	return t, true
}

// pageTables is the memory of the tables themselves.
func pageTables(c *census.Count) report.Table {
	k := &c.Tables
	of := "A page table has 4 KiB; they are counted in the tables themselves."
	if !k.Pages.Known {
		of = "A page table has 4 KiB. This back end cannot see the tables: their number is the least that the entries need."
	}
	t := report.Table{
		Title: "Page tables, and what sharing would save",
		Note: "Equal: last-level tables that hold the same frames, with the same permissions, at the same addresses. " +
			"The kernel could share those as they are.",
		Method: of + " The bound is 8 bytes for each groupable entry but one. No kernel reaches it, since tables are shared whole.",
		Columns: []report.Column{
			{Head: "quantity"}, {Head: "between processes", Number: true}, {Head: "between containers", Number: true},
		},
	}
	kib := func(bytes uint64) report.Cell { return report.Measured(float64(bytes) / 1024) }
	t.Rows = [][]report.Cell{
		{{Text: "page tables, KiB"}, kib(k.Bytes()), kib(k.Bytes())},
		{{Text: "last-level tables"}, {Text: fmt.Sprint(k.LastLevel)}, {Text: fmt.Sprint(k.LastLevel)}},
		{{Text: "equal tables"}, {Text: fmt.Sprint(k.Equal)}, {Text: fmt.Sprint(k.EqualAcross)}},
		{{Text: "saved by sharing equal tables, KiB"}, kib(k.SpareBytes()), kib(k.SpareAcrossBytes())},
		{{Text: "bound of the saving, KiB"}, kib(k.Bound()), kib(k.BoundAcross())},
		{{Text: "saved by huge pages for files, KiB"}, kib(k.HugeFileBytes()), report.Absent()},
	}
	return t
}

// filesShown is how many files a page lists.
const filesShown = 12

// filesTable lists the files with the most entries.
func filesTable(c *census.Count) (report.Table, bool) {
	t := report.Table{
		Title: "Page-table entries by file",
		Note:  "Shares are of the file's entries. Memory: its mapped frames, each counted once.",
		Columns: []report.Column{
			{Head: "file"}, {Head: "entries", Number: true}, {Head: "memory, MiB", Number: true},
			{Head: "groupable: processes, %", Number: true}, {Head: "groupable: containers, %", Number: true},
			{Head: "exclusive, %", Number: true},
		},
	}
	for i := range c.Files {
		f := &c.Files[i]
		w := whole(&f.Tally)
		if w == 0 || len(t.Rows) == filesShown {
			break
		}
		t.Rows = append(
			t.Rows,
			[]report.Cell{
				{Text: f.Name()},
				{Text: strconv.FormatUint(w, 10)},
				mib(f.Frames * pagetable.PageSize),
				percent(f.Tally.Groupable, w),
				percent(f.Tally.Across.Groupable, w),
				percent(f.Tally.Across.Exclusive, w),
			},
		)
	}
	return t, len(t.Rows) > 0
}

// processesShown is how many processes a page lists.
const processesShown = 16

// processesTable lists the processes with the most entries.
func processesTable(c *census.Count) (report.Table, bool) {
	t := report.Table{
		Title: "Page-table entries by process",
		Columns: []report.Column{
			{Head: "process"}, {Head: "container"}, {Head: "entries", Number: true},
			{Head: "groupable: processes, %", Number: true}, {Head: "groupable: containers, %", Number: true},
			{Head: "exclusive, %", Number: true},
		},
	}
	order := make([]int, len(c.Processes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return -cmp.Compare(whole(&c.Processes[a].Tally), whole(&c.Processes[b].Tally))
	})
	if more := len(order) - processesShown; more > 0 {
		t.Note = fmt.Sprintf("The processes with the most entries; %d more are left out here.", more)
		order = order[:processesShown]
	}
	for _, i := range order {
		p := &c.Processes[i]
		w := whole(&p.Tally)
		t.Rows = append(t.Rows, []report.Cell{
			{Text: fmt.Sprintf("%s (%d)", p.Command, p.PID)},
			{Text: c.Groups[p.Group].Name},
			{Text: strconv.FormatUint(w, 10)},
			percent(p.Tally.Groupable, w),
			percent(p.Tally.Across.Groupable, w),
			percent(p.Tally.Classes.Exclusive, w),
		})
	}
	return t, len(c.Processes) > len(c.Groups)
}
