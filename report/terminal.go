package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"tare/overhead"
	"tare/record"
)

// TerminalOptions say how the screen is shown and what stands around the
// figures.
type TerminalOptions struct {
	Width  int      // columns; 80 where 0, never under 40
	Color  bool     // colours repeat what the words say, and say nothing else
	Next   []string // commands to run next
	Report string   // path of the HTML report; empty where there is none
	Weight Weight   // what measuring itself cost
	// All shows every metric; without it, those that carry the verdict.
	All bool
	// Interim makes the table short: the run is not over.
	Interim bool
}

// Terminal writes the first screen of a run. No line is longer than the width,
// but for a path or a command that has no place to break: it stands there to be
// copied.
func Terminal(w io.Writer, run record.Run, rep overhead.Report, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	if opt.Interim {
		s.interim(run, rep)
		return s.flush(w)
	}
	if text := RunThresholdAnswer(run, rep); text != "" {
		s.paragraph(bold, text)
	}
	s.paragraph(bold, Answer(run, rep))
	s.together(Together(run, rep))
	s.marks(run, rep)
	s.blank()
	s.header(run, rep)
	for _, g := range rep.Groups {
		s.group(run, rep, g, opt.All)
	}
	s.warnings(rep.Warnings)
	s.closing(run, opt)
	return s.flush(w)
}

// together says below the sentence what it holds for.
func (s *screen) together(text string) {
	if text != "" {
		s.paragraph(faint, text)
	}
}

// marks puts what limits the figures directly below the sentence.
func (s *screen) marks(run record.Run, rep overhead.Report) {
	for _, m := range cautions(run, rep) {
		s.hang(yellow, strings.ToUpper(m.title)+":", m.text)
	}
}

func (s *screen) header(run record.Run, rep overhead.Report) {
	if len(rep.Groups) == 1 {
		s.field("workload", workloadText(run, rep.Groups[0]))
		s.field(unitOf(rep.Groups[0])+"s", blocksText(run, rep.Groups[0]))
	}
	s.field("host", hostText(run.Host))
	s.field("time", timeText(run))
}

func (s *screen) group(run record.Run, rep overhead.Report, g overhead.Group, all bool) {
	s.blank()
	if len(rep.Groups) > 1 {
		s.rule(clean(g.Workload))
		s.paragraph(bold, strings.TrimSuffix(groupAnswer(rep, g), ".")+".")
		s.field("workload", workloadText(run, g))
		s.field(unitOf(g)+"s", blocksText(run, g))
		s.blank()
	}
	metrics := g.Primaries()
	if all {
		metrics = g.Metrics
	}
	tables := make([]table, len(metrics))
	for i, m := range metrics {
		tables[i] = metricTable(run, m, rep, all)
	}
	s.tables(tables)
	if len(metrics) > 1 {
		s.blank()
	}
	s.paragraph(faint, strings.TrimSpace(floorText(metrics)+" "+selfText(metrics)))
	if all {
		s.together(secondaryText(g))
		for _, t := range loadTables(g, rep.Level) {
			s.blank()
			s.tables([]table{t})
		}
		if t, any := effectsTable(g, rep.Level); any {
			s.blank()
			s.tables([]table{t})
		}
	}
	if run.Plan.Ladder {
		var rungs []table
		for i, of := range Ladder(run, metrics, rep.Level) {
			rungs = append(rungs, ladderTable(of, metrics[i], rep.Level))
		}
		s.blank()
		s.tables(rungs)
	}
	s.warnings(g.Warnings)
}

func (s *screen) warnings(warnings []string) {
	for _, text := range warnings {
		s.hang(yellow, "warning:", clean(text))
	}
}

func (s *screen) closing(run record.Run, opt TerminalOptions) {
	s.blank()
	for i, n := range run.Plan.Notes {
		s.field(first(i, "notes"), clean(n))
	}
	if len(opt.Weight) == 0 {
		s.field("weight", "of the instrument itself: not measured with this run")
	}
	for i, item := range opt.Weight {
		s.field(first(i, "weight"), item.text())
	}
	for i, command := range opt.Next {
		s.copyable(first(i, "next"), clean(command))
	}
	if opt.Report != "" {
		s.copyable("report", clean(opt.Report))
	}
}

// interim is the short table of a run that goes on.
func (s *screen) interim(run record.Run, rep overhead.Report) {
	for i, g := range rep.Groups {
		if comparedBlocks(g) == 0 {
			continue // a table of absences tells nothing
		}
		if i > 0 {
			s.blank()
		}
		so := "interim, " + plural(comparedBlocks(g), unitOf(g))
		if g.Pilot {
			so = "provisional, from the pilot alone"
		}
		s.paragraph(bold, clean(g.Workload)+": "+so)
		var tables []table
		for _, m := range g.Primaries() {
			t := metricTable(run, m, rep, false)
			t.absences, t.notes = nil, nil
			t.withoutVerdicts()
			tables = append(tables, t)
		}
		s.tables(tables)
	}
}

// workloadText names a workload with the parameters that all its conditions
// share, and the baseline.
func workloadText(run record.Run, g overhead.Group) string {
	parts := []string{clean(g.Workload)}
	if params := sharedParams(run, g.Workload); params != "" {
		parts[0] += " (" + params + ")"
	}
	for _, m := range g.Primaries() {
		if b, ok := baselineOf(m); ok {
			parts = append(parts, "against "+label(b))
			break
		}
	}
	return strings.Join(parts, ", ")
}

// blocksText says what a workload's effects rest on, and how sharp they became
// where a precision was wanted.
func blocksText(run record.Run, g overhead.Group) string {
	compared := comparedBlocks(g)
	text := fmt.Sprintf("%d compared, %d repeated for taint", compared, g.Repeated)
	if g.Blocks < compared {
		text = fmt.Sprintf("%d compared (%d of them with every condition), %d repeated for taint", compared, g.Blocks, g.Repeated)
	}
	if g.Tainted > 0 {
		text += fmt.Sprintf(", %d tainted still", g.Tainted)
	}
	if g.Failed > 0 {
		text += ", " + plural(g.Failed, "trial") + " failed"
	}
	if g.Rounds {
		text = roundsText(run, g)
	}
	if why, ok := run.Plan.Blocked[g.Workload]; ok && run.Plan.Design == record.DesignRounds {
		text += "; not in rounds of slices: " + clean(why)
	}
	if wanted := run.Plan.Precision; wanted > 0 {
		reached := overhead.HalfWidth(run, overhead.Options{Workload: g.Workload})
		if finite(reached) {
			text += fmt.Sprintf("; half-width reached %s %%, wanted %s %%", fixed(100*reached, clamp(significant(100*reached)-1, 0, 3)), ratioText(wanted))
		}
	}
	return text
}

func hostText(h record.Host) string {
	parts := []string{}
	add := func(format, value string) {
		if value = clean(value); value != "" {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	cpus := h.CPUModel
	if h.CPUs > 0 {
		cpus = plural(h.CPUs, "CPU")
		if h.CPUModel != "" {
			cpus += " (" + h.CPUModel + ")"
		}
	}
	add("%s", h.Hostname)
	add("%s", cpus)
	if h.Memory > 0 {
		add("%s", bytesText(h.Memory))
	}
	add("kernel %s", h.Kernel)
	add("cgroup %s", h.Cgroup)
	switch h.Virtual {
	case "none", "":
	case "unknown":
		add("%s", "a virtual machine")
	default:
		add("guest of %s", h.Virtual)
	}
	if len(parts) == 0 {
		return "not recorded"
	}
	return strings.Join(parts, ", ")
}

func timeText(run record.Run) string {
	parts := []string{}
	if !run.Started.IsZero() {
		if took := elapsed(run); took > 0 {
			parts = append(parts, durationText(took))
		}
		parts = append(parts, run.Started.UTC().Format("2006-01-02 15:04 ")+"UTC")
	}
	parts = append(parts, fmt.Sprintf("seed %d", run.Seed))
	if run.ID != "" {
		parts = append(parts, clean(run.ID))
	}
	return strings.Join(parts, ", ")
}

// elapsed is the time that a run took, or 0 where it is not over.
func elapsed(run record.Run) time.Duration {
	if run.Finished.After(run.Started) {
		return run.Took()
	}
	return 0
}

// first gives the name of a field for the first of its lines alone.
func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}
