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
	"tare/terminal"
)

// Study is what the commands and the page need of it. An attachment that cannot be read is named in
// a banner, and its part of the page is left out.
var Study = kit.Alone(kit.Member{
	Judge: Judge, Page: finished, SoFar: soFar, NextOf: next,
	Note: "S1 (published study of container start-up and sharing) used data of 500 MB, Linux 4.4, Docker 17.06 and AUFS. " +
		"It assumed no address randomisation within a tenant. Shares are judged.",
})

func finished(run record.Run, attached kit.Attachments) report.Sheet {
	p := page{reading: read(run), attachments: attached}
	s := report.Sheet{Title: title(run), Answer: p.answer(), Facts: p.facts(), Weight: p.weight()}
	for _, part := range []func() []report.Part{
		p.classes, p.groupability, p.activity, p.sizes, p.kinds, p.files, p.faultTypes, p.faultRates, p.faultPlaces,
	} {
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
			return "tare startup " + terminal.Shell(name)
		}
	}
	return "tare claims S1"
}

// page is the page of a run while it is composed.
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

// oneLevel reports whether all conditions have the same randomisation.
func (p *page) oneLevel() bool {
	return !slices.ContainsFunc(p.Run.Conditions, func(c record.Condition) bool {
		return c.Factors[factorASLR] != p.Run.Conditions[0].Factors[factorASLR]
	})
}

// answer is the sentence that the reader came for.
func (p *page) answer() string {
	var containers, processes []string
	who := ""
	for _, level := range []string{aslrOff, aslrOn} {
		var of []subject
		for _, c := range p.Run.Conditions {
			if c.Factors[factorASLR] == level && p.has(c, atMoment(p.latest(c), groupable)) {
				of = append(of, subject{Condition: c})
			}
		}
		if len(of) == 0 {
			continue
		}
		if who = fmt.Sprintf("containers of one image (mean of %d applications)", len(of)); len(of) == 1 {
			who = "containers of " + shown(of[0].Condition)
		}
		value := func(name string) string {
			e, _ := p.mean(of, func(f subject) map[int]float64 {
				return p.PerBlock(f.Condition, atMoment(p.latest(f.Condition), name))
			})
			return said(e) + " %"
		}
		if len(containers) == 0 {
			containers = append(containers, fmt.Sprintf("With address randomisation %s, %s have %s of their page-table entries in common",
				level, who, value(across)))
		} else {
			containers = append(containers, "with it "+level+", "+value(across))
		}
		processes = append(processes, value(groupable))
	}
	if len(containers) > 0 {
		return fmt.Sprintf("%s. Counted between processes, as in S1 (published study of container start-up and sharing): %s.",
			strings.Join(containers, "; "), strings.Join(processes, " and "))
	}
	var shares []string
	for _, c := range p.Run.Conditions {
		if p.has(c, duplicated) {
			shares = append(shares, p.conditionName(c)+" "+said(p.Value(c, duplicated))+" %")
		}
	}
	if len(shares) == 0 {
		return "Nothing was measured."
	}
	return "Share of page faults on pages on which another container faulted too: " + strings.Join(shares, "; ") + "."
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
			more = append(more, fmt.Sprintf("note: the page faults of %s were not recorded. "+
				"%s makes a container's control group only when it starts the container", shown(c), c.Platform))
		}
	}
	return report.RunBanners(p.Reading, more...)
}

// groupability is the table of the study's question.
func (p *page) groupability() []report.Part {
	t := report.Table{
		Title: "Groupable page-table entries, % of all",
		Note: "Groupable: the same virtual page and the same frame in two or more processes, as S1 counted, or in two or more containers. " +
			"A function has no steady state. It is counted at the end of its work, while it still holds all it mapped.",
		Method: "Means of the blocks, with intervals by Student's t. A share without an interval is known to within 0.05 points.",
		Columns: p.columns([]report.Column{
			{Head: "start: processes", Number: true}, {Head: "start: containers", Number: true},
			{Head: "steady: processes", Number: true}, {Head: "steady: containers", Number: true},
			{Head: "growth, points", Number: true, Optional: true},
		}...),
	}
	for _, c := range p.Run.Conditions {
		if !p.has(c, atMoment(start, groupable)) {
			continue
		}
		f := subject{Condition: c}
		grown, _ := p.mean([]subject{f}, p.growth(groupable))
		t.Rows = append(t.Rows, append(p.named(c),
			shareCell(p.Value(c, atMoment(start, groupable))), shareCell(p.Value(c, atMoment(start, across))),
			shareCell(p.Value(c, atMoment(steady, groupable))), shareCell(p.Value(c, atMoment(steady, across))),
			shareCell(grown)))
	}
	return report.Filled(t)
}

// classes divide the entries of each condition by who else has them.
func (p *page) classes() []report.Part {
	b := report.Bars{
		Title: "Shared and exclusive page-table entries", Unit: "%",
		Note: "Groupable entries are the same in two or more containers. Of a shared frame, another container maps the same memory at another address: " +
			"address randomisation turns groupable entries into these. Exclusive: no other container maps the memory.",
		Method: "Between containers, at the last census. The kernel's page of zeros is left out.",
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

// activity is the share of active and of huge pages.
func (p *page) activity() []report.Part {
	t := report.Table{
		Title: "Active and huge pages, % of entries",
		Note: "Active: on the kernel's list of active pages. Huge: in a transparent huge page of anonymous memory. " +
			"Huge pages are set to " + p.hugeSetting() + " here.",
		Method: "The kernel puts a page on a list some time after its first fault: fresh pages are on none. " +
			"Large folio: the page is in a folio of several pages. The page cache uses them today; Linux 4.4, which S1 ran, did not.",
		Columns: p.columns([]report.Column{
			{Head: "active: start", Number: true}, {Head: "active: steady", Number: true},
			{Head: "groupable of active", Number: true}, {Head: "active and groupable", Number: true, Optional: true},
			{Head: "huge of active", Number: true}, {Head: "large folio", Number: true, Optional: true},
		}...),
	}
	for _, c := range p.Run.Conditions {
		at := p.latest(c)
		if !p.has(c, atMoment(start, active)) {
			continue
		}
		row := append(p.named(c),
			shareCell(p.Value(c, atMoment(start, active))), shareCell(p.Value(c, atMoment(steady, active))))
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
		Title: "Memory and page tables",
		Note: "Sums over all copies. Mapped counts each entry; memory counts each frame once. " +
			"Shareable: last-level tables that are wholly the same in two or more containers, less one of each.",
		Method: "At the last census.",
		Columns: p.columns([]report.Column{
			{Head: "entries", Number: true}, {Head: "mapped, MiB", Number: true}, {Head: "memory, MiB", Number: true},
			{Head: "page tables, KiB", Number: true}, {Head: "shareable, KiB", Number: true},
		}...),
	}
	for _, c := range p.Run.Conditions {
		at := p.latest(c)
		if !p.has(c, atMoment(at, entries)) {
			continue
		}
		of := func(name string, scale float64) report.Cell {
			return report.Estimated(p.Value(c, atMoment(at, name)), scale)
		}
		t.Rows = append(t.Rows, append(
			p.named(c),
			of(entries, 1),
			of(mapped, 1./mebibyte),
			of(resident, 1./mebibyte),
			of(tables, 1./1024),
			of(tablesSaved, 1./1024),
		))
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
	const method = "At the last census of the last block."
	has := report.Table{
		Title: "Entries by kind of mapping, % of all", Note: "A dash: no entry of that kind.", Method: method, Columns: columns(),
	}
	same := report.Table{
		Title: "Groupable entries by kind of mapping, % of the kind", Note: "Groupable between containers.", Method: method, Columns: columns(),
	}
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

// byPath sums files of one name: what each container has of its own, and what
// they have in common, are files of one name to a reader.
func byPath(files []census.FileCount) []census.FileCount {
	var paths []census.FileCount
	at := map[string]int{}
	for _, f := range files {
		i, known := at[f.Name()]
		if !known {
			at[f.Name()] = len(paths)
			paths = append(paths, f)
			continue
		}
		paths[i].Names += f.Names
		paths[i].Frames += f.Frames
		paths[i].Tally.Add(&f.Tally)
	}
	slices.SortStableFunc(
		paths,
		func(a, b census.FileCount) int { return cmp.Compare(whole(&b.Tally), whole(&a.Tally)) },
	)
	return paths
}

// files lists the files with the most entries.
func (p *page) files() []report.Part {
	t := report.Table{
		Title:  "Files with the most entries",
		Note:   "Memory: the file's mapped frames, each counted once.",
		Method: "At the last census of the last block. Files of one path are counted together.",
		Columns: []report.Column{
			{Head: "application"}, {Head: "file"}, {Head: "entries", Number: true}, {Head: "memory, MiB", Number: true, Optional: true},
			{Head: "groupable: processes, %", Number: true}, {Head: "groupable: containers, %", Number: true},
		},
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
			t.Rows = append(t.Rows, []report.Cell{
				{Text: name}, {Text: f.Name()}, {Text: fmt.Sprint(w)}, mib(f.Frames * pagetable.PageSize),
				percent(f.Tally.Groupable, w), percent(f.Tally.Across.Groupable, w),
			})
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
			Title:   "Page faults by type, %, address randomisation " + level,
			Note:    "Share of the faults of these six types. Figures of S1 (published study) stand below ours. " + typesNote,
			Method:  "Faults in user mode.",
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
		Title: "Rate and duplicates of page faults",
		Note:  duplicatedNote + " Kernel mode: share of all faults that the kernel took for the program. Lost: faults that were not recorded.",
		Method: "Services are recorded from the moment at which all copies are ready and receive work; pagerank and fio work from their start. " +
			"Functions are recorded for their whole life, and the faults of one copy are counted. " +
			"All columns but that of kernel mode count faults in user mode.",
		Columns: p.columns([]report.Column{
			{Head: "faults/s", Number: true}, {Head: "faults of a life", Number: true},
			{Head: "duplicated, %", Number: true}, {Head: "at any address, %", Number: true},
			{Head: "may copy, %", Number: true, Optional: true}, {Head: "kernel mode, %", Number: true},
			{Head: "major", Number: true, Optional: true}, {Head: "lost", Number: true},
		}...),
	}
	instructions := slices.ContainsFunc(p.Run.Conditions, func(c record.Condition) bool {
		return p.has(c, perMillion)
	})
	if instructions {
		t.Columns = append(t.Columns, report.Column{Head: "per 10^6 instructions", Number: true})
		t.Method += " Instructions of functions were counted in user mode by simulating the processor (valgrind)."
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
	censuses := append(
		kit.Covariates(p.Reading, censusSeconds(start), 1e3), kit.Covariates(p.Reading, censusSeconds(steady), 1e3)...)
	return append(kit.OwnTime(p.Reading, ", the load included"),
		kit.Weigh(p.Reading, censuses, "a census took", "ms")...)
}
