package pages

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/census"
	"tare/claim"
	"tare/probe/pagetable"
	"tare/record"
	"tare/report"
	"tare/study/kit"
)

// Study is what the commands and the page need of it. Attachments that cannot be read are told
// as a banner, and what they would show is left out.
var Study = kit.Alone(kit.Member{
	Judge: Judge, Page: finished, SoFar: soFar, NextOf: next,
	Note: "S1 had data of 500 MB, Linux 4.4, Docker 17.06 and AUFS, and assumed no address randomisation within a tenant; shares are judged.",
})

func finished(run record.Run, attached kit.Attachments) report.Sheet {
	p := page{reading: read(run), attachments: attached}
	s := report.Sheet{Title: title(run), Answer: p.answer(), Facts: p.facts(), Weight: p.weight()}
	for _, part := range []func() []report.Part{p.groupability, p.classes, p.activity, p.sizes, p.kinds, p.files, p.faultTypes, p.faultRates, p.faultPlaces} {
		s.Parts = append(s.Parts, part()...)
	}
	s.Banners = append(p.banners(), p.unreadable...)
	return s
}

func soFar(run record.Run) report.Sheet {
	p := page{reading: read(run)}
	return report.Sheet{Title: title(run), Answer: p.answer(), Parts: append(p.groupability(), p.faultRates()...)}
}

// title is the command that made the run.
func title(run record.Run) string {
	if strings.HasPrefix(run.ID, "faults-") {
		return "tare faults"
	}
	return "tare pages"
}

// next proposes what to run after a run.
func next(run record.Run) string {
	for _, c := range run.Conditions {
		if c.Workload != "" {
			name, _, _ := strings.Cut(c.Workload, "[")
			return "tare startup " + name
		}
	}
	return "tare claims S1"
}

// page is a sheet being composed.
type page struct {
	reading
	attachments kit.Attachments
	unreadable  []string
}

// last reads an attachment of a condition's last trial that has it.
func (p *page) last(c record.Condition, name string) ([]byte, bool) {
	for _, t := range slices.Backward(p.Trials(c)) {
		data, err := p.attachments.Of(t, name)
		if err != nil {
			p.unreadable = append(p.unreadable, err.Error())
		}
		if err != nil || data != nil {
			return data, data != nil
		}
	}
	return nil, false
}

// census is a condition's last census, in the steady state where there was one.
func (p *page) census(c record.Condition) (*census.Count, moment, bool) {
	for _, at := range []moment{steady, start} {
		data, ok := p.last(c, at.attachmentName())
		if !ok {
			continue
		}
		count, err := decodeCensus(data)
		if err != nil {
			p.unreadable = append(p.unreadable, err.Error())
			return nil, at, false
		}
		return count, at, true
	}
	return nil, start, false
}

// latest is the moment of a condition's last census.
func (p *page) latest(c record.Condition) moment {
	if p.has(c, atMoment(steady, groupable)) {
		return steady
	}
	return start
}

// shown is a workload as the page has it: of a function "hashing dense", since
// that is what S1 calls it; else with what was set of it.
func shown(c record.Condition) string {
	name, params, set := strings.Cut(strings.TrimSuffix(c.Workload, "]"), "[")
	if !set {
		return name
	}
	for param := range strings.SplitSeq(params, ",") {
		name += " " + strings.TrimPrefix(param, "access=")
	}
	return name
}

// conditionName names a condition where nothing else on the line does.
func (p *page) conditionName(c record.Condition) string {
	if p.oneLevel() {
		return shown(c)
	}
	return shown(c) + ", " + c.Factors[factorASLR]
}

// named are the first cells of a condition's row, and their columns: the workload,
// and the randomisation where it differs.
func (p *page) named(c record.Condition) []report.Cell {
	cells := []report.Cell{{Text: shown(c)}}
	if !p.oneLevel() {
		cells = append(cells, report.Cell{Text: c.Factors[factorASLR]})
	}
	return cells
}

func (p *page) columns(more ...report.Column) []report.Column {
	columns := []report.Column{{Head: "application"}}
	if !p.oneLevel() {
		columns = append(columns, report.Column{Head: "ASLR"})
	}
	return append(columns, more...)
}

// oneLevel tells that all conditions have the same randomisation.
func (p *page) oneLevel() bool {
	return !slices.ContainsFunc(p.Run.Conditions, func(c record.Condition) bool {
		return c.Factors[factorASLR] != p.Run.Conditions[0].Factors[factorASLR]
	})
}

// answer is the sentence that the reader came for.
func (p *page) answer() string {
	var told, over []string
	who := ""
	for _, level := range []string{aslrOff, aslrOn} {
		var of []found
		for _, c := range p.Run.Conditions {
			if c.Factors[factorASLR] == level && p.has(c, atMoment(p.latest(c), groupable)) {
				of = append(of, found{Condition: c})
			}
		}
		if len(of) == 0 {
			continue
		}
		if who = fmt.Sprintf("of %d applications", len(of)); len(of) == 1 {
			who = "of " + shown(of[0].Condition)
		}
		value := func(name string) string {
			e, _ := p.mean(of, func(f found) map[int]float64 { return p.PerBlock(f.Condition, atMoment(p.latest(f.Condition), name)) })
			return said(e) + " %"
		}
		told = append(told, value(across)+" with address randomisation "+level)
		over = append(over, value(groupable))
	}
	if len(told) > 0 {
		return fmt.Sprintf("Of the page-table entries %s, these are the same page and frame in two or more containers: %s (over processes, as S1 counted, %s).",
			who, strings.Join(told, ", "), strings.Join(over, " and "))
	}
	for _, c := range p.Run.Conditions {
		if p.has(c, duplicated) {
			told = append(told, fmt.Sprintf("%s: %s %% of page faults are on pages on which another container faulted too", p.conditionName(c), said(p.Value(c, duplicated))))
		}
	}
	if len(told) == 0 {
		return "Nothing was measured."
	}
	return strings.Join(told, "; ") + "."
}

func (p *page) facts() []string {
	var workloads, steadies []string
	for _, c := range p.Run.Conditions {
		workloads = append(workloads, c.Workload)
		if s := c.Factors[factorSteady]; s != "0s" {
			steadies = append(steadies, s)
		}
	}
	compact := func(of []string) string {
		slices.Sort(of)
		return strings.Join(slices.Compact(of), ", ")
	}
	var own []string
	if len(p.Run.Conditions) > 0 {
		c := p.Run.Conditions[0]
		text := fmt.Sprintf("copies: %s of each", c.Factors[factorCopies])
		if c.Setting.CPUSet != "" {
			text += ", all on CPU " + c.Setting.CPUSet
		}
		if len(steadies) > 0 {
			text += "; services counted at their start and after " + compact(steadies)
		}
		own = []string{text}
	}
	return kit.Facts(p.Reading, "workloads: "+compact(workloads), own...)
}

func (p *page) banners() []string {
	var more []string
	if generations(p.Run.Host) {
		more = append(more, generationsNote)
	}
	for _, c := range p.Run.Conditions {
		if slices.ContainsFunc(p.Trials(c), func(t record.Trial) bool { return t.Covariates[unwatched] > 0 }) {
			more = append(more, fmt.Sprintf("note: the page faults of %s were not recorded: %s makes a container's control group only as it starts it", shown(c), c.Platform))
		}
	}
	return report.RunBanners(p.Reading, more...)
}

// groupability is the table of the study's question.
func (p *page) groupability() []report.Part {
	t := report.Table{
		Title: "Entries that another has the same",
		Note: "In percent of entries: the same virtual page and the same frame in two or more processes, as S1 counted, or in two or more containers. Means of the blocks, with Student's t; those without an interval are known to a twentieth of a point. " +
			"Functions have no steady state: they are counted when their work is done and they still hold what they mapped.",
		Columns: p.columns([]report.Column{{Head: "start: processes", Number: true}, {Head: "start: containers", Number: true},
			{Head: "steady: processes", Number: true}, {Head: "steady: containers", Number: true}, {Head: "growth, points", Number: true, Optional: true}}...),
	}
	for _, c := range p.Run.Conditions {
		if !p.has(c, atMoment(start, groupable)) {
			continue
		}
		f := found{Condition: c}
		grown, _ := p.mean([]found{f}, p.growth(groupable))
		t.Rows = append(t.Rows, append(p.named(c),
			shareCell(p.Value(c, atMoment(start, groupable))), shareCell(p.Value(c, atMoment(start, across))),
			shareCell(p.Value(c, atMoment(steady, groupable))), shareCell(p.Value(c, atMoment(steady, across))), shareCell(grown)))
	}
	return report.Filled(t)
}

// classes are the entries of each condition, parted.
func (p *page) classes() []report.Part {
	b := report.Bars{
		Title: "Who else holds an entry", Unit: "%",
		Note: "Over containers, at the last census. Shared frame: another container maps the frame at another address, which is what address randomisation makes of a groupable entry. The page of zeros is in no share.",
	}
	for _, c := range p.Run.Conditions {
		at := p.latest(c)
		bar := report.Bar{Label: p.conditionName(c)}
		for _, of := range []struct {
			metric, name string
		}{{across, "groupable"}, {sharedAcross, "shared frame"}, {exclusiveOne, "exclusive"}} {
			e := p.Value(c, atMoment(at, of.metric))
			if e.Value != e.Value {
				continue
			}
			segment := report.Segment{Name: of.name, Value: e.Value}
			if e.Known() && e.Interval.High-e.Interval.Low > 2*near {
				segment.Low, segment.High = max(0, e.Interval.Low), e.Interval.High
			} else {
				segment.Value = math.Round(100*e.Value) / 100
			}
			bar.Segments = append(bar.Segments, segment)
		}
		if len(bar.Segments) > 0 {
			b.Rows = append(b.Rows, bar)
		}
	}
	return report.Filled(b)
}

// activity is what the kernel holds for active.
func (p *page) activity() []report.Part {
	t := report.Table{
		Title: "What the kernel holds for active",
		Note: "In percent. Active by the kernel's list of active pages; a page comes onto a list some time after its first fault, so fresh ones are on none. Huge: in a transparent huge page of anonymous memory. " +
			"Large folio: in a folio of several pages, of whatever size, as the page cache has them today and Linux 4.4 had not. Huge pages are set to " + hugeSetting(p.Run.Host) + " here.",
		Columns: p.columns([]report.Column{{Head: "active: start", Number: true}, {Head: "active: steady", Number: true}, {Head: "groupable of active", Number: true},
			{Head: "active and groupable, of all", Number: true, Optional: true}, {Head: "huge of active", Number: true}, {Head: "large folio, of all", Number: true, Optional: true}}...),
	}
	for _, c := range p.Run.Conditions {
		at := p.latest(c)
		if !p.has(c, atMoment(start, active)) {
			continue
		}
		row := append(p.named(c), shareCell(p.Value(c, atMoment(start, active))), shareCell(p.Value(c, atMoment(steady, active))))
		for _, name := range []string{groupOfActive, activeGroup, hugeOfActive, largeFolio} {
			row = append(row, shareCell(p.Value(c, atMoment(at, name))))
		}
		t.Rows = append(t.Rows, row)
	}
	return report.Filled(t)
}

// sizes are memory and page tables.
func (p *page) sizes() []report.Part {
	t := report.Table{
		Title: "Memory, and the page tables that map it",
		Note: "Of all copies together, at the last census. Mapped counts each entry, memory each frame once. " +
			"Could be shared: tables of the last level that two or more containers have wholly the same, all but one of each.",
		Columns: p.columns([]report.Column{{Head: "entries", Number: true}, {Head: "mapped, MiB", Number: true}, {Head: "memory, MiB", Number: true},
			{Head: "page tables, KiB", Number: true}, {Head: "could be shared, KiB", Number: true}}...),
	}
	for _, c := range p.Run.Conditions {
		at := p.latest(c)
		if !p.has(c, atMoment(at, entries)) {
			continue
		}
		of := func(name string, scale float64) report.Cell {
			return report.Estimated(p.Value(c, atMoment(at, name)), scale)
		}
		t.Rows = append(t.Rows, append(p.named(c), of(entries, 1), of(mapped, 1./mebibyte), of(resident, 1./mebibyte), of(tables, 1./1024), of(tablesSaved, 1./1024)))
	}
	return report.Filled(t)
}

// kinds says what is mapped, from the last block of each condition.
func (p *page) kinds() []report.Part {
	columns := func() []report.Column {
		all := p.columns()
		for k := range pagetable.Kinds {
			all = append(all, report.Column{Head: census.KindName(k), Number: true, Optional: k >= pagetable.Stack})
		}
		return all
	}
	has := report.Table{Title: "What the entries map", Note: "In percent of entries, at the last census of the last block; a dash where there are none.", Columns: columns()}
	same := report.Table{Title: "Groupable over containers, by what is mapped", Note: "In percent of the entries of that kind, at the last census of the last block.", Columns: columns()}
	for _, c := range p.Run.Conditions {
		count, _, ok := p.census(c)
		if !ok {
			continue
		}
		all := whole(&count.All)
		row, groupable := p.named(c), p.named(c)
		for k := range pagetable.Kinds {
			tally := &count.Kinds[k]
			w := whole(tally)
			groupable = append(groupable, percent(tally.Across.Groupable, w))
			if w == 0 {
				row = append(row, report.Absent())
				continue
			}
			row = append(row, percent(w, all))
		}
		has.Rows, same.Rows = append(has.Rows, row), append(same.Rows, groupable)
	}
	if len(has.Rows) == 0 {
		return nil
	}
	return []report.Part{has, same}
}

// filesEach is how many files are listed of each application.
const filesEach = 4

// byPath sums files of one path: what each container has of its own, and what
// they have in common, are files of one name to a reader.
func byPath(files []census.FileCount) []census.FileCount {
	var paths []census.FileCount
	at := map[string]int{}
	for _, f := range files {
		i, known := at[f.Path]
		if !known {
			at[f.Path] = len(paths)
			paths = append(paths, f)
			continue
		}
		paths[i].Names += f.Names
		paths[i].Frames += f.Frames
		paths[i].Tally.Add(&f.Tally)
	}
	slices.SortStableFunc(paths, func(a, b census.FileCount) int { return cmp.Compare(whole(&b.Tally), whole(&a.Tally)) })
	return paths
}

// files lists the files with the most entries.
func (p *page) files() []report.Part {
	t := report.Table{
		Title: "The files with the most entries",
		Note:  "Of the last block, at the last census; files of one path together. Memory is their frames that are mapped, each once.",
		Columns: []report.Column{{Head: "application"}, {Head: "file"}, {Head: "entries", Number: true}, {Head: "memory, MiB", Number: true, Optional: true},
			{Head: "groupable: processes", Number: true}, {Head: "groupable: containers", Number: true}},
	}
	for _, c := range p.Run.Conditions {
		count, _, ok := p.census(c)
		if !ok {
			continue
		}
		name := p.conditionName(c)
		for i, f := range byPath(count.Files) {
			w := whole(&f.Tally)
			if i == filesEach || w == 0 {
				break
			}
			t.Rows = append(t.Rows, []report.Cell{{Text: name}, {Text: f.Path}, {Text: fmt.Sprint(w)}, mib(f.Frames * pagetable.PageSize), percent(f.Tally.Groupable, w), percent(f.Tally.Across.Groupable, w)})
			name = ""
		}
	}
	return report.Filled(t)
}

// faultTypes is S1's table of types with ours beside it.
func (p *page) faultTypes() []report.Part {
	published, err := claim.Lookup("S1.11")
	if err != nil {
		panic(err) // the registry is part of the program
	}
	var parts []report.Part
	for _, level := range []string{aslrOff, aslrOn} {
		t := report.Table{
			Title: "Page faults by type, address randomisation " + level,
			Note: "In percent of the faults of these six types, in user mode; S1's figures below ours where it has the application. Where there was no entry: read (of a file), " +
				"copy-on-write (a write to a file mapped privately), shared (a write to a shared mapping), anonymous. Where there was one: swap, and write-protect (a write that the entry forbids).",
			Columns: []report.Column{{Head: "application"}},
		}
		for _, kind := range types {
			t.Columns = append(t.Columns, report.Column{Head: kind.String(), Number: true})
		}
		for _, c := range p.Run.Conditions {
			if c.Factors[factorASLR] != level || !p.has(c, typeMetric(types[0])) {
				continue
			}
			ours := []report.Cell{{Text: shown(c)}}
			for _, kind := range types {
				ours = append(ours, shareCell(p.Value(c, typeMetric(kind))))
			}
			t.Rows = append(t.Rows, ours)
			a, ok := applicationOf(c.Workload)
			if !ok {
				continue
			}
			theirs := []report.Cell{{Text: "S1", Tone: report.Faint}}
			for _, kind := range types {
				cell := report.Absent()
				if f, ok := published.Figure(a.published + ", " + kind.String()); ok {
					cell = report.Cell{Text: fmt.Sprintf("%.1f", f.Value), Tone: report.Faint}
				}
				theirs = append(theirs, cell)
			}
			t.Rows = append(t.Rows, theirs)
		}
		parts = append(parts, report.Filled(t)...)
	}
	return parts
}

// faultRates is how many there are, and how many are taken twice.
func (p *page) faultRates() []report.Part {
	t := report.Table{
		Title: "Page faults, and those that several containers took",
		Note: "Duplicated: on a virtual page and file page (or frame, where the entry had one) on which another container faulted within the recording, too; at any address: on the same page of the same file. " +
			"A fresh anonymous page has a frame of its own, and is never duplicated. Services: from the moment on at which all copies were ready and were given work, those that need none (pagerank, fio) at work already; functions: their whole life, of which the faults of one copy are counted. Kernel mode: taken by the kernel for the program, in percent of all; the other columns are of those in user mode.",
		Columns: p.columns([]report.Column{{Head: "faults/s", Number: true}, {Head: "of a life", Number: true}, {Head: "duplicated, %", Number: true}, {Head: "at any address, %", Number: true},
			{Head: "may copy, %", Number: true, Optional: true}, {Head: "kernel mode, %", Number: true}, {Head: "major", Number: true, Optional: true}, {Head: "lost", Number: true}}...),
	}
	instructions := slices.ContainsFunc(p.Run.Conditions, func(c record.Condition) bool { return p.has(c, perMillion) })
	if instructions {
		t.Columns = append(t.Columns, report.Column{Head: "per 10^6 instructions", Number: true})
		t.Note += " Instructions of functions were counted by simulating the processor (valgrind), in user mode alone."
	}
	for _, c := range p.Run.Conditions {
		if !p.has(c, rate) && !p.has(c, total) {
			continue
		}
		row := p.named(c)
		for _, name := range []string{rate, total, duplicated, duplicatedFile, copying, kernelMode, major, lost} {
			row = append(row, report.Estimated(p.Value(c, name), 1))
		}
		if instructions {
			row = append(row, report.Estimated(p.Value(c, perMillion), 1))
		}
		t.Rows = append(t.Rows, row)
	}
	return report.Filled(t)
}

// weight is what the instrument itself cost.
func (p *page) weight() report.Weight {
	censuses := append(kit.Covariates(p.Reading, censusSeconds(start), 1e3), kit.Covariates(p.Reading, censusSeconds(steady), 1e3)...)
	return append(kit.OwnTime(p.Reading, ", the load included"), kit.Weigh(p.Reading, censuses, "a census took", "ms")...)
}
