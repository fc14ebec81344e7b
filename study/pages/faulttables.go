package pages

import (
	"fmt"
	"strconv"

	"tare/probe/faults"
	"tare/report"
)

// placesShown is how many files and sites a page lists of one recording.
const placesShown = 10

// placeTable lists where faults are.
func placeTable(title, head, note string, of []FaultShare, all uint64) report.Table {
	t := report.Table{
		Title: title, Note: note,
		Columns: []report.Column{
			{Head: head}, {Head: "faults", Number: true}, {Head: "share, %", Number: true},
			{Head: "duplicated, %", Number: true}, {Head: "at any address, %", Number: true, Optional: true},
		},
	}
	for i, s := range of {
		if i == placesShown {
			break
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: s.Name}, {Text: strconv.FormatUint(s.Faults, 10)}, percent(s.Faults, all),
			percent(s.Same, s.Faults), percent(s.Anywhere, s.Faults),
		})
	}
	return t
}

// duplicatedNote explains the columns of duplicates.
const duplicatedNote = "Duplicated: during the recording, another container faulted on the same virtual page and the same page of a file (or frame). " +
	"At any address: on the same page of the file. A fresh anonymous page is never duplicated."

// typesNote explains the six types of S1.
const typesNote = "Without an entry: read (of a file), copy-on-write (a write to a private mapping of a file), " +
	"shared (a write to a shared mapping), anonymous. With an entry: swap (its page is elsewhere), write-protect (a write that the entry forbids)."

// faultParts are the tables of one recording: by part of memory, file and code.
func faultParts(f *FaultCount) []report.Part {
	var parts []report.Part
	if len(f.Parts) > 0 {
		parts = append(parts, placeTable("Page faults by kind of mapping", "mapping", "Share: of all faults; the other columns: of the row. "+duplicatedNote, f.Parts, f.User))
	}
	if len(f.Files) > 0 {
		parts = append(parts, placeTable("Page faults by file", "file", "Paths lie within the file system of the file; for a container, within a layer of its image.", f.Files, f.User))
	}
	if len(f.Sites) > 0 {
		parts = append(parts, placeTable("Page faults by code", "function, or file and offset", "The instruction that touched the page. Functions have names where the file has symbols.", f.Sites, f.User))
	}
	return parts
}

// typesTable is the faults of one recording by type, with the time that such
// faults take on this host where that is known.
func typesTable(f *FaultCount, costs []faults.CostOf) report.Table {
	t := report.Table{
		Title: "Page faults by type",
		Note:  "Shares are of faults in user mode. " + typesNote,
		Method: "The six types are those of S1 (published study of container start-up and sharing). " +
			"Spurious, refused and hint are other types, and in no share.",
		Columns: []report.Column{
			{Head: "type"}, {Head: "user mode", Number: true}, {Head: "share, %", Number: true}, {Head: "time, about, ms", Number: true},
			{Head: "kernel mode", Number: true, Optional: true}, {Head: "duplicated, %", Number: true},
			{Head: "at any address, %", Number: true, Optional: true},
		},
	}
	if len(costs) > 0 {
		t.Method += " Time: the number of faults times the cost of one on a base page of this host (table below). " +
			"Where that cost depends on what is touched, it is the mean."
	}
	for i, kind := range f.Types {
		share, took := percent(kind.User, f.User), report.Absent()
		same, anywhere := percent(kind.Same, kind.User), percent(kind.Anywhere, kind.User)
		if i >= len(types) {
			share, same, anywhere = report.Absent(), report.Absent(), report.Absent()
		} else if each, ok := costOf(costs, types[i]); ok {
			took = report.Measured(float64(kind.User) * each / 1e6)
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: kind.Type},
			{Text: fmt.Sprint(kind.User)},
			share,
			took,
			{Text: fmt.Sprint(kind.Kernel)},
			same,
			anywhere,
		})
	}
	return t
}

// costOf is what a fault of a type takes, in ns: the mean over the ways to take
// one that were timed.
func costOf(costs []faults.CostOf, kind faults.Type) (float64, bool) {
	sum, n := 0.0, 0
	for _, c := range costs {
		if c.Type == kind {
			sum += c.Nanoseconds.Value
			n++
		}
	}
	return sum / float64(n), n > 0
}

// costTable is what faults take on this host.
func costTable(costs []faults.CostOf) report.Table {
	t := report.Table{
		Title: "Cost of one page fault on this host",
		Note:  "Recorded: the same fault while it is being recorded. A fault that waits for a device takes as long as the device.",
		Method: "Timed on base pages of tare's own memory, just before the recording. " +
			"A read of a file's page that is in the page cache maps up to 16 pages around it.",
		Columns: []report.Column{{Head: "type"}, {Head: "access"}, {Head: "one fault, ns", Number: true}, {Head: "recorded, ns", Number: true}},
	}
	for _, c := range costs {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: c.Type.String()},
			{Text: c.What},
			report.Estimated(c.Nanoseconds, 1),
			report.Estimated(c.Recorded, 1),
		})
	}
	return t
}

// targetsTable is the faults of one recording by container.
func targetsTable(f *FaultCount) report.Table {
	t := report.Table{
		Title:  "Page faults by container",
		Note:   "Major faults waited for a device; minor ones did not.",
		Method: "Minor and major are the kernel's own counts. They include faults in kernel mode, and pages that the kernel fetched for itself.",
		Columns: []report.Column{
			{Head: "container"}, {Head: "faults", Number: true}, {Head: "faults/s", Number: true}, {Head: "kernel mode", Number: true, Optional: true},
			{Head: "duplicated, %", Number: true}, {Head: "minor", Number: true, Optional: true}, {Head: "major", Number: true},
		},
	}
	for i := range f.Targets {
		target := &f.Targets[i]
		same := percent(target.Same, target.User)
		if !f.Typed {
			same = report.Absent()
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: target.Name}, {Text: fmt.Sprint(target.User)}, report.Measured(float64(target.User) / f.Seconds),
			{Text: fmt.Sprint(target.Kernel)}, same, {Text: fmt.Sprint(target.Minor)}, {Text: fmt.Sprint(target.Major)},
		})
	}
	return t
}

// faultPlaces names the code with the most faults of each condition's last block.
func (p *page) faultPlaces() []report.Part {
	t := report.Table{
		Title:  "Code with the most page faults",
		Note:   "Share: of all faults of the application. Duplicated and at any address: of the row's faults.",
		Method: "From the last block.",
		Columns: []report.Column{
			{Head: "application"}, {Head: "function, or file and offset"}, {Head: "faults", Number: true}, {Head: "share, %", Number: true},
			{Head: "duplicated, %", Number: true}, {Head: "at any address, %", Number: true, Optional: true},
		},
	}
	const each = 4
	for _, c := range p.Run.Conditions {
		data, ok := p.last(c, faultsAttachment)
		if !ok {
			continue
		}
		f, err := decodeFaults(data)
		if err != nil {
			p.unreadable = append(p.unreadable, err.Error())
			continue
		}
		name := p.conditionName(c)
		for i, s := range f.Sites {
			if i == each {
				break
			}
			t.Rows = append(t.Rows, []report.Cell{
				{Text: name}, {Text: s.Name}, {Text: fmt.Sprint(s.Faults)}, percent(s.Faults, f.User),
				percent(s.Same, s.Faults), percent(s.Anywhere, s.Faults),
			})
			name = ""
		}
	}
	return report.Filled(t)
}
