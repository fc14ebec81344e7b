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
		Columns: []report.Column{{Head: head}, {Head: "faults", Number: true}, {Head: "share", Number: true}, {Head: "duplicated", Number: true}, {Head: "at any address", Number: true, Optional: true}},
	}
	for i, s := range of {
		if i == placesShown {
			break
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: s.Name}, {Text: strconv.FormatUint(s.Faults, 10)}, percent(s.Faults, all), percent(s.Same, s.Faults), percent(s.Anywhere, s.Faults)})
	}
	return t
}

const duplicatedNote = "Share is of all faults; duplicated in percent of the row's own: another of the containers faulted on the same virtual page and file page (or frame, where there was one) in this time; at any address: on the same file page. A fresh anonymous page is each one's own."

// faultParts are the tables of one recording: by part of memory, file and code.
func faultParts(f *FaultCount) []report.Part {
	var parts []report.Part
	if len(f.Parts) > 0 {
		parts = append(parts, placeTable("By what is mapped", "mapping", duplicatedNote, f.Parts, f.User))
	}
	if len(f.Files) > 0 {
		parts = append(parts, placeTable("By file", "file", "Paths are those within the file system that holds the file: of a container, its image's layer.", f.Files, f.User))
	}
	if len(f.Sites) > 0 {
		parts = append(parts, placeTable("By code", "function, or file and offset", "The instruction that touched the page. Functions are named where the file has symbols.", f.Sites, f.User))
	}
	return parts
}

// typesTable is the faults of one recording by type, with the time that such
// faults take on this host where that is known.
func typesTable(f *FaultCount, costs []faults.CostOf) report.Table {
	t := report.Table{
		Title: "By type",
		Note: "Share and duplicated are of those in user mode. Where there was no entry: read (of a file), copy-on-write (a write to a file mapped privately), shared (a write to a shared mapping), anonymous. " +
			"Where there was one: swap (its page is elsewhere), write-protect (a write that the entry forbids). Spurious, refused and hint are none of S1's types, and in no share.",
		Columns: []report.Column{{Head: "type"}, {Head: "user mode", Number: true}, {Head: "share", Number: true}, {Head: "took about, ms", Number: true}, {Head: "kernel mode", Number: true, Optional: true},
			{Head: "duplicated", Number: true}, {Head: "at any address", Number: true, Optional: true}},
	}
	if len(costs) > 0 {
		t.Note += " Took about: so many faults at what one of the type costs here on a base page (below; the mean where it depends on what is touched)."
	}
	for i, kind := range f.Types {
		share, same, anywhere, took := percent(kind.User, f.User), percent(kind.Same, kind.User), percent(kind.Anywhere, kind.User), report.Absent()
		if i >= len(types) {
			share, same, anywhere = report.Absent(), report.Absent(), report.Absent()
		} else if each, ok := costOf(costs, types[i]); ok {
			took = report.Measured(float64(kind.User) * each / 1e6)
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: kind.Type}, {Text: fmt.Sprint(kind.User)}, share, took, {Text: fmt.Sprint(kind.Kernel)}, same, anywhere})
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
		Title:   "What a fault costs here",
		Note:    "In ns, of base pages of tare's own, timed just before the recording; a read of a file's page in the page cache maps up to 16 around it. Recorded: the same while this recorder watches it. What waits for a device takes as long as the device.",
		Columns: []report.Column{{Head: "type"}, {Head: ""}, {Head: "one fault", Number: true}, {Head: "recorded", Number: true}},
	}
	for _, c := range costs {
		t.Rows = append(t.Rows, []report.Cell{{Text: c.Type.String()}, {Text: c.What}, report.Estimated(c.Nanoseconds, 1), report.Estimated(c.Recorded, 1)})
	}
	return t
}

// targetsTable is the faults of one recording by container.
func targetsTable(f *FaultCount) report.Table {
	t := report.Table{
		Title:   "By container",
		Note:    "Minor and major are the kernel's own count of what it served to the threads that faulted: those of kernel mode are in it, and pages that it brought in for itself. Major: waited for a device.",
		Columns: []report.Column{{Head: "container"}, {Head: "faults", Number: true}, {Head: "a second", Number: true}, {Head: "kernel mode", Number: true, Optional: true}, {Head: "duplicated, %", Number: true}, {Head: "minor", Number: true, Optional: true}, {Head: "major", Number: true}},
	}
	for i := range f.Targets {
		target := &f.Targets[i]
		same := percent(target.Same, target.User)
		if !f.Typed {
			same = report.Absent()
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: target.Name}, {Text: fmt.Sprint(target.User)}, report.Measured(float64(target.User) / f.Seconds), {Text: fmt.Sprint(target.Kernel)}, same,
			{Text: fmt.Sprint(target.Minor)}, {Text: fmt.Sprint(target.Major)}})
	}
	return t
}

// faultPlaces says where the faults of each condition's last block were.
func (p *page) faultPlaces() []report.Part {
	t := report.Table{
		Title: "Where the faults were",
		Note:  "The last block's, the code with the most faults first. " + duplicatedNote,
		Columns: []report.Column{{Head: "application"}, {Head: "function, or file and offset"}, {Head: "faults", Number: true}, {Head: "share", Number: true},
			{Head: "duplicated", Number: true}, {Head: "at any address", Number: true, Optional: true}},
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
			t.Rows = append(t.Rows, []report.Cell{{Text: name}, {Text: s.Name}, {Text: fmt.Sprint(s.Faults)}, percent(s.Faults, f.User), percent(s.Same, s.Faults), percent(s.Anywhere, s.Faults)})
			name = ""
		}
	}
	return report.Filled(t)
}
