package startup

import (
	"encoding/json"
	"fmt"
	"math"

	"tare/probe/breakdown"
	"tare/probe/sched"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Where the time of a start goes: the page's parts on time lines and profiles.

// timelines are the phases of single starts, and one start of each platform.
func (p *page) timelines() []report.Part {
	conditions := p.measured(kindTrace, pathTotal)
	if len(conditions) == 0 {
		return nil
	}
	table := report.Table{
		Title: "Phases of one start, on its critical path, ms",
		Note: "One start at a time, its every switch and waking recorded, which slows it a little. The path is what the end was waiting for: it stays with the thread that ran, goes to the one that woke it, " +
			"and so adds up to the whole. Phases end with the marks that the platform's processes leave: the shim executed, the runtime executed, the init forked, the runtime told to start it, the application executed. " +
			"A runtime alone has no engine and no shim, and its network is laid before the start.",
		Columns: []report.Column{{Head: "workload", Optional: true}, {Head: "platform"}, {Head: "phase"}, {Head: "time", Number: true}, {Head: "on a CPU", Number: true},
			{Head: "waiting for a CPU", Number: true, Optional: true}, {Head: "blocked", Number: true}},
	}
	stacked := report.Bars{Title: "A start by phase", Unit: "ms"}
	waiting := report.Bars{
		Title: "What a start waits for, on its critical path", Unit: "ms",
		Note: "By the kernel's functions in which the thread waited. Time in which another program was waited for is that program's, and not here, but for what could not be followed.",
	}
	for _, c := range conditions {
		phaseBar, causeBar := report.Bar{Label: p.where(c)}, report.Bar{Label: p.where(c)}
		for _, name := range phases {
			whole := p.Value(c, ofPhase+string(name))
			if !(whole.Value > 0) {
				continue
			}
			table.Rows = append(table.Rows, []report.Cell{
				{Text: workloadOf(c)}, {Text: c.Platform}, {Text: string(name)}, report.Estimated(whole, perMilli),
				report.Measured(p.Value(c, ofPhase+string(name)+onCPU).Value * perMilli),
				report.Measured(p.Value(c, ofPhase+string(name)+forCPU).Value * perMilli),
				report.Measured(p.Value(c, ofPhase+string(name)+isBlocked).Value * perMilli),
			})
			phaseBar.Segments = append(phaseBar.Segments, segment(string(name), whole, perMilli))
		}
		for _, cause := range causes {
			if e := p.Value(c, ofCause+string(cause)); e.Value > 0 {
				causeBar.Segments = append(causeBar.Segments, segment(string(cause), e, perMilli))
			}
		}
		stacked.Rows = append(stacked.Rows, phaseBar)
		waiting.Rows = append(waiting.Rows, causeBar)
	}
	parts := []report.Part{stacked, table, waiting}
	for _, c := range conditions {
		if t, ok := p.timeline(c); ok {
			parts = append(parts, t)
		}
	}
	return parts
}

// where names a condition in a row of its own.
func (p *page) where(c record.Condition) string {
	if len(p.workloads()) > 1 {
		return workloadOf(c) + " on " + c.Platform
	}
	return c.Platform
}

// measured are the conditions of a kind that have a metric.
func (p *page) measured(kind, metric string) []record.Condition {
	var of []record.Condition
	for _, c := range p.of(kind) {
		if v := p.Value(c, metric); v.Value == v.Value {
			of = append(of, c)
		}
	}
	return of
}

func segment(name string, e stats.Estimate, scale float64) report.Segment {
	s := report.Segment{Name: name, Value: math.Max(e.Value, 0) * scale}
	if e.Known() {
		s.Low, s.High = e.Interval.Low*scale, e.Interval.High*scale
	}
	return s
}

// timeline is one start: that of middle length of the last block.
func (p *page) timeline(c record.Condition) (report.Timeline, bool) {
	trials := p.Trials(c)
	if len(trials) == 0 {
		return report.Timeline{}, false
	}
	data, ok := p.attachment(trials[len(trials)-1], traceAttachment)
	if !ok {
		return report.Timeline{}, false
	}
	var one traced
	if err := json.Unmarshal(data, &one); err != nil {
		p.unreadable = append(p.unreadable, fmt.Sprintf("%s: %v", traceAttachment, err))
		return report.Timeline{}, false
	}
	t := report.Timeline{
		Title:  "One start: " + p.where(c),
		Note:   "The start of middle length of the last block, along its critical path.",
		Length: one.Length,
	}
	for _, phase := range one.Phases {
		t.Phases = append(t.Phases, report.Phase{Name: phase.Name, From: phase.From, To: phase.To})
	}
	lanes := map[string]int{}
	for _, s := range one.Segments {
		at, ok := lanes[s.Component]
		if !ok {
			at = len(t.Lanes)
			lanes[s.Component] = at
			t.Lanes = append(t.Lanes, report.Lane{Name: s.Component})
		}
		span := report.Span{From: s.From, To: s.To}
		switch sched.State(s.State) {
		case sched.Running:
			span.Kind, span.Label = report.Runs, "runs"
		case sched.Ready:
			span.Kind, span.Label = report.Ready, "waits for a CPU"
		default:
			span.Kind, span.Label = report.Waits, "waits for "+s.Cause
			if s.Function != "" {
				span.Label += " (" + s.Function + ")"
			}
		}
		t.Lanes[at].Spans = append(t.Lanes[at].Spans, span)
	}
	return t, true
}

// breakdowns say what the CPUs did while containers started.
func (p *page) breakdowns() []report.Part {
	conditions := p.measured(kindProfile, cpuPerStart)
	if len(conditions) == 0 {
		return nil
	}
	at := fmt.Sprintf("at %g starts a second", rate(conditions[0]))
	component := report.Bars{
		Title: "CPU time of a start, by component, " + at, Unit: "ms",
		Note: "All CPUs sampled, idle time and programs that have no part in the starts left out. The client is tare: its schedule, its checks of readiness and its own probes.",
	}
	function := report.Bars{
		Title: "CPU time by what it was for, " + at, Unit: "%",
		Note: "Each sample's stack is sorted by the first rule that knows a function of it. The share that no rule knows is shown as unassigned.",
	}
	side := report.Bars{Title: "Kernel and user", Unit: "%"}
	table := report.Table{
		Title: "S1's split, " + at,
		Columns: []report.Column{{Head: "workload", Optional: true}, {Head: "platform"}, {Head: "CPU time a start, ms", Number: true}, {Head: "kernel, %", Number: true},
			{Head: "memory and process start, %", Number: true}, {Head: "Go heap, %", Number: true}, {Head: "both, %", Number: true}, {Head: "unassigned, %", Number: true}},
	}
	for _, c := range conditions {
		parts := report.Bar{Label: p.where(c)}
		for _, name := range components {
			if e := p.Value(c, ofComponent+string(name)); e.Value > 0 {
				parts.Segments = append(parts.Segments, segment(string(name), e, perMilli))
			}
		}
		component.Rows = append(component.Rows, parts)
		function.Rows = append(function.Rows, p.groups(c))
		side.Rows = append(side.Rows, report.Bar{Label: p.where(c), Segments: []report.Segment{
			segment("kernel", p.Value(c, kernelShare), 1), segment("user", p.Value(c, userShare), 1),
		}})
		row := []report.Cell{{Text: workloadOf(c)}, {Text: c.Platform}, report.Estimated(p.Value(c, cpuPerStart), perMilli)}
		for _, share := range []string{kernelShare, memoryShare, heapShare, bothShare, unassignedShare} {
			row = append(row, report.Estimated(p.Value(c, share), 1))
		}
		table.Rows = append(table.Rows, row)
	}
	parts := []report.Part{component, function, side, table}
	for _, c := range conditions {
		merged, err := p.merged(c, cpuProfile, p.attachments)
		if err != nil {
			p.unreadable = append(p.unreadable, err.Error())
		}
		if merged == nil {
			continue
		}
		parts = append(parts, report.Flame{
			Title: "Flame graph: " + p.where(c) + ", " + at, Unit: "ms",
			Note: "CPU time of all blocks together. Callers below, what they call above; kernel functions stand on the user functions that entered the kernel. " +
				"C programs without frame pointers show the innermost function alone.",
			Root: flame(merged, len(merged.SampleType)-1, 1e-6),
		})
	}
	return parts
}

// groups is a condition's bar of groups.
func (p *page) groups(c record.Condition) report.Bar {
	bar := report.Bar{Label: p.where(c)}
	for _, g := range breakdown.Groups {
		e := p.Value(c, ofGroup+string(g))
		if !(e.Value > 0) {
			continue
		}
		s := segment(string(g), e, 1)
		s.Faint = g == breakdown.Unassigned
		bar.Segments = append(bar.Segments, s)
	}
	return bar
}

// waits say what the programs of starts were blocked for under load.
func (p *page) waits() []report.Part {
	conditions := p.measured(kindBlocked, blockedPerStart)
	if len(conditions) == 0 {
		return nil
	}
	at := fmt.Sprintf("at %g starts a second", rate(conditions[0]))
	bars := report.Bars{
		Title: "What a start's programs wait for, " + at, Unit: "ms",
		Note: "Blocked time of all threads that worked on starts, added up: more than the start takes. Threads that wait for work (in epoll, a futex, asleep) are left out, and with them the waits of goroutines. " +
			"A CPU: able to run, and waiting for one.",
	}
	who := report.Bars{Title: "Blocked time of a start, by component, " + at, Unit: "ms"}
	function := report.Bars{Title: "Blocked time by what it was for, " + at, Unit: "%"}
	for _, c := range conditions {
		bar := report.Bar{Label: p.where(c)}
		if e := p.Value(c, forCPUPerStart); e.Value > 0 {
			bar.Segments = append(bar.Segments, segment("a CPU", e, perMilli))
		}
		for _, cause := range causes {
			if e := p.Value(c, ofCause+string(cause)); e.Value > 0 {
				bar.Segments = append(bar.Segments, segment(string(cause), e, perMilli))
			}
		}
		bars.Rows = append(bars.Rows, bar)
		parts := report.Bar{Label: p.where(c)}
		for _, name := range components {
			if e := p.Value(c, ofComponent+string(name)); e.Value > 0 {
				parts.Segments = append(parts.Segments, segment(string(name), e, perMilli))
			}
		}
		who.Rows = append(who.Rows, parts)
		function.Rows = append(function.Rows, p.groups(c))
	}
	return []report.Part{bars, who, function}
}
