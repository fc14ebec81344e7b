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

// classesNote says what the columns of all these tables mean.
const classesNote = "An entry is a process, a virtual page of 4 KiB and the frame behind it; a huge page counts as 512. Groupable: the same page and frame in two or more. " +
	"Shared frame: the frame is mapped at another address too. The page of zeros, which everybody's untouched memory shares, is apart: its share is of all entries with it, the others' of those without."

// containersTable is one row a container.
func containersTable(c *census.Count) report.Table {
	t := report.Table{
		Title: "By container",
		Note:  "In percent of entries. Mapped counts each entry, own the frames that no other container here maps. " + classesNote,
		Columns: []report.Column{{Head: "container"}, {Head: "processes", Number: true, Optional: true}, {Head: "entries", Number: true},
			{Head: "mapped, MiB", Number: true, Optional: true}, {Head: "own, MiB", Number: true}, {Head: "groupable: processes", Number: true}, {Head: "groupable: containers", Number: true},
			{Head: "shared frame", Number: true}, {Head: "exclusive", Number: true}, {Head: "zeros", Number: true, Optional: true}},
	}
	row := func(name string, processes int, tally *census.Tally, own report.Cell) []report.Cell {
		w := whole(tally)
		return []report.Cell{{Text: name}, {Text: strconv.Itoa(processes)}, {Text: strconv.FormatUint(w, 10)},
			mib(tally.Classes.Sum() * pagetable.PageSize), own,
			percent(tally.Groupable, w), percent(tally.Across.Groupable, w), percent(tally.Across.SharedFrame, w), percent(tally.Across.Exclusive, w), percent(tally.Zero, w+tally.Zero)}
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		t.Rows = append(t.Rows, row(g.Name, g.Processes, &g.Tally, mib(g.OwnFrames*pagetable.PageSize)))
	}
	if len(c.Groups) > 1 {
		t.Rows = append(t.Rows, row("all", len(c.Processes), &c.All, mib(c.Frames.Bytes())))
		t.Note = "The last row counts the memory behind all. " + t.Note
	}
	return t
}

// kindsTable is one row a kind of mapping.
func kindsTable(c *census.Count) report.Table {
	t := report.Table{
		Title: "By what is mapped",
		Note:  "Share is of all entries; the rest in percent of the row's own. A private mapping of a file keeps its row after a page of it was written and copied.",
		Columns: []report.Column{{Head: "mapping"}, {Head: "entries", Number: true}, {Head: "share", Number: true}, {Head: "groupable: processes", Number: true}, {Head: "groupable: containers", Number: true},
			{Head: "shared frame", Number: true, Optional: true}, {Head: "exclusive", Number: true}, {Head: "active", Number: true, Optional: true}, {Head: "huge", Number: true, Optional: true}},
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
		t.Rows = append(t.Rows, []report.Cell{{Text: census.KindName(k)}, {Text: strconv.FormatUint(w, 10)}, percent(w, all), percent(tally.Groupable, w), percent(tally.Across.Groupable, w),
			percent(tally.Across.SharedFrame, w), percent(tally.Across.Exclusive, w), activity, huge})
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
	b := report.Bars{Title: "Who else holds an entry", Unit: "%", Note: "Over containers; in percent of each one's entries."}
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

// activityTable is what the kernel thinks of the pages.
func activityTable(c *census.Count) (report.Table, bool) {
	t := report.Table{
		Title: "What the kernel holds for active",
		Note: "From the kernel's two lists of each memory cgroup. A page is put on a list some time after its first fault, so fresh ones are on none; locked ones stay off. " +
			"Referenced: seen in use since it was last looked at. Huge: in a transparent huge page.",
		Columns: []report.Column{{Head: "pages"}, {Head: "entries", Number: true}, {Head: "share, %", Number: true}, {Head: "groupable: processes", Number: true}, {Head: "groupable: containers", Number: true}, {Head: "huge", Number: true}},
	}
	a := &c.All
	w := whole(a)
	if !c.Flags || w == 0 {
		return t, false
	}
	t.Rows = [][]report.Cell{
		{{Text: "active"}, {Text: strconv.FormatUint(a.Active, 10)}, percent(a.Active, w), percent(a.ActiveGroupable, a.Active), percent(a.ActiveAcross, a.Active), percent(a.THPActive, a.Active)},
		{{Text: "inactive"}, {Text: strconv.FormatUint(a.Inactive, 10)}, percent(a.Inactive, w), report.Absent(), report.Absent(), report.Absent()},
		{{Text: "on neither list"}, {Text: strconv.FormatUint(a.Unlisted, 10)}, percent(a.Unlisted, w), report.Absent(), report.Absent(), report.Absent()},
		{{Text: "referenced"}, {Text: strconv.FormatUint(a.Referenced, 10)}, percent(a.Referenced, w), report.Absent(), report.Absent(), report.Absent()},
	}
	return t, true
}

// pageTables is what the tables themselves take.
func pageTables(c *census.Count) report.Table {
	k := &c.Tables
	of := "4 KiB each, counted in the tables themselves."
	if !k.Pages.Known {
		of = "4 KiB each; this back end cannot see the tables, so they are the least that the entries need."
	}
	t := report.Table{
		Title: "Page tables, and what sharing them would save",
		Note: of + " Equal: tables of the last level that hold the same frames with the same permissions at the same addresses, whole; the kernel could share those as they are. " +
			"The bound is 8 bytes for each groupable entry but one: no kernel reaches it, as tables are shared whole.",
		Columns: []report.Column{{Head: ""}, {Head: "over processes", Number: true}, {Head: "over containers", Number: true}},
	}
	kib := func(bytes uint64) report.Cell { return report.Measured(float64(bytes) / 1024) }
	t.Rows = [][]report.Cell{
		{{Text: "page tables, KiB"}, kib(k.Bytes()), kib(k.Bytes())},
		{{Text: "last-level tables"}, {Text: fmt.Sprint(k.LastLevel)}, {Text: fmt.Sprint(k.LastLevel)}},
		{{Text: "equal in two or more"}, {Text: fmt.Sprint(k.Equal)}, {Text: fmt.Sprint(k.EqualAcross)}},
		{{Text: "sharing those would save, KiB"}, kib(k.SpareBytes()), kib(k.SpareAcrossBytes())},
		{{Text: "bound, KiB"}, kib(k.Bound()), kib(k.BoundAcross())},
		{{Text: "huge pages for files would save, KiB"}, kib(k.HugeFileBytes()), report.Absent()},
	}
	return t
}

// filesShown is how many files a page lists.
const filesShown = 12

// filesTable lists the files with the most entries.
func filesTable(c *census.Count) (report.Table, bool) {
	t := report.Table{
		Title:   "By file",
		Note:    "In percent of the file's entries. Memory is its frames that are mapped, each once.",
		Columns: []report.Column{{Head: "file"}, {Head: "entries", Number: true}, {Head: "memory, MiB", Number: true}, {Head: "groupable: processes", Number: true}, {Head: "groupable: containers", Number: true}, {Head: "exclusive", Number: true}},
	}
	for i := range c.Files {
		f := &c.Files[i]
		w := whole(&f.Tally)
		if w == 0 || len(t.Rows) == filesShown {
			break
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: f.Path}, {Text: strconv.FormatUint(w, 10)}, mib(f.Frames * pagetable.PageSize),
			percent(f.Tally.Groupable, w), percent(f.Tally.Across.Groupable, w), percent(f.Tally.Across.Exclusive, w)})
	}
	return t, len(t.Rows) > 0
}

// processesShown is how many processes a page lists.
const processesShown = 16

// processesTable lists the processes with the most entries.
func processesTable(c *census.Count) (report.Table, bool) {
	t := report.Table{
		Title:   "By process",
		Columns: []report.Column{{Head: "process"}, {Head: "container"}, {Head: "entries", Number: true}, {Head: "groupable: processes", Number: true}, {Head: "groupable: containers", Number: true}, {Head: "exclusive", Number: true}},
	}
	order := make([]int, len(c.Processes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return -cmp.Compare(whole(&c.Processes[a].Tally), whole(&c.Processes[b].Tally))
	})
	if more := len(order) - processesShown; more > 0 {
		t.Note = fmt.Sprintf("Those with the most entries; %d more are in the figures above.", more)
		order = order[:processesShown]
	}
	for _, i := range order {
		p := &c.Processes[i]
		w := whole(&p.Tally)
		t.Rows = append(t.Rows, []report.Cell{{Text: fmt.Sprintf("%s (%d)", p.Command, p.PID)}, {Text: c.Groups[p.Group].Name}, {Text: strconv.FormatUint(w, 10)},
			percent(p.Tally.Groupable, w), percent(p.Tally.Across.Groupable, w), percent(p.Tally.Classes.Exclusive, w)})
	}
	return t, len(c.Processes) > len(c.Groups)
}
